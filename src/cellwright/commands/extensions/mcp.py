"""`/mcp`: the MCP servers there are, what state they are in, what they cost, and what can be done about one."""

from __future__ import annotations

from cellwright.agent.tool import Tool
from cellwright.commands.command import CommandCall, CommandPage, Row, Section
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.events import CHARS_PER_TOKEN
from cellwright.features.mcp.feature import McpServers
from cellwright.sessions.transcripts.transcript_file import encode_json
from cellwright.text import counted, visible_line
from cellwright.version import documented

MCP = "[NAME] [approve|reconnect|disable|enable|login|logout NAME]"

SECONDS = 30.0
"""As long as the page waits for what it has begun."""

_WHOSE = {
    "managed": "the administrator's",
    "flag": "the command line's",
    "local": "yours, for this project",
    "project": "the project's",
    "user": "yours",
    "plugin": "a plugin's",
    "agent": "an agent's",
}
_ACTIONS = ("approve", "reconnect", "disable", "enable", "login", "logout")


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
        offers = f"{counted(len(tools), 'tool')}, about {_tokens(tools):,} tokens" if tools else ""
        rows.append((name, state, offers, f"{_WHOSE[entry.scope]}: {entry.address}"))
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
    tools = [
        (each.name.removeprefix(entry.prefix), f"{_tokens([each]):,}", _does(each))
        for each in connection.tools.values()
    ]
    text = f"Rules call them {entry.prefix}NAME." if tools else ""
    sections.append(Section(counted(len(tools), "tool"), [("name", "tokens", "what it does"), *tools], text))
    prompts = [(f"/{entry.prefix}{each.name}", each.description) for each in connection.prompts]
    if prompts:
        sections.append(Section("Prompts", [("command", "what for"), *prompts]))
    if connection.log:
        sections.append(Section("Log", code="\n".join(connection.log)))
    return CommandPage(sections)


def _does(tool: Tool) -> str:
    """Its description, less the last line, which names the server to Claude."""
    words = visible_line(tool.description.rpartition("\n")[0] or tool.description, 500)
    return f"{words} (read-only, according to the server)" if tool.read_only else words


def _check_known(servers: McpServers, name: str) -> None:
    found = servers.found
    names = (*found.entries, *found.pending, *found.refused)
    if name not in names:
        known = ", ".join(names) or "none"
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, f"MCP server {name!r} was not found. Available: {known}.")


def _tokens(tools: list[Tool]) -> int:
    return round(sum(len(encode_json(tool.to_param())) for tool in tools) / CHARS_PER_TOKEN)
