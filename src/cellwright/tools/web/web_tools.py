"""The tools for the web of one session: WebFetch, and WebSearch where there is an engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cellwright.agent.side_request import Aside, small_model
from cellwright.agent.tool import Tool
from cellwright.model.provider import Provider
from cellwright.tools.web.web_fetch import CACHE_SECONDS, DEFAULT_SECONDS, MOST_BYTES, web_fetch_tool
from cellwright.tools.web.web_search import choose_engine, web_search_tool


def web_tools(
    environ: Mapping[str, str],
    provider: Callable[[], Provider] | None,
    *,
    seconds: float = DEFAULT_SECONDS,
    most_bytes: int = MOST_BYTES,
    cache_seconds: float = CACHE_SECONDS,
) -> tuple[Tool, ...]:
    """The tools, as far as `environ` and `provider` (the way to a small model) allow. Raises `CellwrightError`.

    `seconds`, `most_bytes` and `cache_seconds` are WebFetch's.
    """
    aside = Aside(provider, small_model(environ)) if provider is not None else None
    engine = choose_engine(environ, aside)
    fetch = web_fetch_tool(aside, seconds=seconds, most_bytes=most_bytes, cache_seconds=cache_seconds)
    return (fetch, web_search_tool(engine, environ)) if engine is not None else (fetch,)
