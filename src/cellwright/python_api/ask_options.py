"""The options of `ask`, `stream`, `Agent` and `map`: their defaults, and what is said where one cannot be meant so."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec.structs import replace

from cellwright.agent.calls.permission_callback import permission_callback
from cellwright.agent.structured_output import AnswerType, answer_type
from cellwright.agent.tool import Tool
from cellwright.config.settings.option_table import BY_NAME, COUNT, OPTIONS, TEXT, Option
from cellwright.conversation.runs.run_options import RunOptions, given_agents, options_of
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.features.mcp.discovery import bad_servers, named_servers, server_file
from cellwright.sessions.session import Session

if TYPE_CHECKING:
    from types import ModuleType

    from cellwright.agent.calls.approval import CanUseTool
    from cellwright.agent.hooks.callbacks import HookCallbacks


class SharedSession(Enum):
    SESSION = "the conversation's own session"


SHARED: Final = SharedSession.SESSION


PROGRAMS_OWN = (
    Option("can_use_tool", "", TEXT._replace(annotation="PermissionCallback | None", fits=lambda _value: True), ""),
    Option("output_schema", "", BY_NAME["schema"].kind, ""),
)
"""The options that only a program can give."""

SESSION = Option(
    "session",
    "",
    TEXT._replace(
        annotation="Session | str | SharedSession | None",
        fits=lambda value: value is None or isinstance(value, Session | str | SharedSession),
        expected="a `Session`, a session's id, or None for one that is kept nowhere",
    ),
    "",
    default=SHARED,
)

AGENT_ROWS = (*(option for option in OPTIONS if option.python), *PROGRAMS_OWN)
AGENT_DEFAULTS: Mapping[str, Any] = {option.name: option.default for option in AGENT_ROWS}
MAP_DEFAULTS: Mapping[str, Any] = {option.name: option.default for option in AGENT_ROWS if option.in_map}
ASK_DEFAULTS: Mapping[str, Any] = {**AGENT_DEFAULTS, SESSION.name: SESSION.default}

CONCURRENCY = Option("concurrency", "", COUNT.meaning("a whole number of prompts"), "", default=8, above_zero=True)
OF_ALL_PROMPTS: Mapping[str, Any] = {CONCURRENCY.name: CONCURRENCY.default, "budget": None}
"""The options of `map` that hold for its prompts together."""

_ROWS = {option.name: option for option in (*AGENT_ROWS, SESSION, CONCURRENCY)}


Function = TypeVar("Function", bound=Callable[..., Any])


def spelled_out(defaults: Mapping[str, Any]) -> Callable[[Function], Function]:
    """Show each option of `defaults` in a function's signature, in the place of `**options`, for `ask?` and completion."""

    def decorate(function: Function) -> Function:
        signature = inspect.signature(function)
        own = [each for each in signature.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
        options = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default)
            for name, default in defaults.items()
        ]
        function.__signature__ = signature.replace(parameters=[*own, *options])  # type: ignore[attr-defined]
        return function

    return decorate


def checked_options(options: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The options, as plain values of their types.

    Raises TypeError for an option that there is not or that is of another type, CellwrightError for a wrong value.
    """
    if unknown := set(options) - set(defaults):
        raise TypeError(f"unknown option: {', '.join(sorted(unknown))}; there are {', '.join(defaults)}")
    for name, value in options.items():
        option = _ROWS[name]
        fits = _are_tools if name == "tools" else option.kind.fits
        if not fits(value):
            what = option.kind.expected
            raise TypeError(f"{name} is {value!r:.200} ({type(value).__name__}); it is {what}. Nothing was sent.")
        if option.above_zero and value is not None and not value > 0:
            message = f"{name} is {value!r}; it is greater than 0. Nothing was sent."
            raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
        if option.python_names and value not in (None, *option.python_names):
            message = f"{name} is {value!r}; it is {option.kind.expected}. Nothing was sent."
            raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    return {name: _ROWS[name].kind.plain(value) for name, value in options.items()}


def _are_tools(value: Any) -> bool:
    if not isinstance(value, Sequence) or isinstance(value, str | bytes):
        return False
    return all(isinstance(each, Tool | str) or _user_tools().is_sdk_tool(each) for each in value)


def _user_tools() -> ModuleType:
    from cellwright.config import user_tools  # few programs have tools or servers of claude-agent-sdk

    return user_tools


def own_tools(tools: Sequence[Any]) -> tuple[Tool, ...]:
    """The tools among tools and names, claude-agent-sdk's as ours. Raises CellwrightError for one that cannot be used."""
    given = [each for each in tools if not isinstance(each, str)]
    if all(isinstance(each, Tool) for each in given):
        return tuple(given)
    return tuple(map(_user_tools().as_tool, given))


def _apart(given: Mapping[str, Any] | str | Path) -> tuple[Mapping[str, Any] | str | Path, list[Tool]]:
    """The servers that are programs or addresses, and the tools of those in this process. Raises CellwrightError."""
    if not isinstance(given, Mapping):
        return given, []
    entries = given.get("mcpServers", given)
    if not isinstance(entries, Mapping) or not any(map(_is_in_process, entries.values())):
        return given, []
    server_tools = _user_tools().server_tools
    tools = [tool for name, each in entries.items() if _is_in_process(each) for tool in server_tools(name, each)]
    return {name: each for name, each in entries.items() if not _is_in_process(each)}, tools


def _is_in_process(entry: Any) -> bool:
    return isinstance(entry, Mapping) and entry.get("type") == "sdk"


def answer_type_of(options: Mapping[str, Any]) -> AnswerType | None:
    """The type of the answer that `output_schema`, or `schema`, asks for; None for text. Raises as `answer_type`."""
    given = [options[name] for name in ("output_schema", "schema") if options.get(name) is not None]
    if len(given) == 2:
        raise TypeError("output_schema and schema are two names of one option: give one of them. Nothing was sent.")
    if not given:
        return None
    schema = given[0]
    if (
        isinstance(schema, Mapping)
        and schema.get("type") == "json_schema"
        and isinstance(schema.get("schema"), Mapping)
    ):
        schema = schema["schema"]  # as the Messages API and claude-agent-sdk wrap it
    return answer_type(schema)


def callback_of(options: Mapping[str, Any]) -> CanUseTool | None:
    """The `can_use_tool` of a run. Raises TypeError."""
    given = options.get("can_use_tool")
    return None if given is None else permission_callback(given)


def run_options(
    options: Mapping[str, Any], typed: AnswerType | None, cwd: Path, environ: Mapping[str, str]
) -> RunOptions:
    """The options of a run, from those that were given and checked. Raises TypeError and CellwrightError."""
    given = {name: value for name, value in options.items() if name in BY_NAME and name not in ("tools", "schema")}
    for name, take in (("hooks", _hooks), ("agents", agents_of)):
        if name in given:
            given[name] = take(given[name])
    tools = list(options.get("tools", ()))
    if "mcp_servers" in given:
        entries, in_process = _apart(given["mcp_servers"])
        given["mcp_servers"] = given_servers(entries, cwd, environ)
        tools += in_process
    return replace(
        options_of(given),
        tools=own_tools(tools),
        tool_names=tuple(tool for tool in tools if isinstance(tool, str)),
        proposes_files=False,
        answer_type=typed,
    )


def _hooks(given: Mapping[str, Any]) -> HookCallbacks:
    """Hooks as ours take them; a matcher of another library's counts by its fields. Raises TypeError."""
    if not given:
        return {}
    from cellwright.agent.hooks.callbacks import HookMatcher  # few runs have hooks of a program's

    made: dict[str, list[Any]] = {}
    for event, entries in given.items():
        if isinstance(entries, str | Mapping) or not isinstance(entries, Sequence):
            raise TypeError(f"hooks[{event!r}] is {entries!r:.200}; it is a list of `HookMatcher`s or functions.")
        made[event] = [_hook(event, entry, HookMatcher) for entry in entries]
    return made


def _hook(event: str, entry: Any, matcher: type[Any]) -> Any:
    if isinstance(entry, matcher):
        hooks = entry.hooks
    elif hasattr(entry, "matcher") and hasattr(entry, "hooks"):
        hooks = entry.hooks
        entry = matcher(entry.matcher, hooks, getattr(entry, "timeout", None))
    else:
        hooks = [entry]
    for hook in hooks if isinstance(hooks, Sequence) else [hooks]:
        if not callable(hook):
            raise TypeError(f"hooks[{event!r}] holds {hook!r:.200}; a hook is a coroutine function.")
    return entry


def agents_of(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The agents that are given as definitions. Raises CellwrightError INVALID_PARAMETERS for one that cannot be used."""

    def bad(name: str, problem: str) -> CellwrightError:
        message = f"agents[{name!r}] cannot be used: {problem}. Nothing was sent."
        return CellwrightError(ErrorCode.INVALID_PARAMETERS, message)

    return given_agents(given, bad)


def given_servers(given: Mapping[str, Any] | str | Path, cwd: Path, environ: Mapping[str, str]) -> Mapping[str, Any]:
    """The entries of MCP servers. Raises CellwrightError INVALID_PARAMETERS for one that cannot be used."""
    content = server_file(Path(given).expanduser().absolute()) if isinstance(given, str | Path) else given
    entries = content.get("mcpServers", content)
    for name, entry in entries.items() if isinstance(entries, Mapping) else ():
        if _is_in_process(entry):
            raise bad_servers(f"{name} is a server in a program's process, which a file cannot name")
    return named_servers(entries, cwd, environ)
