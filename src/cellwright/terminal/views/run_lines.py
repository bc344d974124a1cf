"""The lines that the terminal shows of a run, the same drawn or plain: one for a call, a retry, the end."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from cellwright.agent.calls.tool_names import access_of
from cellwright.agent.tool import AccessKind
from cellwright.events import (
    ANSWERED,
    Call,
    ContextAttached,
    ModeChanged,
    Notice,
    NumbersTraced,
    Retrying,
    RunEnd,
    ToolEnd,
    ToolStatus,
    step_title,
    traced_words,
)
from cellwright.model.models import model_name
from cellwright.permissions.modes import MODE_LABELS
from cellwright.telemetry.run_state import CallItem, RunState
from cellwright.telemetry.view_limits import ON_TERMINAL
from cellwright.terminal.views.terminal_text import Style
from cellwright.text import counted, dollars, visible_line
from cellwright.tools.planning.todos import describe_progress, keeps_the_list

STATUS: dict[ToolStatus, tuple[str, Style]] = {
    "success": ("done", "good"),
    "error": ("failed", "error"),
    "timeout": ("timed out", "error"),
    "denied": ("denied", "warning"),
    "interrupted": ("interrupted", "warning"),
}

MAX_TITLES = 5


def seconds(duration: float) -> str:
    """A duration in seconds, for people."""
    if duration < 60:
        return f"{duration:.1f} s"
    minutes, rest = divmod(round(duration), 60)
    return f"{minutes} min {rest:02} s"


def estimate(expected: float | None, since: float = 0.0) -> str:
    """The time that a call may take, as an addition to the time it has run (`since`); nothing if it is short or unknown.

    >>> estimate(75.0), estimate(0.2), estimate(None), estimate(2.0, since=3.0)
    (' of about 1 min 15 s (estimated from earlier calls)', '', '', ', usually 2.0 s')
    """
    if expected is None or expected < 2.0:
        return ""
    if since > expected:
        return f", usually {seconds(expected)}"
    return f" of about {seconds(expected)} (estimated from earlier calls)"


def repeated(state: RunState) -> list[Notice]:
    """Each notice that was said again, with how often it was said."""
    again = [(item.notice, item.times) for item in state.notices.values() if item.times > 1]
    return [Notice(f"{visible_line(said.message, 1_000)} ({times} times)", said.level) for said, times in again]


class Thinking:
    """A stretch of the model's thinking, as it comes: folded to a line when it ends, kept to be unfolded."""

    def __init__(self) -> None:
        self._text = ""
        self._since = 0.0

    def add(self, text: str) -> None:
        """Take in more of it."""
        if not self._text:
            self._since = time.monotonic()
        self._text += text[: max(0, ON_TERMINAL.thought - len(self._text))]

    @property
    def last_line(self) -> str:
        """The last line that says something, so far."""
        lines = [line for line in self._text.splitlines() if line.strip()]
        return visible_line(lines[-1], 200) if lines else ""

    def end(self) -> tuple[str, list[str]] | None:
        """The line that stands for the thinking, and all of its lines; None if there was none."""
        lines = [visible_line(line, 1_000) if line.strip() else "" for line in self._text.strip().splitlines()]
        took, self._text = time.monotonic() - self._since, ""
        how_long = "briefly" if took < SHOWN_SECONDS else f"for {seconds(took)}"
        return (f"Thought {how_long}: {visible_line(lines[0], 80)}", lines) if lines else None


def running_title(call: Call) -> str:
    """The title of a call that runs, in one line."""
    return visible_line(step_title(call.name, call.title, "running"))


def ended_title(call: Call, end: ToolEnd) -> str:
    """The title of a call that has ended: of a search that succeeded, what was looked for."""
    tool_input = call.tool_use["input"]
    sought = tool_input.get("pattern") or tool_input.get("query")
    if call.name not in SEARCHES or end.status != "success" or not isinstance(sought, str):
        return visible_line(step_title(call.name, call.title, end.status))
    where = tool_input.get("path")
    place = f" in {visible_line(where, 60)}" if isinstance(where, str) and where not in ("", ".") else ""
    return f"{SEARCHES[call.name]} “{visible_line(sought, 80)}”{place}"


SEARCHES = {
    "Grep": "Searched for",
    "Glob": "Looked for files",
    "SemanticSearch": "Searched for",
    "WebSearch": "Searched the web for",
}
"""A search in words, by its tool."""

_COUNTED = {
    "Glob": ("totalMatches", "file"),
    "SemanticSearch": ("total", "hit"),
    "WebSearch": ("total", "hit"),
    "FindReferences": ("total", "hit"),
    "FindDefinitions": ("total", "hit"),
}
"""The field of a result that counts, and what it counts."""


def found(end: ToolEnd) -> str:
    """Count in words what a read or a search gave; "" for any other call."""
    result = end.structured
    if end.status != "success" or not isinstance(result, Mapping):
        return ""
    if end.name in _COUNTED:
        field, noun = _COUNTED[end.name]
        number = result.get(field)
        return (counted(number, noun) if number else f"no {noun}s") if isinstance(number, int) else ""
    return _read(access_of(end.name).kind, result)


def _read(kind: AccessKind, result: Mapping[str, Any]) -> str:
    match kind, result:
        case "read", {"kind": "text", "first": int(first), "last": int(last), "total": int(total)}:
            return counted(total, "line") if last - first + 1 >= total else f"lines {first}–{last} of {total}"
        case "read", {"kind": str(what), "size": int(size)}:
            return f"{what}, {size:,} bytes"
        case "read", {"cells": list(cells), "total": int(total)}:
            return counted(total, "cell") if len(cells) == total else f"{len(cells)} of {counted(total, 'cell')}"
        case "search", {"numFiles": 0}:
            return "no hits"
        case "search", {"mode": "content", "numMatches": int(hits), "numFiles": int(files)}:
            return f"{counted(hits, 'hit')} in {counted(files, 'file')}"
        case "search", {"numFiles": int(files)}:
            return counted(files, "file")
        case _:
            return ""


SHOWN_SECONDS = 1.0
"""A shorter read, search or thought names no time."""


def outcome(end: ToolEnd) -> str:
    """Describe how a call ended and how long it took."""
    if what := found(end):
        return f"{what}, {seconds(end.duration_ms / 1000)}" if end.duration_ms >= SHOWN_SECONDS * 1000 else what
    word, _ = STATUS[end.status]
    return word if end.status == "denied" else f"{word}, {seconds(end.duration_ms / 1000)}"


def complaint(end: ToolEnd) -> str:
    """The first line of what went wrong, or nothing."""
    if end.error is None:
        return ""
    lines = [line for line in str(end.error["message"]).splitlines() if line.strip()]
    # a failed command or a traceback says at its end what happened
    shown = lines[-1:] if end.status == "error" else lines[:1]
    return visible_line(shown[0], 200) if shown else ""


class EndedCall(Struct, frozen=True):
    """A call that has ended, as it is drawn: its title, its facts in a line, and below it what went wrong, in styles.

    `verb`: the title begins with one, which is what the eye looks for.
    """

    title: str
    facts: str
    below: tuple[tuple[str, Style], ...] = ()
    verb: str = ""


def ended_call(end: ToolEnd, item: CallItem) -> EndedCall:
    """Word a call that has ended for a terminal that draws: no time below a second, a denial in one line.

    Of a call whose card the user has answered here, nothing that stands there is said again.
    """
    # a card of the call was answered on this terminal
    has_card = any(answer is not None and answer.by in ("terminal", "input") for _, answer in item.questions)
    title = _drawn_title(item.call, end, has_card=has_card) if item.call else end.name
    took = seconds(end.duration_ms / 1000) if end.duration_ms >= SHOWN_SECONDS * 1000 else ""
    below: tuple[tuple[str, Style], ...] = ()
    match end.status:
        case "success":
            facts = [_given(end, has_card=has_card) if item.call else "", took]
        case "denied":
            facts = [": ".join(filter(None, (ANSWERED.get(end.name, ("", "denied"))[1], _denial(end))))]
        case _:
            code = end.structured.get("exit_code") if isinstance(end.structured, Mapping) else None
            has_code = isinstance(code, int) and end.status == "error" and code != 0
            facts = [f"exit {code}" if has_code else STATUS[end.status][0], took]
            below = _went_wrong(end, has_code=has_code)
    verb = title.partition(" ")[0] if item.call and title == ended_title(item.call, end) else ""
    return EndedCall(title, ", ".join(filter(None, facts)), below, verb)


def _drawn_title(call: Call, end: ToolEnd, *, has_card: bool) -> str:
    if has_card and call.name == "Bash":
        said = call.tool_use["input"].get("description")
        if said or end.status == "denied":
            return visible_line(str(said or "Run a shell command"))
    if call.name == "AskUserQuestion" and has_card:
        return _answers(end) if end.status == "success" else "Question"
    return ended_title(call, end)


def _given(end: ToolEnd, *, has_card: bool) -> str:
    if yes := ANSWERED.get(end.name, ("", ""))[0]:
        return yes
    if has_card and end.name == "AskUserQuestion":
        return ""
    if what := found(end) or _answers(end):
        return what
    # the lines that the call added and removed, as `+2 −1`
    lines = str((end.display or {}).get("diff") or "").splitlines()
    added = sum(line.startswith("+") and not line.startswith("+++ ") for line in lines)
    removed = sum(line.startswith("-") and not line.startswith("--- ") for line in lines)
    return f"+{added} −{removed}" if added or removed else ""


def _answers(end: ToolEnd) -> str:
    given = (end.display or {}).get("answers")
    return visible_line(", ".join(map(str, given.values())), 200) if isinstance(given, Mapping) else ""


_NO_REASONS = ("the user said no", "continue planning", "the question was dismissed")


def _denial(end: ToolEnd) -> str:
    """The reason for a denial, unless it says no more than that there was one."""
    lines = str((end.error or {}).get("message", "")).splitlines()
    reason = (lines or [""])[0].removeprefix(f"{end.name} was not allowed: ")
    for beginning in ("The user did not answer:", "The user does not approve the plan yet:"):
        reason = reason.removeprefix(beginning).strip()
    return "" if reason in _NO_REASONS else visible_line(reason, 200)


def _went_wrong(end: ToolEnd, *, has_code: bool) -> tuple[tuple[str, Style], ...]:
    """The line that says most, then the notes in brackets that stand below a command's output."""
    lines = [line.strip() for line in str((end.error or {}).get("message", "")).splitlines() if line.strip()]
    notes: list[str] = []
    while lines and lines[-1].startswith("[") and lines[-1].endswith("]"):
        notes.insert(0, lines.pop()[1:-1])
    if has_code and lines and lines[0].startswith("Exit code "):
        del lines[0]
    said = lines[-1:] if end.status == "error" else lines[:1]
    style = STATUS[end.status][1]
    return (
        *((visible_line(line, 200), style) for line in said),
        *((visible_line(note, 200), "dim") for note in notes),
    )


def diff_of(end: ToolEnd, item: CallItem) -> str:
    """The change that the call made, as a unified diff; "" for none, and for one that the user has seen in a question."""
    return "" if item.change_was_shown else str((end.display or {}).get("diff") or "")


def path_of(call: Call) -> str:
    """The file that the call names; "" for none."""
    tool_input = call.tool_use["input"]
    return str(tool_input.get("file_path") or tool_input.get("notebook_path") or "")


def diff_lines(diff: str) -> list[str]:
    """The lines of the change that a call made, at most `ON_TERMINAL.diff_lines`, and how many more there are."""
    lines = [visible_line(line, 1_000) if line.strip() else line for line in diff.splitlines()]
    if len(lines) > ON_TERMINAL.diff_lines:
        lines = [*lines[: ON_TERMINAL.diff_lines], f"… {len(lines) - ON_TERMINAL.diff_lines} more lines"]
    return lines


def result_lines(end: ToolEnd) -> list[str]:
    """The text of a result, at most `ON_TERMINAL.result_lines`, and how many more there are."""
    blocks = [{"type": "text", "text": end.content}] if isinstance(end.content, str) else end.content
    texts = [
        str(block.get("text", "")) if block.get("type") == "text" else f"[{block.get('type')}]" for block in blocks
    ]
    lines = [visible_line(line, 1_000) if line.strip() else "" for line in "\n".join(texts).splitlines()]
    if len(lines) > ON_TERMINAL.result_lines:
        lines = [*lines[: ON_TERMINAL.result_lines], f"… {len(lines) - ON_TERMINAL.result_lines} more lines"]
    return lines


def is_shown_already(end: ToolEnd, item: CallItem) -> bool:
    """Return whether all that the call did is on the screen: in the list of todos, or as answers to several questions."""
    answers = (end.display or {}).get("answers")
    is_answered = isinstance(answers, Mapping) and len(answers) > 1
    here = any(answer is not None and answer.by == "terminal" for _, answer in item.questions)
    return end.status == "success" and (keeps_the_list(end.name) or (is_answered and here))


def todo_lines(state: RunState, marks: Mapping[str, str]) -> list[str]:
    """The todos as lines: how far it is, and below it those that changed; all of them when it is another list."""
    before, now = state.earlier_todos, state.todos
    same = [todo["content"] for todo in before] == [todo["content"] for todo in now]
    changed = [todo for index, todo in enumerate(now) if not same or todo["status"] != before[index]["status"]]
    lines = [f"  {marks[todo['status']]} {visible_line(str(todo['content']), 500)}" for todo in changed]
    return [f"Todos: {describe_progress(now)}", *lines]


def context_line(event: ContextAttached) -> str:
    """List in one line what Claude was told besides the words; "" where that is only what every session is told."""
    titles = [visible_line(part.title, 60) for part in event.parts if part.kind not in ("environment", "mode")]
    if not titles:
        return ""
    more = f" and {len(titles) - MAX_TITLES} more" if len(titles) > MAX_TITLES else ""
    return f"Context sent: {', '.join(titles[:MAX_TITLES])}{more} ({event.tokens:,} tokens)"


def retry(event: Retrying) -> str:
    """Announce that a request is sent again, and when."""
    wait = f" in {event.wait_seconds:.1f} s" if event.wait_seconds >= 0.05 else ""
    said = visible_line(event.message, 200).partition(" [request ")[0]
    return f"{said} Retrying{wait} ({event.attempt} of {event.max_attempts})…"


def mode(event: ModeChanged) -> str:
    """Name the mode that holds from now on, as the line below the prompt does."""
    return f"Mode: {MODE_LABELS[event.mode][0] if event.mode in MODE_LABELS else event.mode}"


def numbers(traced: NumbersTraced) -> str:
    """Count the answer's numbers in the words of a cell's footer, and name those that were not found.

    >>> from cellwright.events import Number
    >>> numbers(NumbersTraced((Number("2.4", 2.4, 0.1, 0, 3, "seen", 2),)))
    '1 of 1 number traced'
    """
    found = sum(number.verdict in ("seen", "derived") for number in traced.numbers)
    (words,) = traced_words(len(traced.numbers), found)
    return f"{words}, {traced.missing} (/numbers)" if traced.marked else words


_ENDS = {
    "interrupted": "Stopped",
    "max_turns": "Stopped: step limit reached",
    "budget": "Stopped: budget reached",
    "max_tokens": "Stopped: answer too long",
    "refusal": "Refused",
}
_INPUT = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


def footer(end: RunEnd, state: RunState) -> str:
    """The end of a run as a cell's footer has it: how it ended, time, model, cost, numbers, changes. /cost has the tokens.

    Without a call there was nowhere to see a number: then only those that should have been seen are counted.
    """
    cost = dollars(end.cost_usd) if end.cost_usd else ""
    if end.cost_usd is None:
        sent, out = (sum(end.usage.get(name) or 0 for name in names) for names in (_INPUT, ("output_tokens",)))
        cost = f"{sent:,} tokens in, {out:,} out" if out else ""
    changes = state.changes.counts if state.changes is not None else ""
    traced = state.numbers
    is_traced = traced is not None and traced.numbers and (traced.marked or state.calls)
    how = _ENDS.get(end.stop_reason, "Done" if end.error is None else "Failed")
    parts = [
        how,
        seconds(end.duration_ms / 1000),
        model_name(state.model),
        cost,
        numbers(traced) if traced is not None and is_traced else "",
        f"{changes} (/undo)" if changes else "",
    ]
    return " · ".join(filter(None, parts))
