"""WebFetch over real HTTP and TLS on this machine: a resolver of the tests' own makes it look like the web."""

from __future__ import annotations

import asyncio
import gzip
import ipaddress
import os
import socket
import ssl
import sys
import threading
import urllib.parse
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import trustme

from cellwright.agent.calls.input_schema import check_input
from cellwright.agent.subagent import SideRequest
from cellwright.agent.tool import ToolContext, ToolResult
from cellwright.errors import ErrorCode, ToolError
from cellwright.permissions.rules.domain_pattern import Address
from cellwright.testing import MessagesServer, fault, say
from cellwright.tools.process.child_processes import child_processes
from cellwright.tools.process.runner import own_module_environment
from cellwright.tools.web.client import FetchedPage, Network, read_address
from cellwright.tools.web.page_text import HtmlText, WebPage, kind_of, page_of, read_page
from cellwright.tools.web.web_fetch import PAGE_CHARS, web_fetch_tool
from eventual import growth, paces
from row_tables import for_each_row

ARTICLE = """<!doctype html><html lang="en"><head><title>On boats</title>
<meta name="author" content="Ada Lovelace"><meta property="article:published_time" content="2026-03-01">
</head><body><nav><a href="/">Home</a> <a href="/login">Log in</a></nav><article><h1>On boats</h1>
<p>A boat of <b>oak</b> floats because it displaces its own weight of water, as anybody can see who has ever pushed one
off the shore and stepped into it with dry feet and some hope for the afternoon.</p>
<p>The keel runs from bow to stern. See <a href="/keels">keels</a> for more of that, and for the table of woods below.</p>
<table><tr><th>Wood</th><th>Density</th></tr><tr><td>Oak</td><td>0.75</td></tr><tr><td>Pine</td><td>0.5</td></tr></table>
</article><footer>Cookies!</footer></body></html>"""


class Handler(BaseHTTPRequestHandler):
    """Pages by their path; `seen` are the requests' hosts and paths."""

    seen: list[tuple[str, str]]

    def do_GET(self) -> None:
        self.seen.append((str(self.headers["host"]), self.path))
        getattr(self, f"do_{self.path.strip('/').partition('?')[0]}", self.do_missing)()

    def _send(self, body: bytes, kind: str = "text/html; charset=utf-8", status: int = 200, **headers: str) -> None:
        self.send_response(status)
        for name, value in {"content-type": kind, "content-length": str(len(body)), **headers}.items():
            if value:
                self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def do_article(self) -> None:
        self._send(ARTICLE.encode())

    def do_latin(self) -> None:
        html = "<html><body><p>Ein schöner Gruß aus Köln.</p></body></html>"
        self._send(html.encode("latin-1"), "text/html; charset=latin-1")

    def do_plain(self) -> None:
        self._send(b"line one\nline two", "text/plain")

    def do_long(self) -> None:
        self._send(b"0123456789" * 15_000, "text/plain")

    def do_json(self) -> None:
        self._send(b'{"answer": 42}', "application/json")

    def do_picture(self) -> None:
        self._send(b"\x89PNG\r\n\x1a\n\0\0", "image/png")

    def do_huge(self) -> None:
        self._send(b"x" * 300_000, "text/plain")

    def do_bomb(self) -> None:
        self._send(gzip.compress(b"0" * 50_000_000), "text/plain", content_encoding="gzip")

    def do_slow(self) -> None:
        self.server.released.wait(30)  # type: ignore[attr-defined]
        self._send(b"late", "text/plain")

    def do_here(self) -> None:
        self._send(b"", status=302, location="/plain")

    def do_away(self) -> None:
        self._send(b"", status=301, location="https://other.example/plain?x=1")

    def do_down(self) -> None:
        self._send(b"", status=302, location=f"http://{self.headers['host'].partition(':')[0]}/plain")

    def do_meta(self) -> None:
        self._send(b"", status=302, location="http://169.254.169.254/latest/meta-data/")

    def do_to(self) -> None:
        self._send(b"", status=307, location=urllib.parse.unquote(self.path.partition("?")[2]))

    def do_round(self) -> None:
        self._send(b"", status=302, location="/round")

    def do_scheme(self) -> None:
        self._send(b"", status=302, location="file:///etc/passwd")

    def do_empty(self) -> None:
        self._send(b"<html><head><script>draw()</script></head><body></body></html>")

    def do_missing(self) -> None:
        self._send(b"<html><body><p>There is no such page.</p></body></html>", status=404)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    """Who signs the certificates of this web."""
    return trustme.CA()


class Web:
    """A web of one machine: every name leads to the server on 127.0.0.1; names in `private` to addresses that are not."""

    def __init__(self, authority: trustme.CA) -> None:
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), type("H", (Handler,), {"seen": []}))
        self.server.daemon_threads = True
        self.server.released = threading.Event()  # type: ignore[attr-defined]
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("docs.example").configure_cert(context)  # for this name alone
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        self.trusted = ssl.create_default_context()
        authority.configure_trust(self.trusted)
        self.resolved: list[str] = []
        self.answers: dict[str, list[str]] = {}
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def seen(self) -> list[tuple[str, str]]:
        seen: list[tuple[str, str]] = self.server.RequestHandlerClass.seen  # type: ignore[attr-defined]
        return seen

    async def resolve(self, host: str, port: int) -> list[str]:
        self.resolved.append(host)
        if host in self.answers:
            return self.answers[host]
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return ["127.0.0.1"]
        return [host]

    @property
    def network(self) -> Network:
        return Network(self.resolve, allowed, lambda: self.trusted, lambda _address: None)

    def close(self) -> None:
        self.server.released.set()  # type: ignore[attr-defined]
        self.server.shutdown()
        self.server.server_close()


def allowed(address: Address) -> bool:
    return str(address) == "127.0.0.1"


@pytest.fixture
def web(authority: trustme.CA) -> Iterator[Web]:
    web = Web(authority)
    yield web
    web.close()


class Fetch:
    def __init__(self, web: Web, side_request: SideRequest | None = None, **limits: Any) -> None:
        self.tool = web_fetch_tool(side_request, web.network, **limits)
        self.base = f"https://docs.example:{web.port}"
        self.spent: list[float | None] = []

    def __call__(self, path: str, prompt: str = "What is it about?", **more: Any) -> ToolResult:
        tool_input = {"url": path if "://" in path else f"{self.base}/{path}", "prompt": prompt, **more}
        check_input(self.tool, tool_input)
        ctx = ToolContext("toolu_1", lambda **_: None, spend=lambda _usage, cost: self.spent.append(cost))
        result = asyncio.run(self.tool.call(tool_input, ctx))
        assert isinstance(result, ToolResult)
        return result

    def error(self, path: str, **more: Any) -> ToolError:
        with pytest.raises(ToolError) as caught:
            self(path, **more)
        return caught.value


@pytest.fixture
def fetch(web: Web) -> Fetch:
    return Fetch(web)


def test_a_page_is_markdown_with_what_it_says_of_itself(fetch: Fetch) -> None:
    result = fetch("article")
    text = str(result.content)
    about = "Type: text/html\nTitle: On boats\nAuthor: Ada Lovelace\nDate: 2026-03-01\nWords: "
    assert text.startswith(f"URL: {fetch.base}/article\n{about}")
    assert "**oak** floats" in text
    assert f"[keels]({fetch.base}/keels)" in text
    assert "| Oak | 0.75 |" in text
    assert "Cookies" not in text
    assert result.structured.title == "On boats"
    assert result.structured.words > 50


def test_other_texts_are_given_as_they_are(fetch: Fetch) -> None:
    assert str(fetch("plain").content).endswith("\n\nline one\nline two")
    assert str(fetch("json").content).endswith('{"answer": 42}')
    assert "Gruß aus Köln." in str(fetch("latin").content)


def test_a_page_is_fetched_once_in_a_while(web: Web, fetch: Fetch) -> None:
    fetch("article")
    fetch("article", prompt="And again?")
    assert len(web.seen) == 1
    brief = Fetch(web, cache_seconds=0)
    brief("article")
    brief("article")
    assert len(web.seen) == 3


def test_a_redirect_on_the_same_host_is_followed(web: Web, fetch: Fetch) -> None:
    assert "line one" in str(fetch("here").content)
    assert [path for _, path in web.seen] == ["/here", "/plain"]


def test_a_redirect_to_another_host_is_told_and_not_followed(web: Web, fetch: Fetch) -> None:
    result = fetch("away")
    assert "https://other.example/plain?x=1" in str(result.content)
    assert "was not followed" in str(result.content)
    assert web.resolved == ["docs.example"]
    assert "http" in str(fetch("meta").content)
    assert "169.254.169.254" not in web.resolved


@for_each_row(
    "target",
    [
        *(
            "http://127.0.0.1:{port}/plain",
            "//127.0.0.1:{port}/plain",
            "https://[::1]:{port}/plain",
            "http://[fec0::1]/",
        ),
        *("http://169.254.169.254/latest/meta-data/", "https://[64:ff9b::a9fe:a9fe]/", "https://[::ffff:10.0.0.1]/"),
        *("http://0x7f.1:{port}/plain", "http://2130706433:{port}/plain", "http://017700000001/", "///127.0.0.1/plain"),
        *("https://localhost:{port}/plain", "https://docs.example@127.0.0.1:{port}/plain", "file:///etc/passwd"),
        *("https://docs.example.:{port}\\@127.0.0.1/", "gopher://127.0.0.1:{port}/", "https://[fe80::1%25lo]/"),
    ],
)
def test_no_redirect_leads_to_this_machine(web: Web, fetch: Fetch, target: str) -> None:
    before = len(web.seen)
    try:
        fetch("to?" + urllib.parse.quote(target.format(port=web.port)))
    except ToolError:
        pass
    else:
        assert set(web.resolved) == {"docs.example"}
    assert [path.partition("?")[0] for _, path in web.seen[before:]] in (["/to"], ["/to", "/127.0.0.1/plain"])


def test_each_step_of_a_redirect_is_resolved_and_checked_anew(web: Web, fetch: Fetch) -> None:
    """The name means a public address for the first request, and one of this network for the second."""
    answers = iter([["127.0.0.1"], ["10.0.0.1"]])

    async def rebinding(host: str, port: int) -> list[str]:
        return next(answers)

    fetch.tool = web_fetch_tool(None, Network(rebinding, allowed, lambda: web.trusted, lambda _: None))
    assert "docs.example is 10.0.0.1," in fetch.error("here").message
    assert [path for _, path in web.seen] == ["/here"]


def test_another_port_of_the_same_host_is_checked_anew(web: Web, fetch: Fetch) -> None:
    other = socket.create_server(("127.0.0.1", 0))
    other.settimeout(0.2)

    async def by_port(host: str, port: int) -> list[str]:
        return ["127.0.0.1"] if port == web.port else ["169.254.169.254"]

    fetch.tool = web_fetch_tool(None, Network(by_port, allowed, lambda: web.trusted, lambda _: None))
    target = f"https://docs.example:{other.getsockname()[1]}/x"
    assert "public internet" in fetch.error(f"to?{urllib.parse.quote(target)}").message
    with pytest.raises(TimeoutError):
        other.accept()
    other.close()


def test_a_service_of_this_machine_is_not_reached_with_the_real_resolver(web: Web, fetch: Fetch) -> None:
    """Nothing here is the test's own but the server: the names and addresses are resolved as the system does."""
    fetch.tool = web_fetch_tool(None, Network(tls=lambda: web.trusted, proxy=lambda _: None))
    reached: list[str] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Plain", (Handler,), {"seen": reached}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for host in ("127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0", socket.gethostname()):
        error = fetch.error(f"http://{host}:{server.server_address[1]}/plain")
        assert error.code in (ErrorCode.PERMISSION_DENIED, ErrorCode.NETWORK_ERROR, ErrorCode.INVALID_PARAMETERS)
    server.shutdown()
    server.server_close()
    assert reached == []


@pytest.mark.parametrize(
    ("path", "message", "code"),
    [
        ("round", "redirects more than", ErrorCode.NETWORK_ERROR),
        ("scheme", "is no http or https URL", ErrorCode.INVALID_PARAMETERS),
        ("picture", "is image/png", ErrorCode.EXECUTION_ERROR),
        ("missing", "answered 404", ErrorCode.NETWORK_ERROR),
    ],
)
def test_what_cannot_be_read_says_why(fetch: Fetch, path: str, message: str, code: ErrorCode) -> None:
    error = fetch.error(path)
    assert message in error.message
    assert error.code == code


def test_an_error_page_says_what_it_says(fetch: Fetch) -> None:
    assert "no such page." in fetch.error("missing").message


@pytest.mark.parametrize("path", ["huge", "bomb"])
def test_a_page_that_is_too_large_is_not_read_further(web: Web, path: str) -> None:
    error = Fetch(web, most_bytes=200_000).error(path)
    assert "than 200,000 bytes" in error.message


def test_a_page_that_does_not_come_is_not_waited_for(web: Web) -> None:
    assert Fetch(web, seconds=1).error("slow").code == ErrorCode.EXECUTION_TIMEOUT


def test_private_addresses_are_refused_whatever_the_name(web: Web, fetch: Fetch) -> None:
    web.answers["sneaky.example"] = ["10.0.0.1"]
    for url in ("https://sneaky.example/", "http://10.0.0.1/", "https://[::1]/", "http://169.254.169.254/latest"):
        assert "public internet" in fetch.error(url).message
    assert web.seen == []


def test_a_name_is_resolved_once_and_that_address_is_used(web: Web, fetch: Fetch) -> None:
    """A second answer of the name server, to another address, changes nothing."""
    answers = iter([["127.0.0.1"], ["10.0.0.1"]])

    async def rebinding(host: str, port: int) -> list[str]:
        return next(answers)

    fetch.tool = web_fetch_tool(None, Network(rebinding, allowed, lambda: web.trusted, lambda _: None))
    assert "line one" in str(fetch("plain").content)
    assert web.seen == [(f"docs.example:{web.port}", "/plain")]


def test_a_certificate_of_another_name_is_refused(web: Web, fetch: Fetch) -> None:
    error = fetch.error(f"https://evil.example:{web.port}/plain")
    assert "cannot be fetched" in error.message
    assert web.seen == []


def test_http_is_never_spoken_where_https_can_be(web: Web, fetch: Fetch) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    listener.close()
    error = fetch.error("http://docs.example/plain")  # port 443 of this machine: nobody is there
    assert error.message.startswith("https://docs.example/plain")
    assert fetch.error("down").message.startswith("https://docs.example/plain")


def test_a_proxy_gets_the_name_and_private_addresses_are_refused_all_the_same(web: Web) -> None:
    connects: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        connects.append(connection.recv(4_000))
        connection.sendall(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n")
        connection.close()

    threading.Thread(target=serve, daemon=True).start()
    proxy = f"http://127.0.0.1:{listener.getsockname()[1]}"
    fetch = Fetch(web)
    fetch.tool = web_fetch_tool(None, Network(web.resolve, allowed, lambda: web.trusted, lambda _: proxy))
    assert "cannot be fetched" in fetch.error("https://docs.example/plain").message
    assert connects[0].startswith(b"CONNECT docs.example:443 ")
    for url in ("https://10.0.0.1/", "https://localhost/", "https://metadata.google.internal/"):
        assert "public internet" in fetch.error(url).message
    listener.close()


@pytest.mark.parametrize("charset", ["undefined", "idna", "hex", "no-such-one"])
def test_a_page_that_names_no_usable_encoding_is_read_all_the_same(charset: str) -> None:
    address = read_address("https://docs.example/page")
    body = "\xe9".encode() + b"." * 100
    assert page_of(FetchedPage(address, 200, "OK", f"text/plain; charset={charset}", body)).text == "\xe9" + "." * 100


def test_a_pdf_that_is_none_says_so() -> None:
    address = read_address("https://docs.example/paper.pdf")
    with pytest.raises(ToolError) as caught:
        page_of(FetchedPage(address, 200, "OK", "application/pdf", b"%PDF-1.4 cut off"))
    assert "/paper.pdf cannot" in caught.value.message


def test_a_page_without_text_says_so(fetch: Fetch) -> None:
    assert "has no text" in str(fetch("empty").content)


def small(server: MessagesServer) -> SideRequest:
    from cellwright.model.anthropic import connect

    environ = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key, "CELLWRIGHT_MAX_RETRIES": "0"}
    return SideRequest(lambda: connect(environ), "claude-haiku-5-5")


def test_a_small_model_answers_from_the_page_and_its_cost_is_counted(web: Web) -> None:
    with MessagesServer([say("Of oak.")]) as server:
        fetch = Fetch(web, small(server))
        result = fetch("article", prompt="What are boats made of?")
        assert str(result.content).endswith("\n\nOf oak.")
        assert "displaces" not in str(result.content)
        [request] = server.requests
        assert request.body["model"] == "claude-haiku-5-5"
        assert "tools" not in request.body
        question = request.last_user_text
        assert question.endswith("boats made of?")
        assert "It is data" in question
        assert "A boat of **oak** floats" in question
    assert len(fetch.spent) == 1
    assert fetch.spent[0] is not None
    assert fetch.spent[0] > 0


def test_a_long_page_is_read_in_parts(web: Web) -> None:
    with MessagesServer([say("First."), say("Second.")]) as server:
        fetch = Fetch(web, small(server))
        first = str(fetch("long").content)
        assert f"\n\n[Characters 0 to {PAGE_CHARS:,} of 150,000;" in first
        assert f"offset={PAGE_CHARS}.]" in first
        assert str(fetch("long", offset=PAGE_CHARS).content).endswith("Second.")
        assert "beyond its end" in fetch.error("long", offset=200_000).message
        assert "0123456789" * 100 in server.requests[1].last_user_text


def test_without_the_small_model_there_is_the_page_itself(web: Web) -> None:
    with MessagesServer([fault("status", status=401)]) as server:
        content = str(Fetch(web, small(server))("plain").content)
    assert "(API_KEY_INVALID)" in content
    assert content.endswith("line one\nline two")


def test_claude_is_told_the_limits_that_hold(web):
    tool = web_fetch_tool(None, web.network, seconds=45, cache_seconds=90)
    assert "(default 45)" in tool.input_schema["properties"]["timeout_seconds"]["description"]
    assert "kept for 90 seconds" in tool.description
    assert "kept for 15 minutes" in web_fetch_tool(None, web.network).description


def read_here(body: bytes, kind: str = "text/html; charset=utf-8") -> WebPage:
    return page_of(fetched(body, kind))


def fetched(body: bytes, kind: str) -> FetchedPage:
    return FetchedPage(read_address("https://docs.example/a"), 200, "OK", kind, body)


def test_without_the_extra_the_whole_page_is_read_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "trafilatura", None)
    page = read_here(ARTICLE.encode())
    assert "'cellwright[web]'" in page.notice
    assert (page.title, page.author, page.date) == ("On boats", "Ada Lovelace", "2026-03-01")
    assert "[Home](https://docs.example/)" in page.text
    assert "**oak** floats" in page.text
    assert "| Wood | Density |\n| Oak | 0.75 |" in page.text
    latin = "<html><body><p>Ein schöner Gruß aus Köln.</p></body></html>".encode("latin-1")
    assert "Gruß aus Köln." in read_here(latin, "text/html; charset=latin-1").text


LONG_PAGE = (
    b"<html><body>" + b"<div><p>One <b>more</b> <a href='/x'>paragraph</a></p></div>" * 150_000 + b"</body></html>"
)
"""9 MB: looking for its article takes 150 s and 1.1 GB."""


def test_a_page_whose_article_costs_too_much_to_find_is_read_whole() -> None:
    page = asyncio.run(read_page(fetched(LONG_PAGE, "text/html"), 60.0, os.environ, memory_mb=200))
    assert "time or memory" in page.notice
    assert "[paragraph](https://docs" in page.text


@pytest.mark.parametrize(("kind", "body"), [("text/html", LONG_PAGE), ("application/pdf", b"%PDF-1.4 cut off")])
def test_parsing_ends_with_the_time_limit(kind: str, body: bytes) -> None:
    with pytest.raises(ToolError) as caught:
        asyncio.run(read_page(fetched(body, kind), 0.05, os.environ))
    assert caught.value.code == ErrorCode.EXECUTION_TIMEOUT
    assert f"{len(body):,} bytes" in caught.value.message
    assert not child_processes().running


def test_the_reader_of_a_page_gets_no_secret() -> None:
    environ = {**os.environ, "GITHUB_TOKEN": "ghp_" + "a1" * 18}
    assert "GITHUB_TOKEN" not in own_module_environment(environ)
    assert asyncio.run(read_page(fetched(ARTICLE.encode(), "text/html"), 30.0, environ)).title == "On boats"


@pytest.mark.parametrize("piece", [b"<!---->", b"<!-- -->\n", b"<!--", b"-->", b" "])
def test_a_page_of_no_stated_type_is_recognised_in_a_time_that_grows_with_its_length(piece: bytes) -> None:
    assert growth(lambda size: kind_of(fetched(piece * (size // len(piece)), "")), 500_000, 9) < 9


@for_each_row(
    ("html", "means"),
    [
        ("<h2>A <code>b</code></h2><p>c<br>d", "## A `b`\n\nc\nd"),
        ("<ul><li>one<li>two</ul>", "- one\n- two"),
        ("<pre><code>x = 1\n  y</code></pre>", "```\nx = 1\n  y\n```"),
        ("<script>" + "{a<b}" * 20_000 + "</script><p>text", "text"),
        ("<svg><text>no</svg>yes", "yes"),
        ("<a href='javascript:x()'>js</a> <a href='/z'><img></a>", "[js]"),
        ("&lt;b&gt; &amp; c", "<b> & c"),
        ("a <!-- <p>no</p> --> b", "a  b"),
        (
            "<table><tr><th rowspan=2>Wood<th colspan=2>Density</tr><tr><th>dry<th>wet</tr><tr><td>Oak<td>1<td>2</table>",
            "| Wood | Density |  |\n|  | dry | wet |\n| Oak | 1 | 2 |",
        ),
        (
            "<table><tr><td rowspan=3>a<td>b<td rowspan=2>c<tr><td>d<tr><td>e<td>f</table>",
            "| a | b | c |\n|  | d |  |\n|  | e | f |",
        ),
        ("<table><tr><td colspan='0' rowspan='many'>a<td>b</table><table><tr><td>c</table>", "| a | b |\n\n| c |"),
        ("", ""),
    ],
)
def test_plain_html(html: str, means: str) -> None:
    page = HtmlText("https://docs.example/a")
    page.read(html)
    assert page.markdown == means


@for_each_row(
    "piece",
    [
        "<a ",
        "<",
        "<x y=z ",
        "<a href='",
        "&",
        "<!--",
        "[",
        "<div>",
        "<td colspan=999 rowspan=999>",
        "<tr><td rowspan=99>",
    ],
)
def test_what_is_no_html_takes_no_more_than_its_length(piece: str) -> None:
    text = piece * (100_000 // len(piece))
    # a parser that looks at everything again for each piece would take minutes
    assert paces(lambda: HtmlText("https://docs.example/a").read(text), 200, tries=3) < 200
