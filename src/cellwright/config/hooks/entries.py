"""Hooks as settings files write them: read into entries, and put in words for the user who is to consent.

What is broken is named, left out alone, and the rest kept. The words are made from the entry that runs, by its type,
never from the file: a field that decides nothing is not shown, and one that decides something is. Each text is whole,
and reads like no other (`exact`).
"""

from __future__ import annotations

import abc
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from cellwright.agent.hooks.callbacks import MATCHED_FIELDS, matcher_problem, matches
from cellwright.agent.hooks.protocol import EVENTS
from cellwright.agent.tool import own_tool_name
from cellwright.config.trust.exact_text import block, exact, exact_json, program_lines
from cellwright.permissions.rules.rule import RULE_NAMES
from cellwright.redaction.redaction import is_secret
from cellwright.text import lazy_pattern

_VARIABLE = lazy_pattern(r"\$(?:\{(\w+)\}|(\w+))")


TOOL_EVENTS = frozenset(event for event, field_ in MATCHED_FIELDS.items() if field_ == "tool_name")
"""The events whose hooks may have an `if`."""

STARTING = frozenset({"SessionStart", "Setup"})
MODEL_EVENTS = frozenset(
    {
        *("PermissionDenied", "PermissionRequest", "PostToolBatch", "PostToolUse", "PostToolUseFailure", "PreToolUse"),
        *("Stop", "SubagentStop", "TaskCreated", "TaskCompleted", "TeammateIdle"),
        *("UserPromptExpansion", "UserPromptSubmit"),
    }
)
"""The events about which a model may be asked."""

_RULE = lazy_pattern(r"(?P<name>\w+)\(.*\)")

NEVER_BLOCKED_BY_FAILURE = frozenset({"Stop", "SubagentStop", "TaskCompleted", "TeammateIdle"})

_SECONDS = {"prompt": 30.0, "agent": 60.0}
_SECONDS_BY_EVENT = {"UserPromptSubmit": 30.0, "MessageDisplay": 10.0, "SessionEnd": 1.5}
_DEFAULT_SECONDS = 600.0
_MAX_SECONDS = {"SessionEnd": 60.0}

NOT_SHOWN = frozenset({"identity", "source", "from_project", "secrets", "variables", "seconds"})
"""Fields that nobody outside receives: which entry it is, whose it is, and its time. `variables` are the plugin's own."""

_PLAIN_MATCHER = lazy_pattern(r"[\w *|,.-]+")
_SHELL_VARIABLE = lazy_pattern(r"\$\{?(?P<name>[A-Za-z_]\w*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class HookEntry(abc.ABC):
    """The base of all hooks. `identity` is the same for equal definitions; `source` says where this one stands.

    `from_project`: it stands in the folder's own settings, so what it runs is the project's code. `secrets` are the user's
    secret variables that it may send; None: all that it names. `variables` are those of the plugin that it comes with;
    `once`: it runs once in a session. `described` shows every field to the user who is to consent.
    """

    identity: str
    source: str
    from_project: bool = False
    secrets: frozenset[str] | None = None
    variables: tuple[tuple[str, str], ...] = ()
    once: bool = False
    matcher: str = ""
    condition: str = ""
    seconds: float = _DEFAULT_SECONDS
    status: str = ""
    blocks_on_failure: bool = False

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """The name people call the hook by."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandHook(HookEntry):
    """A program: `command` for a shell, or, where `args` is given, a program's name and its arguments."""

    command: str
    args: tuple[str, ...] | None = None
    powershell: bool = False
    in_background: bool = False
    wakes: bool = False

    @property
    def name(self) -> str:
        return " ".join([self.command, *(self.args or ())])


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpHook(HookEntry):
    """An address that gets the event's input."""

    url: str
    headers: tuple[tuple[str, str], ...] = ()
    allowed_env_vars: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        return self.url.partition("?")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class McpToolHook(HookEntry):
    """A tool of an MCP server."""

    server: str
    tool: str
    input: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.server}: {self.tool}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelHook(HookEntry):
    """A question to a model; `looks` lets it use tools that only read before it answers."""

    prompt: str
    model: str = ""
    feeds_back: bool = False
    looks: bool = False

    @property
    def name(self) -> str:
        return " ".join(self.prompt.split())


class Malformed(Exception):
    """Raised for an entry that is left out, with the reason."""


class HooksOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """Whose hooks they are. `strict`: somebody else wrote them, so that one with a field that means nothing is unreadable.

    The rest as in `HookEntry`; `of_component`: they are a skill's or an agent's.
    """

    from_project: bool = False
    strict: bool = False
    secrets: frozenset[str] | None = None
    variables: tuple[tuple[str, str], ...] = ()
    of_component: bool = False


OWN = HooksOrigin()
"""The user's own settings: a field that means nothing is reported, and the hook runs, since it may be a guard."""

_COMMON_FIELDS = frozenset({"type", "if", "timeout", "statusMessage", "once"})
FIELDS: Mapping[str, frozenset[str]] = {
    "command": _COMMON_FIELDS | {"command", "args", "async", "asyncRewake", "shell", "onFailure"},
    "http": _COMMON_FIELDS | {"url", "headers", "allowedEnvVars"},
    "mcp_tool": _COMMON_FIELDS | {"server", "tool", "input"},
    "prompt": _COMMON_FIELDS | {"prompt", "model", "continueOnBlock"},
    "agent": _COMMON_FIELDS | {"prompt", "model", "continueOnBlock"},
}
"""The fields of a hook by its type, as Claude Code has them."""

GROUP_FIELDS = frozenset({"matcher", "hooks", "description"})


class Entries(msgspec.Struct):
    """The hooks of all sources, by event; `problems` are for the user, among them why each of `left_out` is no hook."""

    by_event: dict[str, list[HookEntry]] = msgspec.field(default_factory=dict)
    problems: list[str] = msgspec.field(default_factory=list)
    left_out: list[str] = msgspec.field(default_factory=list)

    def add(self, label: str, events: Mapping[str, Sequence[Any]], origin: HooksOrigin = OWN) -> None:
        """Add what the file named `label` says."""
        for event, groups in events.items():
            if event not in EVENTS:
                self._leave_out(f"{label}: there is no hook event `{event}`; its hooks are left out.")
                continue
            for group in groups:
                self._group(f"{label}: hooks.{event}", event, group, origin)

    def _group(self, place: str, event: str, group: Any, origin: HooksOrigin) -> None:
        raw = group.get("hooks") if isinstance(group, Mapping) else None
        matcher = group.get("matcher") or "" if isinstance(group, Mapping) else ""
        if not isinstance(raw, list) or not isinstance(matcher, str):
            self._leave_out(f'{place}: {_shown(group)} is not {{"matcher": text, "hooks": [...]}}; it is left out.')
            return
        if origin.strict and (unknown := [str(each) for each in group if each not in GROUP_FIELDS]):
            listed = ", ".join(f"`{each[:40]}`" for each in unknown)
            self._leave_out(f"{place}: a group of hooks has no {listed}. {_shown(group)} is left out.")
            return
        if event in MATCHED_FIELDS:
            self.problems += [f"{place}: {problem}" for problem in _matcher_problems(event, matcher)]
        for entry in raw:
            try:
                read = _Fields(entry, place, event, matcher, origin).read()
            except Malformed as problem:
                self._leave_out(f"{place}: {problem}. The hook {_shown(entry)} is left out.")
                continue
            if (odd := odd_fields(entry)) and not origin.strict:
                self.problems.append(f"{place}: {odd}. The hook {_shown(entry)} runs without it.")
            self.by_event.setdefault(event, []).append(read)

    def _leave_out(self, problem: str) -> None:
        self.problems.append(problem)
        self.left_out.append(problem)


def odd_fields(raw: Mapping[str, Any]) -> str:
    """Name the fields of a hook that its type does not have; "" if it has none."""
    kind = raw.get("type")
    if not isinstance(kind, str) or kind not in FIELDS:
        return ""
    odd = [str(each) for each in raw if each not in FIELDS[kind]]
    return f"a hook of the type {kind!r} has no {', '.join(f'`{each[:40]}`' for each in odd)}" if odd else ""


def _matcher_problems(event: str, matcher: str) -> list[str]:
    problem = matcher_problem(matcher)
    runs = "The hook runs for nothing." if problem is None else "The hook runs for everything."
    rule = _RULE.fullmatch(matcher)
    if event in TOOL_EVENTS and rule and own_tool_name(name := rule["name"]) in RULE_NAMES and _misses(matcher, name):
        what = f"`{matcher}` is a permission rule; a hook's matcher names tools (`{name}`), and its `if` takes a rule"
        return [f"{what}. {runs}"]
    return [] if problem is None else [f"the matcher {_shown(matcher)} {problem}. {runs}"]


def _misses(matcher: str, name: str) -> bool:
    """Return whether `matcher`, read as the expression it is, is not about the tool: `Edit(or|)` would be."""
    return matcher_problem(matcher) is not None or not matches(matcher, "PreToolUse", {"tool_name": name})


class _Fields(msgspec.Struct, frozen=True):
    """The fields of one handler."""

    raw: Any
    place: str
    event: str
    matcher: str
    origin: HooksOrigin

    def read(self) -> HookEntry:
        if not isinstance(self.raw, Mapping):
            raise Malformed("a hook is not an object")
        if self.origin.strict and (odd := odd_fields(self.raw)):
            raise Malformed(odd)
        kind = self.raw.get("type")
        makers = {"command": self._command, "http": self._http, "mcp_tool": self._mcp_tool}
        if not isinstance(kind, str):
            raise Malformed(f"no type {kind!r}")
        if kind in ("prompt", "agent") and self.event in MODEL_EVENTS:
            return self._model()
        if kind in makers and (kind != "http" or self.event not in STARTING):
            return makers[kind]()
        known = kind in ("prompt", "agent", "http")
        raise Malformed(f"a hook of the type {kind!r} is not run for {self.event}" if known else f"no type {kind!r}")

    def _common(self, kind: str) -> dict[str, Any]:
        condition = self._get("if", str, "")
        if condition and self.event not in TOOL_EVENTS:
            raise Malformed("`if` is about calls of tools, so here the hook would never run")
        usual = _SECONDS_BY_EVENT.get(self.event, _SECONDS.get(kind, _DEFAULT_SECONDS))
        seconds = self._get("timeout", (int, float), usual)
        if not 0 < seconds < float("inf"):
            raise Malformed(f"`timeout` is {seconds!r}")
        return {
            # plugins may say the same of different files
            "identity": json.dumps([self.raw, self.origin.variables], sort_keys=True),
            "source": self.place,
            "from_project": self.origin.from_project,
            "secrets": self.origin.secrets,
            "variables": self.origin.variables,
            "once": self.origin.of_component and self._get("once", bool, False),
            "matcher": self.matcher,
            "condition": condition,
            # no clock counts as far as a number in JSON may say
            "seconds": min(seconds, _MAX_SECONDS.get(self.event, 86_400.0 * 365)),
            "status": self._get("statusMessage", str, ""),
        }

    def _command(self) -> CommandHook:
        args = self._get("args", list, None)
        if args is not None and not all(isinstance(each, str) for each in args):
            raise Malformed("`args` is not a list of texts")
        shell = self._get("shell", str, "bash")
        on_failure = self._get("onFailure", str, "continue")
        if shell not in ("bash", "powershell") or on_failure not in ("continue", "block"):
            raise Malformed(f"`shell` is {shell!r} and `onFailure` {on_failure!r}")
        wakes = self._get("asyncRewake", bool, False)
        in_background = wakes or self._get("async", bool, False)
        return CommandHook(
            **self._common("command"),
            command=self._needed("command"),
            args=None if args is None else tuple(args),
            powershell=shell == "powershell",
            in_background=in_background,
            wakes=wakes,
            blocks_on_failure=(
                on_failure == "block" and not in_background and self.event not in NEVER_BLOCKED_BY_FAILURE
            ),
        )

    def _http(self) -> HttpHook:
        headers = self._get("headers", dict, {})
        if not all(isinstance(value, str) for value in headers.values()):
            raise Malformed("`headers` is not an object of texts")
        allowed = self._get("allowedEnvVars", list, [])
        if self.origin.strict and not all(isinstance(name, str) for name in allowed):
            raise Malformed("`allowedEnvVars` is not a list of texts")
        return HttpHook(
            **self._common("http"),
            url=self._needed("url"),
            headers=tuple(headers.items()),
            allowed_env_vars=frozenset(name for name in allowed if isinstance(name, str)),
        )

    def _mcp_tool(self) -> McpToolHook:
        own = self._get("input", dict, {})
        return McpToolHook(
            **self._common("mcp_tool"), server=self._needed("server"), tool=self._needed("tool"), input=own
        )

    def _model(self) -> ModelHook:
        return ModelHook(
            **self._common(str(self.raw["type"])),
            prompt=self._needed("prompt"),
            model=self._get("model", str, ""),
            feeds_back=self._get("continueOnBlock", bool, False),
            looks=self.raw["type"] == "agent",
        )

    def _needed(self, key: str) -> str:
        value: str = self._get(key, str, "")
        if not value.strip() or "\0" in value:
            raise Malformed(f"`{key}` is missing")
        return value

    def _get(self, key: str, kind: type[Any] | tuple[type[Any], ...], default: Any) -> Any:
        value = self.raw.get(key)
        if value is None:
            return default
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise Malformed(f"`{key}` is {_shown(value)}")
        return value


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return f"`{text if len(text) <= 80 else text[:79] + '…'}`"


def described_hooks(
    events: Mapping[str, Sequence[Any]], origin: HooksOrigin, environ: Mapping[str, str]
) -> tuple[list[str], list[str]]:
    """Describe the hooks of `events`, each in a block of lines; then why others are unreadable."""
    entries = Entries()
    entries.add("", events, origin)
    texts = [described_hook(event, entry, environ) for event, found in entries.by_event.items() for entry in found]
    return texts, [problem.removeprefix(": ") for problem in entries.left_out]


def described_hook(event: str, entry: HookEntry, environ: Mapping[str, str]) -> str:
    """Describe one hook: what it does in the first line, with what and when in those below."""
    match entry:
        case CommandHook():
            does, *details = _command(entry)
        case HttpHook():
            does, *details = _http(entry, environ)
        case McpToolHook():
            does, *details = _mcp_tool(entry)
        case ModelHook():
            does, *details = _model(entry)
        case _:
            raise AssertionError(f"unknown kind of hook: {entry!r}")
    plain = (
        event in MATCHED_FIELDS and _PLAIN_MATCHER.fullmatch(entry.matcher) and exact(entry.matcher) == entry.matcher
    )
    head = f"hook {event} ({entry.matcher}): {does}" if plain else f"hook {event}: {does}"
    if entry.matcher and not plain:
        details.append(f"matcher: {exact(entry.matcher)}")
    return block(head, *details, *_conditions(entry), *_secrets(entry, environ))


def _conditions(entry: HookEntry) -> Iterator[str]:
    if entry.condition:
        yield f"if: {exact(entry.condition)}"
    if entry.once:
        yield "once in a session"
    if entry.blocks_on_failure:
        yield "its failure counts as a no"
    if entry.status:
        yield f"shows while it runs: {exact(entry.status)}"


def _command(entry: CommandHook) -> Iterator[str]:
    if entry.args is None:
        yield f"runs {exact(entry.command)}"
    else:
        line, *args = program_lines(entry.command, entry.args)
        yield f"runs the program {line}"
        yield from args
    if entry.powershell:
        yield "shell: powershell"
    if entry.in_background:
        yield "in the background, where its answer may make Claude continue" if entry.wakes else "in the background"


def _http(entry: HttpHook, environ: Mapping[str, str]) -> Iterator[str]:
    yield f"sends the event to {exact(entry.url)}"
    yield from (f"header {exact(name)}: {exact(value)}" for name, value in entry.headers)
    if entry.allowed_env_vars:
        yield f"allowedEnvVars: {', '.join(map(exact, sorted(entry.allowed_env_vars)))}"
    withheld: list[str] = []
    sent: list[str] = []
    for name in variables_of(entry):
        secret = is_secret(name, environ.get(name, "")) and entry.secrets is not None and name not in entry.secrets
        (withheld if secret else sent).append(name)
    if sent:
        yield f"sends your variables: {', '.join(sent)}"
    if withheld:
        yield f"does not get your secret variables: {', '.join(withheld)}"


def _mcp_tool(entry: McpToolHook) -> Iterator[str]:
    yield f"calls an MCP tool: {exact(entry.tool)}"
    yield f"of the server: {exact(entry.server)}"
    if entry.input:
        yield f"with the input: {exact_json(entry.input)}"


def _model(entry: ModelHook) -> Iterator[str]:
    yield f"asks {'an agent that reads files' if entry.looks else 'a model'}: {exact(entry.prompt)}"
    if entry.model:
        yield f"model: {exact(entry.model)}"
    if entry.feeds_back:
        yield "a no is Claude's to read, and ends no run"


def _secrets(entry: HookEntry, environ: Mapping[str, str]) -> Iterator[str]:
    """Name the secret variables that a command line or an address names, although no hook's program gets them."""
    texts: tuple[str, ...] = ()
    if isinstance(entry, CommandHook):
        texts = (entry.command, *(entry.args or ()))
    elif isinstance(entry, HttpHook):
        texts = (entry.url,)
    names = dict.fromkeys(found["name"] for text in texts for found in _SHELL_VARIABLE.finditer(text))
    own = dict(entry.variables)
    if secrets := [name for name in names if name not in own and is_secret(name, environ.get(name, ""))]:
        yield f"names your secret variables, which it does not get: {', '.join(secrets)}"


def variables_of(hook: HttpHook) -> list[str]:
    """The variables whose values the headers of `hook` ask for and its `allowedEnvVars` allow, in their order."""
    named = dict.fromkeys(found[1] or found[2] for _, text in hook.headers for found in _VARIABLE.finditer(text))
    return [name for name in named if name in hook.allowed_env_vars]
