"""The prints, displays and result of Claude's code, for the views while it runs and for the model when it is done.

Any thread puts pieces in; the agent's thread takes them out. The two meet in a deque, whose operations are atomic: a
lock held by code that is interrupted would never be released.

Displays become words for a model: the best text of a mimebundle, and the words of HTML, bounded; pictures are named.

The call gives back the result and the error of the code: the user's `Out` and `_` know of neither.
"""

from __future__ import annotations

import asyncio
import base64
import contextvars
import html.parser
import io
import json
import re
import sys
import tokenize
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from IPython.core.display_trap import DisplayTrap
from msgspec import Struct, structs

from cellwright.agent.tool import Content
from cellwright.kernel.execute.output_limits import HEAD_CHARS, TAIL_CHARS
from cellwright.kernel.execute.redirect import Replacement, RunningCode, StreamName
from cellwright.kernel.execute.traceback import short_traceback
from cellwright.kernel.namespace.cell_names import cell_of_file
from cellwright.model.images import image_block
from cellwright.sessions.provenance import FIELD
from cellwright.text import lazy_pattern
from cellwright.tools.notebook.notebook_page import DRAWN_NOTE, display_key, is_drawn, missing_note, plain
from cellwright.tools.notebook.open_notebook import DrawnOutput, Output

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

MAX_TEXT = 12_000
"""Characters of JSON."""

MAX_OF_CHART = 2_000

CHARTS = {
    "application/vnd.vegalite": "Vega-Lite",
    "application/vnd.vega": "Vega",
    "application/vnd.plotly": "Plotly",
    "application/vnd.bokehjs": "Bokeh",
    "application/vnd.holoviews": "HoloViews",
}
"""Displays that are drawn in the browser, by how their mime types start."""

WIDGET = "application/vnd.jupyter.widget-view+json"

CHART_SCRIPTS = {"vegaEmbed": "Vega-Lite", "Plotly.newPlot": "Plotly", "root.Bokeh": "Bokeh", "echarts.init": "ECharts"}
"""The same, of libraries that display a script in HTML."""

_SAYS_NOTHING = lazy_pattern(r"<[\w.<>]+(?: object)?(?: at 0x[0-9a-fA-F]+)?>\s*")

LIVE_SECONDS = 1 / 30
"""The time for which output is collected before a view gets it."""

LIVE_CHARS = 200_000
"""Of one call, a view gets no more than this while the code runs: nobody reads more as it goes by."""

OWN_CODE = "<this call's code>"
EXIT_ADVICE = "UserWarning: To exit: use 'exit', 'quit', or Ctrl-D."
"""IPython's, for people at a prompt, after each SystemExit."""

MAX_IMAGES = 8
IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")

ESCAPE_SEQUENCE = lazy_pattern(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\))")
OVERWRITTEN = lazy_pattern(r"^[^\n]*\r(?=[^\r\n])", re.MULTILINE)

PicturesOf = Callable[[Sequence[str]], Awaitable[list[DrawnOutput]]]
"""Asks the user's page for pictures of displays, by their keys."""


def bundle_texts(data: Mapping[str, Any]) -> dict[str, str]:
    """The texts of a mimebundle that `text_of` chooses from; of a chart only what it is one of."""
    found = {
        mime: str(data[mime]) for mime in ("text/plain", "text/markdown", "text/latex", "text/html") if mime in data
    }
    if "application/json" in data:
        found["application/json"] = json.dumps(data["application/json"], ensure_ascii=False, default=str)[:MAX_TEXT]
    if "image/svg+xml" in data:
        found["image/svg+xml"] = str(data["image/svg+xml"])[:400_000]
    if chart := _chart(data):
        found["chart"] = chart
    if WIDGET in data:
        found["widget"] = WIDGET
    return found


def _chart(data: Mapping[str, Any]) -> str:
    """The library that draws this display, or ""."""
    for start, name in CHARTS.items():
        if any(mime.startswith(start) for mime in data):
            return name
    script = str(data.get("text/html", ""))[:10_000_000]
    return next((name for call, name in CHART_SCRIPTS.items() if call in script), "") if "<script" in script else ""


def text_of(texts: Mapping[str, str]) -> str:
    """The text that says most: what was written for people, else what the object says of itself."""
    plain = texts.get("text/plain", "")
    if "chart" in texts:
        says = "" if _SAYS_NOTHING.fullmatch(plain) else f"{plain[:MAX_OF_CHART]}\n"
        return f"{says}[a chart of {texts['chart']}, drawn in the browser]"
    if "widget" in texts:
        return f"{plain}\n[a widget, as it was when it was displayed]" if plain else ""
    if written := texts.get("text/markdown") or texts.get("text/latex"):
        return written
    if plain and not _SAYS_NOTHING.fullmatch(plain):
        return plain

    if "text/html" in texts:
        return html_text(texts["text/html"]) or plain
    if "application/json" in texts:
        return texts["application/json"]
    if "image/svg+xml" in texts:
        words = html_text(texts["image/svg+xml"])
        return f"[a drawing (SVG){f'; its texts: {words}' if words else ''}]"
    return plain


_SPACES = lazy_pattern(r"[ \t]+")
_BLANK_LINES = lazy_pattern(r"\n\s*\n+")


def html_text(source: str) -> str:
    """The words of HTML, a line for each row of a table and each block, without scripts and styles."""
    reader = _Words()
    reader.feed(source[:400_000])
    text = _SPACES.sub(" ", "".join(reader.words))
    text = _BLANK_LINES.sub("\n", "\n".join(line.strip(" |") for line in text.split("\n"))).strip()
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}\n[… more of the HTML is left out]"


class _Words(html.parser.HTMLParser):
    """Collects texts; cells of a table are set apart by bars."""

    SILENT = ("script", "style", "template", "head")
    INLINE = frozenset(
        (
            *("a", "abbr", "b", "bdi", "code", "em", "font", "i", "kbd", "mark", "q", "s", "samp", "small", "span"),
            *("strong", "sub", "sup", "tspan", "u", "var"),
        )
    )

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self._silent: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._silent is not None:
            return
        if tag in self.SILENT:
            self._silent = tag
        elif tag in ("td", "th"):
            self.words.append(" | ")
        elif tag not in self.INLINE:
            self.words.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag == self._silent:
            self._silent = None
        elif tag not in self.INLINE and tag not in ("td", "th"):
            self.words.append("\n")

    def handle_data(self, data: str) -> None:
        if self._silent is None:
            self.words.append(data.replace("\n", " "))


OUTPUT_CHARS = 800
TEXT_TYPES = ("text/plain", "text/markdown", "text/latex")


def output_text(output: Output) -> str:
    """One output of nbformat 4, its texts joined, as text; two thirds from its beginning, the rest from its end."""
    kind = output.get("output_type")
    if kind == "stream":
        return _bounded(str(output.get("text", "")))
    if kind == "error":
        return _bounded(f"{output.get('ename', 'Error')}: {output.get('evalue', '')}")
    data = output.get("data")
    if not isinstance(data, Mapping):
        return ""
    text = next((str(data[mime]) for mime in TEXT_TYPES if mime in data), "")
    picture = next((mime for mime in data if str(mime).startswith("image/")), None)
    return "\n".join(part for part in (_bounded(text), f"[{picture}]" if picture else "") if part)


def _bounded(text: str) -> str:
    text = plain(text).strip("\n")
    if len(text) <= OUTPUT_CHARS:
        return text
    head, tail = OUTPUT_CHARS * 2 // 3, OUTPUT_CHARS // 3
    return f"{text[:head]}\n[… {len(text) - head - tail:,} characters left out …]\n{text[-tail:]}"


class Display(Struct, frozen=True):
    """A mimebundle that was displayed; images are base64. `display_id` is how it can be updated.

    `data` is what views and models can use of the whole `bundle`, which a cell shows as its own output. `key` is how the
    page finds it again; "" if a model reads it without a page.
    """

    data: Mapping[str, str]
    display_id: str = ""
    bundle: Mapping[str, Any] = {}
    metadata: Mapping[str, Any] = {}
    key: str = ""

    @property
    def image_type(self) -> str:
        """The type of its image, or "" if it has none that a model can read."""
        return next((mime for mime in IMAGE_TYPES if mime in self.data), "")

    @property
    def text(self) -> str:
        """The text that says most of it."""
        return text_of(self.data)


class Update(Struct, frozen=True):
    """A new state of a display that is already there."""

    display: Display


class Clear(Struct, frozen=True):
    """`clear_output`: forget what was there, at once or when the next piece comes."""

    wait: bool


Piece = str | Display | Update | Clear


def display_of(data: Mapping[str, Any], display_id: str = "", metadata: Mapping[str, Any] | None = None) -> Display:
    """A display as it is kept; pictures that are still bytes become base64."""
    bundle = {
        mime: base64.b64encode(value).decode("ascii") if isinstance(value, bytes) else value
        for mime, value in data.items()
    }
    images = {mime: str(bundle[mime]) for mime in IMAGE_TYPES if mime in bundle}
    found = Display({**bundle_texts(data), **images}, display_id, bundle, metadata or {})
    if not is_drawn(bundle):
        return found
    # the fields by which a page finds a display that only it draws: the key is in its output's metadata as well
    key, own = display_key(bundle), found.metadata.get(FIELD)
    place = {**(own if isinstance(own, Mapping) else {}), "display": key}
    return structs.replace(found, key=key, metadata={**found.metadata, FIELD: place})


def drawn_pieces(display: Display, drawn: DrawnOutput) -> Iterator[str | Display]:
    """A display with its picture as its page draws it, or with the reason why there is none."""
    if drawn.data:
        yield "".join(f"{line}\n" for line in (DRAWN_NOTE, drawn.note) if line)
        yield Display({drawn.media_type: drawn.data})
    elif text := "\n".join(filter(None, (display.text, missing_note(drawn.problem)))):
        yield f"{text}\n"


class CapturedOutput:
    """The output of one call. A `CodeOutput`; `put` too is for any thread, the rest for the agent's."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, progress: Callable[..., None], pictures: PicturesOf | None = None
    ) -> None:
        self._loop = loop
        self._pictures = pictures
        # the code's own context marks its output as the code's: what the views do with it must not look like that
        self._context = contextvars.copy_context()
        self._progress = progress
        self._inbox: deque[Piece] = deque()
        self._display_ids: set[str] = set()
        self._drain_is_due = False
        self._live_chars = 0
        self._pictures_told: set[str] = set()
        self._clear_told_before_next = False
        self._kept = BoundedPieces()
        self._clear_before_next = False
        self._code_file = ""

    def put(self, piece: Piece) -> None:
        """Take a piece in; the views get it within `LIVE_SECONDS`."""
        self._inbox.append(piece)
        if not self._drain_is_due:
            # in this order: an interrupt between the two lines must not leave a drain that never comes
            self._loop.call_soon_threadsafe(self._loop.call_later, LIVE_SECONDS, self.drain, context=self._context)
            self._drain_is_due = True

    def write(self, text: str, _stream: StreamName = "stdout") -> None:
        if EXIT_ADVICE not in text:
            # warnings name the file that their code stands in
            self.put(text.replace(self._code_file, OWN_CODE) if self._code_file else text)

    def display(self, data: Mapping[str, Any], metadata: Mapping[str, Any], display_id: str, *, update: bool) -> None:
        display = display_of(data, display_id, metadata)
        self._display_ids.add(display_id)
        self.put(Update(display) if update else display)

    def knows(self, display_id: str) -> bool:
        return display_id in self._display_ids

    def clear(self, *, wait: bool) -> None:
        self.put(Clear(wait))

    def reporters(self, shell: InteractiveShell, code: RunningCode) -> Sequence[Replacement]:
        self._code_file = code.file
        # IPython, which this module can be used without

        return call_reports(shell, code, self.put)

    def drain(self) -> None:
        """Hand what came in to the views, and keep it for the model."""
        self._drain_is_due = False
        text: list[str] = []
        for piece in self._taken():
            self._keep(piece)
            if isinstance(piece, str):
                text.append(piece)
                continue
            # of what is text and nothing else a view needs no more than that
            if isinstance(piece, Display) and not piece.display_id and set(piece.bundle) <= {"text/plain"}:
                text.append(f"{piece.text}\n")
                continue
            self._tell(text)
            text.clear()
            self._show(piece)
        self._tell(text)

    def _show(self, piece: Display | Update | Clear) -> None:
        """Hand a display to the views, or its new state."""
        if isinstance(piece, Clear):
            self._clear_told_before_next = piece.wait
            if not piece.wait:
                self._take_away()
            return
        if self._clear_told_before_next:
            self._take_away()
        update = isinstance(piece, Update)
        display = piece.display if isinstance(piece, Update) else piece
        picture = display.data.get(display.image_type, "")
        if picture and not update:
            if picture in self._pictures_told:
                return  # a figure that is both the last value and open is displayed twice
            self._pictures_told.add(picture)
        place = {"metadata": display.metadata, "display_id": display.display_id, "update": update}
        told = "" if picture or update or not display.text else f"{display.text}\n"
        self._progress(text=self._live(told), output=dict(display.bundle), place=place)

    def _take_away(self) -> None:
        self._clear_told_before_next = False
        self._pictures_told.clear()
        self._progress(place={"clear": True})

    def _taken(self) -> Iterator[Piece]:
        while True:
            try:
                yield self._inbox.popleft()
            except IndexError:
                return

    def _tell(self, pieces: list[str]) -> None:
        if text := self._live("".join(pieces)):
            self._progress(text=text)

    def _live(self, text: str) -> str:
        """As much of `text` as a view gets."""
        if not text or self._live_chars >= LIVE_CHARS:
            return ""
        room = LIVE_CHARS - self._live_chars
        self._live_chars += len(text)
        more = "\n[more output comes, and is not shown here]\n" if len(text) >= room else ""
        return text[:room] + more

    def _keep(self, piece: Piece) -> None:
        if isinstance(piece, Clear):
            self._clear_before_next = piece.wait
            if not piece.wait:
                self._kept = BoundedPieces()
            return
        if self._clear_before_next:
            self._clear_before_next = False
            self._kept = BoundedPieces()
        if isinstance(piece, Update):
            self._kept.update(piece.display)
        else:
            self._kept.add(piece)

    async def content(self) -> Content:
        """Everything, as the model gets it: text, and pictures as image blocks. Call it when the code is done."""
        self.drain()  # here, and not where pictures are scaled: on two threads at once pieces would change places
        pieces = self._kept.pieces()
        if self._pictures is not None:
            pieces = await _with_pictures(pieces, self._pictures)
        # scaling pictures down takes a while
        return await asyncio.to_thread(content_of, pieces)


async def _with_pictures(pieces: Sequence[str | Display], pictures: PicturesOf) -> list[str | Display]:
    """The pieces, those that only a page draws with their pictures as far as one call gives back more of them."""
    room = MAX_IMAGES - sum(isinstance(piece, Display) and piece.image_type != "" for piece in pieces)
    keys = [piece.key for piece in pieces if isinstance(piece, Display) and piece.key]
    asked = list(dict.fromkeys(keys))[: max(room, 0)]
    drawn = dict(zip(asked, await pictures(asked), strict=True)) if asked else {}
    left_out = DrawnOutput(problem=f"one call gives back at most {MAX_IMAGES} pictures")
    shown: list[str | Display] = []
    for piece in pieces:
        if isinstance(piece, Display) and piece.key:
            shown += drawn_pieces(piece, drawn.get(piece.key, left_out))
        else:
            shown.append(piece)
    return shown


class BoundedPieces:
    """Pieces in order, the first and the last of them: what is between is counted and let go."""

    def __init__(self, head_chars: int = HEAD_CHARS, tail_chars: int = TAIL_CHARS) -> None:
        self._most_in_head = head_chars
        self._most_in_tail = tail_chars
        self._line = ""
        self._head: list[str | Display] = []
        self._tail: deque[str | Display] = deque()
        self._head_chars = 0
        self._tail_chars = 0
        self._left_out = 0
        self._images: set[str] = set()
        self._images_left_out = 0

    def add(self, piece: str | Display) -> None:
        if isinstance(piece, str):
            self._add_text(piece)
            return
        self._end_line()
        if not piece.image_type:
            self._push(piece if piece.display_id or piece.key else _on_lines_of_its_own(piece.text))
            return
        picture = piece.data[piece.image_type]
        if picture in self._images:
            # a figure that is both the last value and open is displayed twice
            self._push("[the same picture again]\n")
        elif len(self._images) == MAX_IMAGES:
            self._images_left_out += 1
        else:
            self._images.add(picture)
            self._push(piece)

    def update(self, display: Display) -> None:
        """Put a new state in the place of the old one; one that is not held any more is let go."""
        for pieces in (self._head, self._tail):
            for index, piece in enumerate(pieces):
                if isinstance(piece, Display) and piece.display_id == display.display_id:
                    pieces[index] = display
                    return

    def pieces(self) -> list[str | Display]:
        self._end_line()
        gap = [f"\n[… {self._left_out:,} characters left out …]\n"] if self._left_out else []
        more = self._images_left_out
        note = [f"[{more} more pictures left out: one call gives back at most {MAX_IMAGES}]\n"] if more else []
        return [*self._head, *gap, *self._tail, *note]

    def _add_text(self, text: str) -> None:
        """Keeps the last line open: a progress bar overwrites it a thousand times, and only its last state counts."""
        self._line += text
        if "\n" in self._line or len(self._line) > 10_000:
            done, newline, self._line = self._line.rpartition("\n")
            self._push(_overwritten_removed(done + newline))
        if "\r" in self._line:
            self._line = _overwritten_removed(self._line)

    def _end_line(self) -> None:
        if self._line:
            self._push(_overwritten_removed(self._line))
            self._line = ""

    def _push(self, piece: str | Display) -> None:
        size = _size(piece)
        room = self._most_in_head - self._head_chars
        if not self._tail and size <= room:
            self._head.append(piece)
            self._head_chars += size
            return
        if isinstance(piece, str) and not self._tail:
            self._head.append(piece[:room])
            self._head_chars = self._most_in_head
            piece = piece[room:]
        self._tail.append(piece)
        self._tail_chars += _size(piece)
        while self._tail_chars > self._most_in_tail:
            self._shorten_tail()

    def _shorten_tail(self) -> None:
        first = self._tail.popleft()
        if isinstance(first, Display) and first.image_type:
            self._head.append(first)  # there are few of them: `add` sees to it
            return
        excess = self._tail_chars - self._most_in_tail
        rest = first[excess:] if isinstance(first, str) else ""
        gone = _size(first) - len(rest)
        self._left_out += gone
        self._tail_chars -= gone
        if rest:
            self._tail.appendleft(rest)


def _size(piece: str | Display) -> int:
    if isinstance(piece, str):
        return len(piece)
    return 0 if piece.image_type else len(piece.text)


def content_of(pieces: list[str | Display]) -> Content:
    """Pieces as the content of a tool_result: one string, or blocks when there are pictures."""
    blocks: list[dict[str, Any]] = []
    text: list[str] = []

    def end_text() -> None:
        if joined := "".join(text).strip("\n"):
            blocks.append({"type": "text", "text": joined})
        text.clear()

    for piece in pieces:
        if isinstance(piece, str):
            text.append(ESCAPE_SEQUENCE.sub("", piece).replace("\r\n", "\n"))
            continue
        if not (mime := piece.image_type):
            text.append(ESCAPE_SEQUENCE.sub("", _on_lines_of_its_own(piece.text)))
            continue
        block = image_block(piece.data[mime])
        if isinstance(block, str):
            text.append(_on_lines_of_its_own(block))
        else:
            end_text()
            blocks.append(block)
    end_text()
    if any(block["type"] != "text" for block in blocks):
        return blocks
    return str(blocks[0]["text"]) if blocks else ""


def _overwritten_removed(text: str) -> str:
    return OVERWRITTEN.sub("", text) if "\r" in text else text


def _on_lines_of_its_own(text: str) -> str:
    return f"{text}\n" if text else ""


def _ends_with_semicolon(code: str) -> bool:
    """Return whether the last word of Python code is `;`: then IPython shows no value."""
    left_out = (tokenize.ENDMARKER, tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT)
    tokens = [token for token in tokenize.generate_tokens(io.StringIO(code).readline) if token.type not in left_out]
    return bool(tokens) and tokens[-1].type == tokenize.OP and tokens[-1].string == ";"


def call_reports(shell: InteractiveShell, code: RunningCode, put: Callable[[Piece], None]) -> Sequence[Replacement]:
    """Build the replacements of the shell's own ways to show a result and an error while `code` runs."""

    def show(value: object) -> None:
        formatter = shell.display_formatter
        if value is None or formatter is None or _ends_with_semicolon(code.transformed):
            return
        data, metadata = formatter.format(value)
        if data:
            put(display_of(data, metadata=metadata))

    def traceback_of(original: Callable[..., Any]) -> Callable[..., Any]:
        def show(exc_tuple: Any = None, *args: Any, **more: Any) -> None:
            if not code.is_ours():
                original(exc_tuple, *args, **more)
                return
            # `showsyntaxerror` takes a file name first
            error = exc_tuple[1] if isinstance(exc_tuple, tuple) else sys.exc_info()[1]
            if error is not None:
                put(short_traceback(error, cell_name(shell, code.file)))

        return show

    return (
        (shell, "display_trap", DisplayTrap(hook=show)),
        (shell, "showtraceback", traceback_of(shell.showtraceback)),
        (shell, "showsyntaxerror", traceback_of(shell.showsyntaxerror)),
    )


def cell_name(shell: InteractiveShell, own_file: str = "") -> Callable[[str], str | None]:
    """Build the naming of files in tracebacks: the code of this call, the notebook's cells; None for real files."""

    def name_of(file: str) -> str | None:
        if file == own_file:
            return "<this call's code>"
        named = cell_of_file(shell, file)
        return " ".join(named) if named is not None else None

    return name_of
