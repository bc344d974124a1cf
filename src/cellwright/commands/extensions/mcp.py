"""`/mcp`: the MCP servers there are, what state they are in, what they cost, and what can be done about one."""

from __future__ import annotations

from cellwright.agent.tool import Tool
from cellwright.commands.command import CommandCall, CommandPage, Row, Section
from cellwright.conversation.prompts.mcp import McpServers
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.events import CHARS_PER_TOKEN
from cellwright.sessions.transcript import encode_json
from cellwright.text import counted, visible_line

MCP = "[NAME] [approve|reconnect|disable|enable NAME]"

SECONDS = 30.0
"""As long as the page waits for what it has begun."""

_WHOSE = {
    "managed": "the administrator's",
    "flag": "of the command line",
    "local": "yours, for this project",
    "project": "the project's",
    "user": "yours",
    "plugin": "a plug-in's",
    "agent": "an agent's",
}
_ACTIONS = ("approve", "reconnect", "disable", "enable")


async def mcp_page(call: CommandCall) -> CommandPage:
    """Do what was asked for, then show the servers, or one with its tools. Raises CellwrightError INVALID_PARAMETERS."""
    servers = call.conversation.mcp
    servers.refresh()
    words = call.text.split()
    done = ""
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
            if not servers.approve(name):
                raise CellwrightError(ErrorCode.INVALID_PARAMETERS, f"The MCP server {name} waits for no approval.")
            return f"{name} may run from now on, as it is configured now."
        case "disable":
            servers.set_disabled(name, disabled=True)
            return f"{name} is switched off for this conversation."
        case "enable":
            servers.set_disabled(name, disabled=False)
            return f"{name} is switched on."
        case _:
            if (connection := servers.connections.get(name)) is not None:
                connection.reconnect()
            return f"{name} was connected anew."


def _all(servers: McpServers, done: str) -> CommandPage:
    found = servers.found
    rows: list[Row] = [("server", "state", "tools", "about tokens", "whose", "what it is")]
    for name, entry in found.entries.items():
        connection = servers.connections.get(name)
        state = "switched off" if name in servers.disabled else "denied by a rule or the administrator"
        tools: list[Tool] = []
        if connection is not None:
            tools = [*connection.tools.values()]
            state = connection.state if not connection.problem else f"{connection.state}: {connection.problem}"
        rows.append((name, state, str(len(tools)), f"{_tokens(tools):,}", _WHOSE[entry.scope], entry.address))
    for name, pending in found.pending.items():
        rows.append((name, f"waits for you: /mcp approve {name}", "", "", "the project's", pending.entry.address))
    rows += [(name, why, "", "", "", "") for name, why in found.refused.items()]
    text = "A name shows one server with its tools. Tools that are loaded when they are needed cost nothing before."
    if len(rows) == 1:
        text = "There are none. `cellwright mcp add` adds one; docs/mcp.md says where they are configured."
    sections = [Section("MCP servers", rows, "\n".join(filter(None, (done, text))))]
    if found.notices:
        sections.append(Section("Not understood", [("problem",), *((each,) for each in found.notices)]))
    return CommandPage(sections)


def _one(servers: McpServers, name: str) -> CommandPage:
    _check_known(servers, name)
    entry = servers.found.entries.get(name)
    connection = servers.connections.get(name)
    if entry is None or connection is None:
        return _all(servers, "")
    facts: list[Row] = [
        ("what", "value"),
        ("state", connection.state),
        ("problem", connection.problem),
        ("where from", entry.label),
        ("what it is", entry.address),
        ("says of itself", visible_line(connection.instructions, 500)),
    ]
    sections = [Section(name, [row for row in facts if row[1]])]
    tools = [
        (each.name, "says that it only reads" if each.read_only else "", f"{_tokens([each]):,}", each.description)
        for each in connection.tools.values()
    ]
    sections.append(
        Section(counted(len(tools), "tool"), [("name", "its word", "about tokens", "what it does"), *tools])
    )
    prompts = [(f"/{entry.prefix}{each.name}", each.description) for each in connection.prompts]
    if prompts:
        sections.append(Section("Prompts", [("command", "what for"), *prompts]))
    if connection.log:
        sections.append(Section("Its last words", code="\n".join(connection.log)))
    return CommandPage(sections)


def _check_known(servers: McpServers, name: str) -> None:
    found = servers.found
    names = (*found.entries, *found.pending, *found.refused)
    if name not in names:
        known = ", ".join(names) or "none"
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, f"There is no MCP server {name!r}. There are: {known}.")


def _tokens(tools: list[Tool]) -> int:
    return round(sum(len(encode_json(tool.to_param())) for tool in tools) / CHARS_PER_TOKEN)
