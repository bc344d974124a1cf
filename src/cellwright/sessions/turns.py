"""Where the turns of a conversation begin: a user's prompt and all that came of it, in the API's messages."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cellwright.agent.loop import GO_ON
from cellwright.agent.prompt import PLAN_MODE
from cellwright.sessions.transcript import Line

if TYPE_CHECKING:
    from cellwright.sessions.session import Session

_USER = b'{"role":"user"'
_RESULT = b'"type":"tool_result"'

# what is told besides the user's words stands in a tag of its own
_TOLD = re.compile(r"\s*<(?P<tag>[a-z][\w-]*)(?:\s[^>]*)?(?:/>|>.*</(?P=tag)>)\s*", re.DOTALL)


def begins_turn(message: Mapping[str, Any]) -> bool:
    """Whether the message is a prompt: what the user's side says that is no result of a call, and no "go on" of ours."""
    if message["role"] != "user":
        return False
    content = message["content"]
    if isinstance(content, str):
        return True
    if any(block.get("type") == "tool_result" for block in content):
        return False
    return not any(block.get("text") == GO_ON for block in content)


def count_turns(messages: Sequence[Mapping[str, Any]]) -> int:
    """How many prompts there are."""
    return sum(begins_turn(message) for message in messages)


def words_and_told(texts: Sequence[str]) -> tuple[list[str], list[str]]:
    """The texts of a prompt, taken apart: the user's own words, and what Claude was told besides."""
    told = [text for text in texts if text == PLAN_MODE or _TOLD.fullmatch(text)]
    words = [text for text in texts if text not in told]
    if not words and told:  # the user wrote nothing but a tag
        *told, words_in_tag = told
        words = [words_in_tag]
    return words, told


def until_turn_ended(lines: Sequence[Line], turn: int) -> list[Line] | None:
    """The first of `lines` (those in effect) up to the end of the turn of this number, from 1; None if there is none."""
    number = 0
    for at, line in enumerate(lines):
        if begins_turn(json.loads(line.message)):
            number += 1
            if number > turn:
                return list(lines[:at])
    return list(lines) if number == turn else None


def begins_turn_encoded(message: bytes) -> bool:
    """The same of an encoded message, which is decoded only where it may be one: a session has thousands of results."""
    # within a JSON string the quotes would stand behind backslashes
    return message.startswith(_USER) and _RESULT not in message and begins_turn(json.loads(message))


class TurnCount:
    """How many turns a session has, asked again and again while it grows: only what is new is looked at."""

    def __init__(self) -> None:
        self._session: Session | None = None
        self._last = b""
        self._messages = 0
        self._turns = 0

    def of(self, session: Session) -> int:
        encoded = session.encoded
        grown = session is self._session and self._messages <= len(encoded)
        if not grown or (self._messages and encoded[self._messages - 1] is not self._last):
            self._session, self._messages, self._turns = session, 0, 0
        self._turns += sum(map(begins_turn_encoded, encoded[self._messages :]))
        self._messages = len(encoded)
        self._last = encoded[-1] if encoded else b""
        return self._turns
