"""A run on a terminal that can be drawn on: markdown as it is written, running calls with clocks, coloured diffs.

Finished blocks are printed once and scroll away. Below them a few lines are drawn again and again: the block that is
being written, the calls that run, what is waited for.

`MarkdownBlocks` cuts markdown that is still being written at places before which nothing can change any more.
"""

from __future__ import annotations

import time
from typing import Literal, TextIO

from msgspec import Struct, field
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.segment import Segment
from rich.text import Text

from cellwright.agent.calls.approval import ToolUse
from cellwright.agent.compaction import compacted_line
from cellwright.agent.subagent import progress_of
from cellwright.errors import ErrorCode
from cellwright.events import (
    Answered,
    Asked,
    ContextAttached,
    ContextCompacted,
    Decided,
    Event,
    ModeChanged,
    Notice,
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
    TurnEnd,
    UserPrompt,
)
from cellwright.telemetry.run_state import CallItem, RunState
from cellwright.telemetry.view_limits import ON_TERMINAL
from cellwright.terminal.views import run_lines
from cellwright.terminal.views.diff_view import DiffView
from cellwright.terminal.views.markdown_view import drawn_markdown
from cellwright.terminal.views.terminal_text import DEFAULT_LOOK, Look, Style, harmless
from cellwright.terminal.views.themes import Hanging, Theme, theme_named
from cellwright.text import dollars, lazy_pattern, visible_line

_FENCE = lazy_pattern(r" {0,3}(`{3,}|~{3,})(.*)")


class MarkdownBlocks:
    """`add` text as it comes; what it gives back is whole blocks, in order. `tail` is what is not finished."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self.tail = ""
        self._read = 0
        self._cut = 0
        self._fence = ""
        self._after_blank = False

    def add(self, text: str) -> str:
        """Take more text in; gives the markdown that is finished with it, or ""."""
        self.tail += text
        # the last line is looked at when it is whole: it may yet become a fence or the end of one
        while (end := self.tail.find("\n", self._read)) >= 0:
            self._take_line(self.tail[self._read : end])
            self._read = end + 1
        finished, self.tail = self.tail[: self._cut], self.tail[self._cut :]
        self._read -= self._cut
        self._cut = 0
        return finished

    def rest(self) -> str:
        """Return what is left at the end of the text; afterwards there is nothing."""
        rest = self.tail
        self._begin()
        return rest

    def _take_line(self, line: str) -> None:
        if self._fence:
            found = _FENCE.fullmatch(line)
            if found and found[1].startswith(self._fence) and not found[2].strip():
                self._fence = ""
            return
        if not line.strip():
            self._after_blank = True
            return
        # an indented line after a blank one still belongs to the list item before it
        if self._after_blank and not line.startswith((" ", "\t")):
            self._cut = self._read
        self._after_blank = False
        if fence := _FENCE.fullmatch(line):
            self._fence = fence[1]


KEYS_AT_WORK = "Escape stops · type and Enter to add a message"

TODO_MARKS = {"completed": "✓", "in_progress": "▸", "pending": "○"}
TODO_STYLES: dict[str, Style] = {"✓": "dim", "▸": "title", "○": ""}
MARKS = {"success": "✓", "error": "✗", "timeout": "✗", "denied": "⊘", "interrupted": "■"}


class _Running(Struct):
    """A call that runs: since when, how long it may take, and the end of what it has printed.

    If an agent works for it, its steps are the output.
    """

    item: CallItem
    since: float
    estimated_seconds: float | None = None
    output: str = ""


class MarkdownBlock(Struct, frozen=True):
    """A piece of markdown: one empty line before it unless it is the first, at most its last `height` lines."""

    text: str
    theme: Theme
    is_first: bool
    height: int | None = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = console.render_lines(drawn_markdown(self.text, self.theme), options.update(height=None), pad=False)
        while lines and _is_empty(lines[0]):
            del lines[0]
        while lines and _is_empty(lines[-1]):
            del lines[-1]
        if not self.is_first:
            lines.insert(0, [])
        for line in lines[-self.height :] if self.height is not None else lines:
            yield from _without_end_spaces(line)
            yield Segment.line()


def _without_end_spaces(line: list[Segment]) -> list[Segment]:
    """The line without what would wrap in a narrower window, and be copied with its words."""
    kept = list(line)
    while kept and not kept[-1].text.strip() and not (kept[-1].style and kept[-1].style.bgcolor):
        kept.pop()
    if kept and not (kept[-1].style and kept[-1].style.bgcolor):
        kept[-1] = Segment(kept[-1].text.rstrip(), kept[-1].style, kept[-1].control)
    return kept


def _is_empty(line: list[Segment]) -> bool:
    return not any(segment.text.strip() or (segment.style and segment.style.bgcolor) for segment in line)


class LiveView(Struct):
    """Draws on `console`. Called on one thread at a time.

    `shares_screen`: others print there as well (IPython and what it runs), and ask there; so nothing moves below what is
    finished but the text while it is written. `details`: results of calls and thinking are shown whole. `in_session`: keys
    are read, Ctrl-O shows them so; and what ends a run is shown here.
    """

    console: Console
    theme: Theme = field(default_factory=lambda: theme_named(DEFAULT_LOOK.theme))
    compact: bool = False
    shares_screen: bool = False
    details: bool = False
    in_session: bool = False
    _thinking: run_lines.Thinking = field(default_factory=run_lines.Thinking)
    _folded: list[str] = field(default_factory=list)
    _draft: str = ""
    _state: RunState = field(default_factory=RunState)
    _blocks: MarkdownBlocks = field(default_factory=MarkdownBlocks)
    _running: dict[str, _Running] = field(default_factory=dict)
    _doing: str = "waiting for the answer"
    _since: float = field(default_factory=time.monotonic)
    _began: float = field(default_factory=time.monotonic)
    _printed_text: bool = False
    _above: Literal["", "line", "text"] = ""
    """The kind of line printed last: an answer and the run's last line have an empty line before them."""
    _taken_away: set[str] = field(default_factory=set)
    _were_folded: set[str] = field(default_factory=set)
    """The calls whose change was too high for the window: it is folded here as well."""
    _others_taken_away: bool = False
    """The calls that were allowed with the last one taken away: they were shown there."""
    _finished: bool = False
    _live: Live | None = None
    _drawn_at: float = 0.0
    _drawn: str = ""

    def emit(self, event: Event) -> None:  # noqa: C901  one arm for each event
        self._state.take(event)
        if isinstance(event, TextDelta | ToolInputDelta | ToolStart | TurnEnd | Retrying | RunEnd):
            self._end_thinking(void=isinstance(event, Retrying))
        match event:
            case UserPrompt():
                self._now("waiting for the answer")
            case Asked():
                self._above = "line"  # the question's last one
            case ContextAttached() if run_lines.context_line(event):
                self._print(run_lines.context_line(event), "dim")
            case TextDelta():
                self._doing = ""
                if finished := self._blocks.add(harmless(event.text)):
                    self._print_markdown(finished)
            case ThinkingDelta():
                self._thinking.add(harmless(event.text))
                self._now("thinking")
            case ToolInputDelta():
                self._end_text()
                self._now(f"writing a call of {visible_line(event.name)}")
            case ToolStart() | ToolProgress() | ToolEnd():
                self._tool(event)
            case SubagentEvent():
                # one whose call has ended goes on in the background
                if event.tool_use_id in self._running and (steps := progress_of(event)) is not None:
                    self._tool(steps)
            case TurnEnd():
                self._end_text()
                self._printed_text = False
                self._now("waiting for the answer")
            case TodosChanged():
                self._todos_changed()
            case ModeChanged():
                self._print(run_lines.mode(event), "hunk")
            case Steered(state="waiting"):
                self._print(f"Queued for the next step: {visible_line(event.text, 1_000)}", "dim")
            case Steered(state="delivered"):
                self._print(f"You: {visible_line(event.text, 1_000)}", "hunk")
            case Retrying():
                self._retry(event)
            case Notice() if self._state.is_first(event):
                self._notice(event)
            case ContextCompacted() if event.state != "failed":  # an error or a notice says why
                self._print(visible_line(compacted_line(event), 1_000), "dim")
            case RunEnd():
                self._run_end(event)
            case _:
                pass  # a question has the screen for itself, its answer shows in what happens
        self._draw()

    def tick(self) -> None:
        """Let the clocks go on."""
        if not self._finished:
            self._draw()

    def pause(self) -> None:
        """Take away what is drawn; it comes back with the next event."""
        if self._live is not None:
            self._live.stop()
            self._live = None

    def close(self) -> None:
        self.pause()

    def card_taken_away(self, use: ToolUse, was_folded: bool) -> None:
        """Note that the question is not on the screen any more: the change is shown, unless it is too high for it."""
        self._taken_away.add(use.id)
        if was_folded:
            self._were_folded.add(use.id)
        self._others_taken_away = bool(use.following)

    def show_draft(self, draft: str) -> None:
        """Show what the user writes meanwhile, below everything."""
        self._draft = draft

    def show_details(self, shown: bool) -> None:
        """Show results and thinking whole from now on, or no longer; what was folded of this run is shown, too."""
        self.details = shown
        folded, self._folded = self._folded if shown else [], []
        for line in folded:
            self._print(f"  {line}" if line else "", "dim")
        what = "From now on each result and thought is shown"
        self._print(f"{what} whole; Ctrl-O folds them." if shown else f"{what} in one line.", "dim")

    def _end_thinking(self, *, void: bool) -> None:
        thought = self._thinking.end()
        if thought is None or void:
            return
        line, lines = thought
        self._end_text()
        key = " (Ctrl-O)" if self.in_session and not self.details else ""
        shown = Text(line, self.theme.styles["dim"])
        shown.truncate(max(20, self.console.width - len(key)), overflow="ellipsis")
        self._print_above(shown.append(key))
        if self.details:
            for each in lines:
                self._print(f"  {each}" if each else "", "dim")
        elif self.in_session:
            self._folded += [*lines, ""]

    def _now(self, doing: str) -> None:
        if doing != self._doing:
            self._doing = doing
            self._since = time.monotonic()

    def _tool(self, event: ToolStart | ToolProgress | ToolEnd) -> None:
        self._doing = ""
        match event:
            case ToolStart():
                now = time.monotonic()
                items = [self._state.calls[call.id] for call in event.calls]
                self._running |= {item.id: _Running(item, now, event.estimated_seconds) for item in items}
            case ToolProgress():
                if (running := self._running.get(event.tool_use_id)) is not None:
                    running.output = (running.output + harmless(event.text or event.message))[-ON_TERMINAL.output :]
            case ToolEnd():
                self._call_ended(event)

    def _call_ended(self, event: ToolEnd) -> None:
        running, item = self._running.pop(event.tool_use_id, None), self._state.calls[event.tool_use_id]
        if not self._running:
            self._now("waiting for the answer")
        if event.tool_use_id in self._taken_away:
            item.facts = [fact for fact in item.facts if not isinstance(fact, Asked | Answered)]
        elif self._others_taken_away:
            item.facts = [fact for fact in item.facts if not isinstance(fact, Decided)]
        if not run_lines.is_shown_already(event, item):
            self._print_above(Group(*self._ended_lines(event, item, running)))

    def _ended_lines(self, event: ToolEnd, item: CallItem, running: _Running | None) -> list[RenderableType]:
        """The line of a call that has ended, and what is shown below it: a problem, its result, its change."""
        ended = run_lines.ended_call(event, item)
        style = run_lines.STATUS[event.status][1]
        line = Text.assemble((ended.verb, "bold"), ended.title.removeprefix(ended.verb))
        facts = f" · {ended.facts}" if ended.facts else ""
        line.append(facts, self.theme.styles["dim" if event.status == "success" else style])
        if item.progress is not None:
            line.append(f" · {item.progress.facts()}", self.theme.styles["dim"])
        lines: list[RenderableType] = [Hanging(Text(f"{MARKS[event.status]} ", self.theme.styles[style]), line)]
        lines += [Hanging(Text("  "), Text(what, self.theme.styles[how])) for what, how in ended.below]
        if self.details and running is not None and item.progress is not None:
            lines += [Text(f"  {step}", "dim") for step in running.output.splitlines()]
        result = run_lines.result_lines(event)
        diff = run_lines.diff_of(event, item)
        if diff and event.tool_use_id in self._were_folded and not self.details:
            result, diff = [*run_lines.diff_lines(diff), "", *result], ""
        if self.details:
            lines += [Text(f"  {line}", "dim") for line in result]
        elif self.in_session:
            self._folded += [ended.title, *(f"  {line}" for line in result), ""]
        if diff:
            path = run_lines.path_of(item.call) if item.call else ""
            limit = ON_TERMINAL.diff_lines
            lines.append(DiffView(diff, self.theme, path, max_lines=limit, compact=self.compact))
        return lines

    def _todos_changed(self) -> None:
        head, *lines = run_lines.todo_lines(self._state, TODO_MARKS)
        styled = []
        for line in lines:
            style = self.theme.styles[TODO_STYLES[line.lstrip()[0]]]
            styled.append(Hanging(Text(line[:4], style), Text(line[4:], style)))
        apart = [] if self.compact or not self._above else [Text()]
        self._print_above(Group(*apart, Text(head, self.theme.styles["title"]), *styled))

    def _retry(self, event: Retrying) -> None:
        # what is on the screen stays, greyed: nobody loses what they are reading
        if rest := self._blocks.rest().strip("\n"):
            self._print_above(Text(rest, "dim"))
            self._printed_text = True
        self._print(run_lines.retry(event), "warning")
        if self._printed_text:
            self._print("The answer starts again.", "dim")
        self._printed_text = False
        self._now("waiting for the answer")

    def _run_end(self, event: RunEnd) -> None:
        self._end_text()
        self._finished = True
        self.pause()
        for notice in run_lines.repeated(self._state):
            self._notice(notice)
        if self.in_session and event.error is not None and event.error["code"] != ErrorCode.INTERRUPTED:
            said = f"{event.error['code']}: {visible_line(event.error['message'], 10_000)}"
            self._print_above(Hanging(Text("✗ ", self.theme.styles["error"]), self.theme.line(said, "error")))
        foot = self.theme.line(run_lines.footer(event, self._state), "dim")
        self._print_above(foot if self.compact or not self._above else Group(Text(), foot))

    def _notice(self, notice: Notice) -> None:
        self._print(visible_line(notice.message, 1_000), "dim" if notice.level == "info" else notice.level)

    def _end_text(self) -> None:
        if rest := self._blocks.rest().strip("\n"):
            self._print_markdown(rest)

    def _print_markdown(self, text: str) -> None:
        block = MarkdownBlock(text, self.theme, self._is_first_text)
        self._printed_text = True
        self._print_above(block, "text")

    @property
    def _is_first_text(self) -> bool:
        return self.compact or not (self._printed_text or self._above)

    def _print(self, line: str, style: Style) -> None:
        self._print_above(self.theme.line(line, style))

    def _print_above(self, finished: RenderableType, kind: Literal["line", "text"] = "line") -> None:
        """Print what stays, and what moves again below it: in one write, so that nothing is seen to jump."""
        self._above = kind
        with self.console:
            if self._live is not None:
                self._live.update(Group(), refresh=True)
            self.console.print(finished)
            if self._live is not None:
                self._live.update(self._moving(), refresh=True)

    def _draw(self) -> None:
        now = time.monotonic()
        if self.shares_screen and not self._blocks.tail.strip():
            self.pause()
            return
        if self._finished or now - self._drawn_at < 0.08:  # drawn more often, nobody would see the difference
            return
        self._drawn_at = now
        if self._live is None:
            self._live = Live(
                console=self.console,
                auto_refresh=False,
                transient=True,
                redirect_stdout=not self.shares_screen,
                redirect_stderr=not self.shares_screen,
                vertical_overflow="crop",
            )
            self._live.start()
            self._drawn = ""
        looks = self._blocks.tail + "\n".join(line.plain for line in self._status())
        if looks != self._drawn:
            self._drawn = looks
            self._live.update(self._moving(), refresh=True)

    def _moving(self) -> RenderableType:
        """Build what is drawn below the finished part."""
        status = self._status()
        if not self._blocks.tail.strip():
            return Group(*status)
        height = max(3, self.console.height - len(status) - 2)
        return Group(MarkdownBlock(self._blocks.tail, self.theme, self._is_first_text, height), *status)

    def _status(self) -> list[Text]:
        if self.shares_screen:
            return []
        now = time.monotonic()
        lines = [line for each in self._running.values() for line in _running_lines(each, now, self.details)]
        if self._doing:
            about = f" · {self._thinking.last_line}" if self._doing == "thinking" else ""
            lines.append(Text(f"… {self._doing} {now - self._since:.0f} s{about}".rstrip(" ·"), "dim"))
        if self._draft:
            lines.append(Text(f"> {self._draft[-self.console.width + 4 :]}▏", "bold"))
        else:
            facts = [KEYS_AT_WORK] if self.in_session else []
            if self._state.turn is not None:  # before the second step the step's own clock says the time
                cost = self._state.totals.cost_usd
                facts = [f"{now - self._began:.0f} s in all", *([dollars(cost)] if cost else []), *facts]
            lines += [Text(" · ".join(facts), "dim")] if facts else []
        for line in lines:
            line.truncate(self.console.width, overflow="ellipsis")
        return lines


def _running_lines(running: _Running, now: float, details: bool) -> list[Text]:
    expected = run_lines.estimate(running.estimated_seconds, now - running.since)
    call, agent = running.item.call, running.item.progress
    verb, space, rest = (run_lines.running_title(call) if call else running.item.name).partition(" ")
    lines = [Text.assemble("● ", (verb, "bold"), space + rest, (f" · {now - running.since:.0f} s{expected}", "dim"))]
    if agent is not None:
        lines[0].append(f" · {agent.facts()} · {agent.doing}".removesuffix(" · "), "dim")
        if not details:
            return lines
    shown = [line for line in running.output.splitlines() if line.strip()][-ON_TERMINAL.output_lines :]
    return [*lines, *(Text(f"  {line}", "dim") for line in shown)]


def live_view(
    out: TextIO,
    look: Look = DEFAULT_LOOK,
    *,
    shares_screen: bool = False,
    details: bool = False,
    in_session: bool = False,
) -> LiveView:
    """A view that draws on the terminal `out`."""
    theme = theme_named(look.theme)
    return LiveView(theme.console(out), theme, look.compact, shares_screen, details, in_session)
