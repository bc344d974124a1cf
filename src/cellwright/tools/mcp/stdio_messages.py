"""The messages among what a program writes to its standard output, read as leniently as can be.

A message is a line of strict JSON. Many programs print something else beside, and some write messages that are not quite
that: several lines, half a character, a raw control character, a batch. What can be understood is a message; what cannot be
read but may be an answer is `Unreadable`, so that the call that waits for it can end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from cellwright.text import lazy_pattern, replace_surrogates, replace_surrogates_in

SHOWN_CHARS = 200
"""Of what could not be read, in the error of the call."""

PARSE_ERROR = -32700
_INTERNAL_ERROR = -32603

_LOOKS_LIKE_MESSAGE = lazy_pattern(r"\{\s*\"(?:jsonrpc|id|method|result|error)\"\s*:")
_MAY_BE_ANSWER = lazy_pattern(r"jsonrpc|[\"'](?:result|error|content)[\"']\s*:|\A\s*<(?:!doctype|html)", re.IGNORECASE)
_ID = lazy_pattern(r"[\"']id[\"']\s*:\s*[\"']?(\d{1,15})\b")
_MARKS = lazy_pattern(r"\\.|[\"{}\[\]]", re.DOTALL)

Message = dict[str, Any]


class Unreadable(Struct, frozen=True):
    """Text that may be an answer and could not be read. `id` is the request's, None if it cannot be made out."""

    reason: str
    id: int | None = None


class Chatter(Struct, frozen=True):
    """Text that a program printed beside its messages."""

    text: str


Read = Message | Unreadable | Chatter


class StdioMessages:
    """Reads messages from chunks of bytes, in order. `size` is what waits for the rest of a message."""

    def __init__(self) -> None:
        self._line = bytearray()
        self._open: list[str] = []
        self._size = 0
        self._depth = 0
        self._in_string = False

    @property
    def size(self) -> int:
        return len(self._line) + self._size

    def read(self, chunk: bytes) -> Iterator[Read]:
        """Read `chunk` up to its last end of a line."""
        self._line += chunk
        if b"\n" not in chunk:
            return
        *lines, rest = self._line.split(b"\n")
        self._line = bytearray(rest)
        for line in lines:
            yield from self._read_line(_decoded(bytes(line)))

    def read_rest(self, *, ended: bool) -> Iterator[Read]:
        """Read a last line without its end, after a silence. `ended`: what is incomplete now will stay so."""
        text = _decoded(bytes(self._line))
        if not ended and _value_in("\n".join([*self._open, text])) is None:
            return
        self._line.clear()
        yield from self._read_line(text)
        if ended and self._open:
            yield self._give_up("it was cut off")

    def _read_line(self, text: str) -> Iterator[Read]:
        if self._open:
            complete = [each for each in _flat(_value_in(text)) if _is_message(each)]
            if not complete:
                yield from self._add(text)
                return
            cut_off = self._give_up("it was cut off")  # another message begins
            if not (isinstance(cut_off, Unreadable) and any(each.get("id") == cut_off.id for each in complete)):
                yield cut_off
        while text.strip():
            begins = _beginning(text)
            if begins is None:
                yield _refused(text, "it is no JSON")
                return
            if text[:begins].strip():
                yield Chatter(text[:begins])
            text = text[begins:]
            try:
                value, end = _DECODER.raw_decode(text)
            except RecursionError:
                yield _refused(text, "its brackets go too deep")
                return
            except ValueError:
                yield from self._add(text)
                return
            yield from _messages(value, text[:end])
            text = text[end:]

    def _add(self, text: str) -> Iterator[Read]:
        """Add a line to a message that goes over several, and read it once all its brackets are closed."""
        for match in _MARKS.finditer(text):
            mark = match[0]
            if mark == '"':
                self._in_string = not self._in_string
            elif not self._in_string and len(mark) == 1:
                self._depth += 1 if mark in "{[" else -1
        self._open.append(text)
        self._size += len(text) + 1
        if self._depth > 0 or self._in_string:
            return
        whole = "\n".join(self._open)
        if (value := _value_in(whole)) is None:
            yield self._give_up(_reason(whole))
        else:
            self._forget()
            yield from _messages(value, whole)

    def _give_up(self, reason: str) -> Unreadable | Chatter:
        text = "\n".join(self._open)
        self._forget()
        return _refused(text, reason)

    def _forget(self) -> None:
        self._open.clear()
        self._size = self._depth = 0
        self._in_string = False


def _no_number(_name: str) -> None:
    """NaN and Infinity are no JSON; as in JavaScript they become null."""


_DECODER = json.JSONDecoder(strict=False, parse_constant=_no_number)


def _decoded(line: bytes) -> str:
    """A line as text: UTF-8, with what is none read as Latin-1; of UTF-16 what is ASCII."""
    line = line.removeprefix(b"\xef\xbb\xbf").rstrip(b"\r")
    if b"\0" in line:
        line = line.replace(b"\0", b"").removeprefix(b"\xff\xfe").removeprefix(b"\xfe\xff")
    try:
        return line.decode()
    except UnicodeDecodeError:
        text = line.decode("utf-8", "surrogateescape")
        return re.sub("[\udc80-\udcff]", lambda match: chr(ord(match[0]) - 0xDC00), text)


def _beginning(text: str) -> int | None:
    """Find where a message may begin in `text`: at its start, or behind what a program printed before it."""
    at = len(text) - len(text.lstrip())
    if text[at] in "{[":
        return at
    found = _LOOKS_LIKE_MESSAGE.search(text)
    return found.start() if found else None


def _value_in(text: str) -> Any:
    """The JSON value that `text` is; None if it is not one."""
    try:
        value, end = _DECODER.raw_decode(text.strip())
    except (ValueError, RecursionError):
        return None
    return value if end == len(text.strip()) else None


def _reason(text: str) -> str:
    try:
        _DECODER.raw_decode(text.strip())
    except json.JSONDecodeError as error:
        return f"{error.msg} at character {error.pos}"
    except (ValueError, RecursionError):
        return "a number or its brackets have no end"
    return "more follows it"


def _refused(text: str, reason: str) -> Unreadable | Chatter:
    if not _MAY_BE_ANSWER.search(text):
        return Chatter(text)
    found = _ID.search(text)
    begin = text.strip()[:SHOWN_CHARS]
    return Unreadable(f"{reason}: {begin}", int(found[1]) if found else None)


def _flat(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and ("method" in value or "result" in value or "error" in value) and len(value) < 9


def _messages(value: Any, text: str) -> Iterator[Read]:
    """The messages that a value is: one, or a batch."""
    if "\\u" in text:
        value = replace_surrogates_in(value)
    found = [each for each in _flat(value) if isinstance(each, dict)]
    if not any(_is_message(each) or "jsonrpc" in each for each in found):
        yield _refused(text, "it is no JSON-RPC message")
        return
    for each in found:
        yield from _message(each)


def _message(value: Message) -> Iterator[Read]:
    """The message that `value` is meant to be, in the form that the package takes."""
    number = value.get("id")
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    if isinstance(method := value.get("method"), str):
        params = value.get("params")
        own = {"params": params} if isinstance(params, dict) else {}
        numbered = {} if number is None else {"id": number}
        yield {"jsonrpc": "2.0", **numbered, "method": method, **own}
        return
    known = isinstance(number, int | str) and not isinstance(number, bool)
    if value.get("error") is not None:
        error = _error(value["error"])
        if known:
            yield {"jsonrpc": "2.0", "id": number, "error": error}
        else:
            yield Unreadable(f"it names no request: {error['message']}")
    elif "result" not in value:
        yield Unreadable("it has neither a result nor an error", number if isinstance(number, int) else None)
    elif not known:
        yield Unreadable("it names no request")
    elif isinstance(result := value["result"], dict | None):
        yield {"jsonrpc": "2.0", "id": number, "result": result or {}}
    else:
        words = f"its result is no object: {json.dumps(result)[:SHOWN_CHARS]}"
        yield {"jsonrpc": "2.0", "id": number, "error": {"code": PARSE_ERROR, "message": words}}


def _error(error: Any) -> Message:
    """An error as it must be: servers leave out its code, or send words alone."""
    if not isinstance(error, dict):
        return {"code": _INTERNAL_ERROR, "message": replace_surrogates(str(error))}
    code, message = error.get("code"), error.get("message")
    return {
        "code": code if isinstance(code, int) and not isinstance(code, bool) else _INTERNAL_ERROR,
        "message": message if isinstance(message, str) else json.dumps(error)[:SHOWN_CHARS],
        **({"data": error["data"]} if "data" in error else {}),
    }
