"""`/agents`, `/hooks`, `/mcp`, `/memory` and `/skills`: what is available or in force, and where each comes from."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from cellwright.agent.tool import Tool
from cellwright.commands.command import CommandCall, CommandPage, Row, Section
from cellwright.config.agents import AgentDefinition
from cellwright.config.hooks.entries import CommandHook, Entries, HookEntry, HttpHook, McpToolHook
from cellwright.config.hooks.hooks import hook_problems, origin_of
from cellwright.config.memory import MemoryFile, read_memory
from cellwright.config.settings.settings import HooksSource
from cellwright.config.settings.settings_in_force import SettingsInForce
from cellwright.config.skills import Skill
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.events import CHARS_PER_TOKEN
from cellwright.features.mcp.feature import McpServers
from cellwright.permissions.modes import mode_name
from cellwright.sessions.transcripts.transcript_file import encode_json
from cellwright.text import counted, visible_line
from cellwright.tools.paths import shown_path
from cellwright.version import documented

_WHOSE = {
    "managed": "the administrator's",
    "program": "the program's",
    "user": "yours",
    "plugin": "a plugin's",
    "project": "the project's",
}

SCOPES = {
    "managed": "the administrator's",
    "user": "yours, for all projects",
    "project": "the project's",
    "local": "yours, for this project",
    "auto": "Claude's own notes",
}

_WHOSE_SKILL = {
    "managed": "the administrator's",
    "user": "yours",
    "plugin": "a plugin's",
    "project": "the project's",
    "built-in": "comes with Cellwright",
}

MCP = "[NAME] [approve|reconnect|disable|enable|login|logout NAME]"

SECONDS = 30.0
"""As long as the page waits for what it has begun."""

_WHOSE_SERVER = {
    "managed": "the administrator's",
    "flag": "the command line's",
    "local": "yours, for this project",
    "project": "the project's",
    "user": "yours",
    "plugin": "a plugin's",
    "agent": "an agent's",
}
_ACTIONS = ("approve", "reconnect", "disable", "enable", "login", "logout")


def agents_page(call: CommandCall) -> CommandPage:
    """Show each agent, what was not understood, and what waits for trust."""
    cwd = call.conversation.cwd
    found = call.conversation.features.agents.found()
    agents = [found.agents[name] for name in sorted(found.agents)]
    text = "Claude hands them tasks by itself; @agent-NAME in a prompt has it use that one."
    sections = [
        Section("Agents", [("name", "what it is for"), *((each.name, each.description) for each in agents)], text),
        Section("Tools they may use", [("name", "works with", "tools"), *(_may_use(each) for each in agents)]),
    ]
    if others := [each for each in agents if each.scope != "built-in"]:
        rows: list[Row] = [("name", "whose")]
        for each in others:
            file = "" if each.scope == "program" else f", {shown_path(cwd, each.file)}"
            rows.append((each.name, f"{_WHOSE[each.scope]}{file}"))
        sections.append(Section("Those that do not come with Cellwright", rows))
    problems = [(name, problem) for name, agent in found.agents.items() for problem in agent.problems]
    problems += [(shown_path(cwd, file), f"left out: {why}") for file, why in found.skipped]
    if problems:
        sections.append(Section("Not understood", [("where", "problem"), *problems]))
    waiting = [item.text for item in call.conversation.in_force.trust.waiting if "agent" in item.text]
    if waiting:
        rows = [("what", "why"), *((each, "waits until you trust the folder") for each in waiting)]
        sections.append(Section("Not there yet", rows))
    return CommandPage(sections)


def _may_use(agent: AgentDefinition) -> Row:
    tools = "all" if agent.tools is None else _tools(agent.tools)
    if agent.disallowed_tools:
        tools += f", but {_tools(agent.disallowed_tools)}"
    works = ", ".join(filter(None, (*agent.said().values(), agent.mode and f"mode {mode_name(agent.mode)}")))
    return agent.name, works or "as Claude does", tools


def _tools(names: Sequence[str]) -> str:
    """The names, those of each MCP server summed up."""
    of_servers = Counter(name.split("__")[1] for name in names if name.count("__") > 1)
    own = [name for name in names if name.count("__") <= 1]
    return ", ".join([*own, *(f"{count} of the MCP server {name}" for name, count in of_servers.items())])


def hooks_page(call: CommandCall) -> CommandPage:
    """Show each hook, what was not understood, and what waits for trust."""
    in_force = call.conversation.in_force
    settings = in_force.settings
    rows: list[Row] = [("event", "for", "what runs", "where from", "")]
    problems = hook_problems(settings.hooks)
    found: list[tuple[str, Row]] = []
    for source in settings.hooks:
        entries = Entries()
        entries.add(source.label, source.events, origin_of(source))
        state = _state(source, in_force)
        for event, each in entries.by_event.items():
            for entry in each:
                condition = entry.condition and f"if {entry.condition}"
                matched = " ".join(filter(None, (entry.matcher or "all", condition)))
                hook = f"{_kind(entry)}: {entry.name}"
                found.append((event, (event, matched, hook, source.label, state or "in force")))
    rows += [row for _, row in sorted(found, key=lambda pair: pair[0])]
    text = "Configure them in settings files, under `hooks`."
    if not found:
        text = f"There are none. {text}"
    sections = [Section("Hooks", rows, text)]
    waiting = [item.text for item in in_force.trust.waiting if item.text.startswith("hook ")]
    if waiting:
        held: list[Row] = [("what", "why"), *((each, "waits until you trust the folder") for each in waiting)]
        sections.append(Section("Not in force yet", held))
    if problems:
        sections.append(Section("Not understood", [("",), *((problem,) for problem in problems)]))
    return CommandPage(sections)


def _state(source: HooksSource, in_force: SettingsInForce) -> str:
    """Tell what keeps the hooks of `source` from running; "" where nothing does."""
    settings, trust = in_force.settings, in_force.trust
    if source.scope == "managed":
        return ""
    if settings.disable_all_hooks:
        return "off: disableAllHooks"
    if settings.allow_managed_hooks_only:
        return "off: allowManagedHooksOnly"
    if not trust.trusted and any(item.gate == "trust" for item in trust.waiting):
        return "waits: the folder is not trusted"
    return "in force"


def _kind(entry: HookEntry) -> str:
    match entry:
        case CommandHook():
            return "command"
        case HttpHook():
            return "address"
        case McpToolHook():
            return "tool"
        case _:
            return "model"


async def memory_page(call: CommandCall) -> CommandPage:
    """Show what is told at the beginning, what comes with certain files, and what is not told."""
    in_force = call.conversation.in_force
    memory = await asyncio.to_thread(read_memory, in_force.memory_place)
    cwd = in_force.cwd
    head: Row = ("file", "whose", "tokens", "")
    tokens = sum(_tokens(file) for file in memory.files)
    text = (
        f"About {tokens:,} tokens of each request. Write CLAUDE.md in the project, or ~/.claude/CLAUDE.md for all of "
        "yours; /init has Claude write the first one."
    )
    sections = [
        Section(
            "Instructions sent with the first prompt", [head, *(_memory_row(cwd, file) for file in memory.files)], text
        )
    ]
    if memory.rules:
        sections.append(
            Section("Rules that come with certain files", [head, *(_memory_row(cwd, file) for file in memory.rules)])
        )
    waiting = [item.text for item in in_force.trust.waiting if item.text.startswith("instructions to Claude")]
    if waiting:
        rows = [("what", "why"), *((each, "waits until you trust the folder") for each in waiting)]
        sections.append(Section("Not sent", rows))
    if memory.notices:
        sections.append(Section("Left out", [("what", ""), *((notice, "") for notice in memory.notices)]))
    return CommandPage(sections)


def _memory_row(cwd: Path, file: MemoryFile) -> Row:
    more = f"imported by {shown_path(cwd, file.imported_by)}" if file.imported_by is not None else ", ".join(file.paths)
    return shown_path(cwd, file.path), SCOPES[file.scope], f"{_tokens(file):,}", more


def _tokens(file: MemoryFile) -> int:
    return round(len(file.text) / CHARS_PER_TOKEN)


def skills_page(call: CommandCall) -> CommandPage:
    """Show each skill, what was not understood of it, and what waits for trust."""
    skills = call.conversation.features.skills.all()
    rows: list[Row] = [("name", "what it is for", "called by", "where from")]
    own_first = sorted(skills, key=lambda name: (skills[name].scope == "built-in", name))
    rows += [_skill_row(call.conversation.cwd, name, skills[name]) for name in own_first]
    text = "Call one with a slash: /name and its subject. Claude loads allowed skills by itself."
    sections = [Section("Skills and commands", rows, text)]
    problems = [(name, problem) for name, skill in skills.items() for problem in skill.problems]
    if problems:
        sections.append(Section("Not understood", [("name", "problem"), *problems]))
    waiting = [item.text for item in call.conversation.in_force.trust.waiting if "skill" in item.text]
    if waiting:
        rows = [("what", "why"), *((each, "waits until you trust the folder") for each in waiting)]
        sections.append(Section("Not there yet", rows))
    return CommandPage(sections)


def _skill_row(cwd: Path, name: str, skill: Skill) -> Row:
    callers = [who for who, may in (("you", skill.by_user), ("Claude", skill.by_claude)) if may]
    where = _WHOSE_SKILL[skill.scope]
    if skill.scope != "built-in":
        where += f", {shown_path(cwd, skill.file)}"
    return f"/{name} {skill.argument_hint}".strip(), skill.description, " and ".join(callers) or "nobody", where


async def mcp_page(call: CommandCall) -> CommandPage:
    """Do what was asked for, then show the servers, or one with its tools. Raises CellwrightError INVALID_PARAMETERS."""
    servers = call.conversation.features.mcp
    servers.refresh()
    words = call.text.split()
    done = ""
    if words and words[0] == "login":
        return await _log_in(servers, words[1:])
    if words and words[0] in _ACTIONS:
        done = await _act(servers, words[0], " ".join(words[1:]))
        words = []
    await servers.connect()
    await servers.settled(SECONDS)
    if words:
        return _one(servers, " ".join(words))
    return _all(servers, done)


async def _act(servers: McpServers, action: str, name: str) -> str:
    _check_known(servers, name)
    match action:
        case "approve":
            described = servers.described(name)
            if not servers.approve(name):
                raise CellwrightError(ErrorCode.INVALID_PARAMETERS, f"The MCP server {name} waits for no approval.")
            return "\n".join(
                [f"{name} may run from now on, as it is configured now.", *(f"  {each}" for each in described)]
            )
        case "disable":
            servers.set_disabled(name, disabled=True)
            return f"{name} is switched off for this conversation."
        case "logout":
            return f"Signed out of {name}." if await servers.sign_out(name) else f"You were not signed in to {name}."
        case "enable":
            servers.set_disabled(name, disabled=False)
            return f"{name} is switched on."
        case _:
            if (connection := servers.connections.get(name)) is not None:
                connection.reconnect()
            return f"{name} was reconnected."


async def _log_in(servers: McpServers, words: list[str]) -> CommandPage:
    """Begin to sign in, or go on with the address that the user's browser was sent to."""
    address = words.pop() if len(words) > 1 and "://" in words[-1] else ""
    name = " ".join(words)
    _check_known(servers, name)
    if not address:
        await servers.connect()
        await servers.settled(SECONDS)
        sign_in = await servers.sign_in(name)
        text = (
            "Open this address in your browser and sign in within 15 minutes; the server then connects. If the browser runs "
            "on another machine, it cannot load the last page: copy that page's address and send "
            f"/mcp login {name} ADDRESS. The address works once."
        )
        return CommandPage([Section(f"Sign in to {name}", text=text, link=sign_in.link)])
    pending = servers.sign_in_under_way(name)
    if pending is None:
        message = f"No sign-in to {name} waits for an address. /mcp login {name} begins one."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    pending.paste(address)
    await pending.done()
    await servers.settled(SECONDS)
    return _all(servers, f"You are signed in to {name}.")


def _all(servers: McpServers, done: str) -> CommandPage:
    found = servers.found
    rows: list[Row] = [("server", "state", "tools", "source")]
    for name, entry in found.entries.items():
        connection = servers.connections.get(name)
        state = "switched off" if name in servers.disabled else "denied by a rule or the administrator"
        if entry.agent:
            state = f"runs while the agent {entry.agent} works"
        tools: list[Tool] = []
        if connection is not None:
            tools = [*connection.tools.values()]
            state = connection.state if not connection.problem else f"{connection.state}: {connection.problem}"
            if connection.state == "needs sign-in":
                waits = servers.sign_in_under_way(name) is not None
                state = "waiting for you to sign in in your browser" if waits else f"needs sign-in: /mcp login {name}"
        offers = f"{counted(len(tools), 'tool')}, about {_tool_tokens(tools):,} tokens" if tools else ""
        rows.append((name, state, offers, f"{_WHOSE_SERVER[entry.scope]}: {entry.address}"))
    for name, pending in found.pending.items():
        rows.append((name, f"needs your approval: /mcp approve {name}", "", f"the project's: {pending.entry.address}"))
    rows += [(name, why, "", "") for name, why in found.refused.items()]
    text = "/mcp NAME shows one server and its tools. A tool costs no tokens until it is loaded."
    if len(rows) == 1:
        text = f"None. `cellwright mcp add` adds one; {documented('mcp')} says how to configure them."
    sections = [Section("MCP servers", rows, "\n".join(filter(None, (done, text))))]
    if found.notices:
        sections.append(Section("Problems", [("problem",), *((each,) for each in found.notices)]))
    return CommandPage(sections)


def _one(servers: McpServers, name: str) -> CommandPage:
    _check_known(servers, name)
    entry = servers.found.entries.get(name)
    connection = servers.connections.get(name)
    if entry is None or connection is None:
        return _all(servers, "")
    facts: list[Row] = [
        ("", ""),
        ("state", connection.state),
        ("problem", connection.problem),
        ("source", entry.label),
        ("command or address", entry.address),
        ("instructions", visible_line(connection.instructions, 500)),
    ]
    sections = [Section(name, [row for row in facts if row[1]])]
    tools = []
    for each in connection.tools.values():
        # less the last line, which names the server to Claude
        does = visible_line(each.description.rpartition("\n")[0] or each.description, 500)
        if each.read_only:
            does = f"{does} (read-only, according to the server)"
        tools.append((each.name.removeprefix(entry.prefix), f"{_tool_tokens([each]):,}", does))
    text = f"Rules call them {entry.prefix}NAME." if tools else ""
    sections.append(Section(counted(len(tools), "tool"), [("name", "tokens", "what it does"), *tools], text))
    prompts = [(f"/{entry.prefix}{each.name}", each.description) for each in connection.prompts]
    if prompts:
        sections.append(Section("Prompts", [("command", "what for"), *prompts]))
    if connection.log:
        sections.append(Section("Log", code="\n".join(connection.log)))
    return CommandPage(sections)


def _check_known(servers: McpServers, name: str) -> None:
    found = servers.found
    names = (*found.entries, *found.pending, *found.refused)
    if name not in names:
        known = ", ".join(names) or "none"
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, f"MCP server {name!r} was not found. Available: {known}.")


def _tool_tokens(tools: list[Tool]) -> int:
    return round(sum(len(encode_json(tool.to_param())) for tool in tools) / CHARS_PER_TOKEN)
