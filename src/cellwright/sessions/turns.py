"""The turns of a conversation, found and counted: a user's prompt and all that came of it, in the API's messages."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from cellwright.sessions.history import is_after_boundary, is_note
from cellwright.sessions.transcripts.transcript import is_said
from cellwright.sessions.transcripts.transcript_file import Line
from cellwright.text import lazy_pattern

GO_ON = "Your answer was cut off at the output limit. Continue exactly where it stopped."
"""The agent's words in the user's place when an answer met the output limit."""

PLAN_MODE = """\
Plan mode: change nothing until the user approves a plan. Read and search until you know what has to be \
done; ask with AskUserQuestion what only the user can decide; then call ExitPlanMode with the plan: what will be \
changed where, in which order, how it is checked, what is left out."""
"""The instructions to Claude while it may only plan; that it does no more is the policy's to see to."""

_USER = b'{"role":"user"'
_RESULT = b'"type":"tool_result"'

# what is told besides the user's words stands in a tag of its own
_CONTEXT = lazy_pattern(r"\s*<(?P<tag>[a-z][\w-]*)(?:\s[^>]*)?(?:/>|>.*</(?P=tag)>)\s*", re.DOTALL)


def begins_turn(message: Mapping[str, Any]) -> bool:
    """Return whether the message is a prompt: from the user's side, no result of a call, and no "go on" of ours."""
    if message["role"] != "user":
        return False
    content = message["content"]
    if isinstance(content, str):
        return True
    if is_after_boundary(content):
        return False
    if any(block.get("type") == "tool_result" for block in content):
        return False
    return not any(block.get("text") == GO_ON for block in content) and not _is_ours(content)


def _is_ours(content: Sequence[Mapping[str, Any]]) -> bool:
    return all(block.get("type") == "text" and is_note(block["text"]) for block in content)


def is_attached(text: str) -> bool:
    """Return whether a text of a user message is what Claude was told besides the user's words."""
    return text == PLAN_MODE or _CONTEXT.fullmatch(text) is not None


def split_attached(texts: Sequence[str]) -> tuple[list[str], list[str]]:
    """The texts of a prompt, taken apart: the user's own words, and what Claude was told besides."""
    attached = [text for text in texts if is_attached(text)]
    words = [text for text in texts if text not in attached]
    if not words and attached:  # the user wrote nothing but a tag
        *attached, words_in_tag = attached
        words = [words_in_tag]
    return words, attached


def until_turn_ended(lines: Sequence[Line], turn: int) -> list[Line] | None:
    """The first of `lines` (those in effect) up to the end of the turn of this number, from 1; None if there is none."""
    number = 0
    for at, line in enumerate(lines):
        if begins_turn(json.loads(line.message)):
            number += 1
            if number > turn:
                # a summary behind it was made for the turns that follow
                return list(lines[: next(end for end in range(at, 0, -1) if is_said(lines[end - 1]))])
    return list(lines) if number == turn else None


def begins_turn_encoded(message: bytes) -> bool:
    """The same of an encoded message, which is decoded only where it may be one: a session has thousands of results."""
    # within a JSON string the quotes would stand behind backslashes
    return message.startswith(_USER) and _RESULT not in message and begins_turn(json.loads(message))
