"""Agents that users define: one definition with its system prompt, and the agents of a session by their names.

Of two with one name the higher counts, from the highest: the administrator's, the project's (the nearest folder
first), the user's, those of plugins, ours. A project's wait for the user's trust in the folder.
"""

from __future__ import annotations

import functools
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import replace

from cellwright.agent.tool import GROUPS
from cellwright.config.plugins.plugin import Plugin, put_in
from cellwright.config.skills import DESCRIPTION_CHARS, SkillPlace, hooks_of, project_folders
from cellwright.config.user_files import crowded, files_in, model_choice, places_below, read_front_matter, texts
from cellwright.errors import CellwrightError
from cellwright.model.provider import ModelChoice
from cellwright.permissions.modes import Mode, parse_mode
from cellwright.permissions.rules.rule import (
    EDITORS,
    READERS,
    Rule,
    grant_problem,
    near_tool,
    own_name,
    own_spelling,
    parse_rule,
)

AgentMemory = Literal["user", "project", "local"]
AgentScope = Literal["managed", "program", "project", "user", "plugin", "built-in"]

MAX_BYTES = 1_000_000
"""A larger file is no definition."""


_YES = frozenset({"true", "yes", "on", "1"})

BUILT_IN = Path(__file__).parent / "built_in" / "agents"
MAX_AGENTS = 500
"""Of one folder; nobody has more by intent."""


class AgentDefinition(ModelChoice, frozen=True, kw_only=True):
    """An agent that Claude can give work to. `body` is its system prompt, `description` says when to use it.

    `tools` are the only tools it gets, None for all; those in `tool_rules` it may use only as these allow rules say.
    `disallowed_tools` are those it does not get. `mode` is a permission mode, which can only be stricter than the session's;
    `skills` are loaded as it begins; `background`: it always works beside the conversation. `instructions`: it is told the
    CLAUDE.md files. `hooks` are told while it works; `memory` says where it keeps notes of its own; `own_worktree`: it works
    in a checkout of its own. `servers` are the names of the only MCP servers whose tools it gets, None for all that there
    are; `own_servers` are entries of those that it brings along. `initial_prompt` goes before the first prompt of a session
    in which it works itself.
    `problems` say what was not understood; `unclear` are those of its tools, which a run reports to the user.
    """

    name: str
    description: str
    body: str
    file: Path
    scope: AgentScope
    tools: tuple[str, ...] | None = None
    tool_rules: Mapping[str, tuple[Rule, ...]] = field(default_factory=dict)
    disallowed_tools: tuple[str, ...] = ()
    mode: Mode | None = None
    max_turns: int | None = None
    skills: tuple[str, ...] = ()
    background: bool = False
    instructions: bool = True
    color: str = ""
    hooks: Mapping[str, Any] = field(default_factory=dict)
    memory: AgentMemory | None = None
    own_worktree: bool = False
    servers: tuple[str, ...] | None = None
    own_servers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    initial_prompt: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    unclear: tuple[str, ...] = ()


class NoAgent(Exception):
    """Raised for a file that defines no agent; says why."""


def read_definition(file: Path, scope: AgentScope) -> AgentDefinition:
    """Read the definition in `file`. Raises NoAgent."""
    front = read_front_matter(_text_of(file))
    return definition_of(front.values, front.body, file, scope, [front.problem] if front.problem else [])


def definition_of(
    values: Mapping[str, Any], body: str, file: Path, scope: AgentScope, problems: list[str]
) -> AgentDefinition:
    """The agent that `values` define, the keys of a file's front matter, with `body` as its prompt. Raises NoAgent."""
    name, description = _text(values.get("name")), _text(values.get("description"))
    if not name or not description:
        missing = " and ".join(what for what, given in (("name", name), ("description", description)) if not given)
        raise NoAgent(f"its front matter has no {missing}")
    if any(character.isspace() or character in "(),<>\"'" for character in name):
        raise NoAgent(f"its name {name!r} is not a single word")
    servers, own_servers = _servers(values, problems)
    unclear: list[str] = []
    return AgentDefinition(
        name=name,
        description=" ".join(description.split())[:DESCRIPTION_CHARS],
        body=body.strip(),
        file=file,
        scope=scope,
        tools=_tools(values, unclear),
        tool_rules=_tool_rules(values, unclear),
        disallowed_tools=_withheld_tools(values, unclear),
        mode=_mode(values, problems),
        max_turns=_max_turns(values, problems),
        skills=texts(values.get("skills")),
        **model_choice(values, problems),
        background=_flag(values.get("background")),
        instructions=not _flag(values.get("omitClaudeMd")),
        color=_text(values.get("color")),
        hooks=hooks_of(values, problems),
        memory=_memory(values, problems),
        own_worktree=_own_worktree(values, problems),
        servers=servers,
        own_servers=own_servers,
        initial_prompt=_text(values.get("initialPrompt")) or "",
        values=values,
        problems=(*problems, *unclear),
        unclear=tuple(unclear),
    )


_FIELDS = {
    "disallowed_tools": "disallowedTools",
    "max_turns": "maxTurns",
    "mode": "permissionMode",
    "permission_mode": "permissionMode",
    "mcp_servers": "mcpServers",
    "initial_prompt": "initialPrompt",
    "omit_claude_md": "omitClaudeMd",
}
"""The keys of a program's definitions that files have in another spelling."""

_KEYS = (
    *("description", "prompt", "tools", "disallowedTools"),
    *ModelChoice.__struct_fields__,
    *("permissionMode", "maxTurns", "skills", "background", "omitClaudeMd", "color", "hooks", "memory", "isolation"),
    *("mcpServers", "initialPrompt"),
)


def given_definition(name: str, given: Any) -> AgentDefinition:
    """The agent that a program defines: a dict of the keys that files have, and `prompt`, or an object with such attributes.

    Keys may be spelled as in files (`maxTurns`) or as in Python (`max_turns`). Raises NoAgent for what is not understood.

    >>> given_definition("reviewer", {"description": "Reviews.", "prompt": "You review.", "max_turns": 3}).max_turns
    3
    """
    if isinstance(given, Mapping):
        pairs = dict(given)
    else:
        known = (*_KEYS, *_FIELDS)
        pairs = {key: getattr(given, key) for key in known if hasattr(given, key)}
        if "description" not in pairs:
            raise NoAgent(f"it is {given!r:.200}, no dict with `description` and `prompt`")
    values = {_FIELDS.get(key, key): value for key, value in pairs.items() if value is not None}
    if unknown := [key for key in values if key not in _KEYS]:
        raise NoAgent(f"it has {unknown[0]!r}; there are {', '.join(_KEYS)}")
    for key in ("description", "prompt"):
        if not isinstance(values.get(key), str):
            raise NoAgent(f"its {key} is {values.get(key)!r:.200}, no text")
    made = definition_of({**values, "name": name}, values["prompt"], Path(), "program", [])
    if made.problems:
        raise NoAgent(made.problems[0])
    return made


def _text_of(file: Path) -> str:
    try:
        facts = file.stat()
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > MAX_BYTES:
            raise NoAgent(f"it is not a file of at most {MAX_BYTES:,} bytes")
        return file.read_bytes().decode("utf-8", "replace")
    except (OSError, ValueError) as error:
        raise NoAgent(f"it cannot be read: {error}") from None


def _text(value: Any) -> str:
    return "" if value is None or isinstance(value, list | Mapping) else str(value).strip()


def _flag(value: Any) -> bool:
    return _text(value).lower() in _YES


def _tools(values: Mapping[str, Any], unclear: list[str]) -> tuple[str, ...] | None:
    """The names in `tools`, which may be rules (`Bash(git *)`) and groups (`@read`); None for all of them.

    What names no tool gives none: only a list that is not there, or `*`, means all.
    """
    if (value := values.get("tools")) is None:
        return None
    names = tuple(tool_name(each) for each in texts(value))
    for name in names or ([] if value == [] else [str(value)]):
        if why := _unclear(name):
            unclear.append(f"`tools`: {why}. It gives no tool")
    return None if "*" in names else names


def _tool_rules(values: Mapping[str, Any], unclear: list[str]) -> dict[str, tuple[Rule, ...]]:
    """The rules in `tools`, by their tools; none for a tool that also stands there by itself.

    A rule that is not understood allows nothing.
    """
    found: dict[str, tuple[Rule, ...]] = {}
    whole = set[str]()
    for text in texts(values.get("tools")):
        if "(" not in text:
            whole.add(own_name(tool_name(text)))
            continue
        name = own_name(tool_name(text))
        found.setdefault(name, ())
        try:
            rule = parse_rule(text)
            if rule.specifier is None:
                whole.add(name)
                continue
            # as an allow rule: those name every tool for files by `Read` or `Edit`
            kind = "Edit" if rule.tool in EDITORS else "Read" if rule.tool in READERS else rule.tool
            granting = Rule(rule.text, kind, rule.specifier)
            problem = grant_problem(granting)
        except CellwrightError as error:
            problem = error.message
        if problem:
            unclear.append(f"`tools`: `{text}` allows no call. {problem.removesuffix('.')}")
        else:
            found[name] += (granting,)
    return {name: rules for name, rules in found.items() if name not in whole}


def _withheld_tools(values: Mapping[str, Any], unclear: list[str]) -> tuple[str, ...]:
    """The names in `disallowedTools`, and for a misspelt one also the tool that it most likely means."""
    names = [tool_name(each) for each in texts(values.get("disallowedTools"))]
    for name in list(names):
        if why := _unclear(name):
            near = near_tool(name)
            names += [near] if near else []
            unclear.append(f"`disallowedTools`: {why}. {f'{near} is taken away' if near else 'It takes no tool away'}")
    return tuple(names)


def _unclear(name: str) -> str:
    """Explain why `name` in a list of tools is most likely a slip; "" for a tool's name, also an unknown one."""
    if name.startswith("@"):
        return "" if name in GROUPS else f"{name} is not a group of tools; there are {', '.join(GROUPS)}"
    if name != "*" and not name[:1].isalpha():
        return f"{name!r} is not the name of a tool"
    near = near_tool(name)
    return f"no tool is called {name}, but one is called {near}" if near else ""


def tool_name(rule: str) -> str:
    """The tool that a rule is about.

    >>> tool_name("bash(git *)"), tool_name("Task")
    ('Bash', 'Agent')
    """
    return own_spelling(rule.partition("(")[0].strip())


def _mode(values: Mapping[str, Any], problems: list[str]) -> Mode | None:
    given = _text(values.get("permissionMode"))
    if not given:
        return None
    try:
        return parse_mode(given)[0]
    except CellwrightError as error:
        problems.append(f"{error.message} It works in plan mode, the strictest.")
        return "plan"


def _max_turns(values: Mapping[str, Any], problems: list[str]) -> int | None:
    given = values.get("maxTurns")
    if given is None:
        return None
    digits = str(given).strip()
    if digits.isdecimal() and int(digits[:9]) > 0:
        return int(digits[:9])
    problems.append(f"maxTurns is {given!r}, no whole number above 0")
    return None


def _memory(values: Mapping[str, Any], problems: list[str]) -> AgentMemory | None:
    match _text(values.get("memory")):
        case "user" | "project" | "local" as scope:
            return scope
        case "":
            return None
        case other:
            problems.append(f"memory is {other!r}, not one of user, project, local")
            return None


def _own_worktree(values: Mapping[str, Any], problems: list[str]) -> bool:
    given = _text(values.get("isolation"))
    if given not in ("", "worktree"):
        problems.append(f"isolation is {given!r}, not worktree")
    return given == "worktree"


def _servers(
    values: Mapping[str, Any], problems: list[str]
) -> tuple[tuple[str, ...] | None, dict[str, Mapping[str, Any]]]:
    """The names of its servers, and the entries among them: a list of names and of objects, or one object."""
    given = values.get("mcpServers")
    if given is None:
        return None, {}
    names: dict[str, None] = {}
    entries: dict[str, Mapping[str, Any]] = {}
    for each in given if isinstance(given, list) else [given]:
        if isinstance(each, Mapping):
            for name, entry in each.items():
                names[str(name)] = None
                if isinstance(entry, Mapping):
                    entries[str(name)] = entry
                elif entry is not None:
                    problems.append(f"mcpServers: {name} is not an entry")
        elif name := _text(each):
            names[name] = None
        else:
            problems.append("mcpServers is neither a list of names and entries nor an object of entries")
    return tuple(names), entries


class FoundAgents(Struct, frozen=True):
    """The agents by their names, and the files that define none, with the reason."""

    agents: dict[str, AgentDefinition]
    skipped: tuple[tuple[Path, str], ...] = ()


def find_agents(place: SkillPlace) -> FoundAgents:
    """All agents. Never raises."""
    found: dict[str, AgentDefinition] = {}
    skipped: list[tuple[Path, str]] = []
    for file, scope, plugin in _files(place):
        try:
            agent = read_definition(file, scope)
        except NoAgent as problem:
            skipped.append((file, str(problem)))
        else:
            agent = agent if plugin is None else _of_plugin(agent, plugin)
            found.setdefault(agent.name, agent)
    for agent in _built_in():
        found.setdefault(agent.name, agent)
    return FoundAgents(found, tuple(skipped))


def agent_places(place: SkillPlace) -> Iterator[str]:
    """The files and folders whose change can change what `find_agents` gives."""
    folders = [place.managed / "agents", place.users / "agents"]
    if place.trusted:
        folders += [folder / ".claude" / "agents" for folder in project_folders(place.cwd, place.project)]
    for folder in (*folders, *(each for plugin in place.plugins for each in plugin.agents)):
        yield from places_below(str(folder))


@functools.cache  # every prompt looks for the agents, and ours do not change while the process lives
def _built_in() -> tuple[AgentDefinition, ...]:
    return tuple(read_definition(file, "built-in") for file in _files_in(BUILT_IN))


def project_agent_files(cwd: Path, project: Path) -> list[Path]:
    """The files of agents that the project brings along."""
    return [file for folder in project_folders(cwd, project) for file in _files_in(folder / ".claude" / "agents")]


def _of_plugin(agent: AgentDefinition, plugin: Plugin) -> AgentDefinition:
    """The agent by the name that it has with its plugin, without what a plugin's agent may not say."""
    refused = [key for key in ("hooks", "mcpServers", "permissionMode") if agent.values.get(key)]
    return replace(
        agent,
        name=f"{plugin.name}:{agent.name}",
        body=put_in(agent.body, plugin.variables),
        mode=None,
        hooks={},
        servers=None,
        own_servers={},
        values={key: value for key, value in agent.values.items() if key not in refused},
        problems=(*agent.problems, *(f"`{key}` counts for nothing in a plugin" for key in refused)),
    )


def _files(place: SkillPlace) -> Iterator[tuple[Path, AgentScope, Plugin | None]]:
    places: list[tuple[Path, AgentScope]] = [(place.managed / "agents", "managed")]
    if place.trusted:
        places += [(folder / ".claude" / "agents", "project") for folder in project_folders(place.cwd, place.project)]
    for folder, scope in (*places, (place.users / "agents", "user")):
        yield from ((file, scope, None) for file in _files_in(folder))
    for plugin in place.plugins:
        yield from ((file, "plugin", plugin) for folder in plugin.agents for file in _files_in(folder))


def crowded_agents(place: SkillPlace) -> list[str]:
    """Say of which folders not all agents are taken."""
    folders = [place.managed / "agents", place.users / "agents"]
    folders += (
        [each / ".claude" / "agents" for each in project_folders(place.cwd, place.project)] if place.trusted else []
    )
    folders += [folder for plugin in place.plugins for folder in plugin.agents]
    return [
        notice
        for folder in folders
        for notice in crowded(folder, len(files_in(folder, "**/*.md")), MAX_AGENTS, "agents")
    ]


def _files_in(folder: Path) -> list[Path]:
    if folder.suffix == ".md" and folder.is_file():  # a plugin may name files
        return [folder]
    return files_in(folder, "**/*.md")[:MAX_AGENTS]
