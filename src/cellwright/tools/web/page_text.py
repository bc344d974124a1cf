"""The text of a fetched page: HTML as Markdown with its title, author and date, the pages of a PDF, other text as it is.

HTML loses what surrounds the article. Without the extra `web`, and if that takes too long, all of it is kept and the page
says so: trafilatura, which tells an article from its surroundings, needs 30 MB. `HtmlText` reads headings, paragraphs,
lists, links, code and tables, and leaves out what is never read: scripts, styles, forms' inputs.

Other people wrote what is parsed here, and would decide how long that takes and how much memory. So it is done in a process
with a clock and a memory bound: `python -m cellwright.tools.web.page_text` gets one page on its standard input and answers
with its text.
"""

from __future__ import annotations

import asyncio
import io
import operator
import re
import sys
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
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

_SILENT = frozenset(("script", "style", "noscript", "template", "svg", "math", "select", "button", "iframe"))
_BLOCKS = frozenset(
    re.findall(
        r"\w+",
        "address article aside blockquote dd details div dl dt fieldset figcaption figure footer form header hr main nav ol "
        "p section summary table tbody thead ul",
    )
)
_HEADINGS = {f"h{level}": f"\n\n{'#' * level} " for level in range(1, 7)}
_OPENINGS = {**_HEADINGS, "li": "\n- ", "br": "\n"}
_MARKS = {"b": "**", "strong": "**", "i": "*", "em": "*"}
_DECLARED_CHARSET = lazy_pattern(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_EMPTY_LINK = lazy_pattern(r"\[\s{0,9}\](?:\(\S{0,2000}\))?")

HEAD_BYTES = 4_096

MAX_CHARS = 1_000_000
"""More of a page is not read."""

CHUNK_CHARS = 16_384
"""A tag that has not ended within these when the page has is not read: Python's parser would look at it again and again."""


MAX_COLUMNS = 1_000
"""A cell further to the right reaches into no row below, as one that is wider is in no browser."""


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
        # of the time that is left; the rest is for reading the page without looking for its article
        answer = await _read_in_child(fetched, seconds * 0.6, environ, memory_mb, whole=False)
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
    output, errors = OutputHead(100 << 20), OutputHead(4_096)
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


class _Table:
    """The columns of a table that is being read: a cell may fill several, and reach down into the rows below.

    `room` gives an item for each empty cell that may still be written.
    """

    def __init__(self, room: Iterator[int]) -> None:
        self._room = room
        self._column = 0
        self._reaching: dict[int, int] = {}
        self._wide = 0

    def cell(self, attributes: dict[str, str]) -> str:
        """The text between a cell and the one before it, with the empty cells that stand there."""
        text = self._rest_of_cell()
        while self._reaching.get(self._column):
            text += self._fill()
        columns, rows = (_span(attributes.get(name, "")) for name in ("colspan", "rowspan"))
        text += self._next()
        self._wide = columns - 1
        if rows > 1 and self._column <= MAX_COLUMNS and operator.length_hint(self._room):
            self._reaching |= dict.fromkeys(range(self._column - 1, self._column + self._wide), rows - 1)
        return text

    def end_row(self) -> str:
        """The rest of a row; "" where none has begun."""
        if not self._column:
            return ""
        text = self._rest_of_cell()
        last = max(self._reaching, default=-1)
        while self._reaching and self._column <= last:
            text += self._fill()
        self._column = 0
        return f"{text} |"

    def _rest_of_cell(self) -> str:
        text = "".join(self._next() for _ in zip(range(self._wide), self._room, strict=False))
        self._wide = 0
        return text

    def _fill(self) -> str:
        """An empty cell, below one that reaches down if there is one; "" where there is no room for more."""
        if next(self._room, None) is None:
            self._reaching.clear()
            return ""
        if (rows := self._reaching.pop(self._column, 0)) > 1:
            self._reaching[self._column] = rows - 1
        return self._next()

    def _next(self) -> str:
        self._column += 1
        return "| " if self._column == 1 else " | "


def _span(text: str) -> int:
    return int(text) if re.fullmatch("[1-9][0-9]{0,2}", text.strip()) else 1


class HtmlText(HTMLParser):
    """Reads a page: `markdown` is its text, `about` what its head says of it (title, author, date)."""

    def __init__(self, url: str) -> None:
        super().__init__(convert_charrefs=True)
        self.about: dict[str, str] = {}
        self._url = url
        self._parts: list[str] = []
        self._silent: list[str] = []
        self._links: list[str] = []
        # the most empty cells of one page that stand for parts of others: it says how many it wants in a few letters
        self._room = iter(range(20_000))
        self._tables = [_Table(self._room)]
        self._in_title = False
        self._preformatted = 0

    @property
    def markdown(self) -> str:
        """The text so far, with an empty line between blocks."""
        lines = (line.rstrip() for line in "".join(self._parts).split("\n"))
        text = _EMPTY_LINK.sub("", "\n".join(lines))
        return re.sub(r"\n{3,}", "\n\n", text).strip()

    def read(self, source: str) -> None:
        """Take in a page, in a time that grows with its length alone, whatever it is."""
        for start in range(0, min(len(source), MAX_CHARS), CHUNK_CHARS):
            self.feed(source[start : start + CHUNK_CHARS])
        if len(self.rawdata) <= CHUNK_CHARS:
            self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        if tag == "title":
            self._in_title = not self.about.get("title")
        elif tag == "meta":
            named = attributes.get("name") or attributes.get("property") or ""
            known = {"author": "author", "article:published_time": "date", "date": "date", "og:title": "title"}
            if (name := known.get(named.lower())) and attributes.get("content"):
                self.about.setdefault(name, " ".join(attributes["content"].split()))
        elif tag in _SILENT:
            self._silent.append(tag)
        elif not self._silent:
            self._begin(tag, attributes)

    def _begin(self, tag: str, attributes: dict[str, str]) -> None:
        if tag in _OPENINGS:
            self._parts.append(_OPENINGS[tag])
        elif tag == "pre":
            self._preformatted += 1
            self._parts.append("\n\n```\n")
        elif tag in ("td", "th"):
            self._parts.append(self._tables[-1].cell(attributes))
        elif tag == "a":
            self._links.append(attributes.get("href", ""))
            self._parts.append("[")
        elif tag == "tr":
            self._parts.append(f"{self._tables[-1].end_row()}\n")
        elif tag in _BLOCKS:
            if tag == "table":
                self._tables.append(_Table(self._room))
            self._parts.append("\n\n")
        elif not self._preformatted:
            self._parts.append("`" if tag == "code" else _MARKS.get(tag, ""))

    def handle_endtag(self, tag: str) -> None:
        if tag == "title":
            self._in_title = False
        elif tag in self._silent:
            # what is left open within it ends with it
            del self._silent[self._silent.index(tag) :]
        elif not self._silent:
            self._end(tag)

    def _end(self, tag: str) -> None:
        if tag == "a" and self._links:
            target = urllib.parse.urljoin(self._url, self._links.pop())
            self._parts.append(f"]({target})" if target.startswith(("http://", "https://")) else "]")
        elif tag == "pre" and self._preformatted:
            self._preformatted -= 1
            self._parts.append("\n```\n\n")
        elif tag == "tr":
            self._parts.append(self._tables[-1].end_row())
        elif tag in _BLOCKS or tag in _HEADINGS:
            if tag == "table" and len(self._tables) > 1:
                self._parts.append(self._tables.pop().end_row())
            self._parts.append("\n\n")
        elif not self._preformatted:
            self._parts.append("`" if tag == "code" else _MARKS.get(tag, ""))

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.about["title"] = " ".join(f"{self.about.get('title', '')}{data}".split())
        elif not self._silent:
            self._parts.append(data if self._preformatted else re.sub(r"\s+", " ", data))


def declared_charset(body: bytes) -> str:
    """The encoding that the page's head declares; "utf-8" where it says none."""
    found = _DECLARED_CHARSET.search(body[:HEAD_BYTES])
    return found[1].decode("ascii", "replace") if found else "utf-8"


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
