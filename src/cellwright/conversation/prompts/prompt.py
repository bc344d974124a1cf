"""The prompt of a run as it is sent: checked, and with what it mentions and whatever else Claude must know.

Mentions are `@file`, `@"a b.txt"`, `@src/app.py#L10-20`, `@cell:3`, `@cell:[3]` and `$name`. A mention begins a word.
Passed over is what stands in code (between fences or backticks, wherever CommonMark lets them stand), a decorator, an
e-mail address, and a `$` that belongs to math (`$x$`, `$$…$$`), money (`$5`) or other text (`a$b`, `${x}`).

Mentioned files are read and told with the prompt, by the tools that Claude has for them and under their rules.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from cellwright.agent.agent_setup import AgentSetup
from cellwright.agent.calls.confinement import Container
from cellwright.agent.prompt import (
    Block,
    ContextItem,
    ContextItems,
    ContextProvider,
    FullPrompt,
    Prompt,
    PromptContext,
    environment_text,
    text_context,
)
from cellwright.agent.tool import Content, Tool, ToolContext, ToolResult
from cellwright.config.settings.settings import Settings
from cellwright.conversation.features.feature import Feature, PromptCall, RunInfo
from cellwright.errors import CellwrightError, ErrorCode, ToolError, log_fault
from cellwright.events import AttachedKind
from cellwright.markdown.code_ranges import without_code
from cellwright.sessions.session import Session
from cellwright.sessions.turns import PLAN_MODE
from cellwright.text import lazy_pattern, visible_line
from cellwright.tools.paths import shown_path

logger = logging.getLogger(__name__)


def checked(prompt: Prompt) -> Prompt:
    """The prompt without empty texts: the API refuses them, and would refuse each later request of the session for them.

    Raises `CellwrightError` INVALID_PARAMETERS when nothing is left.
    """
    kept = [block for block in _blocks(prompt) if block.get("type") != "text" or str(block.get("text", "")).strip()]
    if not kept:
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, "The prompt is empty. Nothing was sent.")
    return prompt if len(kept) == len(_blocks(prompt)) else kept


def with_surroundings(
    prompt: Prompt,
    session: Session,
    agent: AgentSetup,
    cwd: Path,
    interface: str,
    settings: Settings,
    list_skills: Callable[[AgentSetup], str],
) -> FullPrompt:
    """The prompt with, when it is the session's first, where Claude works and its skills; in plan mode, how to plan."""
    before = place_blocks(agent, cwd, interface, settings, list_skills) if session.is_fresh else ()
    return FullPrompt(words=tuple(_blocks(prompt)), before=before, after=mode_blocks(session, agent))


Surroundings = Callable[[Session, AgentSetup], Sequence[ContextItem]]
"""Tells where Claude works, and in which mode."""


def place_blocks(
    agent: AgentSetup, cwd: Path, interface: str, settings: Settings, list_skills: Callable[[AgentSetup], str]
) -> tuple[ContextItem, ...]:
    """Tell where Claude works, its skills, and the user's general wishes."""
    found = [text_context("Where Claude works", "environment", environment_text(cwd, interface, list_skills(agent)))]
    if (container := settings.sandbox.container.container) is not None:
        found.append(text_context("The container of commands", "environment", _container_text(container)))
    if settings.language:
        text = f"<language>The user wants your answers in: {settings.language}</language>"
        found.append(text_context("The language of answers", "environment", text))
    if attribution := _attribution_text(settings):
        found.append(text_context("Attribution of commits", "environment", attribution))
    return tuple(found)


def _container_text(container: Container) -> str:
    reaches = "every host" if container.network else "no network"
    return (
        f"<container>Bash, RunTests and fresh kernels run in the container {visible_line(container.name)}: its programs and "
        f"packages, {reaches}, the session's folders at the same paths. What a command installs there is seen only by "
        "commands that the user allows. All other tools run on the user's machine.</container>"
    )


def mode_blocks(session: Session, agent: AgentSetup) -> tuple[ContextItem, ...]:
    """Tell how to plan, in plan mode."""
    plans = (session.mode or agent.policy.mode) == "plan" and any(tool.access.kind == "plan" for tool in agent.tools)
    return (text_context("Plan mode", "mode", PLAN_MODE),) if plans else ()


def _attribution_text(settings: Settings) -> str:
    """Tell what the user wants commits and pull requests to say of Claude; nothing where they say nothing of it."""
    wishes: list[str] = []
    for what, text in (
        ("the message of each commit that you make", settings.attribution_commit),
        ("the description of each pull request that you open", settings.attribution_pr),
    ):
        if text is not None:
            wishes.append(f"End {what} with:\n{text}" if text else f"Do not name yourself in {what}.")
    joined = "\n".join(wishes)
    return f"<attribution>\n{joined}\n</attribution>" if wishes else ""


def gather_context(full: FullPrompt, providers: Sequence[ContextProvider], prompt_context: PromptContext) -> FullPrompt:
    """`full` with all that `providers` find, when the run has begun."""

    async def collect_context() -> ContextItems:
        asked = [_asked(provider, prompt_context) for provider in providers]
        # most know at once, and a task for each would hold up the request
        waited_for = await asyncio.gather(*(each for each in asked if not isinstance(each, ContextItems)))
        answers = iter(waited_for)
        found = [each if isinstance(each, ContextItems) else next(answers) for each in asked]
        return ContextItems(
            before=tuple(part for each in found for part in each.before),
            after=tuple(part for each in found for part in each.after),
            notices=tuple(notice for each in found for notice in each.notices),
            extensions=next((each.extensions for each in found if each.extensions is not None), None),
        )

    return replace(full, collect_context=collect_context)


def with_call(full: FullPrompt, call: PromptCall) -> FullPrompt:
    """`full`, which makes `call`, with what that finds; if nothing can be found, the prompt is not sent."""
    before = full.collect_context

    async def collect_context() -> ContextItems:
        told = await call.find()
        found = ContextItems() if before is None else await before()
        return replace(found, after=(*told, *found.after))

    return replace(full, collect_context=collect_context, expansion=call.expansion)


async def provided(provider: ContextProvider, prompt_context: PromptContext) -> ContextItems:
    """Ask `provider`; where it fails, the user is told."""
    answer = _asked(provider, prompt_context)
    return answer if isinstance(answer, ContextItems) else await answer


def _asked(
    provider: ContextProvider, prompt_context: PromptContext
) -> ContextItems | Coroutine[Any, Any, ContextItems]:
    try:
        answer = provider(prompt_context)
    except Exception as error:  # noqa: BLE001  it is told
        return _untold(error)
    return answer if isinstance(answer, ContextItems) else _awaited(answer)


async def _awaited(answer: Awaitable[ContextItems]) -> ContextItems:
    try:
        return await answer
    except Exception as error:  # noqa: BLE001  it is told
        return _untold(error)


def read_ahead(reader: Callable[[PromptContext], ContextItems], prompt_context: PromptContext) -> ContextProvider:
    """Ask `reader` now, on this thread, which may wait for files; gives what tells what it found."""
    try:
        found = reader(prompt_context)
    except Exception as error:  # noqa: BLE001  it is told
        found = _untold(error)
    return lambda _context: found


def _untold(error: Exception) -> ContextItems:
    # what is told besides is a help, made of whatever a notebook holds: without it the prompt is answered all the same
    log_fault(logger, "something could not be told with a prompt", error=error)
    return ContextItems(notices=(f"Some context could not be sent with the prompt: {type(error).__name__}: {error}",))


def _blocks(prompt: Prompt) -> list[Any]:
    return [{"type": "text", "text": prompt}] if isinstance(prompt, str) else list(prompt)


MENTIONS_TAKEN = 50
"""Nobody writes more by hand; a pasted log may hold thousands of words that look like one."""

_AT = lazy_pattern(
    r"""(?<![\w@./\\-])@(?:
        cell:(?P<cell>(?:In)?\[\d+\]|[\w.-]*\w)
        | "(?P<quoted>[^"\n]+)"(?P<quoted_lines>\#L\d+(?:-L?\d+)?)?
        | (?P<path>(?:\\\ |[^\s,;!?()\[\]{}<>"'`“”„‘’«»|*@\\\#:]|:(?=/))+)(?P<lines>\#L\d+(?:-L?\d+)?)?
        | (?P<bracketed>[(\[{]{1,2}[^\s"'`]*/[^\s"'`]*)
    )""",
    re.VERBOSE,
)
_TO_SPACE = lazy_pattern(r"\S*")
_MORE_PATH = lazy_pattern(r"[/\\]\S*\w|[(\[{]\w")
_SENTENCE_ENDS = ".,;:!?"
_DECORATOR = lazy_pattern(
    r"^[ \t]*@[A-Za-z_][\w.]*[ \t]*(?:\(|\n(?:[ \t]*\n)*[ \t]*(?:@|def |class |async def ))", re.MULTILINE
)
_DOLLAR = lazy_pattern(r"(?<![\w$\\])\$(?P<name>[^\W\d]\w*)(?![\w$])")
_DISPLAY_MATH = lazy_pattern(r"\$\$.*?\$\$", re.DOTALL)
_MATH = lazy_pattern(r"(?<![\w$\\])\$(?=[^\s$])[^$\n]*?(?<=[^\s\\])\$(?![\w$])")
_LINES = lazy_pattern(r"#L(\d+)(?:-L?(\d+))?")


class Mention(Struct, frozen=True):
    """One thing that is mentioned. `name` is a path, a cell's id or number, or a variable; `text` is as it was written.

    `first` and `last` are the lines of a file that are meant, 0 for all. `written` is all that stands there up to the next
    space: a path may go on behind `name`, with characters that end words elsewhere.
    """

    kind: Literal["file", "cell", "variable"]
    name: str
    text: str
    first: int = 0
    last: int = 0
    written: str = ""


def find_mentions(words: str) -> list[Mention]:
    """The mentions in `words`, each once, in the order in which they stand there."""
    prose = without_code(words)
    outside_decorators = _blanked(_DECORATOR, prose)
    at = [
        (match.start(), _at_mention(match))
        for match in _AT.finditer(outside_decorators)
        # a call: code without fences around it; behind a slash it is a folder's name
        if not outside_decorators.startswith("(", match.end()) or match[0].endswith("/")
    ]
    plain = _blanked(_MATH, _blanked(_DISPLAY_MATH, prose))
    dollar = [(match.start(), Mention("variable", match["name"], match[0])) for match in _DOLLAR.finditer(plain)]
    found = [mention for _, mention in sorted((*at, *dollar), key=lambda each: each[0])]
    return list(dict.fromkeys(found))[:MENTIONS_TAKEN]


def looks_like_a_path(mention: Mention) -> bool:
    """Return whether its writer must have meant a file: `@docs/plan`, `@plan.md`, `@"my plan"`, not `@anna`."""
    return mention.text.startswith('@"') or bool(mention.first) or any(sign in mention.name for sign in "./\\")


def _at_mention(match: re.Match[str]) -> Mention:
    if match["cell"]:
        return Mention("cell", match["cell"], match[0])
    lines = _LINES.fullmatch(match["quoted_lines"] or match["lines"] or "")
    first = int(lines[1]) if lines else 0
    last = int(lines[2] or lines[1]) if lines else 0
    if match["quoted"]:
        return Mention("file", match["quoted"], match[0], first, last)
    if match["bracketed"]:
        path = match["bracketed"].rstrip(_SENTENCE_ENDS)
        return Mention("file", path, f"@{path}", written=path)
    path, text = match["path"], match[0]
    end = match.end("path")
    more = _TO_SPACE.match(match.string, end)
    assert more is not None  # it matches nothing, too
    written = f"{path}{more[0].rstrip(_SENTENCE_ENDS)}".replace("\\ ", " ")
    if not lines:
        # the full stop at the end of a sentence, also after a folder's slash
        path = path.rstrip(".") if not path.endswith(("/..", "/.")) and path.strip(".") else path
        text = f"@{path}"
    return Mention("file", path.replace("\\ ", " "), text, first, last, written)


def _blanked(pattern: re.Pattern[str], text: str) -> str:
    """`text` with what `pattern` finds as spaces; everything else stays where it is."""
    return pattern.sub(lambda match: _blank(match[0]), text)


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


CHARS_PER_MENTION = 60_000
"""The number of characters one mention may bring: about 15,000 tokens; Claude can read the rest when it needs it."""

CHARS_TOGETHER = 200_000


class AttachedMention(Struct, frozen=True):
    """The outcome of a mention: something to tell, or why not (`notice`); neither if it only looked like one."""

    part: ContextItem | None = None
    notice: str = ""


def mentioned_files(cwd: Path) -> ContextProvider:
    """Tells the files and folders that a prompt mentions; relative paths start at `cwd`."""

    async def provide(prompt_context: PromptContext) -> ContextItems:
        mentions = [mention for mention in find_mentions(prompt_context.words) if mention.kind == "file"]
        existing = [longest_existing(mention, cwd) for mention in mentions]
        # `@app`, `@app/` and `@app's` are one
        keys = [(mention.name.rstrip("/"), mention.first, mention.last) for mention, _ in existing]
        chosen = [pair for number, pair in enumerate(existing) if keys.index(keys[number]) == number]
        return together([await _attached(mention, more, cwd, prompt_context) for mention, more in chosen])

    return provide


class Mentions(Feature):
    """The files and folders below `cwd`, and elsewhere, that a prompt mentions."""

    in_replays = True

    def __init__(self, cwd: Path) -> None:
        self._cwd = cwd

    def context(self, run: RunInfo, prompt: PromptContext) -> ContextProvider:
        return mentioned_files(self._cwd)


def together(attached: Sequence[AttachedMention]) -> ContextItems:
    """All of it, as far as it is not too much for one prompt."""
    parts: list[ContextItem] = []
    notices = [each.notice for each in attached if each.notice]
    chars = 0
    for part in (each.part for each in attached if each.part is not None):
        chars += part.as_attached().chars
        if chars > CHARS_TOGETHER:
            notices.append(
                f"{part.title}: not attached, the mentions before it hold {CHARS_TOGETHER:,} characters already."
            )
        else:
            parts.append(part)
    return ContextItems(after=tuple(parts), notices=tuple(notices))


def attachment(mention: Mention, title: str, kind: AttachedKind, content: Content) -> ContextItem:
    """Put what `mention` names between tags that tell Claude so; a text that is too long is cut, which is said."""
    name = mention.text.replace('"', "'")
    opening = f'<attached mention="{name}" what="{title}">'
    if not isinstance(content, str) and all(block["type"] == "text" for block in content):
        content = "\n".join(str(block["text"]) for block in content)
    if isinstance(content, str):
        return text_context(title, kind, f"{opening}\n{_cut(content)}\n</attached>")
    blocks: list[Block] = [{"type": "text", "text": opening}]
    for block in content:
        blocks.append({**block, "text": _cut(str(block["text"]))} if block["type"] == "text" else block)
    return ContextItem(title, kind, (*blocks, {"type": "text", "text": "</attached>"}))


def _cut(text: str) -> str:
    if len(text) <= CHARS_PER_MENTION:
        return text
    whole_lines = text.rfind("\n", 0, CHARS_PER_MENTION) + 1
    kept = text[: whole_lines or CHARS_PER_MENTION]
    return f"{kept}[… {len(text) - len(kept):,} characters more are left out; read them with the tools when you need them.]"


def longest_existing(mention: Mention, cwd: Path) -> tuple[Mention, str]:
    """The mention with the longest path that exists of all that is written there, and what is left of a path behind it."""
    written = mention.written
    for end in range(len(written), len(mention.name), -1):
        if written[end : end + 1].isalnum():
            continue
        try:
            if not (cwd / Path(written[:end]).expanduser()).exists():
                continue
        except (OSError, ValueError, RuntimeError):
            continue
        lines = _LINES.match(written, end)
        first, last = (int(lines[1]), int(lines[2] or lines[1])) if lines else (0, 0)
        found = replace(mention, name=written[:end], text=f"@{written[:end]}", first=first, last=last)
        return found, _rest_of_path(written[lines.end() if lines else end :])
    return mention, "" if mention.first else _rest_of_path(written[len(mention.name) :])


def _rest_of_path(text: str) -> str:
    return text if _MORE_PATH.match(text) else ""


async def _attached(mention: Mention, more: str, cwd: Path, prompt_context: PromptContext) -> AttachedMention:
    """The file or folder that is mentioned; `more` is what was written behind its path and is none of it."""
    whole = replace(mention, text=f"@{mention.written}") if more else mention
    try:
        path = cwd / Path(mention.name).expanduser()
        is_folder, exists = path.is_dir(), path.exists()
    except (OSError, ValueError, RuntimeError) as error:
        return _not_found(whole, getattr(error, "strerror", None) or str(error))
    if not exists:
        return _not_found(whole, "no such file")
    tool_input = {"path": str(path)} if is_folder else _reading(path, mention)
    content = await read_for(mention, "LS" if is_folder else "Read", tool_input, prompt_context)
    if isinstance(content, AttachedMention):
        return content
    lines = f":{mention.first}-{mention.last}" if mention.first else ""
    kind: AttachedKind = "folder" if is_folder else "file"
    shown = shown_path(cwd, path)
    notice = f"{whole.text}: no such file. The {kind} {shown} was attached instead." if more else ""
    return AttachedMention(attachment(mention, f"{shown}{lines}", kind, content), notice)


async def read_for(
    mention: Mention, name: str, tool_input: dict[str, Any], prompt_context: PromptContext
) -> Content | AttachedMention:
    """Read for `mention` with the tool `name`, as Claude's own call would; what is not read says why.

    It is never asked for: what the policy would ask about is left out, and Claude may ask.
    """
    tool = prompt_context.tools.get(name)
    if tool is None:
        return AttachedMention(notice=f"{mention.text}: not attached, there is no tool {name} here.")
    if why := refusal(prompt_context, tool, tool_input):
        return AttachedMention(notice=f"{mention.text}: not attached. {why}")
    try:
        result = await tool.call(tool_input, ToolContext("mention", _unheard, session_id=prompt_context.session.id))
    except ToolError as error:
        return AttachedMention(notice=f"{mention.text}: not attached. {error.message}")
    return result.content if isinstance(result, ToolResult) else result


def _not_found(mention: Mention, why: str) -> AttachedMention:
    return AttachedMention(notice=f"{mention.text}: {why}. It was sent as text." if looks_like_a_path(mention) else "")


def _reading(path: Path, mention: Mention) -> dict[str, Any]:
    tool_input: dict[str, Any] = {"file_path": str(path)}
    if mention.first:
        tool_input |= {"offset": mention.first, "limit": max(mention.last - mention.first + 1, 1)}
    return tool_input


def refusal(prompt_context: PromptContext, tool: Tool, tool_input: dict[str, Any]) -> str:
    """Explain why the policy, as it stands for this run's calls, does not let it be read unasked; "" when it does."""
    session, policy = prompt_context.session, prompt_context.agent.policy
    policy = policy.allowing(session.granted)
    if session.mode is not None:
        policy = policy.in_mode(session.mode)
    decision = policy.decide(tool, tool_input)
    if decision.behavior == "allow":
        return ""
    way = "Claude may ask to read it." if decision.behavior == "ask" else ""
    return f"{decision.reason} {way}".strip()


async def without_secrets(text: str, prompt_context: PromptContext, what: str) -> tuple[str, list[str]]:
    """`text` without its secrets, and what the user is told where there were any: `what` names the text."""
    if (redaction := prompt_context.agent.redaction) is None:
        return text, []
    cleaned = await asyncio.to_thread(redaction.clean, text)
    return cleaned.text, [f"Kept from Claude in {what}: {', '.join(cleaned.kinds)}."] if cleaned.kinds else []


def _unheard(**_news: Any) -> None:
    """There is no card to show how far it is."""
