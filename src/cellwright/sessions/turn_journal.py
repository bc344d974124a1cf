"""The journal of a turn: the one owner of its beginning and its end in the session, however it ends.

It knows the answer as it streams, the calls and their results, and the last history that the API took. While an answer
streams, its words are written to the transcript as asides (a draft line every `DRAFT_SECONDS`, the new words alone), and so
are results of calls whose siblings still run: what was shown is there after `kill -9`, too. `end_turn` serves every end.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import to_builtins
from msgspec.structs import replace

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.events import (
    Answered,
    Asked,
    Changed,
    Decided,
    Event,
    Notice,
    TextDelta,
    ThinkingDelta,
    ToolInputDelta,
    TurnChanged,
    TurnEnd,
)
from cellwright.model.provider import BlockEnd, MessageStart
from cellwright.sessions.cut_answer import BLOCKS, DRAFT, RESULT, CutAnswer, keep_cut_answer
from cellwright.sessions.history import dropped_note, is_known, unique_id, usable_name
from cellwright.sessions.session import Session
from cellwright.sessions.transcripts.fork_point import without_thinking
from cellwright.sessions.turns import begins_turn
from cellwright.text import lazy_pattern

DRAFT_SECONDS = 0.2
"""Words that are on the screen are in the transcript after this time."""

SHOWN_CHARS = 2_000
"""Of a notice, a reason or an error that a resumed session shows again."""

SHOWN_CHANGES = 200
"""Of the files, cells or effects that a turn changed."""

SHOWN_NOTICES = 100

Shown = Decided | Asked | Answered | Notice | TurnChanged
"""The events that a resumed session shows again and no message tells of."""

Delta = TextDelta | ThinkingDelta | ToolInputDelta

_TOOL_USE_ID = lazy_pattern(rb'"type":"tool_use","id":"([^"\\]*)"')
_MESSAGE_NUMBER = lazy_pattern(r"\bmessages\.(\d+)\b")
_OF_THINKING = lazy_pattern(r"`thinking` blocks?|`signature`")
_OF_MESSAGES = lazy_pattern(r"\bmessages\b")


class TurnJournal:
    """One turn of `session`, from its prompt to its end. Used on the agent's loop."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._answer: CutAnswer | None = None
        self._ids: dict[int, str] = {}
        self._taken: set[str] | None = None
        self._unwritten: dict[int, list[str]] = {}
        self._drafted = False
        self._timer: asyncio.TimerHandle | None = None
        self._before: int | None = None
        # what a full disk did not take is tried once more when the turn ends
        self._unwritten_answer: tuple[TurnEnd, Sequence[Mapping[str, Any]]] | None = None
        self._unwritten_results: Sequence[Mapping[str, Any]] | None = None
        self._shown: dict[str, Mapping[str, Any]] = {}
        self._permissions: dict[str, dict[str, Any]] = {}
        self._asked: dict[str, str] = {}
        self._notices: list[Mapping[str, Any]] = []
        self._changes: Mapping[str, Any] | None = None
        self._prompt: int | None = None

    def take(self, event: Event) -> None:
        """Take in an event of the turn: what is shown of it, and is in no message, is kept beside the messages."""
        if not isinstance(event, Shown):
            return
        match event:
            case Decided():
                decision = {"behavior": event.behavior, "by": event.by, "reason": event.reason[:SHOWN_CHARS]}
                self._permissions.setdefault(event.tool_use_id, {})["decided"] = decision | _given(rule=event.rule)
            case Asked(kind="permission"):
                self._asked[event.question_id] = event.preview.title
            case Answered() if (title := self._asked.pop(event.question_id, None)) is not None:
                reply = _given(reason=event.reason[:SHOWN_CHARS], rules=list(event.rules), edited=event.edited)
                reply |= {"title": title, "behavior": event.behavior, "by": event.by, "scope": event.scope}
                self._permissions.setdefault(event.tool_use_id, {}).setdefault("asked", []).append(reply)
            case Notice() if len(self._notices) < SHOWN_NOTICES:
                self._notices.append({"level": event.level, "text": event.message[:SHOWN_CHARS]})
            case TurnChanged():
                self._changes = _changes(event)
            case _:
                pass

    def begin_turn(self) -> None:
        """The turn begins: what the last one could not write (a full disk) is made whole."""
        self._session.repair()

    def add_prompt(self, blocks: Sequence[Mapping[str, Any]]) -> None:
        """Add the prompt to the session."""
        self._session.append({"role": "user", "content": list(blocks)}, notices=self._notices)
        self._notices = []
        self._prompt = self._session.last_seq

    # ---- the answer as it streams ----

    def begin_answer(self, start: MessageStart) -> None:
        """An answer begins: from here on it is paid for."""
        self._answer = CutAnswer(start.usage, start.model)
        self._ids = {}

    def add(self, delta: Delta) -> Delta:
        """Take in more of the answer; gives it as it is to be shown, its call's id unique in the session."""
        answer = self._answer
        if isinstance(delta, TextDelta):
            if answer is not None:
                answer.chars += len(delta.text)
                answer.texts.setdefault(delta.index, []).append(delta.text)
                self._unwritten.setdefault(delta.index, []).append(delta.text)
                if self._timer is None:
                    self._timer = asyncio.get_running_loop().call_later(DRAFT_SECONDS, self._write_draft)
            return delta
        if isinstance(delta, ThinkingDelta):
            if answer is not None:
                answer.chars += len(delta.text)
            return delta
        if answer is not None:
            answer.chars += len(delta.partial_json)
        name = self._id_of(delta.index, delta.tool_use_id)
        if name == delta.tool_use_id:
            return delta
        return ToolInputDelta(name, delta.name, delta.partial_json, delta.index)

    def end_block(self, end: BlockEnd) -> None:
        """A block of the answer is whole."""
        if self._answer is None:
            return
        block = dict(end.block)
        if block["type"] == "tool_use":
            block = {**block, "id": self._id_of(end.index, block["id"]), "name": usable_name(block["name"])}
        self._answer.blocks[end.index] = block
        # its words are written already, or stand in what was not yet
        told = (
            {key: value for key, value in block.items() if key != "text"} if end.index in self._answer.texts else block
        )
        self._write_draft({end.index: told})

    def _id_of(self, index: int, wanted: str) -> str:
        if index not in self._ids:
            if self._taken is None:  # as far as the session has come; not asked for before there is a call
                self._taken = {name.decode() for data in self._session.story for name in _TOOL_USE_ID.findall(data)}
            self._ids[index] = unique_id(wanted, self._taken)
            self._taken.add(self._ids[index])
        return self._ids[index]

    def _write_draft(self, blocks: Mapping[int, Mapping[str, Any]] | None = None) -> None:
        self._stop_timer()
        answer = self._answer
        if answer is None or not (blocks or self._unwritten):
            return
        content: dict[str, Any] = {}
        if not self._drafted:
            content["start"] = {"usage": answer.usage, "model": answer.model}
        if self._unwritten:
            content["text"] = [[index, "".join(texts)] for index, texts in self._unwritten.items()]
        if blocks:
            content["blocks"] = [[index, block] for index, block in blocks.items()]
        with contextlib.suppress(CellwrightError):  # a full disk says so at the next message
            self._session.write_aside(DRAFT, content)
            self._drafted = True
            self._unwritten = {}

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _forget_answer(self) -> CutAnswer | None:
        self._stop_timer()
        answer, self._answer = self._answer, None
        self._unwritten, self._drafted = {}, False
        return answer

    def void(self) -> tuple[dict[str, Any], float | None] | None:
        """Drop what streamed of the answer: it is asked for again. Gives its cost, if it had begun."""
        self._ids = {}
        was_drafted, answer = self._drafted, self._forget_answer()
        if was_drafted:
            with contextlib.suppress(CellwrightError):
                self._session.write_aside(DRAFT, {})
        return None if answer is None else answer.spent()

    def end_answer(self, turn: TurnEnd) -> TurnEnd:
        """The whole answer arrived; gives it as the session keeps it: the id of each call unique."""
        ids = iter([self._ids[index] for index in sorted(self._ids)])
        self._ids = {}
        self._forget_answer()
        content: list[dict[str, Any]] = []
        for block in turn.message["content"]:
            if block["type"] == "tool_use":
                name = next(ids, None) or self._id_of(len(content), block["id"])
                if (name, usable_name(block["name"])) != (block["id"], block["name"]):
                    block = {**block, "id": name, "name": usable_name(block["name"])}
            content.append(block)
        self._ids = {}
        if all(given is kept for given, kept in zip(turn.message["content"], content, strict=True)):
            return turn
        return replace(turn, message={**turn.message, "content": content})

    def keep(self, turn: TurnEnd, content: Sequence[Mapping[str, Any]]) -> None:
        """Add `content`, of the answer `turn`, to the session; what is not known here is kept aside."""
        self._unwritten_answer = turn, content
        known = [dict(block) for block in content if is_known(block)]
        if len(known) < len(content):
            self._session.write_aside(BLOCKS, [block for block in content if not is_known(block)])
        if known:
            self._session.append(
                {**turn.message, "content": known},
                usage=dict(turn.usage),
                model=turn.model,
                cost_usd=turn.cost_usd,
                context_tokens=turn.context_tokens,
                notices=self._notices,
            )
            self._notices = []
        else:  # an empty answer can follow tool results; sent back, it would be refused
            self._session.spend(turn.usage, turn.cost_usd)
        self._unwritten_answer = None

    def note_result(self, result: Mapping[str, Any]) -> None:
        """A call of several has its result, while others still run: it is known after a crash, too."""
        with contextlib.suppress(CellwrightError):
            self._session.write_aside(RESULT, result)

    def note_shown(self, tool_use_id: str, shown: Mapping[str, Any]) -> None:
        """Keep how a call was shown, besides its result, for whoever draws it again when the session is resumed."""
        self._shown[tool_use_id] = shown

    def answer_calls(self, content: Sequence[Mapping[str, Any]]) -> None:
        """Add the results of all calls of the answer, and what goes with them, to the session."""
        self._unwritten_results = content
        permissions, self._permissions = self._permissions, {}
        shown, self._shown = self._shown, {}
        calls = {call: {**facts, **permissions.get(call, {})} for call, facts in shown.items()}
        self._session.append({"role": "user", "content": list(content)}, calls=calls, notices=self._notices)
        self._notices = []
        self._unwritten_results = None

    # ---- its end ----

    def end_turn(self, reason: str) -> CutAnswer | None:
        """End the turn: by itself or "interrupted", by a refusal, a budget, an error of the API or of ours.

        What has arrived of an answer that is open is kept, and its calls are answered. Gives that answer. Raises
        `CellwrightError` where it cannot be written.
        """
        answer = self._forget_answer()
        if answer is not None:
            keep_cut_answer(self._session, answer, reason)
        elif self._unwritten_answer is not None:
            self.keep(*self._unwritten_answer)
            self._session.answer_open_calls(
                "the answer that asked for it could not be written at first; it was not run"
            )
        elif self._unwritten_results is not None:
            self.answer_calls(self._unwritten_results)
        return answer

    def note_end(self, stop_reason: str, error: CellwrightError | None, mode: str, ms: float) -> None:
        """Keep how the turn ended, where anything of it is in the session."""
        if self._prompt is None:
            return
        said = None if error is None else {"code": error.code, "message": error.message[:SHOWN_CHARS]}
        shown = _given(error=said, notices=self._notices, changes=self._changes)
        self._session.note_end(
            {"prompt": self._prompt, "stop_reason": stop_reason, "mode": mode, "ms": round(ms), **shown}
        )

    def go_back(self, error: CellwrightError) -> str | None:
        """Go back to a history that the API takes, as it refuses this one; gives what the user is told.

        Thinking that it does not take any more is left out. Else what came since it last took the history is told to Claude
        in short, and the prompt that stands last is said once more. None where that is no help: the error is about
        something else, or nothing but the prompt is new.
        """
        session = self._session
        if error.code != ErrorCode.API_REQUEST_INVALID or not _OF_MESSAGES.search(error.message):
            return None
        lines = session.in_effect()
        if _OF_THINKING.search(error.message):
            thought = [json.loads(without_thinking(line).message) for line in lines]
            if thought != session.messages:
                self._before = lines[-1].meta["seq"]
                session.replace_history(thought)
                return f"The API does not take Claude's earlier thinking any more, so it is left out. ({error.message})"
        named = _MESSAGE_NUMBER.search(error.message)
        last = len(lines) - 1 if named is None else min(int(named[1]), len(lines) - 1)
        accepted = next((at for at in reversed(range(last + 1)) if "usage" in lines[at].meta), 0)
        dropped = session.messages[accepted:]
        prompt = dropped[-1] if dropped and begins_turn(dropped[-1]) else None
        if prompt is not None:
            dropped = dropped[:-1]
            if named is not None and last == len(lines) - 1:
                return None  # it is the prompt itself
        if not accepted or not dropped:
            return None
        self._before = lines[-1].meta["seq"]
        session.return_to(lines[accepted - 1].meta["seq"])
        session.append({"role": "user", "content": [dropped_note(dropped), *_blocks(prompt)]})
        return (
            f"The API refused the conversation, so it goes on from where it was accepted last: {len(dropped)} message(s) "
            f"are left out, and Claude is told in short what they said. The transcript keeps them. ({error.message})"
        )

    def go_forward(self) -> None:
        """Take `go_back` back, where it was no help: the API refuses that as well."""
        if self._before is not None:
            self._session.return_to(self._before)
            self._before = None


def _given(**facts: Any) -> dict[str, Any]:
    """Those of the facts that say something."""
    return {name: value for name, value in facts.items() if value}


def _changes(event: TurnChanged) -> dict[str, Any]:
    def listed(changed: Sequence[Changed]) -> Any:
        return to_builtins(changed[:SHOWN_CHANGES])

    named = {"effects": [effect[:SHOWN_CHARS] for effect in event.effects[:SHOWN_CHANGES]]}
    return {
        "turn": event.turn,
        **_given(files=listed(event.files), cells=listed(event.cells), **named, not_kept=list(event.not_kept)),
    }


def _blocks(prompt: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    if prompt is None:
        return []
    content = prompt["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
