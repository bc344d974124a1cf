"""The choice of who shows a run and who answers its questions, by the options and by what the streams are."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from cellwright.errors import CellwrightError
from cellwright.events import RunEnd
from cellwright.terminal.claude_code.flags import CLAUDE_FORMATS
from cellwright.terminal.views.plain_view import AnswerView, JsonLinesView, JsonView, PlainView, View
from cellwright.terminal.views.streams import Streams
from cellwright.terminal.views.terminal_text import DEFAULT_LOOK, Look, can_ask, columns_of

if TYPE_CHECKING:
    from cellwright.terminal.claude_code.messages import ClaudeOutput
    from cellwright.terminal.question import Asker


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
    if screen is None:
        return None

    def make() -> Asker:
        from cellwright.terminal.interactive.answer_menu import asker  # rich, and most runs ask nothing

        return asker(streams, screen, answer_seconds, look)

    return make


def tell_program(error: CellwrightError, output_format: str, streams: Streams) -> None:
    """Tell what kept the run from starting, in the format that the program reads."""
    claude = None
    if output_format in CLAUDE_FORMATS:
        from cellwright.terminal.claude_code.messages import ClaudeOutput  # as above

        claude = ClaudeOutput(out=streams.stdout, facts=dict)
    end = RunEnd("error", "", {}, 0.0, 0.0, 0, 0, 0, error=error.to_json(), at=time.time())
    make_view(streams, output_format, quiet=True, claude=None if claude is None else lambda: claude).emit(end)
