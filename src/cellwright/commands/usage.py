"""`/status`, `/cost` and `/context`: the state of the session, what it has cost, and what fills the context."""

from __future__ import annotations

import asyncio
import json
import platform
from collections.abc import Sequence

from msgspec.structs import replace

from cellwright.agent.context_usage import (
    NAMES,
    ContextContents,
    ContextShare,
    context_parts,
    offered_tools,
    prompt_sections,
)
from cellwright.agent.spending import completion_spending
from cellwright.commands.command import CommandCall, CommandPage, Row, Section
from cellwright.commands.project import index_row
from cellwright.commands.settings_pages import or_problem
from cellwright.config.credentials.entered_key import key_source
from cellwright.conversation.resolve_options import compaction_settings, model_of
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.features.conversation import Conversation
from cellwright.model.models import limits
from cellwright.model.pricing import PRICES_DATE
from cellwright.model.provider import Request
from cellwright.text import counted, dollars
from cellwright.tools.paths import home_path
from cellwright.version import VERSION

_TOKENS = (
    ("input_tokens", "input"),
    ("cache_creation_input_tokens", "input, written to the cache"),
    ("cache_read_input_tokens", "input, read from the cache"),
    ("output_tokens", "output"),
)

BAR_CHARS = 20
EIGHTHS = ("", *"▏▎▍▌▋▊▉")
"""The end of a bar, by the eighths of a character that it fills."""
LISTED_TOOLS = 12
NEXT_PROMPT = b'{"role":"user","content":"."}'
"""It stands for the prompt to come: the API counts requests, and these end with the user's words."""


async def status_page(call: CommandCall) -> CommandPage:
    """Show what this conversation is, and what it is made of."""
    conversation, options = call.conversation, call.options
    settings, environment = conversation.in_force.settings, conversation.in_force.environment
    session = conversation.sessions.current
    rows: list[Row] = [
        ("", ""),
        ("Cellwright", VERSION),
        ("Python", f"{platform.python_version()} on {platform.system()} {platform.release()}"),
        ("folder", home_path(conversation.cwd)),
        ("session", f"{session.id} ({len(session.encoded)} messages, {session.context_tokens:,} tokens)"),
        ("kept in", "memory only" if session.path is None else home_path(session.path)),
        ("model", or_problem(lambda: model_of(options, settings, environment))),
        *_way(conversation, options),
        ("running", "yes" if conversation.runs.current is not None else "no"),
        await index_row(conversation),
    ]
    if (tally := conversation.model.completions).count:  # in the session's cost, and nobody asked for each of them
        spent = f"{tally.count:,} since the kernel started, {usd(tally.total.cost_usd)}"
        rows.append(("completions", spent))
    by_category: dict[str, list[str]] = {}
    for tool in conversation.tools.of(options):
        by_category.setdefault(tool.category, []).append(tool.name)
    listed = [(category, ", ".join(names)) for category, names in sorted(by_category.items())]
    tools = Section("Tools", [("category", "tools"), *listed])
    return CommandPage([Section("Status", rows), tools, *_calls(conversation)])


def _way(conversation: Conversation, options: RunOptions) -> list[Row]:
    """The rows of who asks the model: a key over the API, or a program that is signed in by itself."""
    settings, environment = conversation.in_force.settings, conversation.in_force.environment
    if conversation.model.name(options.provider) == "claude-code":
        origin = settings.origin("cellwright.provider")
        return [("provider", f"claude-code ({origin.label})" if origin and not options.provider else "claude-code")]
    return [
        ("key", key_source(settings, environment)),
        ("sent to", environment.get("ANTHROPIC_BASE_URL") or "the API's own address"),
    ]


def _calls(conversation: Conversation) -> list[Section]:
    """Sum up what the tools did so far in this process."""
    sums = conversation.features.tool_log.sums
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
    log = conversation.features.tool_log.path
    return [Section("Calls of tools", [head, *rows], f"logged in {log}" if log is not None else "")]


async def cost_page(call: CommandCall) -> CommandPage:
    """Show what was spent so far, and on what."""
    conversation = call.conversation
    session, tally = conversation.sessions.current, conversation.model.completions
    today = await asyncio.to_thread(completion_spending().usd)
    budget = conversation.in_force.settings.inline_completion_budget
    spent = await asyncio.to_thread(_budgets, conversation)
    rows: list[Row] = [("what", "cost"), ("this session", usd(session.cost_usd))]
    summaries, summed_up_usd = session.compactions_usd
    if summaries:
        rows.append((f"of it summaries of the conversation ({summaries:,})", usd(summed_up_usd)))
    if session.forked_from is not None:
        rows.append((f"before it, in {session.forked_from} (counted there)", usd(session.cost_before_usd)))
    rows += [
        *spent,
        (f"of it completions ({tally.count:,} since the kernel started)", usd(tally.total.cost_usd)),
        ("completions today, all kernels", f"{usd(today)} of {usd(budget)}"),
    ]
    if not tally.count and not today:
        del rows[-2:]
    text = f"By Anthropic's list prices of {PRICES_DATE}; a platform's own prices may differ."
    if conversation.model.name(call.options.provider) == "claude-code":
        text += " Claude Code asks by its own sign-in: a subscription pays for it as a whole, whatever is shown here."
    tokens: list[Row] = [(name, f"{count:,}") for field, name in _TOKENS if (count := session.usage.get(field) or 0)]
    of_session = [Section("Tokens of this session", [("tokens", "count"), *tokens])] if tokens else []
    return CommandPage([Section("Cost", rows, text), *of_session])


def _budgets(conversation: Conversation) -> list[Row]:
    """The rows of what more than one session counts in, each with its budget."""
    settings, budgets = conversation.in_force.settings, conversation.features.budgets
    rows: list[Row] = []
    if settings.session_budget is not None:
        rows.append(("the session may cost", usd(settings.session_budget)))
    if (notebook := budgets.notebook()) is not None:
        path, file = notebook
        rows.append((f"from {path.name}, all sessions", _of(file.usd(), settings.notebook_budget)))
    return [*rows, ("today, all kernels and terminals", _of(budgets.day.usd(), settings.daily_budget))]


def _of(spent: float, budget: float | None) -> str:
    return usd(spent) if budget is None else f"{usd(spent)} of {usd(budget)}"


def usd(amount: float | None) -> str:
    """An amount for people; None is one that is not known."""
    return "not known: a model's price is missing" if amount is None else dollars(amount)


async def context_page(call: CommandCall) -> CommandPage:
    """Show how full the context is, and of what."""
    conversation = call.conversation
    session = conversation.sessions.current
    if not session.encoded:
        return CommandPage([Section("Context", text="The conversation is empty.")])
    model = session.last_model or model_of(
        call.options, conversation.in_force.settings, conversation.in_force.environment
    )
    known = limits(model)
    contents = ContextContents.of(session)
    settings = compaction_settings(conversation.in_force.settings, conversation.in_force.environment)
    clears = settings.limit(model) // 2 if conversation.in_force.settings.clear_tool_results else None
    counted = await _counted(call, contents, model, clears)
    if counted is not None:
        contents = replace(contents, counted_tokens=counted, uncounted_bytes=0)
    used = contents.tokens
    parts = await asyncio.to_thread(context_parts, contents)
    whole = known.context_window if known.known else sum(part.tokens for part in parts)
    rows: list[Row] = [("part", "tokens", "share", "")]
    most = max((part.tokens for part in parts), default=0)
    for part in parts:  # its share of what is in use; its bar compares it with the largest part
        share = part.tokens / max(used, 1)
        eighths = max(1, round(part.tokens / most * BAR_CHARS * 8)) if most and part.tokens else 0
        bar = "█" * (eighths // 8) + EIGHTHS[eighths % 8]
        percent = f"{share:.1%}" if share >= 0.0005 else "<0.1%"
        rows.append((NAMES[part.name], f"{part.tokens:,}", percent, bar))
    if known.known:
        rows.append(("Free", f"{max(0, whole - used):,}", "", ""))
    window = f" of {whole:,} ({used / whole:.1%})" if known.known else ""
    text = (
        f"About {used:,} tokens{window}, {model}. All numbers are estimates: the API could not be asked for its count."
        if counted is None
        else f"{used:,} tokens{window}, {model}, counted by the API. How they are shared out is estimated by size."
    )
    if known.known and settings.automatic:
        limit = settings.limit(model)
        text += f" It is summarised at {limit:,}: {max(0, limit - used):,} tokens are left until then."
    elif known.known:
        text += " It is not summarised automatically (autoCompactEnabled); /compact does it."
    tools, sections = offered_tools(contents), prompt_sections(contents.system)
    return CommandPage(
        [
            Section("Context", rows, text),
            Section("Tools", _largest(tools), _sum(tools)),
            Section("System prompt", [("section", "tokens", ""), *map(_share_row, sections)], _sum(sections)),
        ]
    )


async def _counted(call: CommandCall, contents: ContextContents, model: str, clears: int | None) -> int | None:
    """The API's own count of the next request, but for its prompt; None where it cannot be had."""
    messages = contents.messages
    if json.loads(messages[-1])["role"] == "assistant":
        messages = (*messages, NEXT_PROMPT)
    request = Request(
        model=model,
        system=contents.system,
        tools=contents.tools,
        messages=messages,
        max_tokens=1,
        cache_whole=False,
        clear_tool_results_at=clears,
    )
    return await call.conversation.model.count_tokens(request, call.options.provider)


def _largest(tools: Sequence[ContextShare]) -> list[Row]:
    """The rows of the tools that take most, and of the others together."""
    rows: list[Row] = [("tool", "tokens", ""), *map(_share_row, tools[:LISTED_TOOLS])]
    for deferred in (False, True):
        others = [tool for tool in tools[LISTED_TOOLS:] if tool.deferred == deferred]
        if others:
            tokens = sum(tool.tokens for tool in others)
            rows.append(_share_row(ContextShare(counted(len(others), "other"), tokens, deferred=deferred)))
    return rows


def _share_row(part: ContextShare) -> Row:
    return part.name, f"{part.tokens:,}", "loaded when needed" if part.deferred else ""


def _sum(parts: Sequence[ContextShare]) -> str:
    tokens = sum(part.tokens for part in parts if not part.deferred)
    return f"About {tokens:,} tokens of each request." if tokens else ""
