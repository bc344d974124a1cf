"""The state of a run, as its events have made it so far: what every view draws, saves or writes is a function of this.

The events that stream are left out, so a card stays linear in what its agent did.

`RunState.take` is the one place that knows how an event changes what came before it: which text is void, which words
still wait, which call an answer belongs to. A view takes in events and reads the state; it keeps nothing of its own but
what is its own: a cursor, a clock, what it has written already.

The browser has the same state, made from the operations that are drawn of this one (`labextension/src/transcript/store.ts`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from cellwright.agent.subagent import LINE_CHARS, AgentProgress, AgentState, agent_state, call_line
from cellwright.events import (
    ALLOWED_WITH_ANOTHER,
    Answered,
    Asked,
    Call,
    ContextAttached,
    ContextCompacted,
    Decided,
    Event,
    ExtensionsLoaded,
    Json,
    ModeChanged,
    Notice,
    NumbersTraced,
    Retrying,
    RunEnd,
    Steered,
    SubagentEvent,
    TextDelta,
    ThinkingDelta,
    TodosChanged,
    ToolEnd,
    ToolInputDelta,
    ToolProgress,
    ToolStart,
    ToolStatus,
    TurnChanged,
    TurnEnd,
    UserPrompt,
)
from cellwright.model.models import model_shown
from cellwright.telemetry.view_limits import DRAWN
from cellwright.text import visible_line

MAX_PIECES = 256
"""The number of pieces of a text that are kept apart: each takes the memory of ten times its characters."""


class ObservedRun(Protocol):
    """A run of a conversation, as its observers see it."""

    @property
    def id(self) -> str:
        """The same in every event, line and span of the run."""

    @property
    def origin(self) -> str:
        """The place where it was asked for: a cell, the panel, a program."""


class AgentLine(Struct, frozen=True):
    """One line of a card; "end" is the end of the call `call`, whose line came before: it is to have this text now."""

    kind: Literal["call", "end", "text", "note"]
    text: str
    call: str = ""
    status: ToolStatus | Literal[""] = ""
    duration_ms: float = 0.0


class AgentCard(Struct, eq=False):
    """The work of one agent for the call `tool_use_id`; `parent` is the card of the agent whose call that is.

    `duration_ms` is None while it works; `reported`: it has ended a message, so there is something to count.
    """

    number: int
    tool_use_id: str
    agent_id: str
    agent_type: str
    background: bool
    started: float
    parent: AgentCard | None = None
    lines: list[AgentLine] = field(default_factory=list)
    running: dict[str, Call] = field(default_factory=dict)
    progress: AgentProgress = field(default_factory=AgentProgress)
    state: AgentState = "working"
    duration_ms: float | None = None
    reported: bool = False

    def take(self, event: Event) -> None:
        """Take in an event of the agent's own session."""
        self.progress.take(event)
        match event:
            case ToolStart(calls=calls):
                self.running |= {call.id: call for call in calls}
                self.lines += [AgentLine("call", call_line(call, "running"), call.id) for call in calls]
            case ToolEnd() as end:
                text = call_line(call, end.status) if (call := self.running.pop(end.tool_use_id, None)) else ""
                self.lines.append(AgentLine("end", text, end.tool_use_id, end.status, end.duration_ms))
            case TurnEnd() as turn:
                self.reported = True
                if text := message_text(turn.message):
                    self.lines.append(AgentLine("text", text))
            case RunEnd() as end:
                self.reported, self.state, self.duration_ms = True, agent_state(end), end.duration_ms
                if end.error is not None and self.state == "failed":
                    self.lines.append(AgentLine("note", visible_line(str(end.error["message"]), LINE_CHARS)))
            case SubagentEvent():
                pass  # the agent of its own has a card of its own
            case _ if note := note_of(event):
                self.lines.append(AgentLine("note", visible_line(note, LINE_CHARS)))


def message_text(message: Mapping[str, Any]) -> str:
    """The text of an agent's message, as much of it as is shown."""
    content = message.get("content", "")
    if isinstance(content, str):  # what is kept of it until it is drawn
        return content
    text = "\n\n".join(str(block["text"]) for block in content if block["type"] == "text").strip()
    more = len(text) - DRAWN.agent_message
    return text if more <= 0 else f"{text[: DRAWN.agent_message]}\n[… {more:,} characters more]"


def note_of(event: Event) -> str:
    """The words for an event that is a line of its own; "" for any other."""
    match event:
        case Notice(level="warning" | "error"):
            return event.message
        case Retrying():
            return f"{event.message} Retrying ({event.attempt} of {event.max_attempts})."
        case ContextCompacted(state="done"):
            return "Its earlier conversation was summed up."
    return ""


class RunItem(Struct, eq=False):
    """One thing that a reader sees, in the order in which they appeared.

    `part` is the part of the answer in which it did: code's displays part it. `place` orders what is written of a run: a
    call stands where it began, though it appeared when Claude began to write it. None: it has not begun.
    """

    part: int
    place: int | None


class TextItem(RunItem, eq=False):
    """A block of Claude's text; `block` counts the blocks of the run, thinking among them."""

    block: int
    pieces: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.pieces)


class ThinkingItem(RunItem, eq=False):
    """A block of thinking, and the times of its first and last piece."""

    block: int
    first_at: float
    last_at: float
    pieces: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.pieces)


CallFact = Decided | Asked | Answered | ToolStart | ToolEnd


class CallItem(RunItem, eq=False):
    """A call: from the first piece of its input, a decision or its beginning, whichever comes first, to its result.

    `facts` are what happened to it, in order, without what is large and never shown; `displayed` are the texts of what its
    code has displayed. `progress` is that of all agents that work for it together, `agents` are their cards.
    """

    id: str
    name: str
    call: Call | None = None
    input_chars: int = 0
    facts: list[CallFact] = field(default_factory=list)
    output: list[str] = field(default_factory=list)
    """The pieces of what it has printed; none once it has ended, as its result has them."""
    output_chars: int = 0
    displayed: list[str] = field(default_factory=list)
    end: ToolEnd | None = None
    replayed: bool = False
    """It was played from a recording."""
    agents: list[AgentCard] = field(default_factory=list)
    progress: AgentProgress | None = None

    @property
    def questions(self) -> Iterator[tuple[Asked, Answered | None]]:
        """The questions about it, each with its answer."""
        answers = {fact.question_id: fact for fact in self.facts if isinstance(fact, Answered)}
        return ((fact, answers.get(fact.question_id)) for fact in self.facts if isinstance(fact, Asked))

    @property
    def change_was_shown(self) -> bool:
        """True if it made the change that the user has seen in a question about it or a call before, and did not edit."""
        if self.end is None or self.end.status != "success":
            return False
        with_another = any(isinstance(fact, Decided) and fact.reason == ALLOWED_WITH_ANOTHER for fact in self.facts)
        return with_another or any(
            asked.preview.kind == "diff" and not (answer is not None and answer.edited)
            for asked, answer in self.questions
        )


class NoticeItem(RunItem, eq=False):
    """A notice. `times` counts how often it was said; of the items for it, the first one alone `is_first`."""

    notice: Notice
    is_first: bool
    times: int = 1


class SaidItem(RunItem, eq=False):
    """The user's words while the run went on; not `delivered`: they still waited when it ended."""

    steered: Steered
    delivered: bool = True


class CompactedItem(RunItem, eq=False):
    """The conversation so far was summed up here, or could not be."""

    event: ContextCompacted


class BrokenOffItem(RunItem, eq=False):
    """The text of a request that broke off: it is shown until as much of the new answer has come."""

    text: str


class DisplayGap(RunItem, eq=False):
    """The place of what code has displayed, between two parts of the answer."""


Item = TextItem | ThinkingItem | CallItem | NoticeItem | SaidItem | CompactedItem | BrokenOffItem | DisplayGap


class Totals(Struct, frozen=True):
    """All messages of the run together, as far as they have come; what they cost, None if any price is unknown."""

    cost_usd: float | None = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0

    def plus(self, turn: TurnEnd) -> Totals:
        """The same with one more message."""
        usage = turn.usage
        known = self.cost_usd is not None and turn.cost_usd is not None
        return Totals(
            self.cost_usd + turn.cost_usd if known else None,  # type: ignore[operator]
            self.input_tokens + (usage.get("input_tokens") or 0) + (usage.get("cache_creation_input_tokens") or 0),
            self.output_tokens + (usage.get("output_tokens") or 0),
            self.cache_read_tokens + (usage.get("cache_read_input_tokens") or 0),
        )


class Void(Struct, frozen=True):
    """The numbers of the blocks and the ids of the calls of a message that does not count."""

    blocks: tuple[int, ...] = ()
    calls: tuple[str, ...] = ()


class RunState(Struct, eq=False):
    """The state of one run. Changed by `take` and `begin_part` alone."""

    items: list[Item] = field(default_factory=list)
    calls: dict[str, CallItem] = field(default_factory=dict)
    cards: dict[tuple[str, str], AgentCard] = field(default_factory=dict)
    """By the call that the agent works for and the agent's id."""
    streaming: dict[int, TextItem | ThinkingItem] = field(default_factory=dict)
    """The blocks of the message that streams, by their index in it."""
    part: int = 0
    prompt: UserPrompt | None = None
    """Without its words."""
    model: str = ""
    """The one to name: that of the prompt, until another has answered."""
    mode: ModeChanged | None = None
    """None while the prompt's holds."""
    context: list[ContextAttached] = field(default_factory=list)
    todos: Sequence[Json] = ()
    earlier_todos: Sequence[Json] = ()
    waiting: dict[str, Steered] = field(default_factory=dict)
    """The user's words that wait to be delivered; at the end, those that were not."""
    notices: dict[tuple[str, str], NoticeItem] = field(default_factory=dict)
    """The first item of each, by its words and level."""
    changes: TurnChanged | None = None
    numbers: NumbersTraced | None = None
    totals: Totals = field(default_factory=Totals)
    turn: TurnEnd | None = None
    """The last message that ended, without its content."""
    retry: Retrying | None = None
    broken_off: BrokenOffItem | None = None
    void: Void = Void()
    """Taken away when a message was last dropped."""
    end: RunEnd | None = None
    _writing: dict[str, CallItem] = field(default_factory=dict)
    _first_block: int = 0
    _caught_up: int = 0
    _places: int = 0

    @property
    def replayed(self) -> bool:
        """True if the last message came from a recording."""
        return self.turn is not None and self.turn.replayed

    @property
    def as_written(self) -> list[Item]:
        """The items in the order in which they are written down: a call where it began, and not at all before that."""
        placed = [(item.place, item) for item in self.items if item.place is not None]
        return [item for _, item in sorted(placed, key=lambda each: each[0])]

    def is_first(self, notice: Notice) -> bool:
        """Return whether `notice`, which was taken in last, was said for the first time."""
        return self.notices[notice.message, notice.level].times == 1

    def asked(self, answer: Answered) -> Asked | None:
        """The question that `answer` answers."""
        item = self.calls.get(answer.tool_use_id)
        facts = () if item is None else item.facts
        return next((x for x in facts if isinstance(x, Asked) and x.question_id == answer.question_id), None)

    def begin_part(self) -> None:
        """Have what follows stand below a display of code."""
        self.part += 1
        self.items.append(DisplayGap(self.part, self._next_place()))

    def take(self, event: Event) -> None:  # noqa: C901  one arm for each event
        """Take in the next event of the run."""
        match event:
            case TextDelta():
                self._add_text(event)
            case ThinkingDelta():
                self._add_thinking(event)
            case ToolInputDelta():
                item = self._call(event.tool_use_id, event.name)
                item.input_chars += len(event.partial_json)
                self._writing[event.tool_use_id] = item
            case ToolProgress():
                self._add_output(event)
            case SubagentEvent():
                self._take_agent(event)
            case ToolStart():
                for call in event.calls:
                    item = self._call(call.id, call.name)
                    item.call, item.place = call, self._next_place()
                    item.facts.append(event)
            case ToolEnd():
                self._end_call(event)
            case Decided() | Answered():
                self._call(event.tool_use_id).facts.append(event)
            case Asked():
                self._call(str(event.tool_use["id"]), str(event.tool_use["name"])).facts.append(event)
            case UserPrompt():
                self.prompt, self.model = replace(event, prompt=""), event.model
            case ContextAttached():
                self.context.append(event)
            case TurnEnd():
                self._end_message(event)
            case Retrying():
                self.retry = event
                self._break_off()
            case Notice():
                self._add_notice(event)
            case ContextCompacted(state="done" | "failed"):
                self.items.append(CompactedItem(self.part, self._next_place(), event))
            case TodosChanged():
                self.earlier_todos, self.todos = self.todos, event.todos
            case ModeChanged():
                self.mode = event
            case Steered():
                self._steer(event)
            case TurnChanged():
                self.changes = event
            case NumbersTraced():
                self.numbers = event
            case RunEnd():
                self._end_run(event)
            case ContextCompacted() | ExtensionsLoaded():
                pass  # its end follows; notices say what is missing

    def _next_place(self) -> int:
        self._places += 1
        return self._places

    def _add_text(self, delta: TextDelta) -> None:
        item = self.streaming.get(delta.index)
        if item is None:
            item = TextItem(self.part, self._next_place(), self._first_block + delta.index)
            self.streaming[delta.index] = item
            self.items.append(item)
        item.pieces.append(delta.text)
        if len(item.pieces) > MAX_PIECES:
            item.pieces[:] = ["".join(item.pieces)]
        if self.broken_off is not None:
            self._caught_up += len(delta.text)
            if self._caught_up >= len(self.broken_off.text):
                self._drop_broken_off()

    def _add_thinking(self, delta: ThinkingDelta) -> None:
        item = self.streaming.get(delta.index)
        if not isinstance(item, ThinkingItem):
            block = self._first_block + delta.index
            item = ThinkingItem(self.part, self._next_place(), block, delta.at, delta.at)
            self.streaming[delta.index] = item
            self.items.append(item)
        item.pieces.append(delta.text)
        if len(item.pieces) > MAX_PIECES:
            item.pieces[:] = ["".join(item.pieces)]
        item.last_at = delta.at

    def _add_output(self, event: ToolProgress) -> None:
        item = self._call(event.tool_use_id)
        if item.output_chars < DRAWN.output and (text := event.text or (event.message and f"{event.message}\n")):
            item.output.append(text[: DRAWN.output - item.output_chars])
            item.output_chars += len(text)
        if item.call is not None and "display_id" in (event.place or ()):
            item.displayed.append(event.text.strip("\n"))

    def _call(self, tool_use_id: str, name: str = "") -> CallItem:
        """The item of the call, made if it has none."""
        item = self.calls.get(tool_use_id)
        if item is None:
            item = self.calls[tool_use_id] = CallItem(self.part, None, tool_use_id, name)
            self.items.append(item)
        item.name = item.name or name
        return item

    def _end_call(self, event: ToolEnd) -> None:
        item = self._call(event.tool_use_id, event.name)
        if item.place is None:
            # refused without a start: the message it was in had been cut short
            item.place = self._next_place()
        item.end, item.replayed = as_kept(event), self.replayed
        item.output = []
        item.facts.append(item.end)

    def _take_agent(self, event: SubagentEvent) -> None:
        item = self._call(event.tool_use_id)
        if item.call is not None:
            item.progress = item.progress or AgentProgress()
            item.progress.take(event.event)
        parent: AgentCard | None = None
        while True:
            key = event.tool_use_id, event.agent_id
            card = self.cards.get(key)
            if card is None:
                about = (event.tool_use_id, event.agent_id, event.agent_type, event.background)
                card = AgentCard(len(self.cards), *about, event.event.at or event.at, parent)
                self.cards[key] = card
                item.agents.append(card)
            card.take(event.event)
            if not isinstance(event.event, SubagentEvent):
                return
            event, parent = event.event, card

    def _end_message(self, event: TurnEnd) -> None:
        self.totals = self.totals.plus(event)
        self.model = model_shown(self.model, event.model)
        self.turn = replace(event, message={})
        if event.stop_reason == "refusal":
            self._drop_message()
        self._next_message()
        self._drop_broken_off()

    def _next_message(self) -> None:
        if self.streaming:
            self._first_block += max(self.streaming) + 1
        self.streaming.clear()
        self._writing.clear()

    def _drop_message(self) -> str:
        """Take out what streamed of this message, and return its text."""
        streamed = list(self.streaming.values())
        self.void = Void(tuple(item.block for item in streamed), tuple(self._writing))
        void = {id(item) for item in (*streamed, *self._writing.values())}
        self.items = [item for item in self.items if id(item) not in void]
        for tool_use_id in self._writing:
            self.calls.pop(tool_use_id, None)
        texts = (item.text for item in streamed if isinstance(item, TextItem))
        return "\n\n".join(filter(str.strip, texts))

    def _break_off(self) -> None:
        text = self._drop_message()
        self._next_message()
        self._caught_up = 0
        if self.broken_off is not None and len(text) < len(self.broken_off.text):
            return  # what came before it was more
        self._drop_broken_off()
        if text:
            self.broken_off = BrokenOffItem(self.part, self._next_place(), text)
            self.items.append(self.broken_off)

    def _drop_broken_off(self) -> None:
        if self.broken_off is not None:
            self.items.remove(self.broken_off)
        self.broken_off, self._caught_up = None, 0

    def _add_notice(self, notice: Notice) -> None:
        key = notice.message, notice.level
        first = self.notices.get(key)
        item = NoticeItem(self.part, self._next_place(), notice, first is None)
        self.items.append(item)
        if first is None:
            self.notices[key] = item
        else:
            first.times += 1

    def _steer(self, event: Steered) -> None:
        if event.state == "waiting":
            self.waiting[event.steer_id] = event
            return
        self.waiting.pop(event.steer_id, None)
        if event.state == "delivered":
            self.items.append(SaidItem(self.part, self._next_place(), event))

    def _end_run(self, event: RunEnd) -> None:
        self.end = event
        if event.error is None:
            self._drop_broken_off()
        self.items += [
            SaidItem(self.part, self._next_place(), words, delivered=False) for words in self.waiting.values()
        ]


def as_kept(end: ToolEnd) -> ToolEnd:
    """`end` without what is large and shown nowhere: a result's pictures, and the result as data."""
    return replace(end, content=text_of(end.content), structured=None)


def text_of(content: str | Sequence[Json]) -> str:
    """The text of a tool result's content."""
    if isinstance(content, str):
        return content
    return "\n".join(str(block["text"]) for block in content if block.get("type") == "text")
