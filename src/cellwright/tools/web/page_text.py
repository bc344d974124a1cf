"""The text of a fetched page: HTML as Markdown with its title, author and date, the pages of a PDF, other text as it is.

HTML loses what surrounds the article. Without the extra `web`, and if that takes too long, all of it is kept and the page
says so. Other people wrote what is parsed here: `page_reader.py` does it in a process with a clock and a memory bound.
"""

from __future__ import annotations

import io
import re
import time

from msgspec import Struct, field
from msgspec.structs import replace

from cellwright.errors import ErrorCode, ToolError, needs_extra
from cellwright.text import lazy_pattern
from cellwright.this_process.late_imports import importing
from cellwright.tools.files.formats.pdf import import_pypdf
from cellwright.tools.web.client import FetchedPage

_CHARSET = lazy_pattern(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_TEXT_TYPES = lazy_pattern(
    r"text/|application/(?:[\w.+-]*\+)?(?:json|xml|javascript|yaml|toml|x-ndjson)|image/svg\+xml"
)
_LOOKS_LIKE_HTML = lazy_pattern(
    rb"\s*+(?:(?><!--.*?-->)\s*+)*+<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL
)


HTML = frozenset({"text/html", "application/xhtml+xml"})
PDF = "application/pdf"


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
