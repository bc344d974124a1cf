"""What the administrator lets go through the proxy."""

from __future__ import annotations

from dataclasses import dataclass

MOST_REQUEST_BYTES = 32 * 1024 * 1024
"""What the Messages API takes at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """None is no limit. `allowed_models` are names, patterns with `*`, or lines of models (`haiku`).

    Budgets are US dollars: a user's for a day (UTC), and one kernel's for its life. `web_tools` and `mcp` are the API's
    own tools that reach the network from Anthropic's side.
    """

    allowed_models: tuple[str, ...] | None = None
    max_tokens: int | None = None
    max_request_bytes: int = MOST_REQUEST_BYTES
    requests_per_minute: int | None = None
    concurrent_requests: int | None = None
    budget_usd_per_day: float | None = None
    budget_usd_per_kernel: float | None = None
    web_tools: bool = True
    mcp: bool = True

    @property
    def has_budget(self) -> bool:
        return self.budget_usd_per_day is not None or self.budget_usd_per_kernel is not None
