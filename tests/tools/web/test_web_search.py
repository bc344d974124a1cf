"""WebSearch by the API's own tool over real HTTP, and by engines of one's own."""

from __future__ import annotations

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from cellwright.agent.calls.input_schema import check_input
from cellwright.agent.subagent import SideRequest
from cellwright.agent.tool import ToolContext, ToolResult
from cellwright.errors import CellwrightError, ErrorCode, ToolError
from cellwright.model.anthropic import connect
from cellwright.testing import MessagesServer, fault, say, searched, turn
from cellwright.tools.web.web_search import (
    Engine,
    Hit,
    Query,
    SearchResult,
    api_engine,
    choose_engine,
    tavily_engine,
    web_search_tool,
)

BOATS = {"url": "https://boats.example/oak", "title": "Oak boats", "page_age": "March 1, 2026"}
KEELS = {"url": "https://www.keels.example/", "title": "Keels"}


def aside_of(server: MessagesServer) -> SideRequest:
    environ = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key, "CELLWRIGHT_MAX_RETRIES": "0"}
    return SideRequest(lambda: connect(environ), "claude-haiku-5-5")


def search(engine: Engine, query: str = "oak boats", environ: dict[str, str] | None = None, **more: Any) -> ToolResult:
    tool = web_search_tool(engine, environ or {})
    tool_input = {"query": query, **more}
    check_input(tool, tool_input)
    result = asyncio.run(tool.call(tool_input, ToolContext("toolu_1", lambda **_: None)))
    assert isinstance(result, ToolResult)
    return result


def test_the_apis_own_search_gives_titles_urls_dates_and_what_was_quoted() -> None:
    found = searched("oak boats", BOATS, KEELS, text="Oak is used a lot.", quote="Oak is heavy but it lasts.")
    with MessagesServer([turn(found, usage={"server_tool_use": {"web_search_requests": 1}})]) as server:
        result = search(api_engine(aside_of(server)), allowed_domains=["boats.example", "keels.example"])
        [tool] = server.requests[0].body["tools"]
    assert tool["type"] == "web_search_20250305"
    assert tool["allowed_domains"] == ["boats.example", "keels.example"]
    assert tool["max_uses"] == 8
    assert [line for line in result.content.split("\n") if "://" in line or line.startswith("-")] == [
        "- Oak boats (March 1, 2026)",
        "  https://boats.example/oak",
        "- Keels",
        "  https://www.keels.example/",
    ]
    found = result.structured
    assert (found.engine, found.total, found.query) == ("api", 2, "oak boats")
    assert found.results[1] == {"title": "Keels", "url": "https://www.keels.example/"}


def test_a_search_that_pauses_goes_on() -> None:
    script = [turn(searched("a", BOATS), stop_reason="pause_turn"), turn(searched("b", KEELS, text="Done."))]
    with MessagesServer(script) as server:
        content = str(search(api_engine(aside_of(server))).content)
        assert len(server.requests) == 2
    assert "Oak boats" in content
    assert "Keels" in content


def test_a_search_that_fails_at_the_api_says_so() -> None:
    with MessagesServer([turn(searched("a", error_code="max_uses_exceeded", text="Sorry."))]) as server:
        content = str(search(api_engine(aside_of(server))).content)
    assert "Nothing was found" in content
    assert ": max_uses_exceeded.]" in content
    refusal = fault("status", status=400, error_type="invalid_request_error", message="no web search")
    with MessagesServer([refusal]) as server, pytest.raises(ToolError) as caught:
        search(api_engine(aside_of(server)))
    assert caught.value.code == ErrorCode.SEARCH_SERVICE_ERROR


def test_domains_are_kept_whatever_the_engine_gives() -> None:
    async def engine(query: Query, ctx: ToolContext) -> SearchResult:
        hosts = ("good.example", "sub.good.example", "evilgood.example", "good.example.evil.test", "Good.Example.")
        return SearchResult([Hit(host, f"https://{host}/") for host in hosts] + [Hit("x", "javascript:alert(1)")])

    only = search(engine, allowed_domains=["https://Good.example/"]).structured
    assert [hit["title"] for hit in only.results] == ["good.example", "sub.good.example", "Good.Example."]
    rest = search(engine, blocked_domains=["good.example"]).structured
    assert (only.total, rest.total) == (6, 6)
    assert [hit["title"] for hit in rest.results] == ["evilgood.example", "good.example.evil.test"]


@pytest.mark.parametrize(
    "more",
    [
        {"allowed_domains": ["a.example"], "blocked_domains": ["b.example"]},
        {"allowed_domains": ["*.example"]},
        {"blocked_domains": ["a.example/path"]},
    ],
)
def test_domains_that_make_no_sense(more: dict[str, Any]) -> None:
    with MessagesServer([]) as server, pytest.raises(ToolError) as caught:
        search(api_engine(aside_of(server)), **more)
    assert caught.value.code == ErrorCode.INVALID_PARAMETERS


def test_a_session_searches_so_often() -> None:
    async def engine(query: Query, ctx: ToolContext) -> SearchResult:
        return SearchResult([])

    tool = web_search_tool(engine, {"CLAUDE_CODE_MAX_WEB_SEARCHES_PER_SESSION": "2"})
    ctx = ToolContext("toolu_1", lambda **_: None)
    for _ in range(2):
        asyncio.run(tool.call({"query": "boats"}, ctx))
    with pytest.raises(ToolError, match="has searched 2 times"):
        asyncio.run(tool.call({"query": "boats"}, ctx))


class Tavily(BaseHTTPRequestHandler):
    asked: list[tuple[str, dict[str, Any]]]
    status = 200

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.asked.append((self.headers["authorization"], body))
        hit = {"title": "T", "url": "https://t.example/", "content": "C", "score": 0.91, "published_date": "2026-01-01"}
        answer = json.dumps({"results": [hit]}).encode()
        self.send_response(self.status)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.mark.parametrize("status", [200, 401])
def test_an_engine_with_a_key(status: int) -> None:
    handler = type("T", (Tavily,), {"asked": [], "status": status})
    with HTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        engine = tavily_engine("tvly-secret", f"http://127.0.0.1:{server.server_address[1]}/search")
        try:
            if status == 200:
                content = search(engine, blocked_domains=["x.example"]).content
                assert content == "Results for 'oak boats':\n- T (2026-01-01, score 0.91)\n  https://t.example/\n  C"
                [(authorization, body)] = handler.asked
                assert authorization == "Bearer tvly-secret"
                assert body["exclude_domains"] == ["x.example"]
            else:
                with pytest.raises(ToolError, match="answered 401") as caught:
                    search(engine)
                assert "tvly-secret" not in caught.value.message
        finally:
            server.shutdown()


def test_which_engine_it_is() -> None:
    with MessagesServer([turn(searched("a", BOATS))]) as server:
        side_request = aside_of(server)
        chosen = choose_engine({}, side_request)
        assert chosen is not None
        assert "Oak boats" in str(search(chosen).content)
        assert choose_engine({"CELLWRIGHT_SEARCH_ENGINE": "api"}, side_request) is not None
        for name in ("tavily", "nobody's"):
            with pytest.raises(CellwrightError) as caught:
                choose_engine({"CELLWRIGHT_SEARCH_ENGINE": name}, side_request)
            assert caught.value.code == ErrorCode.CONFIG_INVALID
    assert say("x").text == "x"
