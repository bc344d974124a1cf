"""The journal of a turn: the one owner of its beginning and its end in the session, however it ends.

It knows the answer as it streams, the calls and their results, and the last history that the API took. While an answer
streams, its words are written to the transcript as asides (a draft line every `DRAFT_SECONDS`, the new words alone), and so
are results of calls whose siblings still run: what was shown is there after `kill -9`, too. `end_turn` serves every end.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
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
from cellwright.model.images import admitted, takes_time
from cellwright.model.provider import BlockEnd, MessageStart
from cellwright.model.retry import is_refusal
from cellwright.sessions.api_messages import (
    THINKING,
    begins_turn,
    complete_pairs,
    dropped_note,
    is_known,
    media_in_words,
    unique_id,
    usable_name,
)
from cellwright.sessions.session import Session
from cellwright.sessions.session_lines import BLOCKS, DRAFT, RESULT, CutAnswer
from cellwright.sessions.transcripts.fork_point import without_thinking
from cellwright.sessions.transcripts.transcript import is_boundary
from cellwright.text import lazy_pattern

DRAFT_SECONDS = 0.2
"""Words that are on the screen are in the transcript after this time."""

SHOWN_CHARS = 2_000
"""Of a notice, a reason or an error that a resumed session shows again."""

SHOWN_CHANGES = 200
"""Of the files, cells or effects that a turn changed."""


Shown = Decided | Asked | Answered | Notice | TurnChanged
"""The events that a resumed session shows again and no message tells of."""

Delta = TextDelta | ThinkingDelta | ToolInputDelta

_TOOL_USE_ID = lazy_pattern(rb'"type":"tool_use","id":"([^"\\]*)"')
_MESSAGE_NUMBER = lazy_pattern(r"\bmessages\.(\d+)\b")
_OF_OPTIONS = lazy_pattern(
    r"\((model|max_tokens|system|tools|tool_choice|thinking|output_config|context_management|compaction|stop_sequences|"
    r"metadata|service_tier|speed|betas)(\.[\w.]+)?: "
)
"""An error that names another field of the request than its messages: no other history is any help."""


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
        self._ways_back: Iterator[str] | None = None
        self._gone_back: str | None = None
        self.summary_as_text = False
        """True when the API's own summary is sent as text."""
        self._before = 0
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
            case Notice(waits=False) if len(self._notices) < 100:
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
        self._session.append(_from_user(blocks), notices=self._notices)
        self._notices = []
        self._prompt = self._session.last_seq

    # ---- the answer as it streams ----

    def begin_answer(self, start: MessageStart) -> None:
        """An answer begins: from here on it is paid for."""
        self._answer = CutAnswer(start.usage, start.model)
        self._ids = {}
        self._ways_back = None  # the API takes the history as it stands

    def add(self, delta: Delta) -> Delta:
        """Take in more of the answer; gives it as it is to be shown, its call's id unique in the session."""
        answer = self._answer
        if isinstance(delta, TextDelta):
            if answer is not None:
                answer.add_text(delta.index, delta.text)
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
        """Add `content`, of the answer `turn`, to the session; what the API might not take back is kept aside."""
        self._unwritten_answer = turn, content
        paused = turn.stop_reason == "pause_turn"
        open_before = self._session.open_server_calls()
        known = complete_pairs([block for block in content if is_known(block)], open_before, continues=paused)
        if len(known) < len(content):
            known = known if any(block["type"] not in THINKING for block in known) else []
            self._session.write_aside(BLOCKS, [block for block in content if block not in known])
        if open_before and not paused:
            self._session.leave_out_open_server_calls(known)
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
        self._session.append(_from_user(content), calls=calls, notices=self._notices)
        self._notices = []
        self._unwritten_results = None

    # ---- its end ----

    def end_turn(self, reason: str) -> CutAnswer | None:
        """End the turn: by itself or "interrupted", by a refusal, a budget, an error of the API or of ours.

        What has arrived of an answer that is open is kept, and its calls are answered. Gives that answer. Raises
        `CellwrightError` where it cannot be written.
        """
        if self._ways_back is not None:  # the API took none of the histories that `go_back` tried
            self._ways_back = None
            self._session.return_to(self._before)
        answer = self._forget_answer()
        if answer is not None:
            self._session.keep_cut_answer(answer, reason)
        elif self._unwritten_answer is not None:
            self.keep(*self._unwritten_answer)
            self._session.answer_open_calls(
                "the answer that asked for it could not be written at first; it was not run"
            )
        elif self._unwritten_results is not None:
            self.answer_calls(self._unwritten_results)
        self._session.leave_out_open_server_calls()  # of an answer that was paused, and does not go on
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

    @property
    def is_answering(self) -> bool:
        """True while an answer streams: what ends it then is a cut answer, and no refusal of what was asked."""
        return self._answer is not None

    def go_back(self, error: CellwrightError) -> bool:
        """Go back to a history that the API may take, as it refuses this one.

        Asked again, it takes the next one, from the least that is left out to the most (`_ways`). False if there is no
        other, or the error is about something else: then the history is as it was.
        """
        self._gone_back = None
        if self._ways_back is None:
            if not is_refusal(error) or _OF_OPTIONS.search(error.message):
                return False
            self._ways_back = self._ways(error.message)
        self._gone_back = next(self._ways_back, None)
        if self._gone_back is None:
            self._ways_back = None
        return self._gone_back is not None

    def taken_back(self) -> str | None:
        """The notice on what was left out of the history, once: for when the API takes it."""
        gone_back, self._gone_back = self._gone_back, None
        return gone_back

    def _ways(self, words: str) -> Iterator[str]:
        """Have the session be one history after the other that is worth a try; the one that was refused at the end.

        What the API took once it takes again: everything up to its last answer. So what came after that is at fault, a
        picture most likely, unless it is Claude's thinking, which is bound to more than the messages. The place that the
        error names may lie: it only decides what is tried in a first refusal, after which nothing may be lost in vain.
        """
        session = self._session
        lines, messages = list(session.in_effect()), list(session.messages)
        before = self._before = lines[-1].meta["seq"]
        # the API refused the prompt before this one, too: then the fault is not in the prompt alone
        ends = list(session.turn_ends().values())
        again = bool(ends) and ends[-1].get("error", {}).get("code") == ErrorCode.API_REQUEST_INVALID
        named = None if again else _MESSAGE_NUMBER.search(words)
        last = len(lines) - 1 if named is None else min(int(named[1]), len(lines) - 1)
        accepted = next((at for at in reversed(range(last + 1)) if "usage" in lines[at].meta), 0)
        accepted = max(accepted, sum(1 for _ in itertools.takewhile(is_boundary, lines)))
        prompt = messages[-1] if begins_turn(messages[-1]) else None
        is_of_prompt = named is not None and last == len(lines) - 1 and prompt is not None
        # Claude's thinking is in its own messages
        is_of_thinking = named is None or messages[last]["role"] == "assistant"
        thought = [json.loads(without_thinking(line).message) for line in lines]
        why = f" ({words})"

        if thought != messages and is_of_thinking:
            session.replace_history(thought)
            yield f"The API does not take Claude's earlier thinking any more, so it is left out.{why}"
            session.return_to(before)

        in_words, media = _with_media_in_words(messages, thought, accepted)
        if media:
            session.replace_history(in_words)
            what = "the picture or document" if media == 1 else f"the {media} pictures or documents"
            yield f"The API refused the conversation, so it continues without {what} in it.{why}"
            session.return_to(before)

        dropped = messages[accepted:] if prompt is None else messages[accepted:-1]
        if dropped and not is_of_prompt:
            self._begin_after(messages[:accepted], dropped, prompt)
            left_out = f"{len(dropped)} message(s) are left out; Claude gets a summary of them."
            if accepted:
                goes_on = "The API refused the conversation, so it continues from the last accepted message"
            else:
                goes_on = "The API refused the conversation, so it continues with your message alone"
            yield f"{goes_on}: {left_out} The transcript keeps them.{why}"
            session.return_to(before)

        if again and accepted:
            earlier = messages if prompt is None else messages[:-1]
            self._begin_after([], earlier, prompt)
            yield (
                "The API refused the conversation again, so it begins anew with your words: "
                f"{len(earlier)} message(s) are left out; Claude gets a summary of them. The transcript "
                f"keeps them.{why}"
            )
            session.return_to(before)

    def _begin_after(
        self,
        kept: Sequence[dict[str, Any]],
        dropped: Sequence[Mapping[str, Any]],
        prompt: Mapping[str, Any] | None,
    ) -> None:
        """Go on behind `kept`, with what was `dropped` in short and the words of the prompt."""
        words = [] if prompt is None else media_in_words(prompt["content"])[0]
        self._session.replace_history([*kept, {"role": "user", "content": [dropped_note(dropped), *words]}])


def _with_media_in_words(
    messages: Sequence[Mapping[str, Any]], thought: Sequence[Mapping[str, Any]], first: int
) -> tuple[list[dict[str, Any]], int]:
    """`messages` with words for pictures from the message `first` on, and how many; `thought` are they without thinking.

    Thinking behind the first change is left out: it is bound to what was before it.
    """
    made: list[dict[str, Any]] = [dict(message) for message in messages[:first]]
    total = 0
    for message, without in zip(messages[first:], thought[first:], strict=True):
        if message["role"] != "user":
            made.append(dict(without if total else message))
            continue
        blocks, count = media_in_words(message["content"])
        total += count
        made.append({**message, "content": blocks} if count else dict(message))
    return made, total


def _from_user(blocks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The message of `blocks`. Who knows of new pictures has them decoded before, off the loop; here none passes by."""
    return {"role": "user", "content": admitted(blocks)[0] if takes_time(blocks) else list(blocks)}


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
