"""The events of a run, as one closed union of small frozen classes, and the pieces that they are made of.

Every face (cell, sidebar, terminal, JSON lines) is a projection of one ordered log of these. Payloads are the
Messages API's own JSON: content blocks, `usage`, `tool_use`. An event gets its session-wide sequence number and its
time once, when `EventLog.emit` admits it; before that `seq` is 0.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import astuple, force_setattr

Json = Mapping[str, Any]
ToolStatus = Literal["success", "error", "timeout", "denied", "interrupted"]
AnsweredBy = Literal["widget", "sidebar", "input", "policy", "callback", "terminal", "hook"]
QuestionKind = Literal["permission", "question", "plan", "trust"]
AttachedKind = Literal[
    "environment", "context", "file", "folder", "cell", "variable", "hook", "mode", "memory", "skill", "agent", "mcp"
]

MOST_NAMED = 12
"""Numbers without a source that one line names."""
NOT_FOUND_NUMBERS = "Not found in any result of this conversation:"
"""The title of their list, in saved Markdown."""

CHARS_PER_TOKEN = 4
"""Of English and code, on average; the exact count is the API's."""
Verdict = Literal["seen", "derived", "weak", "not_found"]
SteerState = Literal["waiting", "delivered", "withdrawn"]
SteerHow = Literal["steer", "queue"]


class AttachedContext(Struct, frozen=True):
    """One thing that Claude was told besides the user's words. `chars` of `text` were sent, about `tokens` tokens."""

    title: str
    text: str
    kind: AttachedKind
    chars: int
    tokens: int


class Preview(Struct, frozen=True):
    """A preview of a call for people: one line, and the whole of what matters (the command, the code, the diff).

    `kind` says how `detail` is drawn; `path` is the file it is about. `warning` is shown beside the title.
    """

    title: str
    detail: str = ""
    kind: Literal["text", "command", "code", "diff"] = "text"
    path: str = ""
    warning: str = ""


class Call(Struct, frozen=True):
    """One `tool_use` block, with what a view needs to draw its card before there is a result."""

    tool_use: Json
    title: str
    read_only: bool = False

    @property
    def id(self) -> str:
        return str(self.tool_use["id"])

    @property
    def name(self) -> str:
        return str(self.tool_use["name"])


_RUNS: Mapping[str, str] = {"Bash": "Run", "Git": "Run", "Python": "Run", "Branch": "Try"}
"""The verb before a title that is a command or code."""

_FINISHED = {
    **{"Analyze": "Analyzed", "Apply": "Applied", "Ask": "Asked", "Create": "Created", "Delete": "Deleted"},
    **{"Edit": "Edited", "Fetch": "Fetched", "Find": "Looked for", "Fix": "Fixed", "Follow": "Followed"},
    **{"Insert": "Inserted", "Lint": "Linted", "List": "Listed", "Load": "Loaded", "Look": "Looked"},
    **{"Measure": "Measured", "Move": "Moved", "Outline": "Outlined", "Patch": "Patched", "Plan": "Planned"},
    **{"Read": "Read", "Rename": "Renamed", "Replace": "Replaced", "Run": "Ran", "Search": "Searched"},
    **{"Show": "Showed", "Stop": "Stopped", "Try": "Tried", "Use": "Used", "Write": "Wrote"},
}
"""The verbs that titles begin with, for when it is done. Such a title says what the call does and needs no name."""

_RUNNING = {"Run": "Running", "Try": "Trying"}
"""The verbs of what may take its time. It has run, too, when it failed."""

_QUESTIONS = frozenset({"AskUserQuestion", "AcceptPreview"})
"""Tools whose title is a question or a sentence."""

ANSWERED: Mapping[str, tuple[str, str]] = {
    "ExitPlanMode": ("approved", "keep planning"),
    "AskUserQuestion": ("", "dismissed"),
}
"""The words for a yes and a no to a call that asks for no permission."""


def step_title(name: str, title: str, status: str = "") -> str:
    """The title of a call of the tool `name` in a list of steps. `status`: a `ToolStatus`, "running", or "" for neither.

    The one place where steps get their words: cards, saved answers and the terminal show these.

    >>> step_title("Edit", "Edit cell [3]", "success"), step_title("Edit", "Edit cell [3]", "error")
    ('Edited cell [3]', 'Edit cell [3]')
    >>> step_title("Bash", "make"), step_title("Bash", "make", "running"), step_title("Bash", "make", "error")
    ('Run make', 'Running make', 'Ran make')
    """
    if name == "ExitPlanMode":
        return title if title.startswith("Plan: ") else f"Plan: {title}"
    if name in _RUNS and title != name:
        verb, rest = _RUNS[name], title.removeprefix(f"{name}: ")
    else:
        verb, _, rest = title.partition(" ")
        if name == "Agent" or not (verb in _FINISHED or name in _QUESTIONS or name.startswith("mcp__")):
            return title if title == name or title.startswith((f"{name}:", f"{name} ")) else f"{name}: {title}"
        if not rest or verb not in _FINISHED or title.endswith("?") or name.startswith("mcp__"):
            return title
    has_run = status == "success" or (verb in _RUNNING and status in ("error", "timeout", "interrupted"))
    said = _FINISHED[verb] if has_run else _RUNNING.get(verb, verb) if status == "running" else verb
    return f"{said} {rest}"


class Suggestion(Struct, frozen=True):
    """Rules that together would have allowed the call, and where they can be kept ("session" or "always").

    Exactly these are kept when the suggestion is taken, and `label` says all that they cover.
    """

    rules: tuple[str, ...]
    scope: Literal["session", "always"]
    label: str


class Changed(Struct, frozen=True):
    """A file or a cell that a turn changed. `where` is its path as it is shown; for a cell
    `cell [3] in analysis.ipynb`, by the number its user sees beside it.

    `added` and `removed` count lines; None where they were not counted.
    """

    where: str
    kind: Literal["created", "changed", "deleted"]
    added: int | None = None
    removed: int | None = None


class NumberSource(Struct, frozen=True):
    """The place of a number: what holds it (`name`: "Python, call 3"), the line (from 1; 0: it has but one) and its text.

    `kind` is "output", "file", "cell", "code", "prompt" or "context"; `id` is the call's or cell's, `path` the file's.
    """

    kind: str
    name: str
    line: int
    text: str
    id: str = ""
    path: str = ""

    @property
    def words(self) -> str:
        """The place in words.

        >>> NumberSource("output", "Python, call 3", 4, "mean 2.4").words
        'Python, call 3, line 4'
        """
        return f"{self.name}, line {self.line}" if self.line else self.name


class Number(Struct, frozen=True):
    """A number of an answer: `text` as written, from `start` to `end` in characters of the answer.

    In an answer that is JSON `path` is the place of the numeric field: `towns[0].tide_m`.

    `value` has its unit applied and no percent sign (`26.5 %`: 26.5), `resolution` is one step of its last digit.
    `verdict` is "seen", "derived", "weak" (too short to tell from chance) or "not_found"; `source` is the place, or the
    place of the first term of `formula`; `chance` is the share of random numbers that would have matched. `marked`: views
    mark it as not found; `from_end` counts equal texts behind it. One that was not found has its `sentence`.
    """

    text: str
    value: float
    resolution: float
    start: int
    end: int
    verdict: Verdict
    digits: int
    source: NumberSource | None = None
    formula: str = ""
    chance: float = 0.0
    marked: bool = False
    from_end: int = 0
    path: str = ""
    sentence: str = ""

    @property
    def words(self) -> str:
        """The verdict in words.

        >>> Number("2.4", 2.4, 0.1, 0, 3, "not_found", 2).words
        'not in any result of this conversation'
        """
        place = "" if self.source is None else self.source.words
        match self.verdict:
            case "seen":
                return f"from {place}"
            case "derived":
                return f"could be {self.formula}" + (f" ({place})" if place else "")
            case "weak":
                return f"too short to trace; {place} has one like it" if place else "too short to trace"
            case _:
                return "not in any result of this conversation"


class NotLoaded(Struct, frozen=True):
    """Something that is configured and that the run has to do without: its kind, its name, the reason."""

    kind: Literal["MCP server", "plugin", "skill", "hook", "agent"]
    name: str
    reason: str

    @property
    def words(self) -> str:
        return f"{self.kind} {self.name}: {self.reason}"


class LoggedEvent(Struct, frozen=True, kw_only=True):
    """The base of events: the place in the session's log and the time it happened (seconds since the epoch)."""

    seq: int = 0
    at: float = 0.0

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and _said(other) == _said(self)

    def __hash__(self) -> int:
        return hash(_said(self))

    def __repr__(self) -> str:
        said = zip(self.__struct_fields__, _said(self), strict=False)
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in said)})"


def _said(event: LoggedEvent) -> tuple[Any, ...]:
    """All that the event says but its place and time, which come last."""
    return astuple(event)[:-2]


class UserPrompt(LoggedEvent, frozen=True):
    """The user's prompt was put into the session; a run begins."""

    prompt: str
    model: str = ""
    mode: str = "default"
    session_id: str = ""


class ContextAttached(LoggedEvent, frozen=True):
    """Everything that was put into the prompt besides the user's words, in the order in which Claude reads it."""

    parts: tuple[AttachedContext, ...]

    @property
    def tokens(self) -> int:
        """About how many tokens it takes."""
        return sum(part.tokens for part in self.parts)


class ExtensionsLoaded(LoggedEvent, frozen=True):
    """It is known, before the first request, which of the configured extensions the run has.

    `servers` are the states of its MCP servers by name: "connected", "connecting" (late: its tools may come yet), "failed",
    "needs sign-in" and the like. `not_loaded` is everything that is missing. There is none in a run without either.
    """

    servers: Mapping[str, str]
    not_loaded: tuple[NotLoaded, ...] = ()


class TextDelta(LoggedEvent, frozen=True):
    """More text of the content block `index` of the message that is streaming."""

    text: str
    index: int = 0


class ThinkingDelta(LoggedEvent, frozen=True):
    """More (summarised) thinking of the content block `index`."""

    text: str
    index: int = 0


class ToolInputDelta(LoggedEvent, frozen=True):
    """More of a tool call's input, as partial JSON; the first one of a call has an empty `partial_json`.

    For display only: input is run when the message has ended, never from here.
    """

    tool_use_id: str
    name: str
    partial_json: str = ""
    index: int = 0


class ToolStart(LoggedEvent, frozen=True):
    """A batch of calls begins: one call, or read-only calls that run in parallel.

    `estimated_seconds` is how long that will take if it takes as long as earlier calls of the same tools; None: not known.
    """

    calls: tuple[Call, ...]
    parallel: bool = False
    estimated_seconds: float | None = None


class ToolProgress(LoggedEvent, frozen=True):
    """News of a running call: more output `text`, a display (`output`, a mimebundle) or a state in words (`message`).

    `place` says how Jupyter shows the display of user code: `{"metadata", "display_id", "update"}`; `{"clear": true}`, with
    no output, takes away what the call has displayed so far.
    """

    tool_use_id: str
    text: str = ""
    message: str = ""
    fraction: float | None = None
    output: Json | None = None
    place: Json | None = None


class ToolEnd(LoggedEvent, frozen=True):
    """A call has its result. `content` is the tool_result's content; `display` is for views only, e.g. `{"diff": …}`.

    `structured` is the result as data, for programs: the tool's `ToolOutput` as JSON (docs/protocol/results.md).

    `error` is `{"code", "message", "details"}` unless `status` is "success".
    `duration_ms` is the time the call ran, without the time it waited for permission.
    """

    tool_use_id: str
    name: str
    status: ToolStatus
    content: str | list[dict[str, Any]]
    duration_ms: float
    display: Json | None = None
    error: Json | None = None
    structured: Any = None


ALLOWED_WITH_ANOTHER = "You allowed it with a call before it."
"""The reason of a call that was shown whole in the question about another one, and allowed there."""


class Decided(LoggedEvent, frozen=True):
    """The decision on a call before anybody was asked, with its reason. `by` says who spoke last: policy or hook."""

    tool_use_id: str
    name: str
    behavior: Literal["allow", "ask", "deny"]
    reason: str
    rule: str = ""
    by: Literal["policy", "hook"] = "policy"


class TodosChanged(LoggedEvent, frozen=True):
    """Claude's list of what is to be done is now `todos`: `{"content", "status", "activeForm"}` each, in order.

    `status` is "pending", "in_progress" or "completed".
    """

    todos: tuple[Json, ...]


class ModeChanged(LoggedEvent, frozen=True):
    """The permission mode of the session is now `mode`; it holds for the calls that follow."""

    mode: str


class Steered(LoggedEvent, frozen=True):
    """The user's words while the run goes on: they wait, Claude has them now, or they were taken back before that.

    `how`: for the run's next step ("steer"), or as the next prompt when it would end ("queue"). What still waits when the
    run ends was not delivered.
    """

    steer_id: str
    text: str
    state: SteerState
    how: SteerHow = "steer"


class FollowingCall(Struct, frozen=True):
    """A call of the same message that will be asked about as well, as it stands now: what is shown of it, and why."""

    tool_use: Json
    preview: Preview
    reason: str


class Asked(LoggedEvent, frozen=True):
    """The user is asked about a call. It is answered exactly once, by an `Answered` with the same id.

    `kind` is what is asked: "permission" (may it run?), "question" (the call is Claude's own question, its answers come
    back in the input), "plan" (the call ends plan mode, if the user approves of its plan) or "trust" (no call, but what a
    folder or notebook brings along: the labels of the suggestions are the answers, the first a yes, the last the no).
    """

    question_id: str
    tool_use: Json
    preview: Preview
    reason: str
    suggestions: tuple[Suggestion, ...] = ()
    kind: QuestionKind = "permission"
    following: tuple[FollowingCall, ...] = ()


class Answered(LoggedEvent, frozen=True):
    """The question was answered, by whom, and how far the answer reaches. `updated_input`: as the user edited it."""

    question_id: str
    tool_use_id: str
    behavior: Literal["allow", "deny"]
    by: AnsweredBy
    scope: Literal["once", "session", "always"] = "once"
    reason: str = ""
    rules: tuple[str, ...] = ()
    edited: bool = False
    updated_input: Json | None = None


class TurnEnd(LoggedEvent, frozen=True):
    """One whole assistant message arrived. Exactly one for each request that succeeded.

    `usage` is the API's own block. `cost_usd` is None where the model's price is not known.
    `context_tokens` = what the conversation now holds: input + cached + output tokens of this message.
    `replayed`: it came from a recording; no request was sent, `usage` is what it took when it was recorded.
    """

    message: dict[str, Any]
    stop_reason: str | None
    usage: Json
    model: str
    message_id: str = ""
    request_id: str = ""
    stop_details: Json | None = None
    cost_usd: float | None = None
    context_tokens: int = 0
    replayed: bool = False


class Retrying(LoggedEvent, frozen=True):
    """A request failed and is sent again after `wait_seconds`; what streamed of this turn so far is void."""

    attempt: int
    max_attempts: int
    wait_seconds: float
    code: str
    message: str


class Notice(LoggedEvent, frozen=True):
    """Something the user should know that is no part of the answer."""

    message: str
    level: Literal["info", "warning", "error"] = "info"
    waits: bool = False
    """It holds only until the run begins."""


class ContextCompacted(LoggedEvent, frozen=True):
    """The conversation is summed up, because it fills the context window or because the user wants it: "started", then
    "done" or "failed".

    Tokens are what it took before and takes now, roughly; `summary` is what Claude goes on from, `cost_usd` what that cost
    (None: not known). `reason` says why it failed.
    """

    state: Literal["started", "done", "failed"]
    trigger: Literal["auto", "manual"]
    tokens_before: int
    tokens_after: int = 0
    cost_usd: float | None = 0.0
    summary: str = ""
    reason: str = ""


class CheckedNumber(Struct, frozen=True):
    """A number without a source that was computed since: `number` counts the marked ones of its answer, from 1.

    `words` say what was computed and where: "computed as 12.2 in Python, call 7, line 3".
    """

    number: int
    text: str
    agrees: bool
    words: str
    source: NumberSource


class CheckedNumbers(Struct, frozen=True):
    """The checked numbers of an earlier answer, which `answer` names as its `NumbersTraced` did."""

    answer: str
    numbers: tuple[CheckedNumber, ...]


class UnknownName(Struct, frozen=True):
    """A column, file, function or cell that the answer states and that nothing has, or a statement that tests contradict.

    `text` is as written; `from_end` counts equal texts behind it: pieces of inline code if `code`, else texts in the prose.
    """

    text: str
    from_end: int
    words: str
    code: bool = True


class NumbersTraced(LoggedEvent, frozen=True):
    """The numbers of the answer, in order, each with its source in the conversation; before the run's `RunEnd`.

    `answer` names the answer, by its text. `check` is the prompt that asks Claude to compute the marked numbers
    (`Check 2 numbers`), "" if none is marked; `checked` is what this run, sent with such a prompt, found of an earlier
    answer's. `names` are the names that the answer states and nothing has. `record` is kept with the answer in its
    notebook, so that stale numbers are found.
    """

    numbers: tuple[Number, ...]
    answer: str = ""
    check: str = ""
    checked: CheckedNumbers | None = None
    names: tuple[UnknownName, ...] = ()
    record: Mapping[str, Any] | None = None

    @property
    def marked(self) -> tuple[Number, ...]:
        """The numbers that are marked as not found."""
        return tuple(number for number in self.numbers if number.marked)

    @property
    def summary(self) -> str:
        """The counts in words.

        >>> NumbersTraced((Number("2.4", 2.4, 0.1, 0, 3, "seen", 2),)).summary
        '1 of 1 number traced'
        """
        traced = sum(number.verdict in ("seen", "derived") for number in self.numbers)
        return " · ".join(traced_words(len(self.numbers), traced, not_found=len(self.marked)))

    @property
    def missing(self) -> str:
        """The marked numbers in words: `not found: 12.4 %, 3,100`; empty if there are none."""
        marked = [number.text for number in self.marked]
        more = f" and {len(marked) - MOST_NAMED} more" if len(marked) > MOST_NAMED else ""
        return f"not found: {', '.join(marked[:MOST_NAMED])}{more}" if marked else ""


def traced_words(numbers: int, traced: int, **others: int) -> list[str]:
    """Count an answer's numbers, those with a source, and `others` by kind, in parts of a line.

    >>> traced_words(3, 3), traced_words(3, 1, stale=1, not_found=0)
    (['3 of 3 numbers traced'], ['1 of 3 numbers traced', '1 stale'])
    """
    counted = f"{traced} of {numbers} number{'' if numbers == 1 else 's'} traced"
    return [counted, *(f"{count} {kind.replace('_', ' ')}" for kind, count in others.items() if count)]


def change_words(files: int, cells: int) -> str:
    """`1 file, 2 cells`; empty if nothing was changed."""
    counts = ((files, "file"), (cells, "cell"))
    return ", ".join(f"{number} {noun}{'s' if number > 1 else ''}" for number, noun in counts if number)


def ran_code(effects: Iterable[str]) -> bool:
    """True if one of these titles of calls is of code that ran in the user's kernel."""
    return any(effect.startswith(("Python:", "NotebookRun:")) for effect in effects)


class TurnChanged(LoggedEvent, frozen=True):
    """The changes made by the run, before its `RunEnd`; `turn` is the number by which it can be taken back.

    `effects` are the titles of calls whose effects cannot be taken back; `not_kept` names what was changed without what
    was there before being kept.
    """

    turn: int
    files: tuple[Changed, ...] = ()
    cells: tuple[Changed, ...] = ()
    effects: tuple[str, ...] = ()
    not_kept: tuple[str, ...] = ()

    @property
    def ran_code(self) -> bool:
        """True if code ran in the kernel, which may have changed variables."""
        return ran_code(self.effects)

    @property
    def counts(self) -> str:
        """The changes in words: `2 files, 1 cell changed`; empty where nothing can be taken back."""
        counts = change_words(len(self.files), len(self.cells))
        return f"{counts} changed" if counts else ""


class ParallelBatch(Struct, frozen=True):
    """Calls that ran side by side: their `tool_use` ids, the time until the last had ended, and how they ended."""

    tool_use_ids: tuple[str, ...]
    duration_ms: float
    succeeded: int
    failed: int


class HookSpending(Struct, frozen=True):
    """The answers of one model to hooks: the sum of their usage blocks, and US dollars (None: not known)."""

    usage: Json = {}
    cost_usd: float | None = 0.0


class RunEnd(LoggedEvent, frozen=True):
    """The run is over; nothing of it comes after this.

    `stop_reason` is the last message's, or "max_turns", "budget", "interrupted", "error". `text` is all text since the
    last result of a call, messages that were continued after the output limit joined; `requests` counts what was sent to
    models, tries that failed and tools' own among it. `usage` sums the API's usage blocks of this run; `cost_usd` is None
    when any price was unknown; `hook_models` is the part of both that hooks' models took, by their names.
    """

    stop_reason: str
    text: str
    usage: Json
    cost_usd: float | None
    duration_ms: float
    requests: int
    tools_succeeded: int
    tools_failed: int
    parallel_batches: tuple[ParallelBatch, ...] = ()
    session_id: str = ""
    session_cost_usd: float | None = None
    error: Json | None = None
    hook_models: Mapping[str, HookSpending] = {}

    @property
    def ok(self) -> bool:
        """True when the run ended by itself."""
        return self.error is None


class SubagentEvent(LoggedEvent, frozen=True):
    """Something happened in an agent that works for the call `tool_use_id`: `event`, numbered by its own session.

    Its questions and their answers are no such events: they are the run's own, with that call's id. `background`: the
    call has its result at once, and the agent goes on beside the run.
    """

    tool_use_id: str
    agent_id: str
    agent_type: str
    event: Event
    background: bool = False


Event = (
    UserPrompt
    | ContextAttached
    | ExtensionsLoaded
    | TextDelta
    | ThinkingDelta
    | ToolInputDelta
    | ToolStart
    | ToolProgress
    | ToolEnd
    | Decided
    | Asked
    | Answered
    | TodosChanged
    | ModeChanged
    | Steered
    | TurnEnd
    | NumbersTraced
    | TurnChanged
    | ContextCompacted
    | RunEnd
    | Retrying
    | Notice
    | SubagentEvent
)

Emit = Callable[[Event], None]


class EventLog:
    """Gives each event its number and time and hands it to the one `sink`, in order.

    `next_seq` is where a resumed session goes on. Called from the agent's thread only.
    """

    def __init__(self, sink: Emit, next_seq: int = 1) -> None:
        self.sink = sink
        self.next_seq = next_seq

    def emit(self, event: Event) -> None:
        # the one place that writes to a frozen event: a `replace` would cost as much again for each of 20,000 deltas
        force_setattr(event, "seq", self.next_seq)
        force_setattr(event, "at", time.time())
        self.next_seq += 1
        self.sink(event)
