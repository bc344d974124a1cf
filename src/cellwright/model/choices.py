"""The names of what a user chooses among: efforts, and ways to the model. Apart from the models, which few need as early."""

from __future__ import annotations

from typing import Literal

EFFORTS = ("low", "medium", "high", "xhigh", "max")
"""The degrees of effort a model may be told to think with; not each knows all of them."""

ProviderName = Literal["api", "claude-code"]

PROVIDERS: tuple[ProviderName, ...] = ("api", "claude-code")
"""The ways to the model that a user chooses among: what the environment leads to (a key, a sign-in, a platform), or the
program Claude Code."""
