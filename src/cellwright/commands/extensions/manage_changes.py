"""The changes of the screen "Manage": each writes one file that the screen has named, at once and whole.

Only the user's click reaches this: the panel asks for it, never Claude, and no program over REST. What a folder supplies
is enabled by the same approvals as elsewhere.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from cellwright.commands.extensions.manage_report import (
    RULES,
    definition_folders,
    settings_files,
    shown_description,
    switched_off,
)
from cellwright.commands.extensions.plugins import PluginCommands
from cellwright.config.agents import NoAgent, definition_of
from cellwright.config.mcp.written_servers import (
    SCOPES,
    Scope,
    ServerPlace,
    remove_server,
    server_place,
    servers_at,
    unmasked_entry,
    write_server,
)
from cellwright.config.settings.edit import change_rules, checked_value, parsed_value, rule_problem, set_value
from cellwright.config.user_files import SettingsProblem, parse_settings, read_front_matter
from cellwright.conversation.runs.in_force import PolicyInForce
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.features.conversation import Conversation
from cellwright.sessions.project_writes import check_way, make_folders, write_file
from cellwright.text import lazy_pattern

NAME = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")

Params = Mapping[str, Any]
Change = Callable[[Conversation, Params], Awaitable[Mapping[str, Any]]]


def _text(params: Params, name: str) -> str:
    value = params.get(name)
    if not isinstance(value, str):
        raise _wrong(f"{name} is missing.")
    return value


def _wrong(message: str) -> CellwrightError:
    return CellwrightError(ErrorCode.INVALID_PARAMETERS, f"{message} Nothing was changed.")


# ---- rules and settings ----


async def add_rule(conversation: Conversation, params: Params) -> Mapping[str, Any]:
    """Add a permission rule to the file of a scope; an allow rule of the user's own goes the way of "always allow"."""
    scope, behavior, rule = _text(params, "scope"), _text(params, "behavior"), _text(params, "rule").strip()
    if behavior not in RULES:
        raise _wrong(f"A rule is one of {', '.join(RULES)}.")
    if problem := rule_problem(behavior, rule):
        raise _wrong(problem)
    file = _settings_file(conversation, scope)
    if scope == "local" and behavior == "allow":
        await asyncio.to_thread(conversation.in_force.save_rules, [rule])
    else:
        await asyncio.to_thread(_change_rules, conversation, file, scope, behavior, [rule], [])
    return {"file": str(file)}


async def remove_rule(conversation: Conversation, params: Params) -> Mapping[str, Any]:
    """Take a rule out of the file that has it."""
    scope, behavior, rule = _text(params, "scope"), _text(params, "behavior"), _text(params, "rule")
    file = _settings_file(conversation, scope)
    if behavior not in RULES or str(file) != _text(params, "file"):
        raise _wrong("This rule is in a file that is not changed here.")
    await asyncio.to_thread(_change_rules, conversation, file, scope, behavior, [], [rule])
    return {"file": str(file)}


def _change_rules(
    conversation: Conversation, file: Path, scope: str, behavior: str, add: list[str], remove: list[str]
) -> None:
    project = None if scope == "user" else file.parent.parent
    try:
        if scope == "user":
            file.parent.mkdir(parents=True, exist_ok=True)
        change_rules(file, behavior, add=add, remove=remove, project=project)
    except (SettingsProblem, OSError) as error:
        raise CellwrightError(ErrorCode.CONFIG_INVALID, f"{file} was not changed: {error}.") from None


async def set_setting(conversation: Conversation, params: Params) -> Mapping[str, Any]:
    """Set a setting in the user's own file; without a value it is taken out there."""
    key, given = _text(params, "key"), params.get("value")
    value = None if given is None else checked_value(key, parsed_value(_text(params, "value")))
    file = settings_files(conversation)["user"]

    def write() -> None:
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            set_value(file, key.split("."), value)
        except (SettingsProblem, OSError) as error:
            raise CellwrightError(ErrorCode.CONFIG_INVALID, f"{file} was not changed: {error}.") from None

    await asyncio.to_thread(write)
    return {"file": str(file)}


def _settings_file(conversation: Conversation, scope: str) -> Path:
    files = settings_files(conversation)
    if scope not in files:
        raise _wrong("This rule is in a file that is not changed here.")
    return files[scope]


async def why(conversation: Conversation, params: Params) -> Mapping[str, Any]:
    """Say what would happen to a call, by which rule of which file. It runs nothing and changes nothing."""
    tool, tool_input = _text(params, "tool"), params.get("input")
    if not isinstance(tool_input, Mapping):
        raise _wrong("The input is not a JSON object.")
    tools = {each.name: each for each in conversation.tools.of(RunOptions())}
    if tool not in tools:
        raise _wrong(f"The tool {tool} was not found.")
    policy = PolicyInForce(conversation.in_force, RunOptions(), conversation.sandbox.abilities)
    decision = await asyncio.to_thread(policy.decide, tools[tool], tool_input)
    entries = conversation.in_force.settings.merged.entries
    origins = [
        entry.layer.label
        for behavior in RULES
        for entry in entries.get(("permissions", behavior), ())
        if decision.rule and entry.value == decision.rule
    ]
    return {
        "behavior": decision.behavior,
        "reason": decision.reason,
        "rule": decision.rule,
        "from": origins[0] if origins else "",
        "suggestions": [rule for suggestion in decision.suggestions for rule in suggestion.rules][:3],
    }


# ---- MCP servers ----


async def put_server(conversation: Conversation, params: Params) -> Mapping[str, Any]:
    """Add the server, or write its edited entry; hidden values that were not changed stay as they are in the file."""
    name, scope, text = _text(params, "name").strip(), _scope(params), _text(params, "entry")
    name, entry = _named_entry(name, text)
    place = _place(conversation, scope)
    before = servers_at(place).get(name)
    if before is not None and params.get("replace") is not True:
        raise _wrong(f"{place.file} has an MCP server {name} already.")
    entry = unmasked_entry(entry, before, conversation.redaction.as_of_now())
    await asyncio.to_thread(write_server, place, name, entry, conversation.cwd, conversation.in_force.environment)
    return {"file": str(place.file)}


def _named_entry(name: str, text: str) -> tuple[str, Any]:
    """Read a pasted JSON: an entry, or what documentation of servers shows around it."""
    try:
        entry = json.loads(text)
    except ValueError as error:
        raise _wrong(f"The entry is not valid JSON: {error}.") from None
    if isinstance(entry, dict) and isinstance(entry.get("mcpServers"), dict):
        entry = entry["mcpServers"]
    is_entry = isinstance(entry, dict) and ("command" in entry or "url" in entry)
    if isinstance(entry, dict) and not is_entry and len(entry) == 1:
        ((found, inner),) = entry.items()
        name, entry = name or str(found), inner
    if not name:
        raise _wrong("The server needs a name.")
    if isinstance(entry, dict) and "url" in entry and "type" not in entry:
        entry = {"type": "http", **entry}  # as most pages of servers leave it out
    return name, entry


async def drop_server(conversation: Conversation, params: Params) -> Mapping[str, Any]:
    """Take a server's entry out of the file that has it."""
    place, name = _place(conversation, _scope(params)), _text(params, "name")
    if name not in servers_at(place):
        raise _wrong(f"{place.file} has no MCP server {name}.")
    await asyncio.to_thread(remove_server, place, name)
    return {"file": str(place.file)}


async def switch_server(conversation: Conversation, params: Params) -> Mapping[str, Any]:
    """Switch a server off by its name in the user's local settings of this folder, or on by taking the name out."""
    name, on = _text(params, "name"), params.get("on") is True
    if not switched_off(conversation, name):
        _known_server(conversation, params)
    file = settings_files(conversation)["local"]
    await asyncio.to_thread(_deny_server, file, name, not on)
    conversation.features.mcp.set_disabled(name, disabled=not on)
    return {"file": str(file)}


def _deny_server(file: Path, name: str, denied: bool) -> None:
    project = file.parent.parent
    try:
        make_folders(project, file.parent)
        try:
            text = check_way(project, file).read_text("utf-8")
        except FileNotFoundError:
            text = "{}"
        listed = parse_settings(text, file).get("deniedMcpServers", [])
        if not isinstance(listed, list):
            raise SettingsProblem(f"{file}: `deniedMcpServers` is not a list")
        rule = {"serverName": name}
        kept = [each for each in listed if each not in (name, rule)]
        set_value(file, ["deniedMcpServers"], [*kept, rule] if denied else kept or None, project=project)
    except (SettingsProblem, OSError) as error:
        raise CellwrightError(ErrorCode.CONFIG_INVALID, f"{file} was not changed: {error}.") from None


async def connect_server(conversation: Conversation, params: Params) -> Mapping[str, Any]:
    """Connect a server that counts, again if it was connected before."""
    name, servers = _known_server(conversation, params), conversation.features.mcp
    if name not in servers.found.entries:
        raise _wrong(f"The MCP server {name} waits for your approval.")
    if (connection := servers.connections.get(name)) is not None:
        connection.reconnect()
    else:
        await servers.connect()
    await servers.settled(10.0)
    return {"file": ""}


async def approve_server(conversation: Conversation, params: Params) -> Mapping[str, Any]:
    """Let a project's server run as the screen has described it; not if it is another by now."""
    name, seen = _known_server(conversation, params), params.get("seen")
    if shown_description(conversation, name) != seen:
        raise _wrong(f"The MCP server {name} has changed meanwhile. Look at it again.")
    await asyncio.to_thread(conversation.features.mcp.approve, name)
    return {"file": ""}


async def sign_in(conversation: Conversation, params: Params) -> Mapping[str, Any]:
    """Begin to sign in to a server: the link for the browser; with an address, finish it."""
    name, servers, address = _known_server(conversation, params), conversation.features.mcp, params.get("address")
    if not address:
        await servers.connect()
        await servers.settled(10.0)
        return {"file": "", "link": (await servers.sign_in(name)).link}
    pending = servers.sign_in_under_way(name)
    if pending is None:
        raise _wrong(f"No sign-in to {name} is under way.")
    pending.paste(_text(params, "address"))
    await pending.done()
    return {"file": ""}


async def sign_out(conversation: Conversation, params: Params) -> Mapping[str, Any]:
    """Forget the tokens of a server."""
    await conversation.features.mcp.sign_out(_known_server(conversation, params))
    return {"file": ""}


def _known_server(conversation: Conversation, params: Params) -> str:
    name, found = _text(params, "name"), conversation.features.mcp.found
    if name not in {*found.entries, *found.pending}:
        raise _wrong(f"The MCP server {name} was not found.")
    return name


def _scope(params: Params) -> Scope:
    scope = next((each for each in SCOPES if each == params.get("scope")), None)
    if scope is None:
        raise _wrong("This server is in a file that is not changed here.")
    return scope


def _place(conversation: Conversation, scope: Scope) -> ServerPlace:
    return server_place(scope, conversation.cwd, conversation.in_force.environ)


# ---- skills and agents ----


async def definition_text(conversation: Conversation, params: Params) -> Mapping[str, Any]:
    """Read the file of a skill or an agent that can be edited."""
    file = _definition_file(conversation, params)
    try:
        text = await asyncio.to_thread(file.read_text, "utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CellwrightError(ErrorCode.FILE_ACCESS_ERROR, f"{file} cannot be read: {error}.") from None
    return {"file": str(file), "text": text}


async def put_definition(conversation: Conversation, params: Params) -> Mapping[str, Any]:
    """Write the file of a skill or an agent: of a new one in the folder of a scope, of an old one where it is."""
    kind, text = _text(params, "kind"), _text(params, "text")
    if len(text) > 500_000:
        raise _wrong("The text is too long.")
    if params.get("new") is True:
        name, scope = _text(params, "name").strip(), _text(params, "scope")
        folders = definition_folders(conversation)
        if not NAME.fullmatch(name):
            raise _wrong("A name has letters, digits, - and _.")
        if scope not in folders or kind not in ("skill", "agent"):
            raise _wrong("This file is not changed here.")
        file = folders[scope] / ("agents" if kind == "agent" else "skills")
        file = file / f"{name}.md" if kind == "agent" else file / name / "SKILL.md"
        if file.exists():
            raise _wrong(f"{file} exists already.")
    else:
        file = _definition_file(conversation, params)
    if kind == "agent":
        front = read_front_matter(text)
        try:
            definition_of(front.values, front.body, file, "user", [front.problem] if front.problem else [])
        except NoAgent as problem:
            raise _wrong(f"This is no agent: {problem}.") from None
    await asyncio.to_thread(_write_definition, conversation, file, text)
    return {"file": str(file)}


async def drop_definition(conversation: Conversation, params: Params) -> Mapping[str, Any]:
    """Delete the file of a skill or an agent; other files of a skill stay."""
    file = _definition_file(conversation, params)

    def delete() -> None:
        try:
            check_way(_top(conversation, file), file).unlink()
        except OSError as error:
            raise CellwrightError(ErrorCode.FILE_ACCESS_ERROR, f"{file} was not deleted: {error}.") from None

    await asyncio.to_thread(delete)
    return {"file": str(file)}


def _write_definition(conversation: Conversation, file: Path, text: str) -> None:
    try:
        mode = file.stat().st_mode & 0o777 if file.exists() else 0o644
        write_file(file, text.encode(), mode, top=_top(conversation, file), make=True)
    except OSError as error:
        raise CellwrightError(ErrorCode.FILE_ACCESS_ERROR, f"{file} was not written: {error}.") from None


def _top(conversation: Conversation, file: Path) -> Path:
    """The project for what is in it, else the user's folder."""
    place = conversation.in_force.memory_place
    return place.project if file.is_relative_to(place.project) else place.users


def _definition_file(conversation: Conversation, params: Params) -> Path:
    """The file of a skill or an agent that is the user's or the project's: no other file is read or written here."""
    kind, name = _text(params, "kind"), _text(params, "name")
    found: Any = (
        conversation.features.skills.all().get(name)
        if kind == "skill"
        else conversation.features.agents.found().agents.get(name)
    )
    if found is None or found.scope not in ("user", "project"):
        raise _wrong(f"The {kind} {name} cannot be edited here.")
    file: Path = found.file
    return file


async def switch_definition(conversation: Conversation, params: Params) -> Mapping[str, Any]:
    """Switch a skill or an agent off by a deny rule in the user's own file, or on by taking the rule out of its file."""
    kind, name, on = _text(params, "kind"), _text(params, "name"), params.get("on") is True
    rule = f"{'Agent' if kind == 'agent' else 'Skill'}({name})"
    if problem := rule_problem("deny", rule):
        raise _wrong(problem)
    files = settings_files(conversation)
    scope = _text(params, "scope") if on else "user"
    if scope not in files:
        raise _wrong("The rule that switches it off is in a file that is not changed here.")
    change = ([], [rule]) if on else ([rule], [])
    await asyncio.to_thread(_change_rules, conversation, files[scope], scope, "deny", *change)
    return {"file": str(files[scope])}


# ---- plugins ----


async def change_plugin(conversation: Conversation, params: Params) -> Mapping[str, Any]:
    """Switch a plugin on or off, or remove it. Installing and updating ask in the conversation: `/plugin`."""
    verb, plugin_id = _text(params, "verb"), _text(params, "id")
    if verb not in ("enable", "disable", "remove"):
        raise _wrong("Plugins are installed and updated in the conversation.")
    await PluginCommands(conversation.in_force, _nobody).do([verb, plugin_id])
    return {"file": str(settings_files(conversation)["user"])}


async def _nobody(_question: object) -> Any:
    return "nobody"


READS: Mapping[str, Change] = {"why": why, "definition_text": definition_text}
WRITES: Mapping[str, Change] = {
    "add_rule": add_rule,
    "remove_rule": remove_rule,
    "set_setting": set_setting,
    "put_server": put_server,
    "drop_server": drop_server,
    "put_definition": put_definition,
    "drop_definition": drop_definition,
    "switch_definition": switch_definition,
    "change_plugin": change_plugin,
    "switch_server": switch_server,
}
"""They write files that settings are read from."""
ACTS: Mapping[str, Change] = {
    "connect_server": connect_server,
    "approve_server": approve_server,
    "sign_in": sign_in,
    "sign_out": sign_out,
}
"""They may take a while, and write no settings."""
