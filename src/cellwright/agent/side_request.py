"""A request beside the conversation: a tool asks a small model about a text, and what it costs is counted with the run."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from cellwright.agent.spending.run_spending import PartialUsage
from cellwright.agent.tool import ToolContext
from cellwright.events import Emit, Retrying, TurnEnd
from cellwright.model.provider import MessageStart, Provider, Request

SMALL_MODEL = "claude-haiku-5-5"
MODEL_VARIABLES = ("ANTHROPIC_SMALL_FAST_MODEL", "ANTHROPIC_DEFAULT_HAIKU_MODEL")
MAX_TOKENS = 8_000


def small_model(environ: Mapping[str, str]) -> str:
    """The model for small jobs: what the environment names (as Claude Code's users do), else Haiku.

    >>> small_model({"ANTHROPIC_SMALL_FAST_MODEL": "local-7b"})
    'local-7b'
    """
    return next((environ[name] for name in MODEL_VARIABLES if environ.get(name)), SMALL_MODEL)


class SideRequest(Struct, frozen=True):
    """The way of a tool to a model. `provider` is asked for when there is something to ask: it may have to connect."""

    provider: Callable[[], Provider]
    model: str

    async def ask(
        self, messages: Sequence[Mapping[str, Any]], ctx: ToolContext, *, tools: Sequence[Mapping[str, Any]] = ()
    ) -> TurnEnd:
        """The answer to `messages`, whole. Raises `CellwrightError`; what was spent is told to `ctx` in any case."""
        request = Request(
            model=self.model,
            system=b"[]",
            tools=json.dumps(list(tools)).encode(),
            messages=[json.dumps(message, ensure_ascii=False).encode() for message in messages],
            max_tokens=MAX_TOKENS,
            # with tools it goes on from what was asked; else nobody asks for it again, and writing to the cache costs
            cache_whole=bool(tools),
        )
        return await whole_answer(self.provider(), request, ctx.spend)


Spend = Callable[[Mapping[str, Any], float | None], object]


async def whole_answer(provider: Provider, request: Request, spend: Spend, emit: Emit | None = None) -> TurnEnd:
    """The answer to `request`, whole; `emit` is told of tries that failed. What was spent is told to `spend` in any case."""
    answer = PartialUsage()
    try:
        async with contextlib.aclosing(provider.stream(request)) as events:
            async for event in events:
                match event:
                    case MessageStart():
                        answer.begin(event)
                    case TurnEnd():
                        answer.end()
                        spend(event.usage, event.cost_usd)
                        return event
                    case Retrying():
                        _count_lost(answer, spend)
                        if emit is not None:
                            emit(event)
                    case _:
                        answer.add(event)
    finally:
        _count_lost(answer, spend)
    raise AssertionError("the provider ended without a TurnEnd")


def _count_lost(answer: PartialUsage, spend: Spend) -> None:
    if (lost := answer.lost()) is not None:
        spend(*lost)


def text_of(turn: TurnEnd) -> str:
    """The text of an answer."""
    return "".join(str(block["text"]) for block in turn.message["content"] if block.get("type") == "text").strip()
