"""A list to choose from: arrows or letters, Enter takes, Escape leaves."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct
from prompt_toolkit import Application
from prompt_toolkit.application import get_app
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import FormattedTextControl, HSplit, Layout, Window

from cellwright.terminal.interactive.keys import SEQUENCE_SECONDS

if TYPE_CHECKING:
    from prompt_toolkit.input import Input
    from prompt_toolkit.output import Output

MAX_ROWS = 12
HELP = "↑ ↓ or letters choose · Enter takes · Escape leaves"


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
        return _lines(title, head, shown, dim, get_app().output.get_size().columns)

    control = FormattedTextControl(lines, show_cursor=False)
    application: Application[str | None] = Application(
        layout=Layout(HSplit([Window(control, dont_extend_height=True)])),
        key_bindings=_keys(shown),
        erase_when_done=True,
        input=keyboard,
        output=screen,
    )
    application.ttimeoutlen = SEQUENCE_SECONDS
    return application.run()


def _lines(title: str, head: PickerRow | None, shown: _Shown, dim: str, columns: int) -> StyleAndTextTuples:
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
    return [*lines, (dim, f"{rest}{HELP}")]


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else f"{text[: max(0, room - 1)].rstrip()}…"


def _keys(shown: _Shown) -> KeyBindings:
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
