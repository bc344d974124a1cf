"""The line that prompts are typed in: several lines, history, completion, lists, and below it the mode and the cost.

prompt_toolkit comes with IPython; importing it takes a tenth of a second, so only an interactive session does.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, ThreadedCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, has_completions, to_filter
from prompt_toolkit.formatted_text import FormattedText
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import Dimension, Float, FloatContainer, HSplit, Layout, Window
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
from cellwright.terminal.interactive.keys import SEQUENCE_SECONDS
from cellwright.terminal.interactive.picker import PickerRow, pick
from cellwright.terminal.interactive.stop_requests import on_stop_request
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
LABEL_CHARS = 36
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
        with on_stop_request(self._leave):
            return self._session.prompt([("class:prompt", PROMPT)], default=draft)

    def _leave(self, request: SystemExit) -> None:
        """End the line by `request`, which leaves the terminal as it was: raised where the loop waits, it would not."""
        app = self._session.app
        if app.loop is None:
            raise request
        app.loop.call_soon_threadsafe(functools.partial(app.exit, exception=request))

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
    layout.container = FloatContainer(HSplit([layout.container, Window(height=Dimension(min=6))]), floats)


class _Words(Completer):
    def __init__(self, suggest: Suggest) -> None:
        self._suggest = suggest

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        word = word_begun(document.text_before_cursor)
        is_before_space = document.current_char.isspace()
        for each in self._suggest(word) if word else ():
            text = each.insert.rstrip() if is_before_space else each.insert
            yield Completion(text, -len(word), display=visible_line(each.label, LABEL_CHARS), display_meta=each.about)


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

    `look` is the session's. `keep_history` False leaves no trace on disk; `toggle_details` is Ctrl-O's, and says what holds
    then.
    """

    def __init__(
        self,
        conversation: Conversation,
        *,
        options: Callable[[], RunOptions],
        page_of: Callable[[str], CommandPage],
        keys: KeysAtWork,
        toggle_details: Callable[[], bool],
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
        self._line = PromptLine(
            suggest=self._suggest,
            status=self._status,
            cycle_mode=self._cycle_mode,
            toggle_details=toggle_details,
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
    shown = [tuple(visible_line(cell, CELL_CHARS) for cell in row) for row in table]
    columns = [column for column in zip(*shown, strict=True) if any(column[1:])]
    widths = [max(map(len, column)) for column in columns]
    signs = [">" if is_number(column[1:]) else "<" for column in columns]
    by = table[0].index("id") if "id" in table[0] else 0
    rows = []
    for row, (label, *cells) in zip(table, zip(*columns, strict=True), strict=True):
        padded = [f"{cell:{sign}{width}}" for cell, sign, width in zip(cells, signs[1:], widths[1:], strict=True)]
        rows.append(PickerRow(row[by], label, "  ".join(padded).rstrip()))
    return rows[0], rows[1:]


CELL_CHARS = 60
