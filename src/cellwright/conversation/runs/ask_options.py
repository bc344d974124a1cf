"""The options of `ask`, `stream` and `Agent`: their defaults, and what is said where one of them cannot be meant so."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypedDict, TypeVar

from cellwright.agent.calls.permission_callback import PermissionCallback, permission_callback
from cellwright.agent.structured_output.typed_answer import AnswerType, answer_type
from cellwright.agent.tool import Tool
from cellwright.config.agents.agent_definition import AgentDefinition, NoAgent, given_definition
from cellwright.config.mcp.entries import ServerOrigin, read_entries
from cellwright.config.mcp.find_servers import read_json
from cellwright.conversation.prompts.mcp.discovery import ARGUMENT
from cellwright.conversation.runs.option_values import ON_DENIED, OnDenied
from cellwright.conversation.runs.run_options import RunOptions, existing_folder
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.model.models import PROVIDERS, ProviderName
from cellwright.sessions.session import Session

if TYPE_CHECKING:
    from cellwright.agent.calls.approval import CanUseTool
    from cellwright.agent.hooks.callbacks import HookCallbacks


class SharedSession(Enum):
    SESSION = "the conversation's own session"


SHARED: Final = SharedSession.SESSION


class AgentOptions(TypedDict, total=False):
    """The options of a prompt to an agent, besides the prompt."""

    model: str | None
    mode: str | None
    tools: Sequence[Tool | str]
    builtin_tools: bool
    can_use_tool: PermissionCallback | None
    hooks: HookCallbacks
    agents: Mapping[str, Any]
    agent: str | None
    mcp_servers: Mapping[str, Any] | str | Path
    allow: Sequence[str]
    deny: Sequence[str]
    add_dirs: Sequence[str | Path]
    on_denied: OnDenied | None
    max_turns: int | None
    budget: float | None
    effort: str | None
    provider: ProviderName | None
    fallback_models: Sequence[str]
    context: str | None
    system_prompt: str | None
    append_system_prompt: str
    max_tokens: int | None
    max_parallel_tools: int | None
    tool_timeout: float | None
    output_schema: Any
    schema: Any


class AskOptions(AgentOptions, total=False):
    """The options of `ask` and `stream`, besides the prompt."""

    session: Session | str | SharedSession | None


AGENT_DEFAULTS: AgentOptions = {
    "model": None,
    "mode": None,
    "tools": (),
    "builtin_tools": True,
    "can_use_tool": None,
    "hooks": {},
    "agents": {},
    "agent": None,
    "mcp_servers": {},
    "allow": (),
    "deny": (),
    "add_dirs": (),
    "on_denied": None,
    "max_turns": None,
    "budget": None,
    "effort": None,
    "provider": None,
    "fallback_models": (),
    "context": None,
    "system_prompt": None,
    "append_system_prompt": "",
    "max_tokens": None,
    "max_parallel_tools": None,
    "tool_timeout": None,
    "output_schema": None,
    "schema": None,
}
ASK_DEFAULTS: AskOptions = {**AGENT_DEFAULTS, "session": SHARED}

_Is = Callable[[Any], bool]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _are(kinds: type | tuple[type, ...]) -> _Is:
    def check(value: Any) -> bool:
        is_list = isinstance(value, Sequence) and not isinstance(value, str | bytes)
        return is_list and all(isinstance(each, kinds) for each in value)

    return check


def _or_none(check: _Is) -> _Is:
    return lambda value: value is None or check(value)


_KINDS: Mapping[str, tuple[_Is, str]] = {
    "model": (_or_none(_is_text), "the name of a model"),
    "mode": (_or_none(_is_text), "the name of a permission mode"),
    "tools": (
        _are((Tool, str)),
        "a list of tools (`@cellwright.tool` makes one of a function) and names of built-in ones",
    ),
    "builtin_tools": (lambda value: isinstance(value, bool), "True or False"),
    "hooks": (lambda value: isinstance(value, Mapping), "a dict of lists of hooks by their events"),
    "agents": (lambda value: isinstance(value, Mapping), "a dict of definitions by the agents' names"),
    "agent": (_or_none(_is_text), "the name of an agent"),
    "mcp_servers": (
        lambda value: isinstance(value, Mapping | str | Path),
        "a dict as in .mcp.json, or such a file",
    ),
    "allow": (_are(str), "a list of permission rules"),
    "deny": (_are(str), "a list of permission rules"),
    "add_dirs": (_are((str, Path)), "a list of folders"),
    "max_turns": (_or_none(_is_count), "a whole number of requests"),
    "budget": (_or_none(_is_number), "a number of US dollars"),
    "effort": (_or_none(_is_text), "the name of an effort"),
    "fallback_models": (_are(str), "a list of models' names"),
    "system_prompt": (_or_none(_is_text), "a text"),
    "append_system_prompt": (_is_text, "a text"),
    "max_tokens": (_or_none(_is_count), "a whole number of tokens"),
    "max_parallel_tools": (_or_none(_is_count), "a whole number of tools"),
    "tool_timeout": (_or_none(_is_number), "a number of seconds"),
    "session": (
        lambda value: value is None or isinstance(value, Session | str | SharedSession),
        "a `Session`, a session's id, or None for one that is kept nowhere",
    ),
}
"""The type of each option; those that are not here say themselves what is wrong with them."""

_ABOVE_ZERO = ("max_turns", "budget", "max_tokens", "max_parallel_tools", "tool_timeout")

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


def check_options(options: Mapping[str, Any], defaults: Mapping[str, Any]) -> None:
    """Raises TypeError for an option that there is not or that is of another type, CellwrightError for a wrong value."""
    if unknown := set(options) - set(defaults):
        raise TypeError(f"unknown option: {', '.join(sorted(unknown))}; there are {', '.join(defaults)}")
    for name, value in options.items():
        fits, what = _KINDS.get(name, (lambda _value: True, ""))
        if not fits(value):
            raise TypeError(f"{name} is {value!r:.200} ({type(value).__name__}); it is {what}. Nothing was sent.")
        if name in _ABOVE_ZERO and value is not None and not value > 0:
            message = f"{name} is {value!r}; it is greater than 0. Nothing was sent."
            raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    if options.get("on_denied") not in (None, *ON_DENIED):
        message = f"on_denied is {options['on_denied']!r}; it is one of {', '.join(ON_DENIED)}. Nothing was sent."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    if options.get("context") not in (None, "code"):
        message = f'context is {options["context"]!r}; it is "code" or None. Nothing was sent.'
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    if options.get("provider") not in (None, *PROVIDERS):
        message = f"provider is {options['provider']!r}; it is one of {', '.join(PROVIDERS)}. Nothing was sent."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)


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
    given: AskOptions = {**ASK_DEFAULTS, **options}  # type: ignore[typeddict-item]
    return RunOptions(
        model=given["model"],
        mode=given["mode"],
        tools=tuple(tool for tool in given["tools"] if not isinstance(tool, str)),
        tool_names=tuple(tool for tool in given["tools"] if isinstance(tool, str)),
        builtin_tools=given["builtin_tools"],
        hooks=_hooks(given["hooks"]),
        agents=given_agents(given["agents"]),
        agent=given["agent"],
        mcp_servers=given_servers(given["mcp_servers"], cwd, environ),
        allow=tuple(given["allow"]),
        deny=tuple(given["deny"]),
        add_dirs=tuple(map(existing_folder, given["add_dirs"])),
        on_denied=given["on_denied"],
        max_turns=given["max_turns"],
        budget_usd=given["budget"],
        effort=given["effort"],
        provider=given["provider"],
        fallback_models=tuple(given["fallback_models"]) or None,
        code_context=given["context"] == "code",
        system_prompt=given["system_prompt"],
        append_system_prompt=given["append_system_prompt"],
        max_tokens=given["max_tokens"],
        max_parallel_tools=given["max_parallel_tools"],
        tool_timeout=given["tool_timeout"],
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


def given_agents(given: Mapping[str, Any]) -> dict[str, AgentDefinition]:
    """The agents that are given as definitions. Raises CellwrightError INVALID_PARAMETERS for one that cannot be used."""
    found: dict[str, AgentDefinition] = {}
    for name, each in given.items():
        try:
            found[name] = given_definition(str(name), each)
        except NoAgent as problem:
            message = f"agents[{name!r}] cannot be used: {problem}. Nothing was sent."
            raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message) from None
    return found


def given_servers(given: Mapping[str, Any] | str | Path, cwd: Path, environ: Mapping[str, str]) -> Mapping[str, Any]:
    """The entries of MCP servers. Raises CellwrightError INVALID_PARAMETERS for one that cannot be used."""
    problems: list[str] = []
    if isinstance(given, str | Path):
        file = Path(given).expanduser().absolute()
        content = read_json(file, problems)
        if content is None:
            raise _bad_servers(problems[0] if problems else f"there is no file {file}")
        given = content
    entries = given.get("mcpServers", given)
    for name, entry in entries.items() if isinstance(entries, Mapping) else ():
        if isinstance(entry, Mapping) and entry.get("type") == "sdk":
            raise _bad_servers(f"{name} is a server in this process: its tools go into `tools=`, as `@cellwright.tool`")
    read = read_entries(entries, ServerOrigin(scope="flag", label=ARGUMENT, cwd=cwd), environ)
    if not isinstance(entries, Mapping) or set(entries) - set(read.entries):
        raise _bad_servers(read.notices[0].removeprefix(f"{ARGUMENT}: ").removesuffix(" It is left out."))
    return entries


def _bad_servers(what: str) -> CellwrightError:
    return CellwrightError(ErrorCode.INVALID_PARAMETERS, f"{ARGUMENT}: {what.removesuffix('.')}. Nothing was sent.")
