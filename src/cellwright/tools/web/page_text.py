"""The text of a fetched page: HTML as Markdown with its title, author and date, the pages of a PDF, other text as it is.

HTML loses what surrounds the article. Without the extra `web`, and if that takes too long, all of it is kept and the page
says so. Other people wrote what is parsed here, and would decide how long that takes and how much memory. So it is done
in a process with a clock and a memory bound: `python -m cellwright.tools.web.page_text` gets one page on its standard
input and answers with its text.
"""

from __future__ import annotations

import asyncio
import io
import re
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from cellwright.errors import ErrorCode, ToolError, needs_extra
from cellwright.text import lazy_pattern
from cellwright.this_process.late_imports import importing
from cellwright.tools.files.pdf import import_pypdf
from cellwright.tools.process.child_processes import Command
from cellwright.tools.process.runner import OutputHead, RunningProgram, own_module_environment
from cellwright.tools.web.client import FetchedPage, read_address

_CHARSET = lazy_pattern(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_TEXT_TYPES = lazy_pattern(
    r"text/|application/(?:[\w.+-]*\+)?(?:json|xml|javascript|yaml|toml|x-ndjson)|image/svg\+xml"
)
_LOOKS_LIKE_HTML = lazy_pattern(
    rb"\s*+(?:(?><!--.*?-->)\s*+)*+<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL
)

HTML = frozenset({"text/html", "application/xhtml+xml"})
PDF = "application/pdf"

MEMORY_MB = 2_000
"""A page of 9 MB takes 1.1 GB."""

MOST_OUTPUT_BYTES = 100 << 20

ARTICLE_SHARE = 0.6
"""Of the time that is left; the rest is for reading the page without looking for its article."""


class WebPage(Struct, frozen=True):
    """A page: `text` is Markdown where it was HTML; what is not known is empty. `notice` says what was not done to it."""

    url: str
    content_type: str
    text: str
    title: str = ""
    author: str = ""
    date: str = ""
    description: str = ""
    bytes: int = 0
    status: int = 200
    fetched: float = field(default_factory=time.time)
    notice: str = ""

    @property
    def words(self) -> int:
        return len(self.text.split())


def kind_of(fetched: FetchedPage) -> str:
    """The media type of `fetched`, in lower case and without parameters; HTML that has none is recognised."""
    kind = fetched.content_type.partition(";")[0].strip().lower()
    return "text/html" if not kind and _LOOKS_LIKE_HTML.match(fetched.body) else kind


def page_of(fetched: FetchedPage, *, whole: bool = False) -> WebPage:
    """Read a page. Its author decides how much CPU time that takes. Raises ToolError if it has no text.

    `whole`: HTML is read with its menus, in a time that grows with its length alone.
    """
    url, kind, size = fetched.address.url, kind_of(fetched), len(fetched.body)
    if kind in HTML:
        return _from_html_plainly(url, fetched, TOO_COSTLY) if whole else _from_html(url, fetched)
    if kind == PDF:
        return WebPage(url, kind, _pdf_text(fetched.body, url), bytes=size)
    if kind and not _TEXT_TYPES.match(kind):
        raise _no_text(url, kind, size)
    if not kind and b"\0" in fetched.body[:8_000]:
        raise _no_text(url, "data of no stated type", size)
    return WebPage(url, kind or "text/plain", _decoded(fetched), bytes=size)


def _no_text(url: str, kind: str, size: int) -> ToolError:
    return ToolError(
        f"{url} is {kind} ({size:,} bytes), not text. Download it with Bash (curl -o), if the user allows it.",
        code=ErrorCode.EXECUTION_ERROR,
    )


def _decoded(fetched: FetchedPage, otherwise: str = "utf-8") -> str:
    found = _CHARSET.search(fetched.content_type)
    for charset in (found[1] if found else otherwise, "utf-8"):
        try:
            return fetched.body.decode(charset)
        except (LookupError, UnicodeError):
            continue
    return fetched.body.decode("latin-1")


SURROUNDINGS = needs_extra("Telling an article from the menus around it", "web")
TOO_COSTLY = "Telling its article from the menus around it took too much time or memory."


def _from_html(url: str, fetched: FetchedPage) -> WebPage:
    try:
        with importing:
            import trafilatura  # brings lxml, half a second at first use
            from trafilatura.settings import use_config
    except ImportError:
        return _from_html_plainly(url, fetched, SURROUNDINGS)

    config = use_config()
    config.set("DEFAULT", "EXTRACTION_TIMEOUT", "0")  # its alarm signal belongs to the main thread
    # its own guess of the encoding reads the page's <meta> too
    source = _decoded(fetched) if _CHARSET.search(fetched.content_type) else trafilatura.utils.decode_file(fetched.body)
    text = trafilatura.extract(
        source,
        url=url,
        output_format="markdown",
        include_links=True,
        include_tables=True,
        include_comments=False,
        favor_recall=True,
        config=config,
    )
    about = trafilatura.extract_metadata(source, default_url=url)
    if not text or len(text) < 200:
        whole = trafilatura.html2txt(source)
        text = whole if len(whole) > len(text or "") else text or ""
    if not text.strip():
        # it reports no error when memory is short
        plain = _from_html_plainly(url, fetched, TOO_COSTLY)
        return plain if plain.text.strip() else replace(plain, notice="")
    return WebPage(
        url,
        "text/html",
        text,
        title=_word(about, "title"),
        author=_word(about, "author"),
        date=_word(about, "date"),
        description=_word(about, "description"),
        bytes=len(fetched.body),
    )


def _from_html_plainly(url: str, fetched: FetchedPage, notice: str) -> WebPage:
    from cellwright.tools.web.plain_html import HtmlText, declared_charset

    page = HtmlText(url)
    page.read(_decoded(fetched, declared_charset(fetched.body)))
    about = page.about
    return WebPage(
        url,
        "text/html",
        page.markdown,
        title=about.get("title", ""),
        author=about.get("author", ""),
        date=about.get("date", ""),
        description=about.get("description", ""),
        bytes=len(fetched.body),
        notice=notice,
    )


def _word(about: object, name: str) -> str:
    value = getattr(about, name, None)
    return " ".join(value.split()) if isinstance(value, str) else ""


def _pdf_text(body: bytes, url: str) -> str:
    pypdf = import_pypdf(url)
    try:
        reader = pypdf.PdfReader(io.BytesIO(body))
        pages = [page.extract_text() for page in reader.pages]
    except Exception as error:  # broken files make pypdf raise nearly anything
        raise ToolError(f"The PDF at {url} cannot be read: {error}.", code=ErrorCode.EXECUTION_ERROR) from error
    return "\n\n".join(f"--- page {number} ---\n{text}" for number, text in enumerate(pages, 1))


class _Request(Struct, frozen=True):
    url: str
    content_type: str
    body: bytes
    whole: bool


class _Answer(Struct, frozen=True):
    """The page; or the `problem` for Claude with its `code`."""

    page: WebPage | None = None
    problem: str = ""
    code: ErrorCode = ErrorCode.EXECUTION_ERROR


async def read_page(
    fetched: FetchedPage, seconds: float, environ: Mapping[str, str], *, memory_mb: int = MEMORY_MB
) -> WebPage:
    """Read `fetched` within `seconds` and `memory_mb`. Raises ToolError if that is too little, or the page has no text."""
    kind = kind_of(fetched)
    if kind not in (*HTML, PDF):
        return await asyncio.to_thread(page_of, fetched)  # decoded, and no more
    deadline = time.monotonic() + seconds
    if kind == PDF:
        answer = await _read_in_child(fetched, seconds, environ, memory_mb, whole=True)
    else:
        answer = await _read_in_child(fetched, seconds * ARTICLE_SHARE, environ, memory_mb, whole=False)
        if answer is None:
            answer = await _read_in_child(fetched, deadline - time.monotonic(), environ, memory_mb, whole=True)
    if answer is None:
        raise _too_costly(fetched, seconds, memory_mb)
    if answer.page is None:
        raise ToolError(answer.problem, code=answer.code)
    return answer.page


async def _read_in_child(
    fetched: FetchedPage, seconds: float, environ: Mapping[str, str], memory_mb: int, *, whole: bool
) -> _Answer | None:
    """The answer of a process that reads the page; None if it took more than it may."""
    request = _Request(fetched.address.url, fetched.content_type, fetched.body, whole)
    command = Command(
        # -P: modules of the current folder are not imported
        arguments=(sys.executable, "-P", "-m", "cellwright.tools.web.page_text"),
        cwd=Path(Path.cwd().anchor),
        environ=own_module_environment(environ),
        memory_mb=memory_mb,
        read_only=True,
    )
    output, errors = OutputHead(MOST_OUTPUT_BYTES), OutputHead(4_096)
    program = RunningProgram(command, output=output.take, errors=errors.take, source=msgspec.msgpack.encode(request))
    if not await program.finish(max(seconds, 0)) or program.exit_code or output.cut:
        return None
    return msgspec.msgpack.decode(bytes(output.data), type=_Answer)


def _too_costly(fetched: FetchedPage, seconds: float, memory_mb: int) -> ToolError:
    return ToolError(
        f"{fetched.address.url} came ({len(fetched.body):,} bytes), but reading it took more than the {seconds:.0f} s "
        f"that were left, or {memory_mb:,} MB. Give a longer timeout_seconds, or another source.",
        code=ErrorCode.EXECUTION_TIMEOUT,
        details={"requested_timeout": seconds, "bytes": len(fetched.body)},
    )


def main() -> int:
    """Read the page on standard input, and write the answer."""
    request = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=_Request)
    fetched = FetchedPage(read_address(request.url), 200, "", request.content_type, request.body)
    try:
        answer = _Answer(page_of(fetched, whole=request.whole))
    except ToolError as error:
        answer = _Answer(problem=error.message, code=error.code)
    sys.stdout.buffer.write(msgspec.msgpack.encode(answer))
    return 0


if __name__ == "__main__":
    sys.exit(main())
