"""Files that a prompt mentions are read and told with it, by the tools that Claude has for them and under their rules."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cellwright.agent.full_prompt import Beside, Block, Gathered, Moment, Telling, text_beside
from cellwright.agent.tool import Content, Tool, ToolContext, ToolError, ToolResult
from cellwright.events import ToldKind
from cellwright.mention_text import Mention, find_mentions, looks_like_a_path
from cellwright.tools.paths import shown_path

CHARS_A_MENTION = 60_000
"""What one mention may bring: about 15,000 tokens; the rest Claude can read when it needs it."""

CHARS_TOGETHER = 200_000


@dataclass(frozen=True, slots=True)
class Attached:
    """What one mention came to: something to tell, or why not (`notice`); neither where it only looked like a mention."""

    part: Beside | None = None
    notice: str = ""


def mentioned_files(cwd: Path) -> Telling:
    """Tells the files and folders that a prompt mentions; relative paths start at `cwd`."""

    async def tell(moment: Moment) -> Gathered:
        wanted = [mention for mention in find_mentions(moment.words) if mention.kind == "file"]
        return together([await _attached(mention, cwd, moment) for mention in wanted])

    return tell


def together(attached: Sequence[Attached]) -> Gathered:
    """All of it, as far as it is not too much for one prompt."""
    parts: list[Beside] = []
    notices = [each.notice for each in attached if each.notice]
    chars = 0
    for part in (each.part for each in attached if each.part is not None):
        chars += part.told().chars
        if chars > CHARS_TOGETHER:
            notices.append(
                f"{part.title}: not attached, the mentions before it hold {CHARS_TOGETHER:,} characters already."
            )
        else:
            parts.append(part)
    return Gathered(after=tuple(parts), notices=tuple(notices))


def attachment(mention: Mention, title: str, kind: ToldKind, content: Content) -> Beside:
    """What `mention` names, between tags that tell Claude so; a text that is too long is cut, which is said."""
    name = mention.text.replace('"', "'")
    opening = f'<attached mention="{name}" what="{title}">'
    if not isinstance(content, str) and all(block["type"] == "text" for block in content):
        content = "\n".join(str(block["text"]) for block in content)
    if isinstance(content, str):
        return text_beside(title, kind, f"{opening}\n{_cut(content)}\n</attached>")
    blocks: list[Block] = [{"type": "text", "text": opening}]
    for block in content:
        blocks.append({**block, "text": _cut(str(block["text"]))} if block["type"] == "text" else block)
    return Beside(title, kind, (*blocks, {"type": "text", "text": "</attached>"}))


def _cut(text: str) -> str:
    if len(text) <= CHARS_A_MENTION:
        return text
    whole_lines = text.rfind("\n", 0, CHARS_A_MENTION) + 1
    kept = text[: whole_lines or CHARS_A_MENTION]
    return f"{kept}[… {len(text) - len(kept):,} characters more are left out; read them with the tools when you need them.]"


async def _attached(mention: Mention, cwd: Path, moment: Moment) -> Attached:
    try:
        path = cwd / Path(mention.name).expanduser()
        is_folder, exists = path.is_dir(), path.exists()
    except (OSError, ValueError, RuntimeError) as error:
        return _not_found(mention, getattr(error, "strerror", None) or str(error))
    if not exists:
        return _not_found(mention, "no such file")
    tool_input = {"path": str(path)} if is_folder else _reading(path, mention)
    content = await read_for(mention, "LS" if is_folder else "Read", tool_input, moment)
    if isinstance(content, Attached):
        return content
    lines = f":{mention.first}-{mention.last}" if mention.first else ""
    kind: ToldKind = "folder" if is_folder else "file"
    return Attached(attachment(mention, f"{shown_path(cwd, path)}{lines}", kind, content))


async def read_for(mention: Mention, name: str, tool_input: dict[str, Any], moment: Moment) -> Content | Attached:
    """What the tool `name` reads for `mention`, as Claude's own call would; what is not read says why.

    It is never asked for: what the policy would ask about is left out, and Claude may ask.
    """
    tool = moment.tools.get(name)
    if tool is None:
        return Attached(notice=f"{mention.text}: not attached, there is no tool {name} here.")
    if refusal := _refusal(moment, tool, tool_input):
        return Attached(notice=f"{mention.text}: not attached. {refusal}")
    try:
        result = await tool.call(tool_input, ToolContext("mention", _unheard, session_id=moment.session.id))
    except ToolError as error:
        return Attached(notice=f"{mention.text}: not attached. {error.message}")
    return result.content if isinstance(result, ToolResult) else result


def _not_found(mention: Mention, why: str) -> Attached:
    return Attached(notice=f"{mention.text}: {why}. It was sent as text." if looks_like_a_path(mention) else "")


def _reading(path: Path, mention: Mention) -> dict[str, Any]:
    tool_input: dict[str, Any] = {"file_path": str(path)}
    if mention.first:
        tool_input |= {"offset": mention.first, "limit": max(mention.last - mention.first + 1, 1)}
    return tool_input


def _refusal(moment: Moment, tool: Tool, tool_input: dict[str, Any]) -> str:
    """Why the policy does not let it be read unasked, as it stands for the calls of this run; "" when it does."""
    session, policy = moment.session, moment.agent.policy
    policy = policy.allowing(session.granted)
    if session.mode is not None:
        policy = policy.in_mode(session.mode)
    decision = policy.decide(tool.name, tool_input, read_only=tool.read_only)
    if decision.behavior == "allow":
        return ""
    way = "Claude may ask to read it." if decision.behavior == "ask" else ""
    return f"{decision.reason} {way}".strip()


async def without_secrets(text: str, moment: Moment, what: str) -> tuple[str, list[str]]:
    """`text` without its secrets, and what the user is told where there were any: `what` names the text."""
    if (redaction := moment.agent.redaction) is None:
        return text, []
    cleaned = await asyncio.to_thread(redaction.clean, text)
    return cleaned.text, [f"Kept from Claude in {what}: {', '.join(cleaned.kinds)}."] if cleaned.kinds else []


def _unheard(**_news: Any) -> None:
    """There is no card to show how far it is."""
