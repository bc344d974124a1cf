"""The content of the screen "Manage": rules, MCP servers, skills, agents and plugins, each with the file that says so.

Values that may be secret never leave the process: of servers the names of variables and headers are shown.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from cellwright.commands.settings_pages import layer_label, or_problem, setting_rows
from cellwright.config.agents import AgentDefinition
from cellwright.config.mcp.written_servers import SCOPES, masked_entry, server_place, servers_at
from cellwright.config.plugins.installed_plugins import read_installed
from cellwright.config.settings.known_settings import KEYS, THEMES
from cellwright.config.settings.layers import SettingsEntry
from cellwright.config.settings.option_table import BY_NAME
from cellwright.config.settings.settings_files import home_folder, local_settings_file
from cellwright.config.skills import Skill
from cellwright.conversation.resolve_options import CHOSEN_IN_FORCE, mode_of
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.errors import CellwrightError
from cellwright.features.conversation import Conversation
from cellwright.model.models import EFFORTS
from cellwright.permissions.modes import LISTED_MODES
from cellwright.permissions.rules.rule import parse_rule
from cellwright.redaction.redaction import JsonRedaction
from cellwright.text import visible_line

RULES = ("deny", "ask", "allow")
ADMINISTRATOR = "Set by your administrator."
_LINE = 400
_LOCKS: Mapping[str, str] = {
    "managed": ADMINISTRATOR,
    "environment": "Set by an environment variable of this kernel.",
    "config": "Set by %config Claude or a Jupyter configuration.",
    "options": "Set by an option of the prompt.",
    "plugin": "Part of a plugin; switch the plugin.",
    "built-in": "Comes with Cellwright.",
    "program": "Defined by a program.",
    "flag": "Set by the command line or a program.",
    "agent": "Part of an agent's definition.",
}


def manage_report(conversation: Conversation) -> dict[str, Any]:
    """Report the configuration of the conversation's folder. It reads files; nothing is started or asked."""
    conversation.features.mcp.refresh()
    trust = conversation.in_force.trust
    report: dict[str, Any] = {
        "cwd": str(conversation.cwd),
        "home": str(home_folder(conversation.in_force.environ)),
        "files": {scope: str(file) for scope, file in settings_files(conversation).items()},
        "trust": {
            "folder": str(trust.folder),
            "trusted": trust.trusted,
            "waiting": [visible_line(item.text, _LINE) for item in trust.waiting],
            "held_back": [visible_line(text, _LINE) for text in conversation.in_force.quarantined],
        },
        "mode": _mode(conversation),
        "rules": _rules(conversation),
        "settings": _settings(conversation),
        "servers": _servers(conversation),
        "server_files": {
            scope: str(server_place(scope, conversation.cwd, conversation.in_force.environ).file) for scope in SCOPES
        },
        "skills": _skills(conversation),
        "agents": _agents(conversation),
        "definition_folders": {scope: str(folder) for scope, folder in definition_folders(conversation).items()},
        "plugins": _plugins(conversation),
        "notices": [
            *conversation.in_force.settings.notices,
            *(visible_line(notice, _LINE) for notice in conversation.features.mcp.found.notices),
        ],
    }
    cleaned: dict[str, Any] = JsonRedaction(conversation.redaction).clean(report)
    # these are masked in a way that can be taken back when they are written
    entries = {row["name"]: row["entry"] for row in report["servers"]}
    for row in cleaned["servers"]:
        row["entry"] = entries.get(row["name"])
    return cleaned


def settings_files(conversation: Conversation) -> dict[str, Path]:
    """The settings files that the user can change by clicks, by their scopes."""
    place = conversation.in_force.memory_place
    return {
        "user": place.users / "settings.json",
        "project": place.project / ".claude" / "settings.json",
        "local": local_settings_file(place.project),
    }


def definition_folders(conversation: Conversation) -> dict[str, Path]:
    """The folders in which the user's and the project's skills and agents are kept."""
    place = conversation.in_force.memory_place
    return {"user": place.users, "project": place.project / ".claude"}


def _mode(conversation: Conversation) -> dict[str, Any]:
    in_force = conversation.in_force
    origin = in_force.settings.origin("permissions.defaultMode")
    value = conversation.sessions.current.mode or or_problem(
        lambda: mode_of(RunOptions(), in_force.settings, in_force.environment)
    )
    return {
        "value": value,
        "from": "" if origin is None else origin.label,
        "locked": ADMINISTRATOR if origin is not None and origin.scope == "managed" else "",
    }


def _rules(conversation: Conversation) -> list[dict[str, Any]]:
    settings = conversation.in_force.settings
    rows: list[dict[str, Any]] = []
    for behavior in RULES:
        in_force = {str(rule) for rule in getattr(settings, behavior)}
        for entry in settings.merged.entries.get(("permissions", behavior), ()):
            if entry.element and isinstance(entry.value, str):
                rows.append(_rule(entry, behavior, in_force))
        if behavior == "allow":
            rows += [
                {
                    "rule": rule,
                    "behavior": "allow",
                    "meaning": rule_meaning(rule),
                    "from": "this session",
                    "file": "",
                    "scope": "session",
                    "locked": "Allowed in this session; a new session forgets it.",
                    "inactive": "",
                }
                for rule in conversation.sessions.current.granted
            ]
    return rows


def _rule(entry: SettingsEntry, behavior: str, in_force: set[str]) -> dict[str, Any]:
    inactive = ""
    if entry.value.strip() not in in_force:
        inactive = "Not in effect: the folder is not trusted, or the administrator allows only their own rules."
    return {
        "rule": entry.value,
        "behavior": behavior,
        "meaning": rule_meaning(entry.value),
        "from": layer_label(entry.layer),
        "file": "" if entry.layer.file is None else str(entry.layer.file),
        "scope": entry.layer.scope,
        "locked": _LOCKS.get(entry.layer.scope, ""),
        "inactive": inactive,
    }


_MATCHES: Mapping[str, str] = {
    "Bash": "shell commands that match `%s`",
    "Read": "reading files that match `%s`",
    "Edit": "changing files that match `%s`",
    "Write": "changing files that match `%s`",
    "Agent": "the agent `%s`",
    "Skill": "the skill `%s`",
}
_EVERY: Mapping[str, str] = {
    "Bash": "every shell command",
    "Read": "every read of a file",
    "Edit": "every change of a file",
    "Write": "every change of a file",
    "Python": "all Python code",
    "Agent": "every agent",
    "Skill": "every skill",
}


def rule_meaning(text: str) -> str:
    """Say in words which calls a rule matches; the problem for one that cannot be read."""
    try:
        rule = parse_rule(text)
    except CellwrightError as error:
        return error.message
    if rule.tool.startswith("mcp__"):
        _, server, *tool = rule.tool.split("__", 2)
        return f"the tool {tool[0]} of the MCP server {server}" if tool else f"every tool of the MCP server {server}"
    if rule.is_about_hosts:
        return "every fetch of a page" if rule.specifier is None else f"fetching pages that match `{rule.specifier}`"
    if rule.specifier is None:
        return _EVERY.get(rule.tool, f"every call of {rule.tool}")
    return (_MATCHES.get(rule.tool) or f"calls of {rule.tool} that match `%s`").replace("%s", rule.specifier)


def _settings(conversation: Conversation) -> dict[str, Any]:
    settings = conversation.in_force.settings
    hidden = ("permissions.allow", "permissions.ask", "permissions.deny")
    own = settings_files(conversation)["user"]
    choices = _choices(conversation)
    rows = [
        {"key": key, "value": value, "from": "", "locked": "", "choices": choices[key]}
        for key, value in _defaults(conversation).items()
        if settings.origin(key) is None
    ]
    for key, value, origin in setting_rows(settings):
        if key in hidden or key.split(".")[0] in ("mcpServers", "hooks"):
            continue
        entries = settings.merged.entries[tuple(key.split("."))]
        entry = next((each for each in entries if layer_label(each.layer) in origin), entries[-1])
        locked = _LOCKS.get(entry.layer.scope, "")
        if not locked and entry.layer.file != own:
            locked = f"Set in {layer_label(entry.layer)}, which comes before your own file."
        rows.append({"key": key, "value": value, "from": origin, "locked": locked, "choices": choices.get(key, [])})
    first = list(choices)
    rows.sort(key=lambda row: first.index(row["key"]) if row["key"] in choices else len(first))
    return {"rows": rows, "known": sorted(key.name for key in KEYS.values() if key.folder != "managed")}


def _defaults(conversation: Conversation) -> dict[str, str]:
    """The settings that are changed most, each with the value that holds while no file sets it."""
    settings, environment = conversation.in_force.settings, conversation.in_force.environment
    values = {
        str(BY_NAME[name].setting): or_problem(partial(in_force, RunOptions(), settings, environment))
        for name, in_force in CHOSEN_IN_FORCE.items()
    }
    return {**values, "outputStyle": "default", "cellwright.theme": "auto"}


def _choices(conversation: Conversation) -> dict[str, list[str]]:
    """The values to choose from of the settings that are changed most, in the order to list them in; empty: any text."""
    return {
        "model": [],
        "permissions.defaultMode": list(LISTED_MODES),
        "effortLevel": list(EFFORTS),
        "outputStyle": [style.name for style in conversation.features.styles.all().values()],
        "cellwright.theme": list(THEMES),
    }


def _servers(conversation: Conversation) -> list[dict[str, Any]]:
    servers, cwd, environ = conversation.features.mcp, conversation.cwd, conversation.in_force.environ
    written: dict[tuple[str, str], Mapping[str, Any]] = {}
    for scope in SCOPES:
        try:
            kept = servers_at(server_place(scope, cwd, environ))
        except CellwrightError:
            continue  # a notice of the found servers names the file
        written |= {(scope, name): entry for name, entry in kept.items() if isinstance(entry, Mapping)}
    rows = []
    for name, entry in servers.found.entries.items():
        connection = servers.connections.get(name)
        state = "off" if name in servers.disabled else "not started"
        if connection is not None and name not in servers.disabled:
            state = connection.state
        rows.append(
            {
                "name": name,
                "scope": entry.scope,
                "from": entry.label,
                "address": _masked_address(entry.address),
                "transport": entry.transport,
                "state": state,
                "problem": visible_line(connection.problem, _LINE) if connection is not None else "",
                "tools": [*connection.tools] if connection is not None else [],
                "enabled": name not in servers.disabled,
                "signs_in": entry.may_sign_in,
                "signed_in": servers.has_sign_in(name),
                "pending": [],
                "locked": _LOCKS.get(entry.scope, ""),
                "entry": _shown_entry(conversation, written.get((entry.scope, name))),
            }
        )
    for name, pending in servers.found.pending.items():
        entry = pending.entry
        rows.append(
            {
                "name": name,
                "scope": entry.scope,
                "from": entry.label,
                "address": _masked_address(entry.address),
                "transport": entry.transport,
                "state": "waits for your approval",
                "problem": "",
                "tools": [],
                "enabled": False,
                "signs_in": False,
                "signed_in": False,
                "pending": shown_description(conversation, name),
                "locked": "",
                "entry": _shown_entry(conversation, written.get((entry.scope, name))),
            }
        )
    for name, why in servers.found.refused.items():
        is_off = switched_off(conversation, name)
        rows.append(
            {
                "name": name,
                "scope": "",
                "from": str(settings_files(conversation)["local"]) if is_off else "",
                "address": "",
                "transport": "",
                "state": "off" if is_off else "blocked",
                "problem": "" if is_off else why,
                "tools": [],
                "enabled": False,
                "signs_in": False,
                "signed_in": False,
                "pending": [],
                "locked": "" if is_off else why,
                "entry": None,
            }
        )
    return rows


def switched_off(conversation: Conversation, name: str) -> bool:
    """Return whether the user's local settings, and no others, switch this MCP server off by its name."""
    local = settings_files(conversation)["local"]
    rules = (name, {"serverName": name})
    entries = conversation.in_force.settings.merged.entries.get(("deniedMcpServers",), ())
    files = [entry.layer.file for entry in entries if entry.value in rules]
    return bool(files) and all(file == local for file in files)


def shown_description(conversation: Conversation, name: str) -> list[str]:
    """The lines that describe a server that waits for approval, without secrets."""
    lines: list[str] = JsonRedaction(conversation.redaction).clean(conversation.features.mcp.described(name))
    return lines


def _masked_address(address: str) -> str:
    url = "://" in address
    shown = masked_entry({"url": address} if url else {"args": address.split()})
    return visible_line(shown["url"] if url else " ".join(shown["args"]), _LINE)


def _shown_entry(conversation: Conversation, entry: Mapping[str, Any] | None) -> str | None:
    """The entry to edit, without secrets; None where it is in no file that can be changed here."""
    if entry is None:
        return None
    return json.dumps(masked_entry(entry, conversation.redaction.as_of_now()), indent=2, ensure_ascii=False)


def _skills(conversation: Conversation) -> list[dict[str, Any]]:
    found = conversation.features.skills.all()
    return [
        {
            "name": name,
            "description": visible_line(skill.description, _LINE),
            "from": _label(skill.file, skill.scope),
            "file": str(skill.file),
            "scope": skill.scope,
            "locked": _LOCKS.get(skill.scope, ""),
            "problems": list(skill.problems),
            **_switch(conversation, "Skill", name),
        }
        for name, skill in sorted(found.items(), key=_own_first)
    ]


def _agents(conversation: Conversation) -> list[dict[str, Any]]:
    found = conversation.features.agents.found()
    return [
        {
            "name": name,
            "description": visible_line(agent.description, _LINE),
            "from": _label(agent.file, agent.scope),
            "file": str(agent.file),
            "scope": agent.scope,
            "locked": _LOCKS.get(agent.scope, ""),
            "problems": list(agent.problems),
            **_switch(conversation, "Agent", name),
        }
        for name, agent in sorted(found.agents.items(), key=_own_first)
    ]


def _own_first(item: tuple[str, Skill | AgentDefinition]) -> tuple[bool, str]:
    return item[1].scope in ("built-in", "plugin", "managed"), item[0]


def _label(file: Path, scope: str) -> str:
    if scope in ("built-in", "program"):
        return ""
    try:
        return str(Path("~") / file.relative_to(Path.home()))
    except ValueError:
        return str(file)


def _switch(conversation: Conversation, tool: str, name: str) -> dict[str, Any]:
    """Find the deny rules that switch a skill or an agent off, and why they cannot be changed here."""
    rule = f"{tool}({name})"
    entries = [
        entry
        for entry in conversation.in_force.settings.merged.entries.get(("permissions", "deny"), ())
        if entry.value in (rule, tool)
    ]
    return {"enabled": not entries, "off_by": [_off_by(entry, rule) for entry in entries]}


def _off_by(entry: SettingsEntry, rule: str) -> dict[str, str]:
    locked = _LOCKS.get(entry.layer.scope, "")
    if not locked and entry.value != rule:
        locked = f"The rule {entry.value} switches all of them off."
    return {
        "file": "" if entry.layer.file is None else str(entry.layer.file),
        "scope": entry.layer.scope,
        "locked": locked,
    }


def _plugins(conversation: Conversation) -> dict[str, Any]:
    in_force, installed, found = conversation.in_force, read_installed(), conversation.in_force.plugins
    names: Iterable[str] = dict.fromkeys([*installed.plugins, *found.left_out])
    rows: list[dict[str, Any]] = []
    for plugin_id in sorted(names):
        kept = installed.plugins.get(plugin_id)
        plugin = found.plugins.get(plugin_id)
        origin = in_force.settings.origin(f"enabledPlugins.{plugin_id}")
        source: Mapping[str, Any] = {} if kept is None else kept.source
        rows.append(
            {
                "id": plugin_id,
                "version": "" if kept is None else kept.version,
                "description": "" if plugin is None else visible_line(plugin.description, _LINE),
                "from": str(source.get("url") or source.get("repo") or source.get("path") or "settings"),
                "enabled": plugin is not None,
                "installed": kept is not None,
                "problem": found.left_out.get(plugin_id, ""),
                "locked": ADMINISTRATOR if origin is not None and origin.scope == "managed" else "",
            }
        )
    return {"rows": rows, "marketplaces": sorted({*installed.marketplaces, *in_force.settings.known_marketplaces})}
