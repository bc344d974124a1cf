"""The line that prompts are typed in: several lines, history, completion, the mode and what it has cost below it.

prompt_toolkit comes with IPython; importing it takes a tenth of a second, so only an interactive session does.
"""

from __future__ import annotations

import functools
import os
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

from cellwright.sessions.state_dir import PRIVATE_FILE, make_private_folder
from cellwright.terminal.interactive.keys import SEQUENCE_SECONDS
from cellwright.terminal.interactive.stop_requests import on_stop_request
from cellwright.text import visible_line

if TYPE_CHECKING:
    from prompt_toolkit.input import Input
    from prompt_toolkit.output import Output

PROMPT = "> "
LABEL_CHARS = 36
MENU_LINES = 6
PLACEHOLDER = "What should Claude do?  / commands · @ files · ! shell"

DIM = "ansibrightblack"

_STYLES = {
    "prompt": "bold",
    "completion-menu": "bg:default",
    "completion-menu.completion": "noinherit",
    "completion-menu.completion.current": "reverse",
    "scrollbar.background": "noinherit",
    "scrollbar.button": "reverse",
}


def _style(dim: str, accent: str) -> Style:
    quiet = ("placeholder", "completion-menu.meta.completion", "completion-menu.meta.completion.current")
    return Style.from_dict(
        {
            "bottom-toolbar": f"noreverse {dim}",
            "bottom-toolbar mode": f"bold {accent}",
            **_STYLES,
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
    layout.container = FloatContainer(HSplit([layout.container, Window(height=Dimension(min=MENU_LINES))]), floats)


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
