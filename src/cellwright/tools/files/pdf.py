"""Pages of a PDF: as a smaller PDF that the model looks at, or as text."""

from __future__ import annotations

import base64
import io
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from msgspec import Struct

from cellwright.agent.tool import Content
from cellwright.errors import ErrorCode, ToolError, needs_extra
from cellwright.text import counted, lazy_pattern

if TYPE_CHECKING:
    from pypdf import PdfReader


WHOLE_PAGES = 10
"""A PDF of up to so many pages is shown without being asked for pages."""

ASKED_PAGES = 20
"""The most pages of one call."""

DOCUMENT_BYTES = 5 << 20
"""A larger document is shown as text. The API takes 32 MB a request, in base64 and with all that was sent before."""

OPENED_BYTES = 256 << 20

RANGE = lazy_pattern(r"(\d{1,6})(?:-(\d{0,6}))?")

_UNHEARD = logging.NullHandler()


class PdfRequest(Struct, frozen=True):
    """The request for a PDF: `pages` as given, `as_text` for models and gateways that take no documents."""

    pages: str | None
    as_text: bool
    max_chars: int


def read_pdf(file: BinaryIO, size: int, display_path: str, request: PdfRequest, stopped: Callable[[], bool]) -> Content:
    """The pages as a document block with a line on it, or as text. Takes time: not for the event loop."""
    if size > OPENED_BYTES:
        raise _unusable(display_path, f"is larger than {OPENED_BYTES >> 20} MB")
    reader, count = _opened(file, display_path)
    numbers = _numbers(request.pages, count, display_path)
    which = f"pages {_range_words(numbers)} of {count}" if len(numbers) < count else counted(count, "page")
    if not request.as_text:
        data = _document(file, size, reader, numbers, count, display_path, stopped)
        if len(data) <= DOCUMENT_BYTES:
            encoded = base64.b64encode(data).decode("ascii")
            source = {"type": "base64", "media_type": "application/pdf", "data": encoded}
            return [
                {"type": "text", "text": f"[{display_path}: PDF, {which}]"},
                {"type": "document", "source": source, "title": f"{Path(display_path).name}, {which}"},
            ]
    fewer = "; ask for fewer pages to see them" if len(numbers) > 1 else ""
    why = "" if request.as_text else f", as text because they have more than {DOCUMENT_BYTES >> 20} MB{fewer}"
    return f"[{display_path}: PDF, {which}{why}]\n" + _text(reader, numbers, request.max_chars, display_path, stopped)


def import_pypdf(display_path: str) -> Any:
    """The package `pypdf`. Raises ToolError with the extra that brings it where it is missing; `display_path` is to be read.

    What it warns of in a damaged file goes to the log, where there is one, and not to the user's cell.
    """
    try:
        import pypdf  # heavy: 200 ms
    except ImportError:
        raise ToolError(
            needs_extra(f"{display_path} is a PDF; reading it", "pdf"), code=ErrorCode.EXECUTION_ERROR
        ) from None
    logging.getLogger("pypdf").addHandler(_UNHEARD)
    return pypdf


def _opened(file: BinaryIO, display_path: str) -> tuple[PdfReader, int]:
    pypdf = import_pypdf(display_path)
    from pypdf.errors import DependencyError, FileNotDecryptedError

    file.seek(0)
    try:
        reader: PdfReader = pypdf.PdfReader(file)
        if reader.is_encrypted and not reader.decrypt(""):
            raise _encrypted(display_path)
        return reader, len(reader.pages)
    except ToolError:
        raise
    except (DependencyError, FileNotDecryptedError) as error:
        raise _encrypted(display_path) from error
    except Exception as error:  # broken files make pypdf raise nearly anything
        raise _broken(display_path, error) from error


def _numbers(pages: str | None, count: int, display_path: str) -> list[int]:
    """The page numbers (from 1) that are asked for."""
    if not count:
        raise _unusable(display_path, "has no pages")
    if pages is None:
        if count <= WHOLE_PAGES:
            return list(range(1, count + 1))
        raise ToolError(
            f"{display_path} "
            f'is a PDF with {count} pages. Say which: pages="1-{WHOLE_PAGES}" (at most {ASKED_PAGES} a call).',
            code=ErrorCode.INVALID_PARAMETERS,
            details={"pages": count},
        )
    numbers = [number for part in pages.split(",") for number in _range(part.strip(), count, display_path)]
    if len(numbers) > ASKED_PAGES:
        raise _bad_pages(f"{len(numbers)} pages are too many: {ASKED_PAGES} a call are possible", count, display_path)
    return list(dict.fromkeys(numbers))


def _range(part: str, count: int, display_path: str) -> range:
    found = RANGE.fullmatch(part)
    if found is None:
        raise _bad_pages(f"{part!r} is no page or range of pages", count, display_path)
    first = int(found[1])
    last = first if found[2] is None else int(found[2]) if found[2] else count
    if not 1 <= first <= last:
        raise _bad_pages(f"{part!r} is no range: pages are counted from 1 upwards", count, display_path)
    if first > count:
        raise _bad_pages(f"there is no page {first}", count, display_path)
    return range(first, min(last, count) + 1)


def _bad_pages(problem: str, count: int, display_path: str) -> ToolError:
    return ToolError(
        f'{problem}. {display_path} has {counted(count, "page")}; give pages as "3" or "1-5".',
        code=ErrorCode.INVALID_PARAMETERS,
    )


def _document(
    file: BinaryIO,
    size: int,
    reader: PdfReader,
    numbers: Sequence[int],
    count: int,
    display_path: str,
    stopped: Callable[[], bool],
) -> bytes:
    """A PDF with these pages: the file itself where these are all and it is fit to be sent."""
    from pypdf import PdfWriter  # heavy

    if len(numbers) == count and not reader.is_encrypted:
        file.seek(0)
        if size > DOCUMENT_BYTES or file.read(5) == b"%PDF-":
            file.seek(0)
            return file.read(DOCUMENT_BYTES + 1)
    try:
        writer = PdfWriter()
        for number in numbers:
            _go_on(stopped)
            writer.add_page(reader.pages[number - 1])
        out = io.BytesIO()
        writer.write(out)
    except ToolError:
        raise
    except Exception as error:  # broken files make pypdf raise nearly anything
        raise _broken(display_path, error) from error
    return out.getvalue()


def _text(
    reader: PdfReader, numbers: Sequence[int], max_chars: int, display_path: str, stopped: Callable[[], bool]
) -> str:
    parts: list[str] = []
    chars = 0
    for index, number in enumerate(numbers):
        _go_on(stopped)
        try:
            text = reader.pages[number - 1].extract_text().strip()
        except Exception as error:  # broken files make pypdf raise nearly anything
            raise _broken(f"Page {number} of {display_path}", error) from error
        text = text or "[no text on this page: it may be a scan]"
        if index and chars + len(text) > max_chars:
            left = _range_words(numbers[index:])
            return "".join(parts) + f'[PARTIAL: one result holds no more. Go on with pages="{left}".]'
        if len(text) > max_chars:
            text = f"{text[:max_chars]}\n[… {len(text) - max_chars:,} more characters on this page are not shown]"
        parts.append(f'<page number="{number}">\n{text}\n</page>\n')
        chars += len(text)
    return "".join(parts)


def _range_words(numbers: Sequence[int]) -> str:
    """`1-3,5`."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][-1] == number - 1:
            parts[-1][1:] = [number]
        else:
            parts.append([number])
    return ",".join("-".join(map(str, part)) for part in parts)


def _go_on(stopped: Callable[[], bool]) -> None:
    if stopped():
        raise ToolError("Stopped before all pages were read.", code=ErrorCode.INTERRUPTED)


def _encrypted(display_path: str) -> ToolError:
    return _unusable(
        display_path, "is encrypted with a password. Have it decrypted (Bash: qpdf --decrypt) and read the copy"
    )


def _broken(display_path: str, error: Exception) -> ToolError:
    return _unusable(display_path, f"is broken: {error}. Bash (qpdf --check, mutool clean) may mend it")


def _unusable(display_path: str, problem: str) -> ToolError:
    return ToolError(f"{display_path} {problem}.", code=ErrorCode.FILE_ACCESS_ERROR)
