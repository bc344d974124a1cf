from __future__ import annotations

import base64
import contextlib
import io
import subprocess
import sys
from typing import Any

import pypdf
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pictures import pdf, picture

from cellwright.conversation.core import Host
from cellwright.conversation.runs.kinds import RunRequest
from cellwright.conversation.runs.run import RunSurface
from cellwright.errors import ErrorCode, ToolError
from cellwright.features.conversation import Conversation
from cellwright.testing import say, turn, use
from cellwright.tools.files.pdf import PdfRequest, read_pdf
from row_tables import for_each_row


def put(tools: Any, data: bytes) -> None:
    (tools.cwd / "paper.pdf").write_bytes(data)


def document(tools: Any, **more: Any) -> tuple[str, dict[str, Any], list[str]]:
    """What Read says of the PDF, the block it sends, and the texts of the block's pages."""
    words, block = tools.result("Read", file_path="paper.pdf", **more).content
    assert block["type"] == "document"
    assert block["source"]["media_type"] == "application/pdf"
    sent = pypdf.PdfReader(io.BytesIO(base64.b64decode(block["source"]["data"])))
    return words["text"], block, [page.extract_text() for page in sent.pages]


def many(count: int) -> bytes:
    return pdf(*[f"page {number}" for number in range(1, count + 1)])


PRINTS = """
import io
from cellwright.errors import ToolError
from cellwright.tools.files.pdf import PdfRequest, read_pdf

try:
    read_pdf(io.BytesIO(b"%PDF-1.4 cut off"), 16, "paper.pdf", PdfRequest(None, False, 1000), lambda: False)
except ToolError as error:
    print(error.message)
"""


def test_what_a_damaged_pdf_is_warned_of_is_not_printed():
    # in a process of its own: pytest has a log here, and what is logged is printed only where there is none
    done = subprocess.run([sys.executable, "-c", PRINTS], capture_output=True, text=True, check=True)
    assert "paper.pdf is broken" in done.stdout
    assert done.stderr == ""


def test_a_short_pdf_is_sent_as_it_is(tools):
    data = pdf("one", "two")
    put(tools, data)
    words, block, texts = document(tools)
    assert base64.b64decode(block["source"]["data"]) == data
    assert "2 pages" in words
    assert texts == ["one", "two"]


@pytest.mark.parametrize(
    ("pages", "numbers"),
    [("3", [3]), ("1-5", [1, 2, 3, 4, 5]), ("10-20", [10, 11, 12]), ("11-", [11, 12]), ("2, 4-5,4", [2, 4, 5])],
)
def test_pages_are_taken_out(tools, pages, numbers):
    put(tools, many(12))
    words, block, texts = document(tools, pages=pages)
    assert texts == [f"page {number}" for number in numbers]
    assert words.endswith("of 12]")
    assert block["title"].startswith("paper.pdf, pages ")


def test_a_long_pdf_is_asked_for_by_pages(tools):
    put(tools, many(11))
    error = tools.error("Read", file_path="paper.pdf")
    assert error.code == ErrorCode.INVALID_PARAMETERS
    assert 'pages="1-10"' in error.message
    assert "20 a call" in error.message
    put(tools, many(10))
    assert len(document(tools)[2]) == 10


@for_each_row(
    ("pages", "why"),
    [
        ("1-21", "21 pages are too many: 20 a call"),
        ("0", "counted from 1"),
        ("5-2", "counted from 1"),
        ("31", "no page 31"),
        ("a", "'a' is no page"),
        ("1-2-3", "no page or range"),
        ("-3", "no page or range"),
    ],
)
def test_pages_that_are_not_there_are_told(tools, pages, why):
    put(tools, many(30))
    error = tools.error("Read", file_path="paper.pdf", pages=pages)
    assert error.code == ErrorCode.INVALID_PARAMETERS
    assert why in error.message
    assert "30 pages" in error.message


def test_pages_of_what_is_no_pdf(tools):
    (tools.cwd / "a.txt").write_text("a\n")
    assert "for PDFs only" in tools.error("Read", file_path="a.txt", pages="1").message


def test_where_documents_are_not_taken_pages_are_text(tools, monkeypatch):
    monkeypatch.setenv("CELLWRIGHT_PDF_AS_TEXT", "1")
    put(tools, pdf("first", "", "third"))
    assert tools.text("Read", file_path="paper.pdf") == (
        '[paper.pdf: PDF, 3 pages]\n<page number="1">\nfirst\n</page>\n'
        '<page number="2">\n[no text on this page: it may be a scan]\n</page>\n<page number="3">\nthird\n</page>\n'
    )


def test_text_that_does_not_fit_says_how_to_go_on(tools, monkeypatch):
    monkeypatch.setenv("CELLWRIGHT_PDF_AS_TEXT", "1")
    monkeypatch.setenv("CLAUDE_CODE_FILE_READ_MAX_OUTPUT_TOKENS", "100")
    put(tools, pdf(*["x" * 150] * 5))
    assert tools.text("Read", file_path="paper.pdf").endswith('pages="3-5".]')
    assert 'pages="5".]' in tools.text("Read", file_path="paper.pdf", pages="3-5")


def test_pages_of_many_bytes_are_text(tools):
    put(tools, pdf("one", "two", filler=2_000_000))
    text = tools.text("Read", file_path="paper.pdf")
    assert "than 5 MB" in text
    assert '<page number="2">\ntwo\n</' in text
    words, _, texts = document(tools, pages="2")
    assert "pages 2 of 2" in words
    assert texts == ["two"]


def test_an_encrypted_pdf_is_refused_with_what_to_do(tools):
    put(tools, pdf("secret", password="x"))
    error = tools.error("Read", file_path="paper.pdf")
    assert error.code == ErrorCode.FILE_ACCESS_ERROR
    assert "encrypted with a password" in error.message
    assert "qpdf" in error.message


def test_a_pdf_that_only_forbids_printing_is_sent_without_its_lock(tools):
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(pdf("open")))
    writer.encrypt("", owner_password="owner", algorithm="RC4-128")
    out = io.BytesIO()
    writer.write(out)
    put(tools, out.getvalue())
    _, block, texts = document(tools)
    assert texts == ["open"]
    assert not pypdf.PdfReader(io.BytesIO(base64.b64decode(block["source"]["data"]))).is_encrypted


@pytest.mark.parametrize("data", [b"%PDF-1.7\n", b"%PDF-1.7\n\0\0 nothing of a PDF", many(3)[:150]])
def test_a_broken_pdf_is_told(tools, data):
    put(tools, data)
    error = tools.error("Read", file_path="paper.pdf")
    assert error.code == ErrorCode.FILE_ACCESS_ERROR
    assert "paper.pdf" in error.message


@settings(max_examples=60, deadline=None)
@given(
    changes=st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), min_size=1, max_size=20),
    as_text=st.booleans(),
    pages=st.sampled_from([None, "1", "1-3"]),
)
def test_no_broken_pdf_crashes(changes, as_text, pages):
    data = bytearray(many(3))
    for at, value in changes:
        data[at % len(data)] = value
    request = PdfRequest(pages, as_text, 10_000)
    with contextlib.suppress(ToolError):
        assert read_pdf(io.BytesIO(bytes(data)), len(data), "a.pdf", request, lambda: False)


def test_images_pages_and_notebooks_get_through_to_the_model(tools, messages_server, monkeypatch):
    put(tools, many(3))
    (tools.cwd / "large.png").write_bytes(picture("PNG", 3000, 2500))
    (tools.cwd / "small.gif").write_bytes(picture("GIF"))
    calls = [use("Read", file_path=name) for name in ("paper.pdf", "large.png", "small.gif")]
    server = messages_server([turn(*calls), say("seen")])
    monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", server.api_key)
    monkeypatch.chdir(tools.cwd)
    talking = Conversation(Host(cwd=tools.cwd, interface="a test"))
    events = []
    talking.jobs.work_until_done(talking.start(RunRequest(prompt="Look."), RunSurface(events.append)))
    talking.close()
    assert events[-1].text == "seen"
    assert not server.rejected
    answers = server.requests[1].body["messages"][-1]["content"]
    assert [block["content"][1]["type"] for block in answers] == ["document", "image", "image"]
