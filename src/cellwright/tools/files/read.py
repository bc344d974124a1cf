"""Read: a file as numbered lines, an image, pages, the cells of a notebook, or why not and what to use instead."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct
from msgspec.structs import replace

from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.calls.tool_results import ToolOutput
from cellwright.agent.tool import Content, Tool, ToolAccess, ToolContext, ToolLimits, ToolResult, tool
from cellwright.errors import ErrorCode, ToolError
from cellwright.model.images import UnusableImage, media_type, model_image
from cellwright.text import counted
from cellwright.tools.files.changes import in_thread
from cellwright.tools.files.encodings import Encoding, NotText, named_encoding, shown_name
from cellwright.tools.files.file_state import FileState, SeenFile
from cellwright.tools.files.pdf import ASKED_PAGES, WHOLE_PAGES, PdfRequest, read_pdf
from cellwright.tools.files.text import PageBounds, numbered, open_regular, read_page, read_tail
from cellwright.tools.inputs import EncodingName, FilePath
from cellwright.tools.notebook.notebook_source import NotANotebook, live_note, live_source, open_notebook, with_note
from cellwright.tools.notebook.open_notebook import Cell, NothingOpen, OpenNotebook, OpenNotebooks
from cellwright.tools.paths import file_errors, not_found, real_path, resolve_path, shown_path

if TYPE_CHECKING:
    from cellwright.tools.files.text import TextPage
    from cellwright.tools.notebook.notebook_page import NotebookPage
    from cellwright.tools.notebook.notebook_source import NotebookSource

TOKENS = 25_000
LARGE_TOKENS = 100_000
"""With `allow_large`: half of the smallest context window that a current model has."""

MAX_TOKENS = 250_000
CHARS_PER_TOKEN = 3.84
"""Of code and English text; what is not ASCII counts by its bytes in UTF-8."""

MAX_CHARS = int(MAX_TOKENS * CHARS_PER_TOKEN)
"""No result has more, whatever the environment says."""

TOKENS_VARIABLE = "CLAUDE_CODE_FILE_READ_MAX_OUTPUT_TOKENS"
PDF_VARIABLE = "CELLWRIGHT_PDF_AS_TEXT"


LINE_CHARS = 10_000
"""A longer line is cut: it is data, of which the start says enough."""

LINES_NAMED = 10
HEAD_BYTES = 1_024
PDF_SIGNATURE = b"%PDF-"

BINARY_HINTS = (
    (b"PAR1", "a Parquet file. Load it with Python (pandas.read_parquet)"),
    (b"\x89HDF", "an HDF5 file. Open it with Python (h5py, pandas.read_hdf)"),
    (b"\x93NUMPY", "a NumPy array. Load it with Python (numpy.load)"),
    (b"SQLite format 3", "an SQLite database. Query it with Python (sqlite3)"),
    (b"PK\x03\x04", "a ZIP archive (perhaps an Office document). List it with Bash (unzip -l)"),
    (b"\x1f\x8b", "gzip data. Unpack it with Bash (gzip -dc FILE | head)"),
    (b"BZh", "bzip2 data. Unpack it with Bash (bzip2 -dc FILE | head)"),
    (b"\xfd7zXZ", "xz data. Unpack it with Bash (xz -dc FILE | head)"),
    (b"\x28\xb5\x2f\xfd", "Zstandard data. Unpack it with Bash (zstd -dc FILE | head)"),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive. List it with Bash (7z l)"),
    (b"\x7fELF", "a program or library. Look into it with Bash (file, nm, strings)"),
    (b"\x80\x04\x95", "a pickle. It runs code when it is loaded; look at it with Python (pickletools)"),
    (b"ARROW1", "an Arrow file. Load it with Python (pandas.read_feather)"),
)

DESCRIPTION = """\
Read a file. Text comes with line numbers (6 columns, a tab, then the line as it is in the file); images come as images, \
PDFs as pages, notebooks (.ipynb) as cells with their ids, sources and outputs (of one that is open: as the user sees it).
- When one result does not hold it all it ends with [PARTIAL: …], which says how to go on. The end \
of a log of any size is read with a negative offset.
- Read a file before you change it with Edit, Write or NotebookEdit. Write needs all of it to have been read.
- For a directory use LS or Glob; to find something in many or large files use Grep. Read several files at once."""


class ReadInput(ToolInput):
    """The input of Read."""

    file_path: FilePath
    offset: Annotated[
        int,
        Meta(
            description="The first line to read, counted from 1 (of a notebook: the first cell); negative: from the end, "
            "-100 for the last 100. Only for what is too large to read at once."
        ),
    ] = 1
    limit: (
        Annotated[
            int,
            Meta(
                ge=1, description="How many lines (of a notebook: cells) to read. Leave it out to read all that fits."
            ),
        ]
        | None
    ) = None
    pages: (
        Annotated[
            str,
            Meta(
                min_length=1,
                description=f'Of a PDF: the pages to read, "3" or "1-5"; at most {ASKED_PAGES} a call. Needed for more than '
                f"{WHOLE_PAGES} pages.",
            ),
        ]
        | None
    ) = None
    allow_large: Annotated[
        bool,
        Meta(
            description=f"Let one result hold about {LARGE_TOKENS:,} tokens, and lines of any length. Only where all is "
            "needed."
        ),
    ] = False
    encoding: EncodingName | None = None


class ReadOutput(ToolOutput):
    """Facts of the file that was read, besides what is in it.

    `size` and `modified` are the file's on disk; None for a notebook that is read where it is open. `encoding` is that of
    text, as Python calls it. Lines (of a notebook: cells) are counted from 1, negative from the end.
    """

    path: str
    kind: Literal["text", "image", "pdf", "notebook"]
    size: int | None
    modified: float | None
    encoding: str | None = None
    first: int | None = None
    last: int | None = None
    total: int | None = None


RelatedLine = Callable[[Path, tuple[int, int] | None, Callable[[str], bool]], Awaitable[str]]
"""One line about a file's surroundings, for the lines read of it (None: all), from files that may be read; or ""."""


def read_tool(
    state: FileState, cwd: Path, notebooks: OpenNotebooks | None = None, related: RelatedLine | None = None
) -> Tool:
    """Read. `state` is the session's memory of files; relative paths start at `cwd`.

    `notebooks` are those that are open; None: there are none. `related` finds a line to put below the text of a file that
    is read for the first time, or in part.
    """
    opened = notebooks or NothingOpen()
    told: set[str] = set()

    async def with_related(result: ToolResult, context: ToolContext) -> ToolResult:
        output = result.structured
        if related is None or not isinstance(output, ReadOutput) or output.kind != "text" or output.first is None:
            return result
        first, last = output.first, output.last
        part = (first, last) if last is not None and (first != 1 or last != output.total) else None
        if part is None and output.path in told:
            return result
        told.add(output.path)
        line = await related(Path(output.path), part, context.may_read)
        return ToolResult(f"{result.content}\n{line}", structured=output) if line else result

    @tool(
        name="Read",
        other_names=(
            "read_file",
            "open_file",
            "view_file",
            "view",
            "cat",
        ),
        output=ReadOutput,
        description=DESCRIPTION,
        access=ToolAccess("read", "file_path"),
        read_only=True,
        category="files",
        everyday=True,
        best_for="a known path",
        # the tool keeps its own, narrower limit, which the environment and allow_large move
        limits=ToolLimits(
            result_chars=MAX_CHARS + LINE_CHARS, result_tokens=read_limits(os.environ, large=False).tokens
        ),
        examples=[
            {"file_path": "src/app.py"},
            {"file_path": "server.log", "offset": -200},
            {"file_path": "paper.pdf", "pages": "3-7"},
        ],
        title=lambda input: f"Read {shown_path(cwd, cwd / input.file_path)}{_range(input)}",
    )
    async def read(input: ReadInput, context: ToolContext) -> ToolResult:
        path = resolve_path(cwd, input.file_path)
        display_path = shown_path(cwd, path)
        limits = read_limits(os.environ, large=input.allow_large)
        named = None if input.encoding is None else named_encoding(input.encoding)
        request = ReadRequest(input.offset, input.limit, input.pages, limits, named)
        if path.suffix.lower() == ".ipynb":
            await opened.settled()
            if (notebook := opened.at(real_path(path))) is not None:
                cells = await notebook.cells()
                return await in_thread(lambda _: read_live(notebook, cells, display_path, request, state))
        with file_errors(display_path):
            try:
                # a smaller file is read on the event loop: it takes less time than the way to a thread and back
                inline = is_small_text(path, display_path, 256 * 1024)
            except FileNotFoundError:
                raise not_found(path, display_path) from None
            if inline:
                result = read_file(path, display_path, request, state, lambda: False)
            else:
                result = await in_thread(lambda stopped: read_file(path, display_path, request, state, stopped))
        return await with_related(result, context)

    return read


def _range(input: ReadInput) -> str:
    """`:first-last` as far as the input says."""
    if input.pages is not None:
        return f", pages {input.pages}"
    if input.offset == 1 and input.limit is None:
        return ""
    if input.offset < 0:
        lines = -input.offset
        return f", {min(lines, input.limit or lines)} of the last {lines} lines"
    first = max(input.offset, 1)
    return f":{first}-{first + input.limit - 1 if input.limit else ''}"


class ReadLimits(Struct, frozen=True):
    """`tokens` of one result, whether more than usual was asked for, and whether PDFs are shown as text."""

    tokens: int
    large: bool
    pdf_as_text: bool

    @property
    def chars(self) -> int:
        """The limit in characters."""
        return int(self.tokens * CHARS_PER_TOKEN)


def read_limits(environment: Mapping[str, str], *, large: bool) -> ReadLimits:
    """The limits of a call. A value in the environment that is no positive number is as good as none."""
    setting = environment.get(TOKENS_VARIABLE, "")
    tokens = min(int(setting), MAX_TOKENS) if setting.isdecimal() and int(setting) else TOKENS
    as_text = environment.get(PDF_VARIABLE, "").lower() in ("1", "true", "yes", "on")
    return ReadLimits(max(tokens, LARGE_TOKENS) if large else tokens, large, as_text)


class ReadRequest(Struct, frozen=True):
    """The part of a file asked for. `offset` (of a notebook: a cell) counts from 1, from the end where negative.

    `encoding` is the one that the call names.
    """

    offset: int
    limit: int | None
    pages: str | None
    limits: ReadLimits
    encoding: Encoding | None = None


def read_live(
    notebook: OpenNotebook, cells: Sequence[Cell], display_path: str, request: ReadRequest, state: FileState
) -> ToolResult:
    """Read a notebook that is open in a front end, as the model sees it."""
    source = live_source(cells)
    first, page = _notebook_page(source, request)
    state.cells.add(notebook.path, page.known)
    content = with_note(_page_content(page, first, len(source.cells), display_path), live_note(notebook))
    return ToolResult(content, structured=_notebook_output(notebook.path, None, page, first, len(source.cells)))


def is_small_text(path: Path, display_path: str, small: int) -> bool:
    """Return whether a file is read in no time: not much text. Raises as `read_file` for what is no regular file."""
    real = real_path(path)
    with open_regular(real, display_path) as file:
        # files of /proc have no size, and may take their time
        size = os.fstat(file.fileno()).st_size
        if not 0 < size <= small or real.suffix.lower() in (".ipynb", ".pdf"):
            return False
        head = file.read(HEAD_BYTES) or b""
        return media_type(head) is None and PDF_SIGNATURE not in head


def read_file(
    path: Path, display_path: str, request: ReadRequest, state: FileState, stopped: Callable[[], bool]
) -> ToolResult:
    """Read a file as the model sees it; `state` remembers what it saw."""
    real = real_path(path)
    with open_regular(real, display_path) as file:
        status = os.fstat(file.fileno())
        head = file.read(HEAD_BYTES) or b""
        file.seek(0)
        is_pdf = head.startswith(PDF_SIGNATURE) or (real.suffix.lower() == ".pdf" and PDF_SIGNATURE in head)
        if request.pages is not None and not is_pdf:
            raise ToolError(
                f"{display_path} is not a PDF: pages is for PDFs only. Use offset and limit.",
                code=ErrorCode.INVALID_PARAMETERS,
            )
        if media_type(head) is not None:
            return ToolResult(_image(file, status.st_size, display_path), structured=_output(real, "image", status))
        if is_pdf:
            pdf_request = PdfRequest(request.pages, request.limits.pdf_as_text, request.limits.chars)
            content = read_pdf(io.BufferedReader(file, 1 << 16), status.st_size, display_path, pdf_request, stopped)
            return ToolResult(content, structured=_output(real, "pdf", status))
        broken = []
        if real.suffix.lower() == ".ipynb":
            try:
                return _notebook(file, status, real, display_path, request, state, stopped)
            except NotANotebook as error:
                broken = [f"[Shown as text, because as a notebook {error}.]"]
            except NotText:
                raise _binary(head, display_path) from None
        try:
            page = _text_page(file, status, request, stopped)
            if page.encoding.guessed and (named := _named_before(state.get(real), status)) is not None:
                request = replace(request, encoding=named)
                page = _text_page(file, status, request, stopped)
        except NotText:
            raise _binary(head, display_path) from None
        except UnicodeDecodeError:
            raise _other_encoding(request, display_path) from None
    _check_fits(page, display_path, request)
    _remember(page, real, status, state)
    paired = [note] if (note := _pair_note(real, display_path)) else []
    return ToolResult(
        "\n".join([*broken, _page_text(page, display_path, request), *paired]),
        structured=ReadOutput(
            path=real.as_posix(),
            kind="text",
            size=status.st_size,
            modified=status.st_mtime,
            encoding=page.encoding.name,
            first=page.first if page.lines else None,
            last=page.last if page.lines else None,
            total=page.total,
        ),
    )


def _output(real: Path, kind: Literal["image", "pdf"], status: os.stat_result) -> ReadOutput:
    return ReadOutput(path=real.as_posix(), kind=kind, size=status.st_size, modified=status.st_mtime)


def _notebook_output(
    path: Path, status: os.stat_result | None, page: NotebookPage, first: int, total: int
) -> ReadOutput:
    return ReadOutput(
        path=path.as_posix(),
        kind="notebook",
        size=None if status is None else status.st_size,
        modified=None if status is None else status.st_mtime,
        first=first if page.shown else None,
        last=page.shown[-1] + 1 if page.shown else None,
        total=total,
    )


def _text_page(file: io.FileIO, status: os.stat_result, request: ReadRequest, stopped: Callable[[], bool]) -> TextPage:
    # with the first call: no first request waits for it

    line_chars = request.limits.chars if request.limits.large else min(LINE_CHARS, request.limits.chars)
    bounds = PageBounds(request.limits.chars, line_chars, request.limit)
    if request.offset < 0 and stat.S_ISREG(status.st_mode):
        return read_tail(file, status.st_size, -request.offset, bounds, stopped, request.encoding)
    return read_page(file, status.st_size, max(request.offset, 1), bounds, stopped, request.encoding)


def _named_before(seen: SeenFile | None, status: os.stat_result) -> Encoding | None:
    """The encoding that an earlier call named for the file as it is now; None if none did."""
    if seen is None or (seen.mtime_ns, seen.size) != (status.st_mtime_ns, status.st_size):
        return None
    return None if seen.encoding is None or seen.encoding.guessed or seen.encoding.is_unicode else seen.encoding


def _other_encoding(request: ReadRequest, display_path: str) -> ToolError:
    assert request.encoding is not None  # a guess is always replaced by another
    return ToolError(
        f"{display_path} is not {request.encoding.label}: it has bytes that this encoding does not know. Leave encoding "
        "out to see what the file is taken as.",
        code=ErrorCode.INVALID_PARAMETERS,
    )


def _remember(page: TextPage, real: Path, status: os.stat_result, state: FileState) -> None:
    seen = SeenFile(status.st_mtime_ns, status.st_size, page.sha256, encoding=page.encoding)
    # a line that was cut was not seen, nor what follows it; where lines are counted from the end, none is known by number
    first = page.first if page.first > 0 else 2 + status.st_size
    last = min(page.cut, default=page.last + 1) - 1
    state.read(real, seen, first, last, to_the_end=not page.cut and page.total == page.last)


def _check_fits(page: TextPage, display_path: str, request: ReadRequest) -> None:
    """Raise ToolError where not all lines asked for fit: who asks for so many wants them all."""
    if request.limit is None or not page.full:
        return
    more = "" if request.limits.large else ", set allow_large if you need them all at once"
    raise ToolError(
        f"{counted(request.limit, 'line')} of {display_path} "
        f"from offset={page.first} on are more than {request.limits.tokens:,} "
        f"tokens. {counted(len(page.lines), 'line')} of them fit: ask for limit={len(page.lines)}{more}, or search with "
        "Grep.",
        code=ErrorCode.INVALID_PARAMETERS,
        details={"lines_that_fit": len(page.lines), "max_tokens": request.limits.tokens},
    )


def _page_text(page: TextPage, display_path: str, request: ReadRequest) -> str:
    if page.total == 0:
        return f"[{display_path} is empty.]"
    if not page.lines:
        return f"[offset={page.first} is past the end: {display_path} has {counted(page.total or 0, 'line')}.]"
    return "\n".join([numbered(page.lines, page.first), *_notes(page, display_path, request)])


def _notes(page: TextPage, display_path: str, request: ReadRequest) -> list[str]:
    """List what must be known of the lines shown."""
    notes = []
    if not page.encoding.is_unicode:
        notes.append(_encoding_words(page.encoding, request))
    if any("\0" in line for line in page.lines):
        notes.append("[␀ stands for a null byte. To replace one, write it as \\u0000 in old_string.]")
    if page.cut:
        lines = [f"line {number} is longer ({length:,} characters)" for number, length in page.cut.items()]
        more = f", and {len(lines) - LINES_NAMED} more lines" if len(lines) > LINES_NAMED else ""
        notes.append(
            f"[Long lines are cut: {', '.join(lines[:LINES_NAMED])}{more}. "
            "Look into it with Grep (-o) or Bash (cut -c).]"
        )
    if page.first < 0:
        notes.append("[Lines are counted from the end (-1 is the last): the file is too large to number them.]")
    if page.last != (page.total if page.first > 0 else -1):
        of = f" of {page.total}" if page.total is not None else ""
        why = " One result holds no more." if page.full else ""
        to = " to " if page.first < 0 else "-"
        notes.append(f"[PARTIAL: lines {page.first}{to}{page.last}{of}.{why} Go on with offset={page.last + 1}.]")
    return notes


def _encoding_words(encoding: Encoding, request: ReadRequest) -> str:
    if request.encoding is not None:
        return f"[Read as {encoding.label}. Edits keep that encoding.]"
    if not encoding.guessed:
        return f"[The file is not UTF-8: shown as {encoding.name}, as it says itself. Edits keep its encoding.]"
    others = (
        f" ({', '.join(dict.fromkeys(map(shown_name, encoding.rivals)))} would fit, too)" if encoding.rivals else ""
    )
    how = "; no encoding fits its bytes well" if encoding.unclear else f", a guess{others}"
    return (
        f"[The file is not UTF-8 and does not declare its encoding: taken as {encoding.label}{how}. Edits keep that. If "
        "words look wrong, name the right one in encoding.]"
    )


def _image(file: io.FileIO, size: int, display_path: str) -> Content:
    try:
        image = model_image(io.BufferedReader(file, 1 << 16), size)
    except UnusableImage as error:
        raise ToolError(
            f"{display_path} "
            f"cannot be shown: {error}. Look into it, or scale it down, with Python (Pillow), and read the copy.",
            code=ErrorCode.FILE_ACCESS_ERROR,
        ) from error
    return [{"type": "text", "text": f"[{display_path}: {image.words}]"}, image.block]


def _notebook(
    file: io.FileIO,
    status: os.stat_result,
    real: Path,
    display_path: str,
    request: ReadRequest,
    state: FileState,
    stopped: Callable[[], bool],
) -> ToolResult:
    source = open_notebook(file, status.st_size, stopped)
    first, page = _notebook_page(source, request)
    last = page.shown[-1] + 1 if page.shown else first - 1
    known = last if page.complete else first - 1
    seen = SeenFile(status.st_mtime_ns, status.st_size, source.sha256)
    whole = page.complete and last == len(source.cells)
    state.read(real, seen, first, known, to_the_end=whole, parts=frozenset(page.sources))
    state.cells.add(real, page.known)
    output = _notebook_output(real, status, page, first, len(source.cells))
    if note := _pair_note(real, display_path):
        page.add_text(f"{note}\n")
    return ToolResult(_page_content(page, first, len(source.cells), display_path), structured=output)


def _pair_note(real: Path, display_path: str) -> str:
    from cellwright.tools.notebook.jupytext_pair import pair_note  # with the first file that is read

    return pair_note(real, display_path, changed=False)


def _notebook_page(source: NotebookSource, request: ReadRequest) -> tuple[int, NotebookPage]:
    """The number of the first cell that is wanted, and those that fit."""
    from cellwright.tools.notebook.notebook_page import notebook_page

    total = len(source.cells)
    first = max(total + request.offset + 1, 1) if request.offset < 0 else max(request.offset, 1)
    stop = total if request.limit is None else min(total, first - 1 + request.limit)
    return first, notebook_page(source, range(first - 1, stop), "usual", request.limits.chars)


def _page_content(page: NotebookPage, first: int, total: int, display_path: str) -> Content:
    if not total:
        return f"[{display_path} is a notebook without cells.]"
    if not page.shown:
        return f"[offset={first} is past the end: {display_path} has {counted(total, 'cell')}.]"
    last = page.shown[-1] + 1
    if last < total:
        page.add_text(
            f"[PARTIAL: cells {first}-{last} of {total}; NotebookRead shows those you choose. "
            f"Go on with offset={last + 1} (a cell number).]"
        )
    return page.blocks


def _binary(head: bytes, display_path: str) -> ToolError:
    hints = (hint for signature, hint in BINARY_HINTS if head.startswith(signature))
    what = next(hints, "binary data. Look into it with Bash (file, xxd | head) or Python")
    return ToolError(
        f"{display_path} is {what}; Read shows text, images, PDFs and notebooks.", code=ErrorCode.FILE_ACCESS_ERROR
    )
