"""The arguments of `ask`, `stream`, `Agent` and `map` for type checkers.

Written by `make written` from the table of options (`config/settings/option_table.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from cellwright.agent.calls.permission_callback import PermissionCallback
from cellwright.agent.tool import Tool
from cellwright.config.settings.option_table import OnDenied
from cellwright.model.models import ProviderName
from cellwright.python_api.ask_options import SharedSession
from cellwright.sessions.session import Session

if TYPE_CHECKING:
    from cellwright.agent.hooks.callbacks import HookCallbacks


class PromptOptions(TypedDict, total=False):
    """The options that each of many prompts may have as well."""

    model: str | None
    mode: str | None
    max_turns: int | None
    effort: str | None
    max_tokens: int | None
    tool_timeout: float | None
    allow: Sequence[str]
    deny: Sequence[str]


class AgentOptions(PromptOptions, total=False):
    """The options of a prompt to an agent, besides the prompt."""

    budget: float | None
    provider: ProviderName | None
    max_parallel_tools: int | None
    add_dirs: Sequence[str | Path]
    on_denied: OnDenied | None
    branch: bool
    fallback_models: Sequence[str]
    agent: str | None
    tools: Sequence[Tool | str]
    builtin_tools: bool
    context: str | None
    numbers: bool
    system_prompt: str | None
    append_system_prompt: str
    schema: Any
    agents: Mapping[str, Any]
    mcp_servers: Mapping[str, Any] | str | Path
    hooks: HookCallbacks
    can_use_tool: PermissionCallback | None
    output_schema: Any


class AskOptions(AgentOptions, total=False):
    """The options of `ask` and `stream`, besides the prompt."""

    session: Session | str | SharedSession | None
