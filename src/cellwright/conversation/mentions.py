"""The mentions of a prompt, read and told with it.

Mentions are `@file`, `@"a b.txt"`, `@src/app.py#L10-20`, `@cell:3`, `@cell:[3]` and `$name`. A mention begins a word.
Passed over is what stands in code (between fences or backticks, wherever CommonMark lets them stand), a decorator, an
e-mail address, and a `$` that belongs to math (`$x$`, `$$…$$`), money (`$5`) or other text (`a$b`, `${x}`).

Mentioned files are read and told with the prompt, by the tools that Claude has for them and under their rules.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from cellwright.agent.prompt import (
    Block,
    ContextItem,
    ContextItems,
    ContextProvider,
    PromptContext,
    text_context,
)
from cellwright.agent.tool import Content, ToolContext, ToolResult
from cellwright.conversation.feature import Feature, RunInfo, refusal, unheard
from cellwright.errors import ToolError
from cellwright.events import AttachedKind
from cellwright.markdown.prose import without_code
from cellwright.text import lazy_pattern
from cellwright.tools.paths import shown_path

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
    # nobody writes more by hand; a pasted log may hold thousands of words that look like one
    return list(dict.fromkeys(found))[:50]


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
    return pattern.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


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
    tool_input: dict[str, Any] = {"path" if is_folder else "file_path": str(path)}
    if mention.first and not is_folder:
        tool_input |= {"offset": mention.first, "limit": max(mention.last - mention.first + 1, 1)}
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
        result = await tool.call(tool_input, ToolContext("mention", unheard, session_id=prompt_context.session.id))
    except ToolError as error:
        return AttachedMention(notice=f"{mention.text}: not attached. {error.message}")
    return result.content if isinstance(result, ToolResult) else result


def _not_found(mention: Mention, why: str) -> AttachedMention:
    return AttachedMention(notice=f"{mention.text}: {why}. It was sent as text." if looks_like_a_path(mention) else "")
