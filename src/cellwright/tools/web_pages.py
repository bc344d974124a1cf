"""What was fetched as text: HTML as Markdown without what surrounds the article, and what the page says of itself."""

from __future__ import annotations

import re
from dataclasses import dataclass

from cellwright.agent.tool import ToolError
from cellwright.errors import ErrorCode
from cellwright.tools.files.formats.pdf import keep_pypdf_from_printing
from cellwright.tools.web.client import Fetched

_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)
_TEXT_TYPES = re.compile(r"text/|application/(?:[\w.+-]*\+)?(?:json|xml|javascript|yaml|toml|x-ndjson)|image/svg\+xml")
_LOOKS_LIKE_HTML = re.compile(rb"\s*(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Page:
    """A page: `text` is Markdown where it was HTML; what is not known is empty."""

    url: str
    content_type: str
    text: str
    title: str = ""
    author: str = ""
    date: str = ""
    bytes: int = 0

    @property
    def words(self) -> int:
        return len(self.text.split())


def page_of(fetched: Fetched) -> Page:
    """The page that came. Takes a moment of CPU: not on a loop. Raises ToolError for what has no text."""
    url, kind = fetched.address.url, fetched.content_type.partition(";")[0].strip().lower()
    size = len(fetched.body)
    if kind in ("text/html", "application/xhtml+xml") or (not kind and _LOOKS_LIKE_HTML.match(fetched.body)):
        return _from_html(url, fetched)
    if kind == "application/pdf":
        return Page(url, kind, _pdf_text(fetched.body, url), bytes=size)
    if kind and not _TEXT_TYPES.match(kind):
        raise _no_text(url, kind, size)
    if not kind and b"\0" in fetched.body[:8_000]:
        raise _no_text(url, "data of no stated type", size)
    return Page(url, kind or "text/plain", _decoded(fetched), bytes=size)


def _no_text(url: str, kind: str, size: int) -> ToolError:
    return ToolError(
        f"{url} is {kind} ({size:,} bytes), not text. Download it with Bash (curl -o), if the user allows it.",
        code=ErrorCode.EXECUTION_ERROR,
    )


def _decoded(fetched: Fetched) -> str:
    found = _CHARSET.search(fetched.content_type)
    for charset in (found[1] if found else "utf-8", "utf-8"):
        try:
            return fetched.body.decode(charset)
        except (LookupError, UnicodeError):
            continue
    return fetched.body.decode("latin-1")


def _from_html(url: str, fetched: Fetched) -> Page:
    import trafilatura  # brings lxml, half a second at first use
    from trafilatura.settings import use_config

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
    return Page(
        url,
        "text/html",
        text,
        title=_word(about, "title"),
        author=_word(about, "author"),
        date=_word(about, "date"),
        bytes=len(fetched.body),
    )


def _word(about: object, name: str) -> str:
    value = getattr(about, name, None)
    return " ".join(value.split()) if isinstance(value, str) else ""


def _pdf_text(body: bytes, url: str) -> str:
    import io

    import pypdf

    keep_pypdf_from_printing()
    try:
        reader = pypdf.PdfReader(io.BytesIO(body))
        pages = [page.extract_text() for page in reader.pages]
    except Exception as error:  # broken files make pypdf raise nearly anything
        raise ToolError(f"The PDF at {url} cannot be read: {error}.", code=ErrorCode.EXECUTION_ERROR) from error
    return "\n\n".join(f"--- page {number} ---\n{text}" for number, text in enumerate(pages, 1))
