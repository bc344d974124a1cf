"""Actions of a page on a cell: fix, edit, explain, document. Their prompts are written here, never by the page.

The page names the action and the cell. The title is what people see of the request; the instructions are for Claude.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, get_args

from cellwright.agent.prompt import ContextItems, PromptContext, TitledPrompt
from cellwright.agent.thread import CallerJobs
from cellwright.conversation.runs.kinds import CellAction, CellActionName
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.kernel.context.notebook_context import describe_lines
from cellwright.kernel.magic.fix import Fix, FixContext, FixRequest, fix_title
from cellwright.kernel.pages.comm import optional
from cellwright.text import lazy_pattern

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from cellwright.agent.prompt import ContextProvider
    from cellwright.kernel.namespace.cell_log import CellLog
    from cellwright.kernel.output.op_log import OpLog

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
