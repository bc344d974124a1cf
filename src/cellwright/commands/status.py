"""`/status`: session, model, key, tools and what they did."""

from __future__ import annotations

import platform

from cellwright.agent.tool import Tool
from cellwright.commands.command import CommandCall, CommandPage, Row, Section
from cellwright.commands.settings_pages import or_problem
from cellwright.commands.support.index import index_row
from cellwright.commands.usage import usd
from cellwright.config.credentials.key_source import key_source
from cellwright.conversation.resolve_options import model_of
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.features.conversation import Conversation
from cellwright.model.pricing import Tally
from cellwright.version import VERSION


async def status_page(call: CommandCall) -> CommandPage:
    """Show what this conversation is, and what it is made of."""
    conversation, options = call.conversation, call.options
    settings, environment = conversation.in_force.settings, conversation.in_force.environment
    session = conversation.sessions.current
    rows: list[Row] = [
        ("", ""),
        ("Cellwright", VERSION),
        ("Python", f"{platform.python_version()} on {platform.system()} {platform.release()}"),
        ("folder", str(conversation.cwd)),
        ("session", f"{session.id} ({len(session.encoded)} messages, {session.context_tokens:,} tokens)"),
        ("kept in", "memory only" if session.path is None else str(session.path)),
        ("model", or_problem(lambda: model_of(options, settings, environment))),
        *_way(conversation, options),
        ("running", "yes" if conversation.runs.current is not None else "no"),
        await index_row(conversation),
        *_completions(conversation.model.completions),
    ]
    tools = Section("Tools", [("category", "tools"), *_by_category(conversation, options)])
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


def _completions(tally: Tally) -> list[Row]:
    """Sum up suggestions in the editor: they are in the session's cost, and nobody asked for each of them."""
    if not tally.count:
        return []
    return [("completions", f"{tally.count:,} since the kernel started, {usd(tally.total.cost_usd)}")]


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


def _by_category(conversation: Conversation, options: RunOptions) -> list[Row]:
    by_category: dict[str, list[Tool]] = {}
    for tool in conversation.tools.of(options):
        by_category.setdefault(tool.category, []).append(tool)
    return [(category, ", ".join(tool.name for tool in tools)) for category, tools in sorted(by_category.items())]
