"""The transcript that a notebook keeps, for the browser that draws it as it streamed: operations, joined and bounded.

A notebook is mailed and put on GitHub, so it holds less than the session's transcript: what was typed and asked is gone
once it is answered, one text is one operation, long results are cut with the cut said. All that is kept of an answer is at
most some 400,000 characters. Times are relative, and a run that was played from a recording says the same each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from msgspec import Struct, field

from cellwright.agent.calls.tool_names import access_of
from cellwright.events import Event, TodosChanged, ToolEnd, ToolStart
from cellwright.kernel.output.protocol import Op
from cellwright.kernel.output.saved_markdown import RemainingChars, left_out
from cellwright.kernel.output.transcript_ops import (
    QUIET_OPS,
    agent_line_op,
    agent_op,
    agent_state_op,
    call_op,
    ops_of,
    retry_op,
    turn_op,
)
from cellwright.telemetry.run_state import (
    AgentCard,
    CallItem,
    CompactedItem,
    Item,
    NoticeItem,
    RunState,
    SaidItem,
    TextItem,
    ThinkingItem,
)
from cellwright.telemetry.view_limits import KEPT, KEPT_OF_RUN
from cellwright.text import map_strings, strings_in

TRANSCRIPT = "application/vnd.cellwright.transcript+json"
VERSION = 1

RUNNING = frozenset({"python", "branch", "shell", "cells", "tests"})
"""Kinds of access whose results are output of code."""

CleanEach = Callable[[Iterable[str]], Mapping[str, str]]
"""Gives those of the texts that hold secrets, by what they are without them."""

Cleaned = TypeVar("Cleaned")


class _Room(Struct, eq=False):
    """The room that there is left for each kind of text."""

    answer: RemainingChars = field(default_factory=lambda: RemainingChars(KEPT_OF_RUN.answer))
    thinking: RemainingChars = field(default_factory=lambda: RemainingChars(KEPT_OF_RUN.thinking))
    inputs: RemainingChars = field(default_factory=lambda: RemainingChars(KEPT_OF_RUN.inputs))
    results: RemainingChars = field(default_factory=lambda: RemainingChars(KEPT_OF_RUN.results))
    diffs: RemainingChars = field(default_factory=lambda: RemainingChars(KEPT_OF_RUN.diffs))
    told: RemainingChars = field(default_factory=lambda: RemainingChars(KEPT_OF_RUN.context))
    agents: RemainingChars = field(default_factory=lambda: RemainingChars(KEPT_OF_RUN.agents))
    rest: RemainingChars = field(default_factory=lambda: RemainingChars(KEPT_OF_RUN.rest))


def saved_transcripts(
    state: RunState, parts: int, clean_each: CleanEach, *, quiet: bool = False
) -> list[dict[str, Any]]:
    """Build what each of an answer's `parts` keeps of its run, as the MIME type `TRANSCRIPT` holds it.

    `clean_each` finds secrets in texts: what was read or said stands in more places now than in the user's own.
    """
    transcripts = _SavedOps(state, QUIET_OPS if quiet else frozenset()).transcripts(parts)
    return cleaned(transcripts, clean_each)


def cleaned(value: Cleaned, clean_each: CleanEach) -> Cleaned:
    """`value` (JSON) with what `clean_each` has for its texts in their place."""
    found = clean_each(strings_in(value))
    return map_strings(value, lambda text: found.get(text, text)) if found else value


class _SavedOps:
    """The operations that `state` is drawn from again, but for the kinds in `leave_out`."""

    def __init__(self, state: RunState, leave_out: frozenset[str]) -> None:
        self._state = state
        self._leave_out = leave_out
        self._replayed = state.replayed
        self._started = 0.0 if state.prompt is None else state.prompt.at
        self._room = _Room()
        self._names: dict[str, str] = {}

    def transcripts(self, parts: int) -> list[dict[str, Any]]:
        """One for each part; what is told of the whole run is in the last."""
        # the last text is the answer, and goes first
        blocks = [item for item in self._state.items if isinstance(item, TextItem | ThinkingItem)]
        drawn = {item.block: list(self._block(item)) for item in reversed(blocks)}
        kept: list[list[Op]] = [[] for _ in range(parts)]
        for item in self._state.items:
            ops = drawn[item.block] if isinstance(item, TextItem | ThinkingItem) else self._item(item)
            kept[min(item.part, parts - 1)] += (op for op in ops if op["op"] not in self._leave_out)
        last = parts - 1
        return [self._transcript(part, ops, last=part == last) for part, ops in enumerate(kept)]

    def _transcript(self, part: int, ops: list[Op], *, last: bool) -> dict[str, Any]:
        begun: list[Op] = []
        if self._state.prompt is not None:
            [run] = ops_of(self._state.prompt, self._state)
            begun = [{**run, "model": self._state.model, "session": "", "started": 0.0}]
        return {
            "version": VERSION,
            "part": part,
            "last": last,
            "ops": [
                *begun,
                *ops[: KEPT_OF_RUN.operations],
                *(self._of_the_run() if last else ()),
                self._ended(),
            ],
        }

    def _of_the_run(self) -> Iterator[Op]:
        state = self._state
        events: list[Event] = [] if state.mode is None else [state.mode]
        if state.todos:
            events.append(TodosChanged(tuple(state.todos)))
        # what it cost and changed is the turn's that was recorded, and the context names the day and the folder
        if not self._replayed:
            events += [*state.context, *([state.changes] if state.changes is not None else [])]
        if state.numbers is not None:
            events.append(state.numbers)
        for event in events:
            yield from (self._of_run(op) for op in ops_of(event, state) if op["op"] not in self._leave_out)
        if state.turn is not None and not self._replayed and "turn" not in self._leave_out:
            yield turn_op(state.turn, state.totals)
        for words in state.waiting.values():
            for op in ops_of(words, state):
                yield {**op, "at": 0.0, "text": _cut(op["text"], self._room.rest)}
        yield from self._broken_off()

    def _of_run(self, op: Op) -> Op:
        if op["op"] == "numbers":
            checked = op["checked"]
            return {
                **op,
                "numbers": self._with_short_names(op["numbers"]),
                "checked": checked and {**checked, "numbers": self._with_short_names(checked["numbers"])},
            }
        if op["op"] != "told":
            return op
        parts = [{**part, "text": _cut(part["text"], self._room.told, KEPT.context)} for part in op["parts"]]
        return {**op, "parts": parts}

    def _with_short_names(self, numbers: Iterable[Op]) -> list[Op]:
        """The numbers, the calls that gave them by their names here; "" for a call of an earlier answer."""
        return [
            {
                **each,
                "source": each["source"] and {**each["source"], "call": self._names.get(each["source"]["call"], "")},
            }
            for each in numbers
        ]

    def _ended(self) -> Op:
        if self._state.end is None:
            return {"op": "end", "stop_reason": "", "cost_usd": None, "session_cost_usd": None, "ms": 0, "error": None}
        [op] = ops_of(self._state.end, self._state)
        end = {**op, "ms": self._ms(op["ms"]), "error": _error(op["error"], self._room)}
        return {**end, "cost_usd": None, "session_cost_usd": None} if self._replayed else end

    def _broken_off(self) -> Iterator[Op]:
        """Yield the operations that show the text of a request that broke off, if the run ended in an error."""
        state = self._state
        if state.end is None or state.end.error is None or state.broken_off is None or state.retry is None:
            return
        blocks = (item.block for item in state.items if isinstance(item, TextItem | ThinkingItem))
        block = max(blocks, default=-1) + 1
        yield {"op": "text", "block": block, "text": _cut(state.broken_off.text, self._room.answer)}
        yield {"op": "drop", "blocks": [block], "tools": []}
        yield {**retry_op(state.retry), "at": 0.0}

    def _block(self, item: TextItem | ThinkingItem) -> Iterator[Op]:
        text = item.text
        if isinstance(item, TextItem):
            if text.strip():
                yield {"op": "text", "block": item.block, "text": _cut(text, self._room.answer)}
        elif "thinking" not in self._leave_out:
            thinking = {"op": "thinking", "block": item.block}
            yield {**thinking, "text": _cut(text, self._room.thinking), "at": self._at(item.first_at)}
            # an empty piece says how long it took
            yield {**thinking, "text": "", "at": self._at(item.last_at)}

    def _item(self, item: Item) -> Iterator[Op]:
        match item:
            case CallItem():
                for op in self._call(item):
                    if op["op"] not in self._leave_out:
                        yield self._named(self._of_call(op, item))
            case NoticeItem() if not item.notice.waits:  # it has begun since, or another notice says that it did not
                yield from map(self._other, ops_of(item.notice, self._state))
            case SaidItem(delivered=True):
                yield from map(self._other, ops_of(item.steered, self._state))
            case CompactedItem():
                if "compacted" not in self._leave_out:
                    yield from map(self._other, ops_of(item.event, self._state))
            case _:
                pass  # a gap is a part's beginning, and what broke off is told of the whole run

    def _call(self, item: CallItem) -> Iterator[Op]:
        cards = iter(item.agents)
        for fact in item.facts:
            if isinstance(fact, ToolEnd):
                yield from self._agents(cards)
            if isinstance(fact, ToolStart):
                if item.call is not None:
                    yield call_op(item.call, fact)
            else:
                yield from ops_of(fact, self._state)
        yield from self._agents(cards)
        if text := "".join(item.output):
            yield {"op": "output", "id": item.id, "text": text}

    def _agents(self, cards: Iterable[AgentCard]) -> Iterator[Op]:
        for card in cards:
            yield agent_op(card)
            yield from (agent_line_op(card, line) for line in card.lines)
            if card.reported:
                yield agent_state_op(card)

    def _named(self, op: Op) -> Op:
        """The operation with short names for calls and questions, which are the same when the run is played again."""
        ids = {name: op[name] for name in ("id", "tool", "question", "call") if op.get(name)}
        return {**op, **{name: self._names.setdefault(known, f"{len(self._names)}") for name, known in ids.items()}}

    def _of_call(self, op: Op, item: CallItem) -> Op:
        room = self._room
        match op["op"]:
            case "tool":
                fields = {"input": _short(op["input"], room.inputs), "estimate": None, "at": self._at(op["at"])}
                return {**op, **fields, "title": _cut(op["title"], room.rest, KEPT.result)}
            case "output":
                return {**op, "text": _cut(op["text"], room.results, KEPT.result)}
            case "tool_end":
                diff = None if op["diff"] is None else _cut(op["diff"], room.diffs, KEPT.diff)
                most = KEPT.result if access_of(item.name).kind in RUNNING else KEPT.found
                result = _cut(op["result"], room.results, most)
                return {
                    **op,
                    "ms": self._ms(op["ms"]),
                    "result": result,
                    "diff": diff,
                    "title": _cut(op.get("title", ""), room.rest, KEPT.result),
                    "error": _error(op["error"], room),
                }
            case "ask":
                # what was asked stands in the call's input, and nobody is asked any more
                fields = {"input": None, "detail": "", "choices": [], "at": self._at(op["at"])}
                short = {name: _cut(op[name], room.rest, KEPT.result) for name in ("title", "reason", "warning")}
                return {**op, **fields, **short}
            case "answered":
                answer = None if op["input"] is None else _short(op["input"], room.inputs)
                return {**op, "reason": _cut(op["reason"], room.rest, KEPT.result), "input": answer}
            case "decided":
                return {**op, "reason": _cut(op["reason"], room.rest, KEPT.result)}
            case "agent":
                return {**op, "agent": "", "at": self._at(op["at"])}
            case "agent_line":
                return {**op, "ms": self._ms(op["ms"]), "text": _cut(op["text"], room.agents)}
            case "agent_state" if self._replayed:
                return {**op, "tokens": 0, "cost_usd": None, "ms": 0}
        return op

    def _other(self, op: Op) -> Op:
        room = self._room
        match op["op"]:
            case "compacted":
                return {**op, **{name: _cut(op[name], room.rest, KEPT.result) for name in ("summary", "reason")}}
            case "steer":
                return {**op, "id": "", "at": 0.0, "text": _cut(op["text"], room.rest)}
        return {**op, "text": _cut(op["text"], room.rest)}

    def _at(self, at: float) -> float:
        return 0.0 if self._replayed else round(max(at - self._started, 0.0), 1)

    def _ms(self, ms: float) -> float:
        return 0 if self._replayed else round(ms)


def _error(error: Mapping[str, Any] | None, room: _Room) -> Mapping[str, Any] | None:
    return None if error is None else {**error, "message": _cut(str(error["message"]), room.rest, KEPT.result)}


def _cut(text: str, room: RemainingChars, most: int | None = None) -> str:
    """As much of `text` as there is room for, and how much that leaves out."""
    kept, missing = room.take(text, most)
    if not missing:
        return kept
    return f"{kept}\n\n[{left_out(missing)}]" if kept else f"[{left_out(missing)}]"


def _short(value: Any, room: RemainingChars) -> Any:
    """JSON with its strings cut where there is no room for them."""
    if isinstance(value, str):
        return _cut(value, room)
    if isinstance(value, Mapping):
        return {key: _short(item, room) for key, item in value.items()}
    if isinstance(value, list):
        return [_short(item, room) for item in value]
    return value
