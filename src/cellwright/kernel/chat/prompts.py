"""The panel's `prompt`: the meaning of its params, and everything that Claude is told with its words.

Attachments are told beside the words, as mentions are: the user sees them in "what Claude was told", and what they
wrote stays what they wrote. They are looked at before the prompt is taken, so that a picture which the API would
refuse is the panel's to show.

Prompts of a page's actions on a cell (fix, edit, explain, document) are written here, never by the page, which names
the action and the cell: the title is what people see of the request, the instructions are for Claude.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast, get_args

from msgspec import Struct
from msgspec.structs import replace

from cellwright.agent.prompt import (
    ContextItem,
    ContextItems,
    ContextProvider,
    PromptContext,
    TitledPrompt,
    found_by,
    text_context,
)
from cellwright.agent.thread import CallerJobs
from cellwright.config.settings.option_table import CONTEXTS, OPTIONS, How, Option
from cellwright.conversation.feature import without_secrets
from cellwright.conversation.mentions import Mention, find_mentions, together
from cellwright.conversation.runs.kinds import CellAction, CellActionName
from cellwright.conversation.runs.run_options import RunOptions, options_of
from cellwright.errors import CellwrightError, ErrorCode, ToolError
from cellwright.kernel.magic.fix import Fix, FixContext, FixRequest, fix_title
from cellwright.kernel.notebook_context import attached_cell, describe_lines, mentioned_cells
from cellwright.kernel.pages.comm import optional
from cellwright.text import lazy_pattern
from cellwright.tools.notebook.open_notebook import OpenNotebook, OpenNotebooks

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from cellwright.agent.prompt import ContextProvider
    from cellwright.kernel.namespace.cell_log import CellLog
    from cellwright.kernel.notebook_context import KernelContext
    from cellwright.kernel.output.op_log import OpLog
    from cellwright.model.images import ModelImage

_LABEL = lazy_pattern(r"(?:the output of |the error in )?(?:cell (?:\[\d{1,6}\]|\d{1,6})|this cell)")
"""A number at most: the title is the user's words to Claude, and the text of a cell may be somebody else's."""

_ID = lazy_pattern(r"[\w.-]{1,64}")

WORDS_CHARS = 20_000

_INSTRUCTIONS: Mapping[str, str] = {
    "edit": (
        "Change {cell} as the user says, with NotebookEdit of that cell. Change no more than that needs. The user accepts "
        "the change at the cell. Then say in one sentence what you changed."
    ),
    "explain": "Explain {cell}: what it does, and what its output shows if it has one. Do not change the notebook.",
    # with the output that the user pointed at
    "explain output": (
        "Explain the attached output of {cell}: what it shows, and how the code leads to it. Do not change the notebook."
    ),
    "document": (
        "Document the code of {cell} with NotebookEdit of that cell: docstrings and comments where they help a reader. "
        "Change nothing else in it. Then say in one sentence what you documented."
    ),
}

PROMPT_CHARS = 1_000_000
"""More than a person types: a larger text belongs into a file."""

MAX_ATTACHMENTS = 20
"""With more pictures in one request the API takes only small ones."""

IMAGE_BYTES = 20_000_000
TEXT_CHARS = 200_000
NAME_CHARS = 200

KINDS = ("image/png", "image/jpeg", "image/gif", "image/webp")

MARKED_FIELDS = ("remark", "source", "output", "note")
"""The texts of a marked cell or output, in the order in which Claude reads them; `note` says what the picture lacks."""

_OUR_END = lazy_pattern(rf"</(?=(?:attached|{'|'.join(MARKED_FIELDS)})\b)")
NOT_AN_END = r"<\\/"

IDLE_SECONDS = 1.0
"""A kernel that has other code to run for longer is not waited for: the prompt should be on its way."""

Served = Callable[[str], OpenNotebook | None]
"""The open notebook that a page shows under a path of its server's."""

BUSY = "the kernel is busy with a cell, so its variables could not be looked at"


def read_action(raw: object, path: str, cell_id: str) -> CellAction:
    """Read the action on a cell that a page asks for. Raises CellwrightError INVALID_PARAMETERS."""
    if not isinstance(raw, Mapping) or raw.get("name") not in get_args(CellActionName):
        raise _invalid(f"`action` must name one of {', '.join(get_args(CellActionName))}.")
    label, error, words = (optional(raw, name, str) or "" for name in ("label", "error", "words"))
    if not _ID.fullmatch(cell_id):
        raise _invalid(f"{cell_id!r:.100} is no id of a cell.")
    if len(words) > WORDS_CHARS:
        raise _invalid(f"The instruction has {len(words):,} characters; it may have {WORDS_CHARS:,}.")
    if raw["name"] == "edit" and not words.strip():
        raise _invalid("`words` must say what to change.")
    return CellAction(
        name=raw["name"],
        path=path,
        id=cell_id,
        label=label if _LABEL.fullmatch(label) else "a cell",
        error=error,
        words=words.strip(),
    )


def titled_prompt(action: CellAction) -> TitledPrompt:
    """Write the prompt of an action; the instructions of a fix are completed when it begins (`action_context`)."""
    about_output = action.name == "explain" and action.label.startswith("the ")
    written = _INSTRUCTIONS.get("explain output" if about_output else action.name, "")
    return TitledPrompt(title_of(action), written.format(cell=f"@cell:{action.id}"))


def title_of(action: CellAction) -> str:
    """Name the action for people."""
    if action.name == "fix":
        return fix_title(action.error, action.label, action.words)
    return f"{action.name.capitalize()} {action.label}{': ' if action.words else ''}{action.words}"


def action_context(
    action: CellAction, shell: InteractiveShell, log: CellLog, jobs: CallerJobs, idle_seconds: float
) -> ContextProvider:
    """Build what tells Claude the instructions of `action`, and of a fix what failed.

    Values are described by `jobs`, between the user's cells; if one runs on for `idle_seconds`, they are left out.
    """

    async def provide(prompt_context: PromptContext) -> ContextItems:
        if action.name != "fix":
            return ContextItems(after=(titled_prompt(action).context,))
        request = FixRequest(action.id, "")

        def fix(context: FixContext) -> Fix:
            return context.fix(request) or context.fix_of_unknown(request)

        try:
            async with asyncio.timeout(idle_seconds):
                made = await jobs.call(lambda: fix(FixContext(shell, log, True, describe_lines)))
        except TimeoutError:
            made = fix(FixContext(shell, log, True, lambda _namespace, _names: ""))
        return await made.provide_context(prompt_context)

    return provide


def answer_text(log: OpLog) -> str:
    """Return Claude's words in a run, without those of messages that became void."""
    texts: dict[int, str] = {}
    for op, _ in log.after(0):
        if op["op"] == "text":
            texts[op["block"]] = texts.get(op["block"], "") + op["text"]
        elif op["op"] == "drop":
            for block in op["blocks"]:
                texts.pop(block, None)
    return "\n\n".join(text.strip() for text in texts.values() if text.strip())


def _invalid(problem: str) -> CellwrightError:
    return CellwrightError(ErrorCode.INVALID_PARAMETERS, f"{problem} Nothing was sent.")


class AttachedCell(Struct, frozen=True):
    """The cell that goes with a prompt: the notebook's path as the page names it, the cell's id, what is selected in it."""

    path: str
    id: str
    selection: str


class PanelPrompt(Struct, frozen=True, kw_only=True):
    """A prompt of the panel. `attached` is told with its words; `text` is the title of `action`, if there is one."""

    text: str
    context: How
    cell: AttachedCell | None
    options: RunOptions
    attached: tuple[ContextItem, ...]
    action: CellAction | None = None

    def like(self, earlier: PanelPrompt) -> PanelPrompt:
        """The same words with the attachments, the cell and the options of `earlier`."""
        return replace(
            self, context=earlier.context, cell=earlier.cell, options=earlier.options, attached=earlier.attached
        )


async def read_prompt(params: Mapping[str, Any]) -> PanelPrompt:
    """The prompt that `params` are. Raises CellwrightError INVALID_PARAMETERS that says what is wrong."""
    text, context = params.get("text"), params.get("context", "auto")
    if not isinstance(text, str) or len(text) > PROMPT_CHARS:
        raise _invalid(
            f"The prompt must be a text of at most {PROMPT_CHARS:,} characters: put a longer one into a file."
        )
    if context not in CONTEXTS:
        raise _invalid(f"Context {context!r} was not found; it must be one of {', '.join(CONTEXTS)}.")
    raw = params.get("attachments", [])
    if not isinstance(raw, list):
        raise _invalid("`attachments` must be a list.")
    if len(raw) > MAX_ATTACHMENTS:
        raise _invalid(f"These are {len(raw)} attachments; a prompt takes {MAX_ATTACHMENTS} at most.")
    attached = tuple([await _attachment(each) for each in raw])
    cell, options = _cell(params.get("cell")), read_options(params.get("options", {}))
    action = None
    if (asked := params.get("action")) is not None:
        if cell is None or text:
            raise _invalid("An action comes with the cell that it is about, and without a text.")
        action = read_action(asked, cell.path, cell.id)
        text = title_of(action)
    if not text.strip():
        if not attached:
            raise _invalid("The prompt is empty.")
        text = " ".join(f"[{part.title}]" for part in attached)  # a picture alone may say what is wanted
    return PanelPrompt(
        text=text, context=cast("How", context), cell=cell, options=options, attached=attached, action=action
    )


def context_providers(
    prompt: PanelPrompt,
    kernel_context: KernelContext,
    served: Served,
    jobs: CallerJobs,
    log: CellLog,
    idle_seconds: float = IDLE_SECONDS,
) -> tuple[ContextProvider, ...]:
    """Build what finds out what is told with `prompt`, nearest to its words first. `log` knows what failed.

    The namespace is looked at by `jobs`, between the user's cells; where one runs on for `idle_seconds`, it is not.
    """
    found = [_attachments_provider(prompt.attached)] if prompt.attached else []
    if prompt.action is not None:
        found.append(action_context(prompt.action, kernel_context.shell, log, jobs, idle_seconds))
    if prompt.cell is not None:
        found.append(_attached_cell_provider(prompt.cell, served, kernel_context.notebooks))
    return (*found, _kernel_context_provider(prompt.context, kernel_context, jobs, idle_seconds))


async def _attachment(raw: object) -> ContextItem:
    match raw:
        case {"kind": "image", "name": str(name), "data": str(data)}:
            return await asyncio.to_thread(_image, name[:NAME_CHARS], data)
        case {"kind": "text", "name": str(name), "text": str(text)}:
            if len(text) > TEXT_CHARS:
                message = f"{name[:NAME_CHARS]} has {len(text):,} characters; {TEXT_CHARS:,} can be attached."
                raise _invalid(
                    f"{message} Save it in the project and mention it with @: Claude then reads what it needs."
                )
            closing = text.replace("</attached", "<\\/attached")
            tagged = f'<attached file="{_in_quotes(name[:NAME_CHARS])}">\n{closing}\n</attached>'
            return text_context(name[:NAME_CHARS], "file", tagged)
        case {"kind": "marked", "name": str(name), **fields}:
            return await asyncio.to_thread(_marked, name[:NAME_CHARS], fields)
    raise _invalid(
        'An attachment must be {"kind": "image", "name", "data"}, {"kind": "text", "name", "text"} or {"kind": "marked", …}.'
    )


def _marked(name: str, raw: Mapping[Any, Any]) -> ContextItem:
    """A cell or an output that the user marked in a notebook, with their remark; takes time if it has a picture."""
    parts = [_part(raw, name, field) for field in MARKED_FIELDS]
    where = {"cell": raw.get("cell"), "notebook": raw.get("notebook")}
    told = "".join(
        f' {key}="{_in_quotes(value[:NAME_CHARS])}"' for key, value in where.items() if isinstance(value, str)
    )
    text = f'<attached marked="{_in_quotes(name)}"{told}>\n{"".join(parts)}</attached>'
    picture = raw.get("picture")
    if picture is None:
        return text_context(name, "cell", text)
    if not isinstance(picture, str):
        raise _invalid(f"{name}: the picture must be base64 or null.")
    return ContextItem(name, "cell", ({"type": "text", "text": text}, _picture(name, picture).block))


def _part(raw: Mapping[Any, Any], name: str, field: str) -> str:
    value = raw.get(field, "")
    if not isinstance(value, str) or len(value) > TEXT_CHARS:
        raise _invalid(f"{name}: `{field}` must be a text of at most {TEXT_CHARS:,} characters.")
    # what stands in it ends none of our tags
    return f"<{field}>\n{_OUR_END.sub(NOT_AN_END, value)}\n</{field}>\n" if value.strip() else ""


def _image(name: str, data: str) -> ContextItem:
    """The picture with the words that name it; takes time."""
    image = _picture(name, data)
    words = f'<attached picture="{_in_quotes(name)}" what="{image.words}"/>'
    return ContextItem(name, "file", ({"type": "text", "text": words}, image.block))


def _picture(name: str, data: str) -> ModelImage:
    from cellwright.model.images import (  # few prompts have one
        UnusableImage,
        image_from_bytes,
        media_type,
    )

    try:
        content = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise _invalid(f"{name}: the picture's data is not valid base64.") from None
    if len(content) > IMAGE_BYTES:
        raise _invalid(f"{name} has {len(content):,} bytes; a picture may have {IMAGE_BYTES:,}. Scale it down.")
    # what it is says its content, whatever it was called
    if (kind := media_type(content[:16])) not in KINDS:
        raise _invalid(f"{name} is {kind or 'no picture that is known'}; PNG, JPEG, GIF and WebP can be attached.")
    try:
        return image_from_bytes(content)
    except UnusableImage as unusable:
        raise _invalid(f"{name} cannot be attached: {unusable}.") from None


def _in_quotes(name: str) -> str:
    return "".join(letter for letter in name.replace('"', "'") if letter.isprintable())


def _cell(raw: object) -> AttachedCell | None:
    match raw:
        case None:
            return None
        case {"path": str(path), "id": str(cell_id), "selection": str(selection)} if cell_id:
            if len(selection) > TEXT_CHARS:
                raise _invalid(f"The selection has {len(selection):,} characters; {TEXT_CHARS:,} can go along.")
            return AttachedCell(path, cell_id, selection)
    raise _invalid('`cell` must be {"path", "id", "selection"} or null.')


def read_options(raw: object) -> RunOptions:
    """The options that come with a prompt, as JSON. Raises CellwrightError INVALID_PARAMETERS."""
    if not isinstance(raw, Mapping):
        raise _invalid("`options` must be an object.")
    for name, value in raw.items():
        if name not in PANEL_OPTIONS:
            raise _invalid(f"Option {name} was not found. Choose one of {', '.join(PANEL_OPTIONS)}.")
        if not PANEL_OPTIONS[name](value):
            raise _invalid(f"The option {name} cannot be {value!r}.")
    given = {_SENT[name].name: tuple(value) if isinstance(value, list) else value for name, value in raw.items()}
    if given.pop("builtin_tools", False):  # the page says `no_tools`
        if "tools" in given:
            raise _invalid("The options no_tools and tools do not go together.")
        given["builtin_tools"] = False
    return options_of(given)


_SENT: Mapping[str, Option] = {option.panel: option for option in OPTIONS if option.panel}

PANEL_OPTIONS: Mapping[str, Callable[[Any], bool]] = {name: option.kind.sent for name, option in _SENT.items()}
"""The options that a page, or a program by way of the server, may give with a prompt, and what they may be."""


def _attachments_provider(attached: Sequence[ContextItem]) -> ContextProvider:
    """Tells what was attached; the secrets in its texts are kept back."""

    async def provide(prompt_context: PromptContext) -> ContextItems:
        parts, notices = [], []
        for part in attached:
            first, *others = part.blocks
            text, removed = await without_secrets(str(first["text"]), prompt_context, part.title)
            parts.append(ContextItem(part.title, part.kind, ({**first, "text": text}, *others)))
            notices += removed
        # before the words: a model makes more of a picture that it sees before it reads what is asked
        return ContextItems(before=tuple(parts), notices=tuple(notices))

    return provide


def _attached_cell_provider(cell: AttachedCell, served: Served, notebooks: OpenNotebooks) -> ContextProvider:
    """Tells the cell that the user sends along, and what is selected in it."""
    mention = Mention("cell", cell.id, f"@cell:{cell.id}")

    async def provide(prompt_context: PromptContext) -> ContextItems:
        notebook = served(cell.path) or notebooks.own()
        if notebook is None:
            return ContextItems(notices=("The cell was not sent along: this kernel cannot see its notebook.",))
        try:
            cells = await notebook.cells(outputs=False)
        except ToolError as error:
            return ContextItems(notices=(f"The cell was not sent along. {error.message}",))
        found = together([await attached_cell(mention, notebook, cells, prompt_context)])
        if not cell.selection.strip() or not found.after:
            return found
        text, notices = await without_secrets(cell.selection, prompt_context, "the selection")
        selected = text_context("What is selected in it", "cell", f"<selected>\n{text}\n</selected>")
        return ContextItems(after=(*found.after, selected), notices=(*found.notices, *notices))

    return provide


def _kernel_context_provider(
    how: How, context: KernelContext, jobs: CallerJobs, idle_seconds: float
) -> ContextProvider:
    """Tells the notebook's news, and the cells and variables that the words mention."""

    async def provide(prompt_context: PromptContext) -> ContextItems:
        try:
            async with asyncio.timeout(idle_seconds):
                each = await jobs.call(lambda: context.with_prompt(prompt_context.words, how, None))
        except TimeoutError:
            return await _while_busy(how, context, prompt_context)
        return _in_one([await found_by(provider, prompt_context) for provider in each])

    return provide


async def _while_busy(how: How, kernel_context: KernelContext, prompt_context: PromptContext) -> ContextItems:
    """Gather what can be told while a cell runs. The notebook's news stay news."""
    found = [await found_by(mentioned_cells(kernel_context.notebooks), prompt_context)]
    # the code alone needs no look into the values
    if how in ("cells", "full") and (provider := kernel_context.context.provider("cells", None)) is not None:
        found.append(await found_by(provider, prompt_context))
    if how == "full":
        found.append(ContextItems(notices=(f"Of the notebook the code alone was sent: {BUSY}.",)))
    missing = tuple(
        f"{mention.text}: not attached, {BUSY}."
        for mention in find_mentions(prompt_context.words)
        if mention.kind == "variable" and mention.name in kernel_context.shell.user_ns
    )
    return _in_one([*found, ContextItems(notices=missing)])


def _in_one(found: Sequence[ContextItems]) -> ContextItems:
    return ContextItems(
        before=tuple(part for each in found for part in each.before),
        after=tuple(part for each in found for part in each.after),
        notices=tuple(notice for each in found for notice in each.notices),
    )
