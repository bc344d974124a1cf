"""The options of a `%%claude`, as `line` reads them."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from cellwright.conversation.runs.option_values import OnDenied, OutputFormat
from cellwright.model.models import ProviderName

How = Literal["none", "auto", "code", "cells", "full"]


class MagicOptions(Struct, frozen=True, kw_only=True):
    """The options of one `%%claude`. None: as `%config Claude` or the settings say."""

    model: str | None = None
    mode: str | None = None
    new: bool = False
    resume: str | None = None
    max_turns: int | None = None
    budget: float | None = None
    max_tokens: int | None = None
    max_parallel_tools: int | None = None
    tool_timeout: float | None = None
    effort: str | None = None
    provider: ProviderName | None = None
    quiet: bool = False
    format: OutputFormat = "text"
    out: str | None = None
    schema: str | None = None
    dry_run: bool = False
    record: str | None = None
    replay: str | None = None
    recording: str | None = None
    no_tools: bool = False
    context: How = "auto"
    background: bool = False
    notebook: str | None = None
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    add_dir: tuple[str, ...] = ()
    on_denied: OnDenied | None = None
    fallback_model: tuple[str, ...] = ()
    agent: str | None = None
    tools: tuple[str, ...] | None = None
    agents: str | None = None
    mcp_config: str | None = None
    system_prompt: str | None = None
    append_system_prompt: tuple[str, ...] = ()
    system_prompt_file: str | None = None
    append_system_prompt_file: tuple[str, ...] = ()
