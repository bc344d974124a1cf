"""The limits of a map: how many prompts are asked at once, and what they may cost together.

Additive increase, multiplicative decrease, as TCP does it (Chiu and Jain, 1989): half as many after a refusal, one more
after as many answers as there are places.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence

from cellwright.agent.run_errors import budget_spent, price_unknown
from cellwright.errors import CellwrightError
from cellwright.model.pricing import worst_case_usd

BYTES_PER_TOKEN = 3
"""No text takes fewer bytes a token: what is sent is counted at its dearest."""


class Concurrency:
    """At most `most` at once. Used on one event loop."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.limit = most
        self.taken = 0
        self._answered = 0
        self._changed = asyncio.Event()

    @contextlib.asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Wait for a place, and have it for the time of the block."""
        while self.taken >= self.limit:
            self._changed.clear()
            await self._changed.wait()
        self.taken += 1
        try:
            yield
        finally:
            self.taken -= 1
            self._changed.set()

    def refused(self) -> None:
        """The API answers that there were too many requests, or that it is overloaded."""
        self.limit = max(1, min(self.limit, self.taken) // 2)
        self._answered = 0

    def answered(self) -> None:
        """The API has answered a prompt."""
        self._answered += 1
        if self._answered >= self.limit and self.limit < self.most:
            self.limit += 1
            self._answered = 0
            self._changed.set()


class MapBudget:
    """US dollars; each prompt sets aside what it may cost at worst. `places` are asked at once. Used on one event loop."""

    def __init__(self, budget_usd: float | None, *, model: str, max_tokens: int, fixed_bytes: int, places: int) -> None:
        self.budget_usd = budget_usd
        self.spent_usd = 0.0
        self._model = model
        self._max_tokens = max_tokens
        self._fixed_bytes = fixed_bytes
        self._places = places
        self._reserved: dict[str, float] = {}
        self._released = asyncio.Event()

    def worst_case(self, prompt: str) -> float:
        """The most that one answer to `prompt` can cost. Raises `CellwrightError` where the price is not known."""
        return self._usd(prompt, self._max_tokens)

    def _usd(self, prompt: str, max_tokens: int) -> float:
        tokens = (len(prompt.encode(errors="replace")) + self._fixed_bytes) // BYTES_PER_TOKEN + 1
        usd = worst_case_usd(self._model, tokens, max_tokens)
        if usd is None:
            raise price_unknown(self._model)
        return usd

    def _refusal(self, prompts: Sequence[str], needed: float, factor: float = 1.0) -> CellwrightError:
        """The error where asking `prompts` at once is too dear, with the `max_tokens` with which it is not."""
        assert self.budget_usd is not None
        # a token's price depends on the length of its prompt
        fixed = sum(self._usd(prompt, 0) for prompt in prompts) * factor
        each = sum(self._usd(prompt, 1) for prompt in prompts) * factor - fixed
        fitting = int((self.budget_usd - self.spent_usd - fixed) / each)
        return budget_spent(self.budget_usd, self.spent_usd, needed, fitting_tokens=fitting)

    async def reserve(self, key: str, prompt: str) -> float | None:
        """Set aside what `prompt` may spend, and return it; None without a budget. Waits while others hold what it needs.

        Raises `CellwrightError` BUDGET_EXCEEDED where the rest does not pay for it.
        """
        if self.budget_usd is None:
            return None
        needed = self.worst_case(prompt)
        while (left := self.budget_usd - self.spent_usd - sum(self._reserved.values())) < needed:
            if not self._reserved:
                raise self._refusal([prompt], needed)
            self._released.clear()
            await self._released.wait()
        # what goes on after the output limit, or asks once more for a valid answer, has a fair part
        share = max(needed, left / max(1, self._places - len(self._reserved)))
        self._reserved[key] = share
        return share

    def release(self, key: str, cost_usd: float | None) -> None:
        """The prompt has come to its end, and has cost this."""
        reserved = self._reserved.pop(key, 0.0)
        self.spent_usd += reserved if cost_usd is None else cost_usd
        self._released.set()

    def check_all(self, prompts: Sequence[str], factor: float) -> None:
        """Raises `CellwrightError` BUDGET_EXCEEDED where asking all `prompts` at once could cost more than there is."""
        if self.budget_usd is None:
            return
        needed = sum(map(self.worst_case, prompts)) * factor
        if needed > self.budget_usd - self.spent_usd:
            raise self._refusal(prompts, needed, factor)
