"""`ClaudeAgentOptions` as the options of `cellwright.Agent`: what works, what has no effect, and what is refused.

An option that would be silently different is none: what has no effect is warned of, and what would do harm if it were left
out is refused, each with what to do. `OPTIONS` is the table in docs/coming-from-claude-agent-sdk.md. `tool` and
`create_sdk_mcp_server` make tools of the program's own functions.
"""

from __future__ import annotations

import functools
import json
import warnings
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from cellwright.agent.calls.permission_callback import ToolPermissionContext as OurContext
from cellwright.agent.hooks.callbacks import HookMatcher as OurMatcher
from cellwright.claude_agent_sdk.loops import CallersLoop
from cellwright.claude_agent_sdk.types import (
    CanUseToolShadowedWarning,
    ClaudeAgentOptions,
    CLIConnectionError,
    McpSdkServerConfig,
    PermissionUpdate,
    ToolPermissionContext,
)
from cellwright.config.user_tools import server_tools

T = TypeVar("T")

_SPELLINGS = {
    "read_only_hint": "readOnlyHint",
    "destructive_hint": "destructiveHint",
    "idempotent_hint": "idempotentHint",
    "open_world_hint": "openWorldHint",
    "max_result_size_chars": "maxResultSizeChars",
}


class ToolAnnotations:
    """Hints about a tool, in either spelling: `readOnlyHint=True` or `read_only_hint=True`. What is not given is None."""

    def __init__(self, **hints: Any) -> None:
        self.title: str | None = None
        for wire in _SPELLINGS.values():
            setattr(self, wire, None)
        for name, value in hints.items():
            setattr(self, _SPELLINGS.get(name, name), value)

    def __getattr__(self, name: str) -> Any:
        if name in _SPELLINGS:
            return getattr(self, _SPELLINGS[name])
        raise AttributeError(name)

    def __repr__(self) -> str:
        given = {name: value for name, value in vars(self).items() if value is not None}
        return f"ToolAnnotations({', '.join(f'{name}={value!r}' for name, value in given.items())})"


@dataclass
class SdkMcpTool(Generic[T]):
    """A tool: `await handler(input)` gives `{"content": [...]}`, with `"is_error": True` for a failure."""

    name: str
    description: str
    input_schema: type[T] | dict[str, Any]
    handler: Callable[[T], Awaitable[dict[str, Any]]]
    annotations: Any = None


def tool(
    name: str, description: str, input_schema: type | dict[str, Any], annotations: Any = None
) -> Callable[[Callable[[Any], Awaitable[dict[str, Any]]]], SdkMcpTool[Any]]:
    """Make a tool of a coroutine function that takes a dict.

    `input_schema` is a dict of types by parameter, a TypedDict, or a JSON schema.

    >>> @tool("add", "Add two numbers", {"a": float, "b": float})
    ... async def add(args):
    ...     return {"content": [{"type": "text", "text": str(args["a"] + args["b"])}]}
    >>> add.name
    'add'
    """

    def make(handler: Callable[[Any], Awaitable[dict[str, Any]]]) -> SdkMcpTool[Any]:
        return SdkMcpTool(name, description, input_schema, handler, annotations)

    return make


@dataclass(frozen=True)
class InProcessServer:
    """The `instance` of a server that `create_sdk_mcp_server` makes: its tools, which are called as functions."""

    name: str
    version: str
    sdk_tools: tuple[SdkMcpTool[Any], ...]


def create_sdk_mcp_server(
    name: str, version: str = "1.0.0", tools: list[SdkMcpTool[Any]] | None = None
) -> McpSdkServerConfig:
    """Put tools together as an MCP server in this process, for `mcp_servers={"key": …}`: `mcp__key__tool`."""
    return McpSdkServerConfig(type="sdk", name=name, instance=InProcessServer(name, version, tuple(tools or ())))


class Option(NamedTuple):
    """The state of an option: it works, it has no effect (and warns), or it is refused; `how` says more of it."""

    becomes: Literal["works", "warns", "refused"]
    how: str


OPTIONS: Mapping[str, Option] = {
    "tools": Option("works", "the built-in tools that there are; `[]` for none"),
    "allowed_tools": Option("works", "permission rules that allow"),
    "system_prompt": Option("works", "a text, a preset with `append`, a file; None is Cellwright's own prompt"),
    "mcp_servers": Option("works", "programs, addresses, servers in this process; a dict, JSON, or a file"),
    "strict_mcp_config": Option("works", "only the servers of `mcp_servers`"),
    "permission_mode": Option("works", "`auto` is taken as `default`, with a warning"),
    "continue_conversation": Option("works", "the newest session of the folder"),
    "resume": Option("works", "the session of this id, Claude Code's included"),
    "session_id": Option("works", "the id of the new session, a UUID"),
    "max_turns": Option("works", "requests to the model"),
    "max_budget_usd": Option("works", "checked before a request that would pass it"),
    "disallowed_tools": Option("works", "permission rules that deny"),
    "model": Option("works", "a name or an alias"),
    "fallback_model": Option("works", "several with commas"),
    "betas": Option("warns", "what requests need is sent with them"),
    "permission_prompt_tool_name": Option("works", "a tool of an MCP server that is asked in place of `can_use_tool`"),
    "cwd": Option("works", "the folder that is worked in"),
    "cli_path": Option("warns", "there is no program to start"),
    "settings": Option("works", "a file, JSON, or a dict"),
    "add_dirs": Option("works", "folders to work in besides"),
    "env": Option("works", "the setting `env`: for the way to the model, and for commands"),
    "extra_args": Option("works", "`replay-user-messages` and `no-session-persistence`; others are warned of"),
    "max_buffer_size": Option("warns", "nothing is read from a program"),
    "debug_stderr": Option("warns", "use `stderr`"),
    "stderr": Option("works", "is given each notice as a line"),
    "can_use_tool": Option("works", "asked on your loop for what no rule decides"),
    "hooks": Option("works", "called on your loop; one that fails at PreToolUse or UserPromptSubmit blocks"),
    "user": Option("refused", "everything is done as the user of this process; start it as that user"),
    "include_partial_messages": Option("works", "`StreamEvent`s"),
    "include_hook_events": Option("warns", "what hooks say comes as a `SystemMessage`"),
    "forward_subagent_text": Option("works", "text and thinking of agents"),
    "verbatim_prompts": Option("works", "no `@file`, no slash commands"),
    "fork_session": Option("works", "a copy of the session of `resume`"),
    "resume_session_at": Option("refused", 'fork at a prompt: `resume=cellwright.Catalog().fork("ID", turn=3).id`'),
    "resume_drops_turn": Option("refused", "goes with `resume_session_at`"),
    "agents": Option("works", "`AgentDefinition`s or dicts"),
    "setting_sources": Option("works", "a project's own configuration counts once its folder is trusted"),
    "skills": Option("works", '`"all"`, or names: Claude learns only of these'),
    "sandbox": Option("works", "the setting `sandbox`"),
    "plugins": Option("works", "folders of plugins; your program vouches for them"),
    "max_thinking_tokens": Option("works", "the variable MAX_THINKING_TOKENS"),
    "thinking": Option("works", "adaptive, enabled with a budget, disabled; its `display`"),
    "effort": Option("works", "low to max"),
    "output_format": Option("works", "a JSON schema; the value is `structured_output`"),
    "enable_file_checkpointing": Option("works", "always on"),
    "session_store": Option("refused", "sessions are files below `$CELLWRIGHT_HOME`; copy them from there"),
    "session_store_flush": Option("warns", "goes with `session_store`"),
    "load_timeout_ms": Option("warns", "goes with `session_store`"),
    "task_budget": Option("warns", "use `max_budget_usd`, which stops the run"),
    "client_app": Option("warns", "requests name Cellwright"),
}
"""One for each field of `ClaudeAgentOptions`."""

KNOWN_ARGUMENTS = ("replay-user-messages", "no-session-persistence")
"""The `extra_args` that have an effect."""


def given_options(options: Any) -> dict[str, Any]:
    """The options that differ from their defaults; they may be the SDK's own. Raises CLIConnectionError, ValueError."""
    found: dict[str, Any] = {}
    for each in fields(ClaudeAgentOptions):
        value = getattr(options, each.name, None)
        usual = each.default_factory() if each.default_factory is not MISSING else each.default
        if value is not usual and value != usual and value is not None:
            found[each.name] = value
    found.pop("debug_stderr", None) if hasattr(found.get("debug_stderr"), "write") else None
    for name in found:
        option = OPTIONS[name]
        if option.becomes == "refused":
            raise CLIConnectionError(f"ClaudeAgentOptions.{name} is not there: {option.how}. Nothing was sent.")
        if option.becomes == "warns":
            warnings.warn(f"ClaudeAgentOptions.{name} has no effect: {option.how}.", UserWarning, stacklevel=4)
    if unknown := [name for name in found.get("extra_args", ()) if name not in KNOWN_ARGUMENTS]:
        text = (
            f"extra_args {', '.join(map(repr, unknown))} have no effect; those that have: {', '.join(KNOWN_ARGUMENTS)}."
        )
        warnings.warn(text, UserWarning, stacklevel=4)
    if "can_use_tool" in found:
        if "permission_prompt_tool_name" in found:
            raise ValueError("can_use_tool and permission_prompt_tool_name say who is asked: give one of them.")
        _warn_of_shadowed(found)
    return found


def _warn_of_shadowed(found: Mapping[str, Any]) -> None:
    """Warn of calls that `can_use_tool` is not asked about."""
    if found.get("permission_mode") == "bypassPermissions":
        what = "any call: the mode bypassPermissions allows them all"
    elif whole := [rule for rule in found.get("allowed_tools", ()) if "(" not in rule or rule.endswith(("()", "(*)"))]:
        what = f"{', '.join(dict.fromkeys(whole))}: allowed_tools allows every call of them"
    else:
        return
    text = f"can_use_tool is not asked about {what}. Use a PreToolUse hook for each call, or rules that allow less."
    warnings.warn(text, CanUseToolShadowedWarning, stacklevel=5)


def agent_options(given: Mapping[str, Any], loop: CallersLoop) -> dict[str, Any]:
    """The keywords of `cellwright.Agent`, but for the session. Callbacks run on `loop`. Raises CLIConnectionError."""
    made: dict[str, Any] = {"settings": _settings(given), "setting_sources": given.get("setting_sources")}
    for theirs, ours in _SAME.items():
        if theirs in given:
            made[ours] = given[theirs]
    if "plugins" in given:
        made["plugins"] = [_plugin(each) for each in given["plugins"]]
    allowed = [rule for rule in given.get("allowed_tools", ()) if rule.strip()]
    if (skills := given.get("skills")) is not None:
        allowed += ["Skill"] if skills == "all" else [f"Skill({name})" for name in skills]
    made |= {"allow": allowed} if allowed else {}
    if "fallback_model" in given:
        made["fallback_models"] = [name.strip() for name in given["fallback_model"].split(",")]
    if given.get("permission_mode") == "auto":
        warnings.warn("The permission mode auto is taken as default, which asks.", UserWarning, stacklevel=4)
        made["mode"] = "default"
    made |= _system_prompt(given.get("system_prompt"))
    own = own_server_names(given)
    tools: list[Any] = [tool for name in own for tool in server_tools(name, given["mcp_servers"][name], loop.run)]
    names = given.get("tools")
    if isinstance(names, list):
        made["builtin_tools"] = False
        tools += ["default"] if names == ["default"] else names
        made |= {"builtin_tools": True} if names == ["default"] else {}
        tools = [each for each in tools if each != "default"]
    made |= {"tools": tools} if tools else {}
    if "can_use_tool" in given:
        made["can_use_tool"] = _permissions(given["can_use_tool"], loop)
    if "hooks" in given:
        made["hooks"] = {event: [_hook(each, loop) for each in entries] for event, entries in given["hooks"].items()}
    return made


_SAME = {
    "cwd": "cwd",
    "model": "model",
    "effort": "effort",
    "max_turns": "max_turns",
    "max_budget_usd": "budget",
    "permission_mode": "mode",
    "disallowed_tools": "deny",
    "add_dirs": "add_dirs",
    "agents": "agents",
    "output_format": "output_schema",
}
"""Options that are ours by another name."""


def servers(given: Mapping[str, Any]) -> dict[str, Any] | Path:
    """The servers of `mcp_servers` that are no part of this process, or their file. Raises CLIConnectionError."""
    entries = given.get("mcp_servers", {})
    if isinstance(entries, Path):
        return entries
    if isinstance(entries, str):
        return _json(entries, "mcp_servers") if entries.lstrip().startswith("{") else Path(entries)
    return {name: each for name, each in entries.items() if not _is_in_process(each)}


def own_server_names(given: Mapping[str, Any]) -> list[str]:
    """The keys of the servers in this process."""
    entries = given.get("mcp_servers", {})
    return [name for name, each in entries.items() if _is_in_process(each)] if isinstance(entries, Mapping) else []


def _is_in_process(entry: Any) -> bool:
    return isinstance(entry, Mapping) and entry.get("type") == "sdk"


def _json(text: str, name: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise CLIConnectionError(f"{name} is no JSON: {error}. Nothing was sent.") from None
    if not isinstance(value, dict):
        raise CLIConnectionError(f"{name} is {type(value).__name__}; it is a JSON object. Nothing was sent.")
    return value


def _settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that the options come to."""
    said = given.get("settings", {})
    if isinstance(said, str | Path):
        text = str(said)
        try:
            text = text if text.lstrip().startswith("{") else Path(text).expanduser().read_text("utf-8")
        except OSError as error:
            raise CLIConnectionError(f"settings cannot be read: {error}. Nothing was sent.") from None
        said = _json(text, "settings")
    made = {**said}
    env = {**made.get("env", {}), **given.get("env", {})}
    if (tokens := given.get("max_thinking_tokens")) is not None:
        env["MAX_THINKING_TOKENS"] = str(tokens)
    if (thinking := given.get("thinking")) is not None:
        made["alwaysThinkingEnabled"] = thinking["type"] != "disabled"
        env.pop("MAX_THINKING_TOKENS", None)
        if thinking["type"] == "enabled":
            env["MAX_THINKING_TOKENS"] = str(thinking["budget_tokens"])
        if "display" in thinking:
            made["showThinkingSummaries"] = thinking["display"] == "summarized"
    made |= {"env": env} if env else {}
    made |= {"sandbox": {**made.get("sandbox", {}), **given["sandbox"]}} if "sandbox" in given else {}
    made |= {"fileCheckpointingEnabled": True} if "enable_file_checkpointing" in given else {}
    return made


def _plugin(entry: Any) -> Path:
    if not isinstance(entry, Mapping) or entry.get("type") != "local" or "path" not in entry:
        raise CLIConnectionError(f"plugins holds {entry!r:.200}; an entry has the type local and a path.")
    return Path(entry["path"]).expanduser()


def _system_prompt(given: Any) -> dict[str, Any]:
    match given:
        case None:
            return {}
        case str():
            return {"system_prompt": given} if given else {}
        case {"type": "preset", **rest}:
            return {"append_system_prompt": rest["append"]} if rest.get("append") else {}
        case {"type": "custom", "prompt": str(prompt)}:
            return {"system_prompt": prompt}
        case {"type": "file", "path": path}:
            try:
                return {"system_prompt": Path(path).expanduser().read_text("utf-8")}
            except OSError as error:
                raise CLIConnectionError(f"system_prompt cannot be read: {error}. Nothing was sent.") from None
        case _:
            raise CLIConnectionError(f"system_prompt is {given!r:.200}; it is a text, or a dict with its `type`.")


def _permissions(callback: Callable[..., Any], loop: CallersLoop) -> Callable[..., Any]:
    async def can_use_tool(name: str, given: dict[str, Any], context: OurContext) -> Any:
        theirs = ToolPermissionContext(
            suggestions=[PermissionUpdate.from_dict(each) for each in context.suggestions],
            tool_use_id=context.tool_use_id,
            agent_id=context.agent_id,
            blocked_path=context.blocked_path,
            decision_reason=context.decision_reason,
            title=context.title,
            display_name=context.display_name,
            description=context.description,
        )
        return await loop.run(callback, name, given, theirs)

    return can_use_tool


def _hook(entry: Any, loop: CallersLoop) -> OurMatcher:
    """A matcher whose hooks run on `loop`."""
    hooks = getattr(entry, "hooks", None)
    if hooks is None:
        hooks, entry = [entry], OurMatcher()

    def on_loop(callback: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(callback)
        async def call(*arguments: Any) -> Any:
            return await loop.run(callback, *arguments)

        return call

    return OurMatcher(
        entry.matcher, [on_loop(each) for each in hooks], entry.timeout, getattr(entry, "on_failure", None)
    )
