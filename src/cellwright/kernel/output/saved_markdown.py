"""Markdown that stays in the notebook when a run is over, to be read well on GitHub, nbviewer and nbconvert.

The answer as it was written, one line for each tool where it was called, the code that ran in the user's namespace with
what it printed, diffs and plans folded, what the user answered, the last state of the todos, errors, and a last line with
model, time and cost; the same as plain text. What code displayed stands between two parts of it, as an output of its own.

A notebook is opened, diffed and mailed long after, so it does not keep all of a run; the whole is in the session's
transcript. An answer is kept whole up to 100,000 characters, some 25,000 tokens. The plain text beside the Markdown
is for front ends that show no Markdown, and short: it would double every notebook.

Steps and the remarks between them fold into one line; the transcript in the page folds the same stretches
(`labextension/src/transcript/items/folded_steps.ts`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Literal, TypeVar

from msgspec import Struct, field

from cellwright.agent.compaction import compacted_line
from cellwright.agent.subagent import AgentProgress
from cellwright.events import (
    MOST_NAMED,
    NOT_FOUND_NUMBERS,
    Call,
    Event,
    RunEnd,
    ToolStatus,
    TurnChanged,
    change_words,
    step_title,
)
from cellwright.kernel.output.transcript_ops import changed_lines, cut
from cellwright.markdown.escaping import code_span, escaped, fenced, folded, visible_controls
from cellwright.markdown.safe_markdown import safe_markdown
from cellwright.markdown.writer import quoted
from cellwright.model.models import model_name
from cellwright.telemetry.run_state import (
    BrokenOffItem,
    CallItem,
    CompactedItem,
    DisplayGap,
    NoticeItem,
    RunState,
    SaidItem,
    TextItem,
)
from cellwright.telemetry.view_limits import KEPT, KEPT_OF_RUN
from cellwright.text import counted, dollars, lazy_pattern, word_end
from cellwright.tools.planning.todos import MARKS, describe_progress, keeps_the_list

ACCEPT = "AcceptPreview"
"""The call that asks which changes of a preview are accepted (`features/preview`): the steps changed copies alone."""

_HAS_BLOCKS = lazy_pattern(
    r"^ {0,3}(?:#{1,6} |```|~~~|\||[-*+] |\d+[.)] |>)|\S\n[ \t]*\n\s*\S", re.MULTILINE
)  # a table, a heading, a list, code: an answer
_FILE = lazy_pattern(r"^--- ([^\n]*)\n\+\+\+ ([^\n]*)$", re.MULTILINE)
_CELL = lazy_pattern(r"(?<=\.ipynb)#.*$")

Part = TypeVar("Part")


def is_remark(text: str) -> bool:
    """Return whether a text is a word between steps, and no answer."""
    said = text.strip()
    # a longer text is more than a remark between steps: somebody may want to read it
    return len(said) <= 300 and _HAS_BLOCKS.search(said) is None


def stretches(
    parts: Sequence[Part], is_step: Callable[[Part], bool], is_call: Callable[[Part], bool], stays: set[int]
) -> Iterator[tuple[int, int]]:
    """Yield where stretches of steps begin and end; `stays` are the positions of parts that no stretch takes in."""
    start = 0
    for end in (*sorted(stays), len(parts)):
        last = next((at for at in range(end - 1, start - 1, -1) if is_step(parts[at])), start - 1)
        if sum(map(is_call, parts[start : last + 1])) > 1:
            yield start, last + 1
        start = end + 1


def changed_names(diff: str) -> Iterator[str]:
    """Yield the names of the files and cells (`analysis.ipynb#c4`) that `diff` changes."""
    for before, after in _FILE.findall(diff):
        name = before if after.startswith("/dev/null") else after
        yield name.removeprefix("a/").removeprefix("b/").partition("\t")[0].strip()


def steps_title(
    steps: int, ended: Iterable[tuple[str, int]], names: Iterable[str], whole: Collection[str], lines: tuple[int, int]
) -> str:
    """Word the line: `10 steps · 1 failed · 1 file, 2 cells +11 −2`; `ended` counts what did not succeed, by its word.

    `names` are those of changed files and cells, `whole` the files that the run's last line counts: a notebook that is open
    nowhere is one.
    """
    names = list(dict.fromkeys(file if (file := _CELL.sub("", name)) in whole else name for name in names))
    cells = sum(_CELL.search(name) is not None for name in names)
    what = names[0] if len(names) == 1 and not cells else change_words(len(names) - cells, cells)
    added, removed = lines
    return " · ".join(
        [
            counted(steps, "step"),
            *(f"{number} {word}" for word, number in ended if number),
            *([f"{what} +{added} −{removed}"] if names else []),
        ]
    )


class RemainingChars:
    """The rest of a number of characters."""

    def __init__(self, chars: int) -> None:
        self._left = chars

    def take(self, text: str, most: int | None = None) -> tuple[str, int]:
        """As much of `text` as there is room for, at most `most`, and how many characters that leaves out."""
        end = word_end(text, min(self._left, len(text) if most is None else most))
        self._left -= end
        return text[:end], len(text) - end


def left_out(chars: int) -> str:
    """Word what stands in the place of characters that are not kept."""
    return f"… {chars:,} characters more are in the session's transcript: /export writes it out"


def short_plain(text: str) -> str:
    """`text` as the notebook keeps it: its beginning and its end."""
    if len(text) <= KEPT_OF_RUN.plain:
        return text
    tail = KEPT_OF_RUN.plain // 4
    head = word_end(text, KEPT_OF_RUN.plain - tail)
    rest = word_end(text, len(text) - tail)
    return f"{text[:head]}\n[{left_out(rest - head)}]\n{text[rest:]}"


CHECKED_NUMBERS = "Checked numbers of the answer before:"
WORKING = "*Claude is working… If the kernel has ended, this answer is unfinished.*"
"""The end of an answer that is not over. A notebook that is saved then keeps it, whatever happens to its kernel."""
BROKEN_OFF = "The connection broke. So far:"


class _Text(Struct, eq=False):
    text: str


_OPEN = ("running", "waiting for you")


class _ToolLine(Struct, eq=False):
    call: Call
    status: ToolStatus | Literal["running", "waiting for you"]
    """The last two: neither it nor the run has ended, and Claude waits for an answer about it or does not."""
    duration_ms: float | None
    """None: it was played from a recording, and says the same each time."""
    reason: str
    done_title: str
    """The call's title, if it was known at its end alone."""
    diff: str
    plan: str
    answers: Mapping[str, str]
    agent: AgentProgress | None
    """The progress of the agent that worked for it."""
    printed: str
    """Its result without what its code displayed, which stands in an output of its own."""

    @property
    def code(self) -> str:
        """The code that it ran in the user's namespace."""
        return _code(self.call)

    @property
    def mark(self) -> str:
        return "✓" if self.status == "success" else "…" if self.status in _OPEN else "✗"

    @property
    def title(self) -> str:
        title = " ".join(cut(self.done_title or self.call.title, KEPT.title).split())
        return step_title(self.call.name, title, self.status)

    @property
    def outcome(self) -> str:
        if self.status == "success":
            return " · ".join(filter(None, (self.duration, self.took)))
        if self.is_stopped:
            return f"stopped · {self.took}"
        return f"{self.status}: {self.reason}" if self.reason else self.status

    @property
    def duration(self) -> str:
        return "" if self.duration_ms is None else _duration(self.duration_ms)

    @property
    def is_stopped(self) -> bool:
        """An agent worked for it, which the user stopped."""
        return self.agent is not None and self.agent.state == "stopped"

    @property
    def took(self) -> str:
        """In words, what an agent took."""
        return "" if self.agent is None else self.agent.facts()


class _Remark(Struct, eq=False):
    text: str
    times: int = 1


_Part = _Text | _ToolLine | _Remark | SaidItem | BrokenOffItem | DisplayGap


class _Rooms(Struct, eq=False):
    """The room that there is left in all of a run's parts."""

    diffs: RemainingChars = field(default_factory=lambda: RemainingChars(KEPT_OF_RUN.diffs))
    code: RemainingChars = field(default_factory=lambda: RemainingChars(KEPT_OF_RUN.code))


class SavedTranscript:
    """Takes a run's events as they come and says, at any time, what would be saved now."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._quiet = quiet
        self.state = RunState()

    def emit(self, event: Event) -> None:
        self.state.take(event)

    def parts(self) -> list[dict[str, str]]:
        """The mimebundle of each part, in order: Markdown, and plain text for front ends without that."""
        markdowns, plains = self._markdowns(), self._plains()
        return [
            {"text/markdown": markdown, "text/plain": short_plain(plain)}
            for markdown, plain in zip(markdowns, plains, strict=True)
        ]

    def markdown(self) -> str:
        """All parts. Safe in every renderer: nothing of the model's or a tool's is active in it."""
        return "\n\n".join(filter(None, self._markdowns()))

    def plain(self) -> str:
        """The same without markup of ours and without diffs, however long the answer is."""
        return "\n\n".join(filter(None, self._plains()))

    def _markdowns(self) -> list[str]:
        outputs: list[list[_Part]] = [[]]
        for part in self._kept():
            if isinstance(part, DisplayGap):
                outputs.append([])
            else:
                outputs[-1].append(part)
        rooms = _Rooms()
        texts = [
            list(
                _blocks_of(parts, rooms) if self.state.end is None else self._folded_blocks(number, parts, last, rooms)
            )
            for last in (len(outputs) - 1,)
            for number, parts in enumerate(outputs)
        ]
        blocks = texts[-1]
        if self.state.todos and not self._quiet:
            blocks.append(_task_list(self._todos))
        if self.state.end is not None and (told := end_in_words(self.state.end)):
            word, message = told
            blocks.append(f"**{word}:** {escaped(message)}" if message else f"**{word}.**")
        for title, notes in self._footnotes():
            blocks.append("\n".join([f"*{title}*", "", *(f"- {escaped(note)}" for note in notes)]))
        if (facts := self._facts()) and not self._quiet:
            # each in an element of its own: between two dollars of one element the page finds mathematics
            blocks.append(" · ".join(f"*{escaped(fact)}*" for fact in facts))
        if not any(texts):
            blocks.append("*No answer.*")
        return ["\n\n".join(blocks) for blocks in texts]

    def _folded_blocks(self, number: int, parts: Sequence[_Part], last: int, rooms: _Rooms) -> Iterator[str]:
        """Yield the blocks of the output `number`, the steps in it folded."""
        stays = {at for at, part in enumerate(parts) if _stays_in_sight(part)}
        texts = [at for at, part in enumerate(parts) if isinstance(part, _Text)]
        # the answer's last words, and words below a picture
        stays |= set(texts[-1:]) if number == last else set()
        stays |= {0} & set(texts) if number > 0 else set()
        done = 0
        calls = [part for part in parts if isinstance(part, _ToolLine)]
        staged = any(isinstance(item, CallItem) and item.name == ACCEPT for item in self.state.as_written)
        changes = None if staged else self.state.changes or TurnChanged(0)
        for start, end in stretches(parts, _is_call, _is_call, stays):
            yield from _blocks_of(parts[done:start], rooms)
            steps = [part for part in parts[start:end] if isinstance(part, _ToolLine)]
            failed = number == last and steps[-1] is calls[-1] and steps[-1].status != "success"
            yield folded(_steps_title(steps, changes), "\n\n".join(_blocks_of(parts[start:end], rooms)), opened=failed)
            done = end
        yield from _blocks_of(parts[done:], rooms)

    def _plains(self) -> list[str]:
        texts: list[list[str]] = [[]]
        for part in self._shown():
            if isinstance(part, DisplayGap):
                texts.append([])
            else:
                texts[-1].append(_plain_of(part))
        blocks = texts[-1]
        if self.state.todos and not self._quiet:
            lines = [f"{MARKS[todo['status']]} {' '.join(str(todo['content']).split())}" for todo in self._todos]
            blocks.append("\n".join([f"Todos: {describe_progress(self.state.todos)}", *lines]))
        if self.state.end is not None and (told := end_in_words(self.state.end)):
            blocks.append(": ".join(filter(None, told)))
        for title, notes in self._footnotes():
            blocks.append("\n".join([title, *(f"- {note}" for note in notes)]))
        if (facts := self._facts()) and not self._quiet:
            blocks.append(" · ".join(facts))
        if not any(texts):
            blocks.append("No answer.")
        return [visible_controls("\n\n".join(blocks)) for blocks in texts]

    @property
    def _todos(self) -> list[Mapping[str, Any]]:
        """The todos; at the end nobody works on them any more."""
        over = self.state.end is not None
        return [
            {**todo, "status": "pending"} if over and todo["status"] == "in_progress" else todo
            for todo in self.state.todos
        ]

    @property
    def tells_error(self) -> bool:
        """True where it says why the run did not end by itself."""
        return self.state.end is not None and self.state.end.error is not None

    def _shown(self) -> Iterator[_Part]:
        for item in self.state.as_written:
            match item:
                case TextItem() if (text := item.text).strip():
                    yield _Text(text)
                case CallItem() if not self._quiet and not _shows_in_the_list(item):
                    yield _tool_line(item, run_ended=self.state.end is not None)
                case NoticeItem(is_first=True) if item.notice.level != "info":
                    yield _Remark(item.notice.message, item.times)
                case CompactedItem() if item.event.state == "done":
                    yield _Remark(compacted_line(item.event))
                case SaidItem() | BrokenOffItem() | DisplayGap():
                    yield item
                case _:
                    pass  # nothing that is kept

    def _kept(self) -> Iterator[_Part]:
        """Yield what is shown, cutting texts too long for a notebook; the last text, the answer, goes first."""
        room = RemainingChars(KEPT_OF_RUN.answer)
        shown = list(self._shown())
        texts = {id(part): room.take(part.text) for part in reversed(shown) if isinstance(part, _Text)}
        for part in shown:
            if id(part) not in texts:
                yield part
                continue
            text, missing = texts[id(part)]
            if text:
                yield _Text(text)
            if missing:
                yield _Remark(left_out(missing))

    def _facts(self) -> list[str]:
        """The run in numbers; empty where there are none."""
        state, end = self.state, self.state.end
        if end is None:
            return []
        tools = end.tools_succeeded + end.tools_failed
        if not (state.model or tools):  # it could not begin: there is nothing to sum up
            return []
        facts = [model_name(state.model)]
        if state.replayed:  # what follows was so when it was recorded
            return [*facts, "replayed, nothing was sent"]
        facts.append(_duration(end.duration_ms))
        if end.cost_usd is not None:
            facts.append(dollars(end.cost_usd))
        if state.changes is not None and state.changes.counts:
            facts.append(f"{state.changes.counts} (/undo)")
        return facts

    def _footnotes(self) -> list[tuple[str, Sequence[str]]]:
        """The numbers that were checked and those that were not found, each list with its title."""
        numbers = self.state.numbers
        if numbers is None or self._quiet:
            return []
        checked = () if numbers.checked is None else numbers.checked.numbers
        marked = numbers.marked
        more = [f"and {len(marked) - MOST_NAMED} more"] if len(marked) > MOST_NAMED else []
        lists = [
            (CHECKED_NUMBERS, [f"{each.text}: {each.words}" for each in checked]),
            (NOT_FOUND_NUMBERS, [*(f"{each.text} in “{each.sentence}”" for each in marked[:MOST_NAMED]), *more]),
        ]
        return [(title, lines) for title, lines in lists if lines]


_ENDS = {"interrupted": "Stopped", "max_turns": "Stopped", "budget": "Stopped", "refusal": "Refused"}


def end_in_words(end: RunEnd) -> tuple[str, str] | None:
    """The end of a run that did not end by itself: in a word, and why; None of another."""
    if end.error is None:
        return None
    message = str(end.error["message"])
    # what the user did needs no explanation
    return _ENDS.get(end.stop_reason, "Failed"), "" if message == "Interrupted." else message


def _duration(milliseconds: float) -> str:
    if milliseconds < 1000:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1000
    return f"{seconds:.1f} s" if seconds < 60 else f"{int(seconds // 60)} min {int(seconds % 60)} s"


def _shows_in_the_list(item: CallItem) -> bool:
    """Return whether all that the call did is in the list of todos."""
    return keeps_the_list(item.name) and item.end is not None and item.end.status == "success"


def _code(call: Call) -> str:
    return str(call.tool_use["input"].get("code", "")).strip("\n") if call.name == "Python" else ""


def _tool_line(item: CallItem, *, run_ended: bool) -> _ToolLine:
    call = item.call or Call({"id": item.id, "name": item.name, "input": {}}, item.name)
    end = item.end
    display = (end and end.display) or {}
    code = _code(call)
    reason = str(end.error["message"]).strip() if end is not None and end.error else ""
    if end is not None and end.status == "error":
        # one line says what it was, of a traceback the last; the rest a list has no place for
        reason = reason.rpartition("\n")[2] if code else reason.partition("\n")[0]

    reason = reason.removeprefix(f"{item.name} was not allowed: ")  # the line names it

    def said(name: str) -> str:
        return text if isinstance(text := display.get(name), str) else ""

    printed = ""
    if code and end is not None:
        printed = str(end.content)
        for shown in filter(None, item.displayed):
            printed = printed.replace(f"{shown}\n" if f"{shown}\n" in printed else shown, "", 1)
    return _ToolLine(
        call,
        status=_open_status(item, run_ended=run_ended) if end is None else end.status,
        duration_ms=0.0 if end is None else None if item.replayed else end.duration_ms,
        reason=" ".join(cut(reason, KEPT.reason).split()),
        done_title=said("title"),
        diff=said("diff"),
        plan=said("plan"),
        answers=display["answers"] if isinstance(display.get("answers"), Mapping) else {},
        agent=item.progress,
        printed=printed.strip("\n"),
    )


def _open_status(item: CallItem, *, run_ended: bool) -> Literal["interrupted", "running", "waiting for you"]:
    """Return the status of a call that has no end."""
    if run_ended:
        return "interrupted"
    return "waiting for you" if any(answer is None for _, answer in item.questions) else "running"


def _is_call(part: _Part) -> bool:
    return isinstance(part, _ToolLine)


def _stays_in_sight(part: _Part) -> bool:
    """Return whether people need to see it: what they were asked, warnings, a text that is more than a remark."""
    if isinstance(part, _ToolLine):
        return bool(part.plan or part.answers)
    return isinstance(part, _Remark) or (isinstance(part, _Text) and not is_remark(part.text))


_NOT_DONE = {"failed": ("error", "timeout"), "denied": ("denied",), "stopped": ("interrupted",)}


def _steps_title(steps: Sequence[_ToolLine], changes: TurnChanged | None) -> str:
    """Word the line of `steps`; `changes` are the run's, None if the steps made none."""
    changed = [step.diff for step in steps if changes is not None and step.diff and step.status == "success"]
    lines = [changed_lines(diff) for diff in changed]
    return steps_title(
        len(steps),
        ((word, sum(step.status in statuses for step in steps)) for word, statuses in _NOT_DONE.items()),
        (name for diff in changed for name in changed_names(diff)),
        () if changes is None else [file.where for file in changes.files],
        (sum(each["added"] for each in lines), sum(each["removed"] for each in lines)),
    )


def _blocks_of(parts: Iterable[_Part], rooms: _Rooms) -> Iterator[str]:
    for kind, group in groupby(parts, type):
        together = list(group)
        yield from _tool_list(together, rooms) if kind is _ToolLine else map(_markdown_of, together)


def _tool_list(lines: Sequence[_Part], rooms: _Rooms) -> Iterator[str]:
    tools = [line for line in lines if isinstance(line, _ToolLine)]
    listed: list[str] = []
    for tool in tools:
        listed += _tool_lines(tool)
        if tool.code:
            yield "\n".join(listed)
            listed.clear()
            yield from _code_blocks(tool, rooms.code)
    if listed:
        yield "\n".join(listed)
    for tool in tools:
        if tool.diff:
            text, missing = rooms.diffs.take(tool.diff, KEPT.diff)
            more = f"\n[{left_out(missing)}]" if missing else ""
            yield folded(f"Changes: {tool.title}", fenced(visible_controls(text + more).rstrip("\n"), "diff"))
        if tool.plan:
            yield folded("The plan, as approved", safe_markdown(tool.plan))


def _code_blocks(tool: _ToolLine, room: RemainingChars) -> Iterator[str]:
    """The code that ran, and what it printed."""
    for text, most, language in ((tool.code, KEPT.code, "python"), (tool.printed, KEPT.printed, "text")):
        if text:
            kept, missing = room.take(text, most)
            more = f"\n[{left_out(missing)}]" if missing else ""
            yield fenced(visible_controls(kept + more).rstrip("\n"), language)


def _tool_lines(tool: _ToolLine) -> Iterator[str]:
    parts = [f"- {tool.mark} {_title_markdown(tool)}", escaped(tool.outcome)]
    if tool.status != "success" and not tool.is_stopped and tool.reason:
        parts[1:] = [f"{tool.status}: {code_span(tool.reason)}", escaped(tool.took)]
    yield " · ".join(filter(None, parts))
    for question, answer in tool.answers.items():
        yield f"  - {escaped(question)} → {escaped(answer)}"


def _title_markdown(tool: _ToolLine) -> str:
    """The title with its command, or what else stands behind the tool's name, as code."""
    title = tool.title
    verb, _, rest = title.partition(" ")
    if tool.code:
        return f"{escaped(verb)} code"  # it follows, whole
    if tool.call.name in ("Bash", "Git"):
        purpose = " ".join(str(tool.call.tool_use["input"].get("description", "")).split()).rstrip(".:")
        command = rest.removesuffix(f" ({purpose})")
        return f"{escaped(verb)} {code_span(command)}{escaped(rest[len(command) :])}"
    name, _, what = title.partition(": ")
    return f"{escaped(name)}: {code_span(what)}" if name == tool.call.name != "Agent" and what else escaped(title)


def _task_list(todos: Sequence[Mapping[str, Any]]) -> str:
    """The todos as a task list; what is being done says so, since a box is only empty or ticked."""
    lines = [f"**Todos** · {describe_progress(todos)}", ""]
    for todo in todos:
        box = "x" if todo["status"] == "completed" else " "
        doing = " *(in progress)*" if todo["status"] == "in_progress" else ""
        lines.append(f"- [{box}] {escaped(str(todo['content']), at_line_start=True)}{doing}")
    return "\n".join(lines)


def _markdown_of(part: _Part) -> str:
    if isinstance(part, _Text):
        return safe_markdown(part.text)
    if isinstance(part, SaidItem):
        words = safe_markdown(part.steered.text)
        return quoted(f"**{_who(part)}:**" + ("\n\n" if "\n" in words else " ") + words)
    if isinstance(part, BrokenOffItem):
        return quoted(f"*{BROKEN_OFF}*\n\n{safe_markdown(part.text)}")
    assert isinstance(part, _Remark)
    text = part.text if part.times == 1 else f"{part.text} ({part.times} times)"
    first, _, more = text.partition("\n")
    said = f"*{escaped(first)}*"
    return f"{said}\n\n{fenced(visible_controls(more))}" if more else said


def _who(part: SaidItem) -> str:
    return "You" if part.delivered else "Not delivered, since the run had ended"


def _plain_of(part: _Part) -> str:
    if isinstance(part, _Text):
        return part.text.strip("\n")
    if isinstance(part, _ToolLine):
        answers = [f"  {question} → {answer}" for question, answer in part.answers.items()]
        outcome = f" · {part.outcome}" if part.outcome else ""
        return "\n".join([f"{part.mark} {part.title}{outcome}", *answers])
    if isinstance(part, SaidItem):
        return f"{_who(part)}: {part.steered.text.strip()}"
    if isinstance(part, BrokenOffItem):
        return f"{BROKEN_OFF}\n{part.text.strip()}"
    assert isinstance(part, _Remark)
    return part.text
