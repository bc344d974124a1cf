"""The choice of who shows a run and who answers its questions, by the options and by what the streams are."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TextIO, cast

from msgspec import Struct
from msgspec.structs import replace

from cellwright.terminal.interactive.keys import reads_keys
from cellwright.terminal.views.plain_view import AnswerView, JsonLinesView, JsonView, PlainView, View
from cellwright.terminal.views.terminal_text import DEFAULT_LOOK, Look, Style, can_ask, columns_of, draws
from cellwright.text import visible

if TYPE_CHECKING:
    from cellwright.events import Preview
    from cellwright.terminal.claude_code.messages import ClaudeOutput
    from cellwright.terminal.question import Asker, Card, OfferedAnswer, Write


class Streams(Struct, frozen=True, kw_only=True):
    """The three streams and the environment that says what their terminal can do."""

    stdin: TextIO
    stdout: TextIO
    stderr: TextIO
    environ: Mapping[str, str]

    def draws_on(self, stream: TextIO) -> bool:
        return draws(stream, self.environ, columns_of(stream, self.environ))


def make_view(
    streams: Streams,
    output_format: str,
    *,
    quiet: bool,
    claude: Callable[[], ClaudeOutput] | None = None,
    all_messages: bool = False,
    details: bool = False,
    in_session: bool = False,
    look: Look = DEFAULT_LOOK,
) -> View:
    """The view for one run; `claude` says what Claude Code's formats need, and with `all_messages` its JSON has them all.

    With `details` a terminal shows results of calls and thinking whole; `in_session`: keys are read while Claude works.
    """
    if claude is not None:
        from cellwright.terminal.claude_code.messages import ClaudeJsonView, ClaudeStreamView  # other formats are usual

        if output_format == "stream-json":
            return ClaudeStreamView(claude())
        return ClaudeJsonView(claude(), all_messages=all_messages)
    if output_format == "json-lines":
        return JsonLinesView(streams.stdout)
    if output_format == "json":
        return JsonView(streams.stdout)
    if quiet or not streams.stdout.isatty():
        return AnswerView(streams.stdout, None if quiet else streams.stderr)
    if not streams.draws_on(streams.stdout):
        return PlainView(streams.stdout, columns_of(streams.stdout, streams.environ))
    from cellwright.terminal.views.live_view import live_view  # rich: imported while the first request is on its way

    return live_view(streams.stdout, look, details=details, in_session=in_session)


def asker_maker(
    streams: Streams,
    output_format: str,
    *,
    quiet: bool,
    answer_seconds: float | None = None,
    look: Look = DEFAULT_LOOK,
) -> Callable[[], Asker] | None:
    """Return the maker of the one who asks, when there is a question; None where nobody can be asked.

    A question of Claude's own waits `answer_seconds` for its answer, or for ever.
    """
    # stdout is the answer's alone when it goes to a program
    screens = [streams.stdout, streams.stderr] if output_format == "text" and not quiet else [streams.stderr]
    screen = can_ask(streams.stdin, *screens)
    return functools.partial(_asker, streams, screen, answer_seconds, look) if screen is not None else None


def _asker(streams: Streams, screen: TextIO, answer_seconds: float | None, look: Look) -> Asker:
    from cellwright.terminal.interactive.interact import Keyboard  # most runs ask nothing
    from cellwright.terminal.question import Asker, Card

    card = Card(screen)
    write = line_writer(streams, screen, look, card)
    keyboard = Keyboard(streams.stdin, screen, streams.environ, lambda problem: write(problem, "error"))
    read_in_time = functools.partial(keyboard.line, seconds=answer_seconds)
    asker = Asker(write, keyboard.line, "terminal", keyboard.edited, read_in_time)
    if not streams.draws_on(screen):
        return asker
    draw_markdown = markdown_drawer(screen, look)
    drawn = preview_drawer(cast("TextIO", card), look)
    asker = replace(asker, draw=drawn, draw_markdown=draw_markdown, compact=look.compact)
    if not reads_keys(streams.stdin):
        return asker
    from cellwright.terminal.interactive.answer_menu import choose
    from cellwright.terminal.views.themes import theme_named

    theme = theme_named(look.theme)

    def choose_one(answers: Sequence[OfferedAnswer], hint: str) -> tuple[str, str] | None:
        how = {"compact": look.compact, "is_apart": not look.compact, "unfolds": True}
        return choose(answers, hint, streams.stdin, screen, theme, **how)

    def choose_in_time(answers: Sequence[OfferedAnswer], hint: str, several: bool) -> tuple[str, str] | None:
        how = {"compact": look.compact, "several": several}
        return choose(answers, hint, streams.stdin, screen, theme, **how, seconds=answer_seconds)

    def edit(text: str) -> str | None:
        card.lose_count()
        return keyboard.edited(text)

    return replace(asker, choose=choose_one, choose_in_time=choose_in_time, edit=edit, card=card)


def preview_drawer(screen: TextIO, look: Look) -> Callable[[Preview, int | None], bool]:
    """Draw what a call does on `screen`: a diff as code, a command or code in the colours of its language.

    Of more than the given number of rows the beginning and the end are drawn; returns whether that is so.
    """
    from cellwright.terminal.views.diff_view import drawn_preview  # rich
    from cellwright.terminal.views.themes import theme_named

    theme = theme_named(look.theme)

    def draw(preview: Preview, rows: int | None = None) -> bool:
        console, whole = theme.console(screen), drawn_preview(preview, theme, compact=look.compact)
        is_folded = rows is not None and len(console.render_lines(whole, pad=False)) > rows
        console.print(replace(whole, max_rows=rows) if is_folded else whole)
        return is_folded

    return draw


def markdown_drawer(screen: TextIO, look: Look) -> Callable[[str], None]:
    """Draw a text of Claude's on `screen` as its answers are, indented."""
    from rich.padding import Padding

    from cellwright.terminal.views.markdown_view import drawn_markdown
    from cellwright.terminal.views.themes import theme_named

    theme = theme_named(look.theme)

    def draw(text: str) -> None:
        theme.console(screen).print(Padding(drawn_markdown(text, theme), (0, 0, 0, 2)))

    return draw


def line_writer(streams: Streams, screen: TextIO, look: Look = DEFAULT_LOOK, card: Card | None = None) -> Write:
    """Write the lines of a question on `screen`, in their styles where it can be drawn on; `card` counts them there."""
    if streams.draws_on(screen):
        from cellwright.terminal.views.live_view import styled_writer

        return styled_writer(screen if card is None else cast("TextIO", card), look)

    def write(line: str, style: Style) -> None:
        print(line, file=screen, flush=True)

    return write


def confirmed(streams: Streams, question: str) -> bool:
    """Ask `question` and return whether the user said yes; no where there is nobody to ask."""
    screen = can_ask(streams.stdin, streams.stderr, streams.stdout)
    if screen is None:
        return False
    print(f"{visible(question)} [y/n] ", end="", file=screen, flush=True)
    return streams.stdin.readline().strip().lower() in ("y", "yes")
