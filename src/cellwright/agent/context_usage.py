"""Rough measures of the kinds of content that fill a session's context, in tokens.

The API tells how many tokens a request had, but not what they were. So each part is estimated by its size, and all
estimates together are brought to the number that the API gave last.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from msgspec import Struct

from cellwright.agent.prompt import TOKENS_PER_DOCUMENT, TOKENS_PER_PICTURE
from cellwright.events import CHARS_PER_TOKEN
from cellwright.sessions.api_messages import PLAN_MODE, SUMMARY
from cellwright.sessions.session import Session
from cellwright.text import lazy_pattern

Json = Mapping[str, Any]
PartName = Literal[
    "system", "tools", "memory", "summary", "told", "attachments", "words", "answers", "thinking", "results", "images"
]

NAMES: Mapping[PartName, str] = {
    "system": "System prompt",
    "tools": "Tools",
    "memory": "Instructions (CLAUDE.md and the like)",
    "summary": "Summary of the earlier conversation",
    "told": "Added context",
    "attachments": "Attached files",
    "words": "Your messages",
    "answers": "Claude's messages",
    "thinking": "Thinking",
    "results": "Tool results",
    "images": "Images",
}
"""The parts in the order in which they are shown, and what people call them."""

# what is told besides the user's words stands in a tag of its own
_TAG = lazy_pattern(r"\s*<(?P<tag>[a-z][\w-]*)[\s>]")
_HEADING = lazy_pattern(r"^(?=# )", re.MULTILINE)
_PART_OF_TAG: Mapping[str, PartName] = {"instructions": "memory", SUMMARY: "summary"}
_ATTACHED, _ATTACHED_END = "<attached ", "</attached>"

Measured = tuple[PartName, float]


class ContextPart(NamedTuple):
    """One kind of content, and roughly how many tokens it takes."""

    name: PartName
    tokens: int


class ContextShare(NamedTuple):
    """One thing that is told before the first word, and roughly how many tokens it takes; a deferred tool takes none."""

    name: str
    tokens: int
    deferred: bool = False


class ContextContents(Struct, frozen=True):
    """The contents of a session at one moment. To be taken where the session is used; can be measured anywhere."""

    system: bytes
    tools: bytes
    messages: tuple[bytes, ...]
    counted_tokens: int
    """As the API said last; 0 before its first answer."""
    uncounted_bytes: int
    """Of the messages since."""

    @property
    def tokens(self) -> int:
        """The tokens of the next request: the API's number, and an estimate of what came since."""
        return self.counted_tokens + round(self.uncounted_bytes / CHARS_PER_TOKEN)

    @classmethod
    def of(cls, session: Session) -> ContextContents:
        begun = session.has_begun and bool(session.encoded)
        return cls(
            session.system if begun else b"",
            session.tools if begun else b"",
            tuple(session.encoded),
            session.context_tokens,
            session.uncounted_bytes,
        )


def context_tokens(session: Session) -> int:
    """Estimate the tokens of the session's next request: the API's own number, and what came since."""
    return session.context_tokens + round(session.uncounted_bytes / CHARS_PER_TOKEN)


def head_tokens(session: Session) -> int:
    """Estimate the tokens of what is told before the first word: the system prompt, and tools that are not deferred."""
    tools = [tool for tool in json.loads(session.tools or b"[]") if not tool.get("defer_loading")]
    return round(len(session.system) / CHARS_PER_TOKEN + sum(map(_as_json, tools)))


def context_parts(contents: ContextContents) -> list[ContextPart]:
    """List what fills the context, leaving out empty parts. Decodes all messages: not for an event loop."""
    sizes: Counter[PartName] = Counter()
    sizes["system"] = round(len(contents.system) / CHARS_PER_TOKEN)
    deferred = {part.name: part.tokens for part in offered_tools(contents) if part.deferred}
    measured: dict[PartName, float] = {"tools": len(contents.tools) / CHARS_PER_TOKEN - sum(deferred.values())}
    for message in contents.messages:
        for name, tokens in _measured(json.loads(message)):
            measured[name] = measured.get(name, 0.0) + tokens
        if b'"tool_reference"' in message:
            measured["tools"] += sum(deferred.get(name, 0) for name in _loaded_tools(json.loads(message)))
    for name, tokens in measured.items():
        sizes[name] = round(tokens)
    estimated = sum(sizes.values())
    if contents.counted_tokens and estimated:
        total = contents.counted_tokens + contents.uncounted_bytes / CHARS_PER_TOKEN
        sizes = _shared_out(sizes, round(total))
    return [ContextPart(name, sizes[name]) for name in NAMES if sizes[name] > 0]


def offered_tools(contents: ContextContents) -> list[ContextShare]:
    """The session's tools by what their definitions take."""
    tools = [
        ContextShare(str(tool["name"]), round(_as_json(tool)), bool(tool.get("defer_loading")))
        for tool in json.loads(contents.tools or b"[]")
    ]
    return sorted(tools, key=lambda part: (part.deferred, -part.tokens))


def prompt_sections(system: bytes) -> list[ContextShare]:
    """The sections of a session's system prompt, by their headings; what is appended to it is the last."""
    sections: list[ContextShare] = []
    for index, block in enumerate(json.loads(system or b"[]")):
        for section in _HEADING.split(str(block["text"])):
            if section.strip():
                first = section.strip().partition("\n")[0]
                name = first.removeprefix("# ") if first.startswith("# ") else "Appended" if index else "Introduction"
                sections.append(ContextShare(name, round(_tokens(section))))
    return sections


def _loaded_tools(message: Json) -> Iterator[str]:
    for block in message["content"]:
        content = block.get("content") if block.get("type") == "tool_result" else None
        for part in content if isinstance(content, list) else ():
            if part["type"] == "tool_reference":
                yield part["tool_name"]


def _shared_out(sizes: Mapping[PartName, int], total: int) -> Counter[PartName]:
    """Whole numbers in the proportions of `sizes` whose sum is `total`."""
    estimated = sum(sizes.values())
    shared: Counter[PartName] = Counter()
    seen = given = 0
    for name in NAMES:
        seen += sizes.get(name, 0)
        shared[name] = round(total * seen / estimated) - given
        given += shared[name]
    return shared


def _measured(message: Json) -> Iterator[Measured]:
    content = message["content"]
    blocks: Sequence[Json] = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if message["role"] == "assistant":
        yield from map(_measure_answer, blocks)
    elif any(block["type"] == "tool_result" for block in blocks):
        for block in blocks:
            yield from _of_result(block) if block["type"] == "tool_result" else [_measure_other(block, "words")]
    else:
        yield from _of_prompt(blocks)


def _of_prompt(blocks: Sequence[Json]) -> Iterator[Measured]:
    attached = False
    for block in blocks:
        if block["type"] != "text":
            yield _measure_other(block, "attachments")
            continue
        text = str(block["text"])
        name = _kind_of_text(text)
        # what is no single text stands between its opening and its closing tag
        yield ("attachments" if attached else name), _tokens(text)
        closes = text.rstrip().endswith(_ATTACHED_END)
        attached = not closes and (attached or name == "attachments")


def _kind_of_text(text: str) -> PartName:
    if text.startswith(_ATTACHED):
        return "attachments"
    if text == PLAN_MODE:
        return "told"
    tag = _TAG.match(text)
    if tag is not None and (part := _PART_OF_TAG.get(tag["tag"])) is not None:
        return part
    return "told" if tag is not None and text.rstrip().endswith(f"</{tag['tag']}>") else "words"


def _of_result(block: Json) -> Iterator[Measured]:
    content = block.get("content") or ()
    parts: Sequence[Json] = [{"type": "text", "text": content}] if isinstance(content, str) else content
    yield "results", _size(str(block.get("tool_use_id", "")))
    for part in parts:
        yield _measure_other(part, "results")


def _measure_answer(block: Json) -> Measured:
    match block["type"]:
        case "text":
            return "answers", _tokens(str(block["text"]))
        case "thinking":  # its signature is not text that the model reads
            return "thinking", _tokens(str(block.get("thinking", "")))
        case "compaction":
            return "summary", _tokens(str(block.get("content") or ""))
        case "redacted_thinking":
            return "thinking", _tokens(str(block.get("data", "")))
        case kind if str(kind).endswith("_tool_result"):
            return "results", _as_json(block)
        case _:
            return "answers", _as_json(block)


def _measure_other(block: Json, name: PartName) -> Measured:
    match block["type"]:
        case "text":
            return name, _tokens(str(block["text"]))
        case "image":
            return "images", TOKENS_PER_PICTURE
        case "document":
            return "attachments", TOKENS_PER_DOCUMENT
        case _:
            return name, _as_json(block)


def _as_json(block: Json) -> float:
    return _tokens(json.dumps(block, ensure_ascii=False, separators=(",", ":")))


def _tokens(text: str) -> float:
    return _size(text) / CHARS_PER_TOKEN


def _size(text: str) -> int:
    # bytes: what is not written in Latin letters takes more tokens a letter
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
