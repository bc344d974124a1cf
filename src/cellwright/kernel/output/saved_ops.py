"""The transcript that a notebook keeps, for the browser that draws it as it streamed: operations, joined and bounded.

A notebook is mailed and put on GitHub, so it holds less than the session's transcript: what was typed and asked is gone
once it is answered, one text is one operation, long results are cut with the cut said. All that is kept of an answer is at
most some 400,000 characters. Times are relative, and a run that was played from a recording says the same each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from msgspec import Struct, field

from cellwright.kernel.output.protocol import Op
from cellwright.kernel.output.saved_markdown import ANSWER_CHARS, DIFF_CHARS, DIFFS_CHARS, RemainingChars, left_out
from cellwright.text import map_strings, strings_in

TRANSCRIPT = "application/vnd.cellwright.transcript+json"
VERSION = 1

THINKING_CHARS = 40_000
INPUTS_CHARS = 60_000
RESULT_CHARS = 6_000
"""Of one call that has run something."""

FOUND_CHARS = 1_500
"""Of one call of another tool, which has mostly read what stands in files."""

RUNNING_TOOLS = frozenset({"Python", "Bash", "NotebookRun", "RunTests"})

RESULTS_CHARS = 60_000
TOLD_CHARS = 1_000
"""Of one part of what Claude was told besides the user's words: enough to know it by."""

TOLDS_CHARS = 20_000
AGENTS_CHARS = 30_000
REST_CHARS = 40_000
"""Of notices, questions, errors and the user's words together."""

MOST_OPS = 4_000


CleanEach = Callable[[Iterable[str]], Mapping[str, str]]
"""Gives those of the texts that hold secrets, by what they are without them."""

Cleaned = TypeVar("Cleaned")


class _Room(Struct, eq=False):
    """The room that there is left for each kind of text."""

    answer: RemainingChars = field(default_factory=lambda: RemainingChars(ANSWER_CHARS))
    thinking: RemainingChars = field(default_factory=lambda: RemainingChars(THINKING_CHARS))
    inputs: RemainingChars = field(default_factory=lambda: RemainingChars(INPUTS_CHARS))
    results: RemainingChars = field(default_factory=lambda: RemainingChars(RESULTS_CHARS))
    diffs: RemainingChars = field(default_factory=lambda: RemainingChars(DIFFS_CHARS))
    told: RemainingChars = field(default_factory=lambda: RemainingChars(TOLDS_CHARS))
    agents: RemainingChars = field(default_factory=lambda: RemainingChars(AGENTS_CHARS))
    rest: RemainingChars = field(default_factory=lambda: RemainingChars(REST_CHARS))


class _Entry(Struct, eq=False):
    """One item of the transcript: the operations that it is drawn from, in the part where it appeared."""

    part: int
    ops: list[Op] = field(default_factory=list)


def saved_transcripts(ops: Iterable[Op], parts: int, clean_each: CleanEach, *, replayed: bool) -> list[dict[str, Any]]:
    """Build what each of an answer's `parts` keeps of its run, as the MIME type `TRANSCRIPT` holds it.

    `clean_each` finds secrets in texts: what was read or said stands in more places now than in the user's own.
    """
    saved = _SavedOps(replayed)
    for op in ops:
        saved.take(op)
    return cleaned(saved.transcripts(parts), clean_each)


def cleaned(value: Cleaned, clean_each: CleanEach) -> Cleaned:
    """`value` (JSON) with what `clean_each` has for its texts in their place."""
    found = clean_each(strings_in(value))
    return map_strings(value, lambda text: found.get(text, text)) if found else value


class _SavedOps:
    """Takes operations in order, and joins what belongs together."""

    def __init__(self, replayed: bool) -> None:
        self._replayed = replayed
        self._part = 0
        self._started = 0.0
        self._run: Op | None = None
        self._mode: Op | None = None
        self._todos: Op | None = None
        self._context: list[Op] = []
        self._changes: Op | None = None
        self._turn: Op | None = None
        self._end: Op | None = None
        self._entries: dict[tuple[str, int | str], _Entry] = {}
        self._waiting: dict[str, Op] = {}
        self._others = 0
        self._dropped = self._stale = ""
        self._caught_up = 0
        self._retry: Op | None = None
        self._names: dict[str, str] = {}
        self._running: set[str] = set()
        self._cards: dict[int, str] = {}

    def take(self, op: Op) -> None:  # noqa: C901  one arm for each operation
        match op["op"]:
            case "part":
                self._part = op["part"]
            case "run":
                self._run, self._started = op, op["started"]
            case "model" if self._run is not None:
                self._run = {**self._run, "model": op["model"]}
            case "mode":
                self._mode = op
            case "todos":
                self._todos = op
            case "changes":
                self._changes = op
            case "turn":
                self._turn = op if self._turn is None else _sum(self._turn, op)
                self._stale = ""
            case "end":
                self._end = op
            case "text" | "thinking":
                self._entry("block", op["block"]).ops.append(op)
                if op["op"] == "text":
                    self._caught_up += len(op["text"])
            case "retry":
                self._break_off(op)
            case "drop":
                self._dropped = "\n\n".join(filter(str.strip, map(self._text_of, op["blocks"])))
                for key in (*(("block", block) for block in op["blocks"]), *(("tool", tool) for tool in op["tools"])):
                    self._entries.pop(key, None)
            case "tool_input" | "tool" | "output" | "tool_end":
                self._entry("tool", op["id"]).ops.append(op)
                if op.get("name") in RUNNING_TOOLS:
                    self._running.add(op["id"])
            case "decided" | "ask" | "answered":
                self._entry("tool", op["tool"]).ops.append(op)
            case "agent":
                self._cards[op["card"]] = self._cards.get(op["parent"], str(op["tool"]))
                self._entry("tool", self._cards[op["card"]]).ops.append(op)
            case "agent_line" | "agent_state" if op["card"] in self._cards:
                self._entry("tool", self._cards[op["card"]]).ops.append(op)
            case "steer":
                self._steer(op)
            case "compacted" if op["state"] == "started":
                pass  # its end follows
            case "told":
                self._context.append(op)
            case "notice" if op.get("waits"):
                pass  # the run has begun since, or another notice says that it did not
            case "notice" | "compacted":
                self._add(op)
            case _:
                pass  # what is drawn while the run goes on alone: live displays, code that is stuck

    def transcripts(self, parts: int) -> list[dict[str, Any]]:
        """One for each part; what is told of the whole run is in the last."""
        room = _Room()
        # the last text is the answer, and goes first
        for key, entry in reversed(self._entries.items()):
            if key[0] == "block":
                entry.ops = self._block(entry.ops, room)
        kept: list[list[Op]] = [[] for _ in range(parts)]
        for key, entry in self._entries.items():
            drawn = entry.ops if key[0] == "block" else self._item(entry.ops, room)
            kept[min(entry.part, parts - 1)] += drawn
        last = parts - 1
        return [self._transcript(part, ops, room, last=part == last) for part, ops in enumerate(kept)]

    def _transcript(self, part: int, ops: list[Op], room: _Room, *, last: bool) -> dict[str, Any]:
        run = [] if self._run is None else [{**self._run, "session": "", "started": 0.0}]
        whole: list[Op] = []
        if last:
            waiting = [{**op, "at": 0.0, "text": _cut(op["text"], room.rest)} for op in self._waiting.values()]
            # what it cost and changed is the turn's that was recorded, and the context names the day and the folder
            of_now = () if self._replayed else (*self._context_sent(room), self._changes, self._turn)
            known = (self._mode, self._todos, *of_now)
            whole = [*(op for op in known if op is not None), *waiting, *self._broken_off(room)]
        return {
            "version": VERSION,
            "part": part,
            "last": last,
            "ops": [*run, *ops[:MOST_OPS], *whole, self._ended(room)],
        }

    def _context_sent(self, room: _Room) -> list[Op]:
        def short(part: Op) -> Op:
            return {**part, "text": _cut(part["text"], room.told, TOLD_CHARS)}

        return [{**op, "parts": [short(part) for part in op["parts"]]} for op in self._context]

    def _ended(self, room: _Room) -> Op:
        if self._end is None:
            return {"op": "end", "stop_reason": "", "cost_usd": None, "session_cost_usd": None, "ms": 0, "error": None}
        end = {**self._end, "ms": self._ms(self._end["ms"]), "error": _error(self._end["error"], room)}
        return {**end, "cost_usd": None, "session_cost_usd": None} if self._replayed else end

    def _text_of(self, block: int) -> str:
        entry = self._entries.get(("block", block))
        return "".join(op["text"] for op in entry.ops if op["op"] == "text") if entry is not None else ""

    def _break_off(self, retry: Op) -> None:
        """Keep what streamed of the failed request, unless more is kept of one before it."""
        self._retry, self._caught_up = retry, 0
        if len(self._dropped) >= len(self._stale):
            self._stale = self._dropped
        self._dropped = ""

    def _broken_off(self, room: _Room) -> list[Op]:
        """Return the operations that show the text of a request that broke off, if the run ended in an error."""
        ended_in_error = self._end is not None and self._end["error"] is not None
        if not ended_in_error or not self._stale or self._caught_up >= len(self._stale) or self._retry is None:
            return []
        block = max((name for kind, name in self._entries if kind == "block" and isinstance(name, int)), default=-1) + 1
        text = {"op": "text", "block": block, "text": _cut(self._stale, room.answer)}
        return [text, {"op": "drop", "blocks": [block], "tools": []}, {**self._retry, "at": 0.0}]

    def _entry(self, kind: str, name: int | str) -> _Entry:
        if (kind, name) not in self._entries:
            self._entries[kind, name] = _Entry(self._part)
        return self._entries[kind, name]

    def _add(self, op: Op) -> None:
        self._others += 1
        self._entry("other", self._others).ops.append(op)

    def _steer(self, op: Op) -> None:
        if op["state"] == "waiting":
            self._waiting[op["id"]] = op
            return
        self._waiting.pop(op["id"], None)
        if op["state"] == "delivered":
            self._add(op)

    def _block(self, ops: list[Op], room: _Room) -> list[Op]:
        text = "".join(op["text"] for op in ops)
        if ops[0]["op"] == "text":
            return [{**ops[0], "text": _cut(text, room.answer)}] if text.strip() else []
        first = {**ops[0], "text": _cut(text, room.thinking), "at": self._at(ops[0]["at"])}
        # an empty piece says how long it took
        return [first, {**ops[0], "text": "", "at": self._at(ops[-1]["at"])}]

    def _item(self, ops: list[Op], room: _Room) -> list[Op]:
        if ops[0]["op"] in ("notice", "compacted", "steer"):
            return [self._other(op, room) for op in ops]
        ended = any(op["op"] == "tool_end" for op in ops)
        states = {op["card"]: op for op in ops if op["op"] == "agent_state"}
        kept: list[Op] = []
        for op in ops:
            if op["op"] == "tool_input" or (op["op"] == "agent_state" and states[op["card"]] is not op):
                continue
            if op["op"] == "output" and ended:
                continue  # the result has it
            kept.append(self._named(self._of_call(op, room)))
        return kept

    def _named(self, op: Op) -> Op:
        """The operation with short names for calls and questions, which are the same when the run is played again."""
        ids = {name: op[name] for name in ("id", "tool", "question", "call") if op.get(name)}
        return {**op, **{name: self._names.setdefault(known, f"{len(self._names)}") for name, known in ids.items()}}

    def _of_call(self, op: Op, room: _Room) -> Op:
        match op["op"]:
            case "tool":
                fields = {"input": _short(op["input"], room.inputs), "estimate": None, "at": self._at(op["at"])}
                return {**op, **fields, "title": _cut(op["title"], room.rest, RESULT_CHARS)}
            case "output":
                return {**op, "text": _cut(op["text"], room.results, RESULT_CHARS)}
            case "tool_end":
                diff = None if op["diff"] is None else _cut(op["diff"], room.diffs, DIFF_CHARS)
                most = RESULT_CHARS if op["id"] in self._running else FOUND_CHARS
                result = _cut(op["result"], room.results, most)
                return {
                    **op,
                    "ms": self._ms(op["ms"]),
                    "result": result,
                    "diff": diff,
                    "title": _cut(op.get("title", ""), room.rest, RESULT_CHARS),
                    "error": _error(op["error"], room),
                }
            case "ask":
                # what was asked stands in the call's input, and nobody is asked any more
                fields = {"input": None, "detail": "", "choices": [], "at": self._at(op["at"])}
                short = {name: _cut(op[name], room.rest, RESULT_CHARS) for name in ("title", "reason", "warning")}
                return {**op, **fields, **short}
            case "answered":
                answer = None if op["input"] is None else _short(op["input"], room.inputs)
                return {**op, "reason": _cut(op["reason"], room.rest, RESULT_CHARS), "input": answer}
            case "decided":
                return {**op, "reason": _cut(op["reason"], room.rest, RESULT_CHARS)}
            case "agent":
                return {**op, "agent": "", "at": self._at(op["at"])}
            case "agent_line":
                return {**op, "ms": self._ms(op["ms"]), "text": _cut(op["text"], room.agents)}
            case "agent_state" if self._replayed:
                return {**op, "tokens": 0, "cost_usd": None, "ms": 0}
        return op

    def _other(self, op: Op, room: _Room) -> Op:
        match op["op"]:
            case "compacted":
                return {**op, **{name: _cut(op[name], room.rest, RESULT_CHARS) for name in ("summary", "reason")}}
            case "steer":
                return {**op, "id": "", "at": 0.0, "text": _cut(op["text"], room.rest)}
        return {**op, "text": _cut(op["text"], room.rest)}

    def _at(self, at: float) -> float:
        return 0.0 if self._replayed else round(max(at - self._started, 0.0), 1)

    def _ms(self, ms: float) -> float:
        return 0 if self._replayed else round(ms)


def _sum(turn: Op, more: Op) -> Op:
    costs = (turn["cost_usd"], more["cost_usd"])
    counts = {name: turn[name] + more[name] for name in ("input_tokens", "output_tokens", "cache_read_tokens")}
    return {**more, **counts, "cost_usd": None if None in costs else sum(costs)}


def _error(error: Mapping[str, Any] | None, room: _Room) -> Mapping[str, Any] | None:
    return None if error is None else {**error, "message": _cut(str(error["message"]), room.rest, RESULT_CHARS)}


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
