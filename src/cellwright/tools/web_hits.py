"""What a search asks for and what it finds."""

from __future__ import annotations

import urllib.parse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from cellwright.agent.tool import ToolError
from cellwright.errors import ErrorCode
from cellwright.text import visible_line

SNIPPET_CHARS = 500


@dataclass(frozen=True, slots=True)
class Hit:
    """One result; what is not known is empty. `score`: how well it fits by the engine's own measure."""

    title: str
    url: str
    snippet: str = ""
    date: str = ""
    score: float | None = None

    def to_json(self) -> dict[str, Any]:
        """What is known of it."""
        known = {"title": self.title, "url": self.url, "snippet": self.snippet, "date": self.date, "score": self.score}
        return {name: value for name, value in known.items() if value not in ("", None)}

    def line(self) -> str:
        """What Claude reads of it."""
        about = [self.date, f"score {self.score:.2f}" if self.score is not None else ""]
        more = ", ".join(part for part in about if part)
        first = f"- {visible_line(self.title, 300)}{f' ({more})' if more else ''}\n  {visible_line(self.url, 2_000)}"
        return f"{first}\n  {visible_line(self.snippet, SNIPPET_CHARS)}" if self.snippet else first


@dataclass(frozen=True, slots=True)
class Query:
    """What is searched for; `allowed` and `blocked` are domains, lower case, at most one of the two."""

    text: str
    allowed: tuple[str, ...] = ()
    blocked: tuple[str, ...] = ()

    @classmethod
    def read(cls, tool_input: Mapping[str, Any]) -> Self:
        """The query of a call. Raises ToolError."""
        allowed = _domains(tool_input.get("allowed_domains", ()))
        blocked = _domains(tool_input.get("blocked_domains", ()))
        if allowed and blocked:
            message = "Give allowed_domains or blocked_domains, not both. Nothing was searched."
            raise ToolError(message, code=ErrorCode.INVALID_PARAMETERS)
        return cls(str(tool_input["query"]), allowed, blocked)

    def wants(self, hit: Hit) -> bool:
        """Whether the result's site is one that was asked for. Engines do not all keep to it."""
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


def _domains(given: Iterable[str]) -> tuple[str, ...]:
    found = []
    for text in given:
        domain = text.strip().lower().removeprefix("https://").removeprefix("http://").strip("/").removesuffix(".")
        if "/" in domain or "*" in domain or not domain:
            message = f"{text!r} is no domain: give names such as docs.python.org. Nothing was searched."
            raise ToolError(message, code=ErrorCode.INVALID_PARAMETERS)
        found.append(domain)
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Found:
    """What a search found. `summary`: what the engine itself says of it; `problems`: what went wrong on the way."""

    hits: list[Hit]
    summary: str = ""
    problems: list[str] = field(default_factory=list)

    def text(self, query: Query, hits: Sequence[Hit]) -> str:
        """What Claude reads."""
        parts = [f"Results for {query.text!r}:"] if hits else [f"Nothing was found for {query.text!r}."]
        parts += [hit.line() for hit in hits]
        if self.summary:
            parts.append(f"\n{self.summary}")
        parts += [f"[{problem}]" for problem in self.problems]
        return "\n".join(parts)


def hits_of_message(content: Sequence[Mapping[str, Any]]) -> Found:
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
    return Found(list(hits.values()), "".join(summary).strip(), problems)


def _remember(hits: dict[str, Hit], result: Mapping[str, Any], date: str, quote: str) -> None:
    url = str(result.get("url") or "")
    if not url:
        return
    known = hits.get(url, Hit(str(result.get("title") or url), url))
    snippet = known.snippet if quote in known.snippet else f"{known.snippet} … {quote}".removeprefix(" … ")
    hits[url] = Hit(known.title, url, snippet, known.date or date)
