"""A conversation as its reader sees it: what the user said, and what came of it, out of the API's messages."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from cellwright.sessions.turns import begins_turn, split_attached
from cellwright.text import lazy_pattern

Json = Mapping[str, Any]

TITLE_CHARS = 120
_TITLE_FIELDS = ("command", "code", "file_path", "notebook_path", "path", "pattern", "url", "query", "description")


class AnswerText(Struct, frozen=True):
    """Text of Claude's."""

    text: str


class ToolExchange(Struct):
    """A call and its result: `text` and `images` (the API's `source` objects). `done`: it had a result that is no error."""

    name: str
    input: Json
    text: str = ""
    images: list[Json] = field(default_factory=list)
    done: bool = False

    @property
    def title(self) -> str:
        """The call in one line."""
        value = next((self.input[name] for name in _TITLE_FIELDS if isinstance(self.input.get(name), str)), None)
        shown = json.dumps(self.input, ensure_ascii=False) if value is None else str(value)
        line = " ".join(shown.split())
        return f"{self.name}: {line[:TITLE_CHARS]}{'…' if len(line) > TITLE_CHARS else ''}"


class Exchange(Struct):
    """One turn: the user's words, what was told besides, the images in the prompt, and what came of it.

    `number` counts from 1, as the turn in an output's provenance does.
    """

    number: int
    words: str
    context: list[str]
    images: list[Json]
    parts: list[AnswerText | ToolExchange] = field(default_factory=list)

    @property
    def calls(self) -> list[ToolExchange]:
        return [part for part in self.parts if isinstance(part, ToolExchange)]


def exchanges_of(messages: Iterable[Json]) -> list[Exchange]:
    """The turns of a conversation, in order. What follows no prompt is left out."""
    return list(each_exchange(messages))


def each_exchange(messages: Iterable[Json]) -> Iterator[Exchange]:
    """The same, each turn when it is over: a long conversation need not be in memory."""
    turn: Exchange | None = None
    open_calls: dict[str, ToolExchange] = {}
    for message in messages:
        blocks = _blocks(message["content"])
        if begins_turn(message):
            if turn is not None:
                yield turn
            number = 1 if turn is None else turn.number + 1
            words, context = split_attached([str(block["text"]) for block in blocks if block["type"] == "text"])
            turn = Exchange(number, "\n".join(words).strip("\n"), context, _images(blocks))
        elif turn is None:
            continue
        elif message["role"] == "assistant":
            turn.parts += _answer(blocks, open_calls)
        else:
            _take_results(blocks, open_calls)
    if turn is not None:
        yield turn


def _blocks(content: str | Sequence[Json]) -> Sequence[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _answer(blocks: Sequence[Json], open_calls: dict[str, ToolExchange]) -> Iterator[AnswerText | ToolExchange]:
    for block in blocks:
        if block["type"] == "text" and str(block["text"]).strip():
            yield AnswerText(str(block["text"]).strip("\n"))
        elif block["type"] in ("tool_use", "server_tool_use"):
            call = ToolExchange(str(block["name"]), block["input"])
            open_calls[block["id"]] = call
            yield call
        elif (
            block["type"].endswith("_tool_result")
            and (asked := open_calls.get(block.get("tool_use_id", ""))) is not None
        ):
            asked.done = True


def _take_results(blocks: Sequence[Json], open_calls: dict[str, ToolExchange]) -> None:
    for block in blocks:
        if block["type"] != "tool_result" or (call := open_calls.pop(block["tool_use_id"], None)) is None:
            continue
        content = _blocks(block.get("content") or [])
        call.text = "\n".join(str(part["text"]) for part in content if part["type"] == "text")
        call.images = _images(content)
        call.done = not block.get("is_error", False)


def _images(blocks: Sequence[Json]) -> list[Json]:
    return [block["source"] for block in blocks if block["type"] == "image" and _is_drawable(block["source"])]


_DRAWN = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_BASE64 = lazy_pattern(r"[A-Za-z0-9+/]+={0,2}")


def _is_drawable(source: Json) -> bool:
    """Return whether this is a picture of the API's four kinds: a type or data that says more is a way out of a link."""
    return (
        source.get("type") == "base64"
        and source.get("media_type") in _DRAWN
        and _BASE64.fullmatch(str(source.get("data", ""))) is not None
    )
