"""WebSearch: what is on the web about a question, by the API's own search or by another engine."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import urllib.parse
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Self

from msgspec import Meta, Struct, field
from msgspec.structs import replace

from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.calls.tool_results import ToolOutput
from cellwright.agent.subagent import SideRequest
from cellwright.agent.tool import Tool, ToolAccess, ToolContext, ToolLimits, ToolResult, tool
from cellwright.errors import ApiError, CellwrightError, ErrorCode, ToolError
from cellwright.events import Preview
from cellwright.text import visible_line

MAX_DOMAINS = 50

Domains = tuple[Annotated[str, Meta(min_length=1)], ...]


class WebSearchInput(ToolInput):
    """The input of WebSearch."""

    query: Annotated[str, Meta(min_length=2, max_length=1_000, description="What to search for.")]
    allowed_domains: Annotated[
        Domains, Meta(max_length=MAX_DOMAINS, description="Only results of these domains and their subdomains.")
    ] = ()
    blocked_domains: Annotated[
        Domains, Meta(max_length=MAX_DOMAINS, description="No results of these domains and their subdomains.")
    ] = ()


class Hit(Struct, frozen=True):
    """One result; what is not known is empty. `score`: how well it fits by the engine's own measure."""

    title: str
    url: str
    snippet: str = ""
    date: str = ""
    score: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Return what is known of the hit."""
        known = {"title": self.title, "url": self.url, "snippet": self.snippet, "date": self.date, "score": self.score}
        return {name: value for name, value in known.items() if value not in ("", None)}

    def line(self) -> str:
        """Describe the hit for Claude."""
        about = [self.date, f"score {self.score:.2f}" if self.score is not None else ""]
        more = ", ".join(part for part in about if part)
        first = f"- {visible_line(self.title, 300)}{f' ({more})' if more else ''}\n  {visible_line(self.url, 2_000)}"
        return f"{first}\n  {visible_line(self.snippet, 500)}" if self.snippet else first


class WebSearchOutput(ToolOutput):
    """The results of a search. `total` is how many the engine gave, those that were not asked for included."""

    query: str
    engine: str
    total: int
    results: tuple[dict[str, Any], ...]


class Query(Struct, frozen=True):
    """The query of a search; `allowed` and `blocked` are domains, lower case, at most one of the two."""

    text: str
    allowed: tuple[str, ...] = ()
    blocked: tuple[str, ...] = ()

    @classmethod
    def read(cls, input: WebSearchInput) -> Self:
        """The query of a call. Raises ToolError."""
        allowed, blocked = _domains(input.allowed_domains), _domains(input.blocked_domains)
        if allowed and blocked:
            message = "Give allowed_domains or blocked_domains, not both. Nothing was searched."
            raise ToolError(message, code=ErrorCode.INVALID_PARAMETERS)
        return cls(input.query, allowed, blocked)

    def wants(self, hit: Hit) -> bool:
        """Return whether the result's site is one that was asked for. Engines do not all keep to it."""
        try:
            host = (urllib.parse.urlsplit(hit.url).hostname or "").removesuffix(".")
        except ValueError:
            return False
        if not hit.url.startswith(("http://", "https://")):
            return False
        if self.allowed and not _is_of(host, self.allowed):
            return False
        return not _is_of(host, self.blocked)


def _is_of(host: str, domains: Sequence[str]) -> bool:
    return any(host == domain or host.endswith(f".{domain}") for domain in domains)


def _domains(domains: Iterable[str]) -> tuple[str, ...]:
    found = []
    for text in domains:
        domain = text.strip().lower().removeprefix("https://").removeprefix("http://").strip("/").removesuffix(".")
        if "/" in domain or "*" in domain or not domain:
            message = f"{text!r} is no domain: give names such as docs.python.org. Nothing was searched."
            raise ToolError(message, code=ErrorCode.INVALID_PARAMETERS)
        found.append(domain)
    return tuple(found)


class SearchResult(Struct, frozen=True):
    """The findings of a search. `summary`: what the engine itself says; `problems`: what went wrong on the way.

    `engine` is the name under which CELLWRIGHT_SEARCH_ENGINE knows the engine.
    """

    hits: list[Hit]
    summary: str = ""
    problems: list[str] = field(default_factory=list)
    engine: str = ""

    def text(self, query: Query, hits: Sequence[Hit]) -> str:
        """Describe the results for Claude."""
        parts = [f"Results for {query.text!r}:"] if hits else [f"Nothing was found for {query.text!r}."]
        parts += [hit.line() for hit in hits]
        if self.summary:
            parts.append(f"\n{self.summary}")
        parts += [f"[{problem}]" for problem in self.problems]
        return "\n".join(parts)


def hits_of_message(content: Sequence[Mapping[str, Any]]) -> SearchResult:
    """The results in a message of the API whose server tool `web_search` was used.

    `web_search_tool_result` blocks hold the results or an error; the text's citations quote what the pages say.
    """
    hits: dict[str, Hit] = {}
    problems: list[str] = []
    summary: list[str] = []
    for block in content:
        if block.get("type") == "web_search_tool_result":
            results = block.get("content")
            if isinstance(results, list):
                for result in results:
                    _remember(hits, result, str(result.get("page_age") or ""), "")
            elif isinstance(results, Mapping):
                problems.append(f"A search failed: {results.get('error_code', 'unknown error')}.")
        elif block.get("type") == "text":
            summary.append(str(block.get("text", "")))
            for citation in block.get("citations") or ():
                _remember(hits, citation, "", str(citation.get("cited_text") or ""))
    return SearchResult(list(hits.values()), "".join(summary).strip(), problems)


def _remember(hits: dict[str, Hit], result: Mapping[str, Any], date: str, quote: str) -> None:
    url = str(result.get("url") or "")
    if not url:
        return
    known = hits.get(url, Hit(str(result.get("title") or url), url))
    snippet = known.snippet if quote in known.snippet else f"{known.snippet} … {quote}".removeprefix(" … ")
    hits[url] = Hit(known.title, url, snippet, known.date or date)


SECONDS = 60.0
MAX_HITS = 20
MAX_PAUSES = 3
TAVILY_URL = "https://api.tavily.com/search"
ENGINES_GROUP = "cellwright.search_engines"
"""Entry points of this group are engines of others: `name = module:engine`, an `Engine`."""

Engine = Callable[[Query, ToolContext], Awaitable[SearchResult]]
"""Searches. Raises ToolError or CellwrightError when it cannot."""

DESCRIPTION = """\
Search the web. Gives titles, URLs and, where known, snippets, dates and scores; read a page with WebFetch.

- `allowed_domains` keeps results to these sites, `blocked_domains` leaves sites out; give one of them, not both."""

EXAMPLES = ({"query": "pandas 3 copy-on-write migration", "allowed_domains": ["pandas.pydata.org"]},)


def api_engine(side_request: SideRequest) -> Engine:
    """The Messages API's server tool: the small model searches and says what it found."""

    async def search(query: Query, ctx: ToolContext) -> SearchResult:
        tool: dict[str, Any] = {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}
        if query.allowed:
            tool["allowed_domains"] = list(query.allowed)
        if query.blocked:
            tool["blocked_domains"] = list(query.blocked)
        messages: list[Mapping[str, Any]] = [
            {
                "role": "user",
                "content": f"Search the web for this, and say in a few sentences what you find: {query.text}",
            }
        ]
        content: list[Mapping[str, Any]] = []
        for _ in range(MAX_PAUSES):
            turn = await side_request.ask(messages, ctx, tools=[tool])
            content += turn.message["content"]
            if turn.stop_reason != "pause_turn":
                break
            messages.append(turn.message)
        return replace(hits_of_message(content), engine="api")

    return search


def ddgs_engine() -> Engine | None:
    """DuckDuckGo's and others' results through the package `ddgs` (extra `search`); None where it is not installed."""
    if importlib.util.find_spec("ddgs") is None:
        return None

    async def search(query: Query, ctx: ToolContext) -> SearchResult:
        return await asyncio.to_thread(_ask_ddgs, query)

    return search


def _ask_ddgs(query: Query) -> SearchResult:
    import ddgs  # installed for who wants it
    from ddgs.exceptions import DDGSException

    sites = " OR ".join(f"site:{domain}" for domain in query.allowed)
    words = f"{query.text} {sites}".strip()
    try:
        results = ddgs.DDGS(timeout=int(SECONDS / 2)).text(words, max_results=MAX_HITS)
    except DDGSException as error:
        raise ToolError(f"The search failed: {error}.", code=ErrorCode.SEARCH_SERVICE_ERROR) from error
    hits = [Hit(str(r.get("title", "")), str(r.get("href", "")), str(r.get("body", ""))) for r in results]
    return SearchResult(hits, engine="ddgs")


def tavily_engine(key: str, url: str = TAVILY_URL) -> Engine:
    """Tavily's search, with a key of its own (CELLWRIGHT_SEARCH_API_KEY)."""

    async def search(query: Query, ctx: ToolContext) -> SearchResult:
        import httpx2

        body = {
            "query": query.text,
            "max_results": MAX_HITS,
            "include_domains": list(query.allowed),
            "exclude_domains": list(query.blocked),
        }
        try:
            async with httpx2.AsyncClient(timeout=SECONDS / 2) as client:
                response = await client.post(url, json=body, headers={"authorization": f"Bearer {key}"})
            results = response.json()["results"] if response.status_code == 200 else None
        except (httpx2.HTTPError, ValueError, KeyError, TypeError) as error:
            raise _search_failed(str(error).replace(key, "[secret]") or type(error).__name__) from None
        if results is None:
            raise _search_failed(f"the search service answered {response.status_code}")
        return SearchResult(
            [
                Hit(
                    str(result.get("title", "")),
                    str(result.get("url", "")),
                    str(result.get("content", "")),
                    str(result.get("published_date") or ""),
                    result.get("score"),
                )
                for result in results
            ],
            engine="tavily",
        )

    return search


def _search_failed(why: str) -> ToolError:
    message = f"The search failed: {why}. Try again later, or continue without it."
    return ToolError(message, code=ErrorCode.SEARCH_SERVICE_ERROR)


def choose_engine(environ: Mapping[str, str], side_request: SideRequest | None) -> Engine | None:
    """The engine that `environ` names (CELLWRIGHT_SEARCH_ENGINE: api, tavily, ddgs, or another's), else the one that fits.

    With a search key it is that key's; with an API address of one's own (a gateway) `ddgs`, as far as it is installed;
    else the API's search. None: there is none. Raises `CellwrightError` CONFIG_INVALID for a name that is not known.
    """
    key, own_address = environ.get("CELLWRIGHT_SEARCH_API_KEY", ""), environ.get("ANTHROPIC_BASE_URL", "")
    api = api_engine(side_request) if side_request is not None else None
    name = environ.get("CELLWRIGHT_SEARCH_ENGINE", "")
    if not name:
        if key:
            return tavily_engine(key)
        gateway = bool(own_address) and "anthropic.com" not in own_address
        return (ddgs_engine() or api) if gateway else _with_fallback(api)
    own: dict[str, Callable[[], Engine | None]] = {
        "api": lambda: api,
        "ddgs": ddgs_engine,
        "tavily": lambda: tavily_engine(key) if key else None,
    }
    engine = own[name]() if name in own else _others_engine(name)
    if engine is None:
        message = f"CELLWRIGHT_SEARCH_ENGINE={name} cannot be used: its package or its key is missing."
        raise CellwrightError(ErrorCode.CONFIG_INVALID, message)
    return engine


def _others_engine(name: str) -> Engine | None:
    import importlib.metadata

    found: Engine | None = next(
        (entry.load() for entry in importlib.metadata.entry_points(group=ENGINES_GROUP, name=name)), None
    )
    if found is None:
        return None
    engine = found

    async def search(query: Query, ctx: ToolContext) -> SearchResult:
        return replace(await engine(query, ctx), engine=name)

    return search


def _with_fallback(api: Engine | None) -> Engine | None:
    """The API's search; where the platform has none, `ddgs` from then on, if it is installed."""
    if api is None:
        return ddgs_engine()
    refused: list[ApiError] = []

    async def search(query: Query, ctx: ToolContext) -> SearchResult:
        if not refused:
            try:
                return await api(query, ctx)
            except ApiError as error:
                if error.code != ErrorCode.API_REQUEST_INVALID:
                    raise
                refused.append(error)
        if (other := ddgs_engine()) is None:
            why = f"{refused[0].message} Install `cellwright[search]`, or set CELLWRIGHT_SEARCH_API_KEY"
            raise _search_failed(why)
        return await other(query, ctx)

    return search


class Searches(Struct, eq=False):
    """The state that the calls of one session share."""

    engine: Engine
    most: int
    done: int = 0

    async def search(self, query: Query, ctx: ToolContext) -> ToolResult:
        """Return what a call gives back. Raises ToolError."""
        if self.done >= self.most:
            message = f"This session has searched {self.most} times, its limit. Go on with what there is."
            raise ToolError(message, code=ErrorCode.RATE_LIMIT_EXCEEDED)
        self.done += 1
        ctx.progress(message=f"Searching for {query.text}")
        try:
            async with asyncio.timeout(SECONDS):
                found = await self.engine(query, ctx)
        except TimeoutError:
            raise _search_failed(f"nothing came within {SECONDS:g} s") from None
        except CellwrightError as error:
            raise _search_failed(error.message) from error
        hits = [hit for hit in found.hits if query.wants(hit)][:MAX_HITS]
        output = WebSearchOutput(
            query=query.text,
            engine=found.engine,
            total=len(found.hits),
            results=tuple(hit.to_json() for hit in hits),
        )
        return ToolResult(found.text(query, hits), structured=output)


def web_search_tool(engine: Engine, environ: Mapping[str, str] = os.environ) -> Tool:
    """WebSearch of one session. CLAUDE_CODE_MAX_WEB_SEARCHES_PER_SESSION sets how often it may be used."""
    most = environ.get("CLAUDE_CODE_MAX_WEB_SEARCHES_PER_SESSION", "")
    searches = Searches(engine, int(most) if most.isdecimal() else 200)

    async def preview(input: WebSearchInput) -> Preview:
        named = (("Only on", input.allowed_domains), ("Not on", input.blocked_domains))
        lines = [f"{what} {visible_line(', '.join(domains), 1_000)}" for what, domains in named if domains]
        return Preview(_title(input), "\n".join(lines))

    @tool(
        name="WebSearch",
        other_names=(
            "search_web",
            "google_web_search",
        ),
        rarely_used=True,
        output=WebSearchOutput,
        description=DESCRIPTION,
        access=ToolAccess("web_search", "query"),
        read_only=True,
        category="web",
        best_for="what is newer than you",
        limits=ToolLimits(seconds=SECONDS + 10, results=MAX_HITS, calls_per_minute=30),
        examples=EXAMPLES,
        title=_title,
        preview=preview,
    )
    async def web_search(input: WebSearchInput, ctx: ToolContext) -> ToolResult:
        return await searches.search(Query.read(input), ctx)

    return web_search


def _title(input: WebSearchInput) -> str:
    return f"Search the web for {visible_line(input.query)}"
