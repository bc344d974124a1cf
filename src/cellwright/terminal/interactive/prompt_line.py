"""The line that prompts are typed in: several lines, history, completion, lists, and below it the mode and the cost.

prompt_toolkit comes with IPython; importing it takes a tenth of a second, so only an interactive session does.
"""

from __future__ import annotations

import functools
import os
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from prompt_toolkit import Application, PromptSession
from prompt_toolkit.application import get_app, run_in_terminal
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, ThreadedCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, has_completions, to_filter
from prompt_toolkit.formatted_text import FormattedText, StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import Dimension, Float, FloatContainer, FormattedTextControl, HSplit, Layout, Window
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.styles import Style

from cellwright.agent.context_usage import context_tokens
from cellwright.commands.command import CommandPage, Row, is_number
from cellwright.commands.completion import ProjectFiles, agent_items, commands, found_files, means_agents
from cellwright.commands.model_and_mode import IN_FORCE
from cellwright.config.settings.option_table import CHOSEN
from cellwright.conversation.resolve_options import mode_of, model_of
from cellwright.errors import CellwrightError
from cellwright.model.models import limits, model_name
from cellwright.permissions.modes import MODE_LABELS
from cellwright.sessions.state_dir import PRIVATE_FILE, make_private_folder, sessions_folder
from cellwright.terminal.exit_codes import on_stop_request
from cellwright.terminal.interactive.keys import SEQUENCE_SECONDS
from cellwright.terminal.views.page_view import draw_prompt
from cellwright.terminal.views.terminal_text import Look
from cellwright.terminal.views.themes import theme_named
from cellwright.text import dollars, visible_line

if TYPE_CHECKING:
    from prompt_toolkit.input import Input
    from prompt_toolkit.output import Output

    from cellwright.conversation.runs.run_options import RunOptions
    from cellwright.features.conversation import Conversation
    from cellwright.terminal.interactive.keys import KeysAtWork


PROMPT = "> "
PLACEHOLDER = "What should Claude do?  / commands · @ files · ! shell"

DIM = "ansibrightblack"

_STYLES = {
    "prompt": "bold",
    "completion-menu": "bg:default",
    "completion-menu.completion": "noinherit",
    "completion-menu.completion.current": "reverse",
    "scrollbar.background": "noinherit",
}

CYCLED_MODES = ("default", "acceptEdits", "plan")
"""As in Claude Code; what asks for nothing is chosen by its name."""

PICKED = (*(f"/{name}" for name in CHOSEN), "/output-style", "/resume")
"""Commands that show what there is where nothing follows them: here one is chosen from a list."""

MAX_ROWS = 12
"""Of a list to choose from, at once."""


def _style(dim: str, accent: str) -> Style:
    quiet = ("placeholder", "completion-menu.meta.completion", "completion-menu.meta.completion.current")
    return Style.from_dict(
        {
            "bottom-toolbar": f"noreverse {dim}",
            "bottom-toolbar mode": f"bold {accent}",
            **_STYLES,
            "scrollbar.button": f"noinherit reverse {dim}",
            **dict.fromkeys(quiet, f"noinherit {dim}"),
        }
    )


class Suggestion(Struct, frozen=True):
    """Something that can stand in a prompt: `insert` takes the place of the word that was begun."""

    insert: str
    label: str
    about: str = ""


Suggest = Callable[[str], Sequence[Suggestion]]
"""Gives what a word that begins with `/` or `@` may become. Called on a thread of its own."""


class PromptLine:
    """Reads prompts. `status` gives the mode and the facts below the line; the last are left out where it is narrow.

    `cycle_mode` and `toggle_details` are keys. `dim` is the colour of what is less important, `accent` that of the mode
    ("": the text's own).
    """

    def __init__(
        self,
        *,
        suggest: Suggest,
        status: Callable[[], tuple[str, list[str]]],
        cycle_mode: Callable[[], None],
        toggle_details: Callable[[], object],
        history: Path | None,
        keyboard: Input | None = None,
        screen: Output | None = None,
        monochrome: bool = False,
        dim: str = DIM,
        accent: str = "",
    ) -> None:
        self._status = status
        self._session: PromptSession[str] = PromptSession(
            history=_history(history),
            completer=ThreadedCompleter(_Words(suggest)),
            complete_while_typing=True,
            reserve_space_for_menu=0,  # the space below the status line is its
            multiline=True,
            prompt_continuation=lambda width, _line, _soft: " " * width,
            key_bindings=_keys(cycle_mode, toggle_details),
            bottom_toolbar=self._toolbar,
            placeholder=[("class:placeholder", PLACEHOLDER)],
            style=_style(dim, accent),
            color_depth=ColorDepth.MONOCHROME if monochrome else None,
            enable_open_in_editor=True,
            erase_when_done=True,
            input=keyboard,
            output=screen,
        )
        _set_status_below_input(self._session.layout)
        self._session.app.ttimeoutlen = SEQUENCE_SECONDS  # else a letter soon after Escape is lost as Alt with it

    def read(self, draft: str = "") -> str:
        """The next prompt, begun as `draft`; its line is gone then. Raises EOFError and KeyboardInterrupt as `input`."""
        app = self._session.app

        def leave(request: SystemExit) -> None:
            # it leaves the terminal as it was: raised where the loop waits, it would not
            if app.loop is None:
                raise request
            app.loop.call_soon_threadsafe(functools.partial(app.exit, exception=request))

        with on_stop_request(leave):
            return self._session.prompt([("class:prompt", PROMPT)], default=draft)

    def _toolbar(self) -> FormattedText:
        if get_app().current_buffer.complete_state is not None:
            return FormattedText([])  # the menu is over it
        mode, facts = self._status()
        columns = get_app().output.get_size().columns
        while len(line := " · ".join([f" {mode} (Shift-Tab)", *facts])) > columns and len(facts) > 1:
            facts.pop()
        return FormattedText([("class:mode", f" {mode}"), ("", line[len(mode) + 1 :])])


def _set_status_below_input(layout: Layout) -> None:
    """Have the status line follow what is written; menus open over it, and over the empty lines below it.

    prompt_toolkit sets it at the window's lower edge, as far away as there is room.
    """
    layout.current_window.dont_extend_height = to_filter(True)
    floats: list[Float] = []
    for container in layout.walk():
        if isinstance(container, FloatContainer):
            floats += container.floats
            container.floats = []

    def rows_for_menu() -> Dimension:
        # once a word is begun that it completes; else a page above keeps these rows
        return Dimension(min=6 if word_begun(get_app().current_buffer.document.text_before_cursor) else 0)

    layout.container = FloatContainer(HSplit([layout.container, Window(height=rows_for_menu)]), floats)


class _Words(Completer):
    def __init__(self, suggest: Suggest) -> None:
        self._suggest = suggest

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        word = word_begun(document.text_before_cursor)
        is_before_space = document.current_char.isspace()
        for each in self._suggest(word) if word else ():
            text = each.insert.rstrip() if is_before_space else each.insert
            yield Completion(text, -len(word), display=visible_line(each.label, 36), display_meta=each.about)


def word_begun(before: str) -> str:
    """The word before the cursor that can be completed: a command at the very beginning, a mention anywhere; else "".

    >>> word_begun("/res"), word_begun("look at @src/ma"), word_begun("a/b"), word_begun("me@home")
    ('/res', '@src/ma', '', '')
    """
    if before.startswith("/") and not any(letter.isspace() for letter in before):
        return before
    word = before[max(before.rfind(" "), before.rfind("\n"), before.rfind("\t")) + 1 :]
    return word if word.startswith("@") else ""


def _history(file: Path | None) -> History:
    if file is None:
        return InMemoryHistory()
    try:
        make_private_folder(file.parent)
        os.close(os.open(file, os.O_WRONLY | os.O_CREAT, PRIVATE_FILE))
    except OSError:  # without a place for it, it lasts as long as the session
        return InMemoryHistory()
    return FileHistory(str(file))


@Condition
def goes_on() -> bool:
    """True behind a backslash: the line goes on."""
    return get_app().current_buffer.document.text_before_cursor.endswith("\\")


def _keys(cycle_mode: Callable[[], None], toggle_details: Callable[[], object]) -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter")
    def _send(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    @keys.add("enter", filter=goes_on)
    def _new_line_for_backslash(event: KeyPressEvent) -> None:
        event.current_buffer.delete_before_cursor(1)
        event.current_buffer.insert_text("\n")

    @keys.add("enter", filter=has_completions)
    def _take(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        state = buffer.complete_state
        if state is not None and state.current_completion is not None:
            buffer.apply_completion(state.current_completion)
            if not buffer.text.startswith("/") or buffer.text.endswith(" "):
                return  # there is more to write
        buffer.validate_and_handle()

    @keys.add("escape", "enter")
    def _new_line(event: KeyPressEvent) -> None:
        event.current_buffer.insert_text("\n")

    @keys.add("escape", filter=has_completions, eager=True)
    def _close_menu(event: KeyPressEvent) -> None:
        event.current_buffer.cancel_completion()

    def calls(key: str, function: Callable[[], object]) -> None:
        @keys.add(key)
        def _call(event: KeyPressEvent) -> None:
            function()
            event.app.invalidate()

    calls("s-tab", cycle_mode)
    calls("c-o", toggle_details)
    return keys


class SessionLine:
    """Reads the prompts of `conversation`. `page_of` does a command; `options` are those of the next run.

    `look` is the session's. `keep_history` False leaves no trace on disk; `toggle_details` is Ctrl-O's, and gives what draws
    the details that are shown from then on.
    """

    def __init__(
        self,
        conversation: Conversation,
        *,
        options: Callable[[], RunOptions],
        page_of: Callable[[str], CommandPage],
        keys: KeysAtWork,
        toggle_details: Callable[[], Callable[[], None] | None],
        details: Callable[[], bool],
        keep_history: bool,
        look: Look,
    ) -> None:
        self._conversation = conversation
        self._options = options
        self._page_of = page_of
        self._keys = keys
        self._look = look
        self._details = details
        theme = theme_named(look.theme)
        dim = theme.styles["dim"]
        self._dim = dim if dim.startswith("#") else DIM
        self._files = ProjectFiles(conversation.cwd, lambda: conversation.in_force.settings.respect_gitignore)

        def show_details() -> None:
            if (draw := toggle_details()) is not None:
                run_in_terminal(draw)

        self._line = PromptLine(
            suggest=self._suggest,
            status=self._status,
            cycle_mode=self._cycle_mode,
            toggle_details=show_details,
            history=sessions_folder(conversation.cwd) / "prompt-history" if keep_history else None,
            monochrome=look.theme in ("none", "high-contrast"),
            dim=self._dim,
            accent=theme.accent,
        )

    def read(self) -> str:
        """The next prompt, or the command with what was chosen for it. Raises EOFError and KeyboardInterrupt."""
        if not self._look.compact:
            print()
        draft, self._keys.draft = self._keys.draft, ""
        typed = self._line.read(draft)
        prompt = self._picked(typed.strip()) if typed.strip() in PICKED else typed
        if prompt.strip():
            draw_prompt(prompt.strip("\n"), sys.stdout, self._look)
        return prompt

    def _picked(self, command: str) -> str:
        try:
            section = self._page_of(command).sections[0]
        except CellwrightError:
            return command  # it says by itself what is wrong
        if len(section.rows) < 2:
            return command
        head, rows = _picker_rows(section.rows)
        now = next((row[0] for row in section.rows[1:] if IN_FORCE in row[1:]), "")
        taken = pick(section.title, rows, head=head, selected=now, dim=self._dim)
        return "" if taken is None else f"{command} {taken}"

    def _suggest(self, word: str) -> list[Suggestion]:
        conversation = self._conversation
        if word.startswith("/"):
            found = commands(word[1:], conversation.features.skills.all(), conversation.features.mcp.prompts())
        else:
            text = word[1:]
            agents = agent_items(conversation.features.agents, text)
            task = conversation.thread.submit(found_files(self._files, text))
            files = task.future.result(5.0)
            found = [*agents, *files] if means_agents(text) else [*files, *agents]
        return [Suggestion(item["insert"], item["label"], item["about"]) for item in found]

    def _mode(self) -> str:
        in_force = self._conversation.in_force
        return self._conversation.sessions.current.mode or mode_of(
            self._options(), in_force.settings, in_force.environment
        )

    def _cycle_mode(self) -> None:
        now = self._mode()
        after = CYCLED_MODES[(CYCLED_MODES.index(now) + 1) % len(CYCLED_MODES)] if now in CYCLED_MODES else "default"
        self._page_of(f"/mode {after}")

    def _status(self) -> tuple[str, list[str]]:
        session, in_force = self._conversation.sessions.current, self._conversation.in_force
        try:
            mode = self._mode()
            model = model_of(self._options(), in_force.settings, in_force.environment)
        except CellwrightError as error:
            return "", [error.message]
        parts = [model_name(model)]
        size = limits(model)
        if session.encoded and size.known:
            parts.append(f"{context_tokens(session) / size.context_window:.0%} context")
        if session.cost_usd:
            parts.append(dollars(session.cost_usd))
        parts.append(f"Ctrl-O {'hides ' if self._details() else ''}details")
        return MODE_LABELS[mode][0], parts


def _picker_rows(table: Sequence[Row]) -> tuple[PickerRow, list[PickerRow]]:
    """The head and the rows to choose from, in columns; each is taken by its id if it has one."""
    shown = [tuple(visible_line(cell, 60) for cell in row) for row in table]
    columns = [column for column in zip(*shown, strict=True) if any(column[1:])]
    widths = [max(map(len, column)) for column in columns]
    signs = [">" if is_number(column[1:]) else "<" for column in columns]
    by = table[0].index("id") if "id" in table[0] else 0
    rows = []
    for row, (label, *cells) in zip(table, zip(*columns, strict=True), strict=True):
        padded = [f"{cell:{sign}{width}}" for cell, sign, width in zip(cells, signs[1:], widths[1:], strict=True)]
        rows.append(PickerRow(row[by], label, "  ".join(padded).rstrip()))
    return rows[0], rows[1:]


class PickerRow(Struct, frozen=True):
    """One thing to choose."""

    value: str
    label: str
    about: str = ""


class _Shown(Struct):
    rows: Sequence[PickerRow]
    selected: int = 0
    words: str = ""

    @property
    def fitting(self) -> list[PickerRow]:
        """The rows that hold all the letters typed, in any case."""
        words = self.words.lower().split()
        return [row for row in self.rows if all(word in f"{row.label} {row.about}".lower() for word in words)]

    def move(self, by: int) -> None:
        self.selected = max(0, min(len(self.fitting) - 1, self.selected + by))


def pick(
    title: str,
    rows: Sequence[PickerRow],
    *,
    head: PickerRow | None = None,
    selected: str = "",
    dim: str = "ansibrightblack",
    keyboard: Input | None = None,
    screen: Output | None = None,
) -> str | None:
    """Show `rows` below the last line and return the value of the one that is taken; None when none is.

    `head` names their columns; `dim` is the colour of what is less important.
    """
    places = [row.value for row in rows]
    shown = _Shown(rows, places.index(selected) if selected in places else 0)

    def lines() -> StyleAndTextTuples:
        return _picker_lines(title, head, shown, dim, get_app().output.get_size().columns)

    control = FormattedTextControl(lines, show_cursor=False)
    application: Application[str | None] = Application(
        layout=Layout(HSplit([Window(control, dont_extend_height=True)])),
        key_bindings=_picker_keys(shown),
        erase_when_done=True,
        input=keyboard,
        output=screen,
    )
    application.ttimeoutlen = SEQUENCE_SECONDS
    return application.run()


def _picker_lines(title: str, head: PickerRow | None, shown: _Shown, dim: str, columns: int) -> StyleAndTextTuples:
    fitting = shown.fitting
    first = max(0, min(shown.selected - MAX_ROWS // 2, len(fitting) - MAX_ROWS))
    lines: StyleAndTextTuples = [("bold", title), ("", f"  {shown.words}\n" if shown.words else "\n")]
    width = max((len(row.label) for row in [*fitting, *([head] if head else [])]), default=0)
    room = columns - width - 5
    if head is not None and head.about:
        lines.append((dim, f"  {head.label:<{width}}  {_cut(head.about, room)}\n"))
    for number, row in enumerate(fitting[first : first + MAX_ROWS], first):
        mark, style = ("❯", "bold") if number == shown.selected else (" ", "")
        lines += [(style, f"{mark} {row.label:<{width}}"), (dim, f"  {_cut(row.about, room)}\n")]
    if not fitting:
        lines.append(("", "  nothing fits\n"))
    elif len(about := fitting[shown.selected].about) > room:
        said = textwrap.wrap(" ".join(about.split()), columns - 2)
        lines += [(dim, f"  {line}\n") for line in said]
    rest = f"{len(fitting)} in all · " if len(fitting) > MAX_ROWS else ""
    return [*lines, (dim, f"{rest}↑ ↓ or letters choose · Enter takes · Escape leaves")]


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: max(0, room - 1)].rstrip()}…"


def _picker_keys(shown: _Shown) -> KeyBindings:
    keys = KeyBindings()

    def moves(key: str, by: int) -> None:
        keys.add(key)(lambda _event: shown.move(by))

    for key, by in (("up", -1), ("down", 1), ("pageup", -MAX_ROWS), ("pagedown", MAX_ROWS)):
        moves(key, by)

    @keys.add("enter")
    def _take(event: KeyPressEvent) -> None:
        fitting = shown.fitting
        if fitting:
            event.app.exit(result=fitting[shown.selected].value)

    @keys.add("escape", eager=True)
    @keys.add("c-c")
    @keys.add("c-d")
    def _leave(event: KeyPressEvent) -> None:
        event.app.exit(result=None)

    @keys.add("backspace")
    def _erase(_event: KeyPressEvent) -> None:
        shown.words, shown.selected = shown.words[:-1], 0

    @keys.add(Keys.Any)
    def _write(event: KeyPressEvent) -> None:
        if event.data.isprintable():
            shown.words, shown.selected = shown.words + event.data, 0

    return keys
