"""`/status`: session, model, key, tools and what they did.

`/cost`: what the session and the suggestions in the editor have cost.

`/context`: what fills the conversation's context, as a small list of bars.
"""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Mapping
from typing import Any

from cellwright.agent.budget import completion_spending
from cellwright.agent.context_usage import NAMES, ContextContents, context_parts, context_tokens
from cellwright.agent.tool import Tool
from cellwright.commands.command import CommandCall, CommandPage, Row, Section
from cellwright.commands.settings_pages import or_problem
from cellwright.config.settings.settings import Settings
from cellwright.conversation.conversation import Conversation
from cellwright.conversation.resolve_options import model_of
from cellwright.conversation.run_options import RunOptions
from cellwright.model.credentials import source_of_credential
from cellwright.model.models import limits
from cellwright.model.pricing import PRICES_DATE, Tally
from cellwright.version import VERSION

_TOKENS = (
    ("input_tokens", "input"),
    ("cache_creation_input_tokens", "input, written to the cache"),
    ("cache_read_input_tokens", "input, read from the cache"),
    ("output_tokens", "output"),
)


async def cost_page(call: CommandCall) -> CommandPage:
    """What was spent so far, and on what."""
    conversation = call.conversation
    session, tally = conversation.session, conversation.completions
    today = await asyncio.to_thread(completion_spending().usd)
    budget = conversation.settings.inline_completion_budget
    rows: list[Row] = [
        ("what", "cost"),
        ("this session", usd(session.cost_usd)),
        (f"of it completions ({tally.count:,} since the kernel started)", usd(tally.total.cost_usd)),
        ("completions today, all kernels", f"{usd(today)} of {usd(budget)}"),
    ]
    if not tally.count and not today:
        del rows[2:]
    text = f"By Anthropic's list prices of {PRICES_DATE}; a platform's own prices may differ."
    return CommandPage([Section("Cost", rows, text), Section("Tokens of this session", _tokens(session.usage))])


def usd(amount: float | None) -> str:
    """An amount for people, exact where it is small. No dollar sign: between two of them Markdown has mathematics."""
    if amount is None:
        return "not known: a model's price is missing"
    if 0 < amount < 0.0001:
        return "less than 0.0001 USD"
    return f"{amount:.2f} USD" if amount >= 1 or amount == 0 else f"{amount:.4f} USD"


def _tokens(usage: Mapping[str, Any]) -> list[Row]:
    rows = [(name, f"{count:,}") for field, name in _TOKENS if (count := usage.get(field) or 0)]
    return [("tokens", "count"), *(rows or [("none", "0")])]


def status_page(call: CommandCall) -> CommandPage:
    """What this conversation is, and what it is made of."""
    conversation, options = call.conversation, call.options
    settings, session, environment = conversation.settings, conversation.session, conversation.environment
    rows: list[Row] = [
        ("", ""),
        ("Cellwright", VERSION),
        ("Python", f"{platform.python_version()} on {platform.system()} {platform.release()}"),
        ("folder", str(conversation.cwd)),
        ("session", f"{session.id} ({len(session.encoded)} messages, {session.context_tokens:,} tokens)"),
        ("kept in", "memory only" if session.path is None else str(session.path)),
        ("model", or_problem(lambda: model_of(options, settings, environment))),
        ("key", _key_source(settings, environment)),
        ("sent to", environment.get("ANTHROPIC_BASE_URL") or "the API's own address"),
        ("running", "yes" if conversation.is_running else "no"),
        *_completions(conversation.completions),
    ]
    tools = Section("Tools", [("category", "tools"), *_by_category(conversation, options)])
    return CommandPage([Section("Status", rows), tools, *_calls(conversation)])


def _completions(tally: Tally) -> list[Row]:
    """What suggestions in the editor came to: they are in the session's cost, and nobody asked for each of them."""
    if not tally.count:
        return []
    return [("completions", f"{tally.count:,} since the kernel started, {usd(tally.total.cost_usd)}")]


def _calls(conversation: Conversation) -> list[Section]:
    """What the tools did so far in this process."""
    sums = conversation.tool_log.sums
    if not sums:
        return []
    head = ("tool", "calls", "time", "results")
    rows = [
        (
            name,
            f"{tool.calls} ({tool.failed} failed, {tool.denied} denied)",
            f"{tool.total_ms / tool.calls:,.0f} ms each, {tool.longest_ms:,.0f} ms at most",
            f"{tool.result_chars:,} characters",
        )
        for name, tool in sorted(sums.items(), key=lambda item: -item[1].calls)
    ]
    log = conversation.tool_log.path
    return [Section("Calls of tools", [head, *rows], f"logged in {log}" if log is not None else "")]


def _key_source(settings: Settings, environment: Mapping[str, str]) -> str:
    """Where the key comes from; never a part of the key."""
    if settings.api_key_helper is not None and source_of_credential(environment) is None:
        origin = settings.origin("apiKeyHelper")
        return f"apiKeyHelper ({origin.label})" if origin else "apiKeyHelper"
    source = source_of_credential(environment)
    if source is None:
        return "none: `cellwright --help` says how to give one"
    origin = settings.origin(f"env.{source}")
    return f"{source} ({origin.label})" if origin else source


def _by_category(conversation: Conversation, options: RunOptions) -> list[Row]:
    by_category: dict[str, list[Tool]] = {}
    for tool in conversation.tools(options):
        by_category.setdefault(tool.category, []).append(tool)
    return [(category, ", ".join(tool.name for tool in tools)) for category, tools in sorted(by_category.items())]


BAR_CHARS = 20


async def context_page(call: CommandCall) -> CommandPage:
    """How full the context is, and of what."""
    conversation = call.conversation
    session = conversation.session
    if not session.encoded:
        return CommandPage(
            [Section("Context", text="Nothing was said yet in this conversation, so its context is empty.")]
        )
    model = session.last_model or model_of(call.options, conversation.settings, conversation.environment)
    known = limits(model)
    used = context_tokens(session)
    parts = await asyncio.to_thread(context_parts, ContextContents.of(session))
    whole = known.context_window if known.known else sum(part.tokens for part in parts)
    rows: list[Row] = [("part", "tokens", "share", "")]
    rows += [_row(NAMES[part.name], part.tokens, whole) for part in parts]
    if known.known:
        rows.append(_row("Free", max(0, whole - used), whole))
    window = f" of {whole:,} ({used / whole:.1%})" if known.known else ""
    text = f"About {used:,} tokens{window}, {model}. How they are shared out is estimated by size."
    return CommandPage([Section("Context", rows, text)])


def _row(name: str, tokens: int, whole: int) -> Row:
    share = tokens / max(whole, 1)
    filled = max(1, round(share * BAR_CHARS)) if tokens else 0
    return name, f"{tokens:,}", f"{share:.1%}", "█" * filled + "░" * (BAR_CHARS - filled)
