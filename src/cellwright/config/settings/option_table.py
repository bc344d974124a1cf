"""The options of a prompt, one row each: name, type, reader, help, and where it may be said.

Made from the rows: the parsers of the magic and of the terminal, the arguments of `ask`, `stream`, `Agent` and `map`, the
traits of `%config Claude`, the options that the panel sends, the keys of the settings, the values that front matter may
have, the variables of hooks and skills, and the table in docs/settings.md. Loading the extension imports this module, and
none of what reads a command line.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from cellwright.model.models import EFFORTS, PROVIDERS
from cellwright.permissions.modes import LISTED_MODES

OutputFormat = Literal["text", "json", "json-lines"]
FORMATS: tuple[OutputFormat, ...] = get_args(OutputFormat)

OnDenied = Literal["ask", "skip", "error"]
ON_DENIED: tuple[OnDenied, ...] = get_args(OnDenied)
"""The ways to deal with a call that needs a permission: ask for it, go on without the call, or end the run."""

Branches = Literal["on", "ask", "off"]
BRANCHES: tuple[Branches, ...] = get_args(Branches)
"""The ways to deal with code that Claude tries in a confined copy of the kernel."""

How = Literal["none", "auto", "code", "cells", "full"]
CONTEXTS: tuple[How, ...] = get_args(How)
"""The context of the notebook that may go with a prompt."""


EMPTY = "is empty: leave the option out, or set the variable that it comes from"
"""An empty text is most often an unset variable's, and never means the default."""


class Kind(NamedTuple):
    """A type of values: how a text is read, and what a value has to be in Python and in JSON.

    `read` raises ValueError that says what the text is not. `expected` completes "it is …"; `sent` judges JSON. `plain`
    makes what `fits` a value of the annotation: numbers of numpy, for example, are numbers of Python then.
    """

    annotation: str
    read: Callable[[str], Any]
    fits: Callable[[Any], bool]
    expected: str
    sent: Callable[[Any], bool]
    placeholder: str
    trait: Literal["text", "whole", "number", "texts", "names"] = "text"
    names: tuple[str, ...] = ()
    plain: Callable[[Any], Any] = lambda value: value

    def meaning(self, expected: str, placeholder: str = "") -> Kind:
        """Return the kind for values that mean something of their own."""
        return self._replace(expected=expected, placeholder=placeholder or self.placeholder)


def _some_text(text: str) -> str:
    if not text.strip():
        raise ValueError(EMPTY)
    return text


def _whole_number(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or int(text) < 1:
        raise ValueError("is not a whole number of at least 1")
    return int(text)


def _amount(text: str, most: float, what: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < most:
        raise ValueError(f"is not {what} above 0")
    return number


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_some_text(value: Any) -> bool:
    return isinstance(value, str) and value.strip() != ""


def _is_list_of(value: Any, *kinds: type) -> bool:
    return (
        isinstance(value, Sequence) and not isinstance(value, str | bytes) and all(isinstance(e, kinds) for e in value)
    )


def _is_whole(value: Any) -> bool:
    try:
        operator.index(value)
    except TypeError:
        return False
    return not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _number_below(most: float) -> Callable[[Any], bool]:
    return lambda value: type(value) in (int, float) and 0 < value < most


def _or_none(check: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: value is None or check(value)


def _unless_none(convert: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else convert(value)


def one_of(names: Sequence[str], annotation: str, fits: Callable[[Any], bool], expected: str, placeholder: str) -> Kind:
    """Return the kind of a text that is one of `names`."""

    def read(text: str) -> str:
        if text not in names:
            raise ValueError(f"is not one of {', '.join(names)}")
        return text

    sent: Callable[[Any], bool] = lambda value: value in names  # noqa: E731  a list is in no tuple of texts either
    return Kind(annotation, read, fits, expected, sent, placeholder, "names", tuple(names))


TEXT = Kind("str | None", _some_text, _or_none(_is_some_text), "a text that is not empty", _is_some_text, "TEXT")
TEXTS = Kind(
    annotation="Sequence[str]",
    read=_some_text,
    fits=lambda value: _is_list_of(value, str) and all(map(_is_some_text, value)),
    expected="a list of texts",
    sent=lambda value: isinstance(value, list) and all(map(_is_some_text, value)),
    placeholder="TEXT",
    trait="texts",
)
COUNT = Kind(
    annotation="int | None",
    read=_whole_number,
    fits=_or_none(_is_whole),
    expected="a whole number",
    sent=lambda value: type(value) is int and value > 0,
    placeholder="N",
    trait="whole",
    plain=_unless_none(operator.index),
)
DOLLARS = Kind(
    annotation="float | None",
    read=lambda text: _amount(text.removeprefix("$"), 1e6, "an amount of US dollars"),
    fits=_or_none(_is_number),
    expected="a number of US dollars",
    sent=_number_below(1e6),
    placeholder="USD",
    trait="number",
    plain=_unless_none(float),
)
SECONDS = Kind(
    annotation="float | None",
    read=lambda text: _amount(text, 1e9, "a number of seconds"),
    fits=_or_none(_is_number),
    expected="a number of seconds",
    sent=_number_below(1e9),
    placeholder="SECONDS",
    trait="number",
    plain=_unless_none(float),
)
FLAG = Kind(
    "bool", bool, lambda value: isinstance(value, bool), "True or False", lambda value: isinstance(value, bool), ""
)


def mapping(annotation: str, expected: str, *others: type) -> Kind:
    """Return the kind of a mapping, or of one of `others`; on a command line it is the name of a file."""
    return Kind(
        annotation,
        _some_text,
        lambda value: isinstance(value, (Mapping, *others)) and value != "",
        expected,
        _is_some_text,
        "FILE",
    )


Surface = Literal["cell", "terminal", "python", "panel", "config", "setting"]
SURFACES: tuple[Surface, ...] = get_args(Surface)


class Option(NamedTuple):
    """One option. `cell`, `terminal`, … are its names there, empty if it cannot be said there, for the reason `gap`.

    `field` is the field of `RunOptions`. `repeats`: it may be given again on a line, and has all of its values then. `flag`:
    it takes no value there. `bare` is its value if none follows it on a cell's line. `above_zero`: Python takes no number
    below. `layer`: in the terminal it is a setting of the whole command. `most` is the largest number of the setting;
    `folder_says` the terms on which a folder's settings may say it; without `plain_setting` the settings have a form of
    their own for it. `chosen`: a command of its name chooses it for the prompts to come. `python_names` are the values that
    Python takes where they are not the kind's. `environment` is the variable in which hooks and
    skills find the value in force. `in_map`: `cellwright.map` takes it, for each of its prompts.
    """

    name: str
    title: str
    kind: Kind
    help: str
    field: str = ""
    default: Any = None
    cell: str = ""
    terminal: str = ""
    python: str = ""
    panel: str = ""
    config: str = ""
    setting: str = ""
    gap: str = ""
    repeats: bool = False
    with_commas: bool = False
    flag: bool = False
    bare: str | None = None
    above_zero: bool = False
    layer: bool = False
    plain_setting: bool = True
    most: int = 0
    folder_says: Literal["trust", "own", "tightens"] = "trust"
    chosen: bool = False
    python_names: tuple[str, ...] = ()
    environment: str = ""
    in_map: bool = False
    terminal_group: Literal["the run", "permissions", "output"] = "the run"
    terminal_help: str = ""
    terminal_placeholder: str = ""
    terminal_names: tuple[str, ...] = ()

    @property
    def run_field(self) -> str:
        return self.field or self.name


def _everywhere(name: str, title: str, kind: Kind, help: str, *, setting: str, **more: Any) -> Option:
    """Return an option that every surface has, under its own name but for what `more` says."""
    flag = name.replace("_", "-")
    names = {"cell": flag, "terminal": flag, "python": name, "panel": name, "config": name}
    return Option(name, title, kind, help, setting=setting, **{**names, **more})


_MODES = ", ".join(LISTED_MODES)
_RULES = "a rule, or several with commas: Edit, Bash(pytest *), Read(~/notes/**); may be repeated"
_IN_FILES = (
    "For all prompts they are in files: `.claude/agents`, `.mcp.json`. A page starts no programs that no file names."
)
_STYLES = "For all prompts, an output style stands in place of the system prompt, and `CLAUDE.md` adds to it."
_RULED_OUT = "For all prompts, deny rules take tools away."

OPTIONS: tuple[Option, ...] = (
    _everywhere(
        *("model", "the model", TEXT.meaning("the name of a model", "M"), "the model, for example claude-sonnet-5-5"),
        chosen=True,
        setting="model",
        in_map=True,
    ),
    _everywhere(
        "mode",
        "the permission mode",
        one_of(LISTED_MODES, "str | None", _or_none(_is_some_text), "the name of a permission mode", "MODE"),
        f"permission mode: {_MODES}",
        chosen=True,
        terminal="permission-mode",
        terminal_names=(*LISTED_MODES, "manual", "auto"),
        terminal_help=f"what is asked, allowed or denied if no rule applies: {_MODES}",
        setting="permissions.defaultMode",
        plain_setting=False,
        terminal_group="permissions",
        in_map=True,
    ),
    _everywhere(
        "max_turns",
        "requests to the model",
        COUNT.meaning("a whole number of requests"),
        "at most N requests to the model",
        above_zero=True,
        setting="cellwright.maxTurns",
        most=100_000,
        in_map=True,
    ),
    _everywhere(
        *("budget", "cost in US dollars", DOLLARS, "stop before the run costs more than this"),
        field="budget_usd",
        panel="budget_usd",
        above_zero=True,
        setting="cellwright.runBudget",
        plain_setting=False,
    ),
    _everywhere(
        "effort",
        "effort",
        one_of(EFFORTS, "str | None", _or_none(_is_text), f"one of {', '.join(EFFORTS)}", "E"),
        f"how hard the model thinks: {', '.join(EFFORTS)}",
        terminal_help="how hard the model thinks",
        chosen=True,
        setting="effortLevel",
        python_names=EFFORTS,
        environment="CLAUDE_EFFORT",
        in_map=True,
    ),
    _everywhere(
        "provider",
        "way to the model",
        one_of(PROVIDERS, "ProviderName | None", lambda _value: True, f"one of {', '.join(PROVIDERS)}", "P"),
        "ask the model over the API (api), or through claude-code",
        layer=True,
        python_names=PROVIDERS,
        setting="cellwright.provider",
        folder_says="own",
    ),
    _everywhere(
        "max_tokens",
        "tokens of one answer",
        COUNT.meaning("a whole number of tokens"),
        "at most N tokens for one answer",
        above_zero=True,
        setting="cellwright.maxTokens",
        most=1_000_000,
        in_map=True,
    ),
    _everywhere(
        "max_parallel_tools",
        "reading tools at once",
        COUNT.meaning("a whole number of tools"),
        "reading tools that run at once (10)",
        above_zero=True,
        setting="cellwright.maxParallelTools",
        most=100,
    ),
    _everywhere(
        *("tool_timeout", "seconds of a tool call", SECONDS, "stop every tool call after this long"),
        above_zero=True,
        setting="cellwright.toolTimeout",
        in_map=True,
    ),
    _everywhere(
        "allow",
        "allow rules",
        TEXTS.meaning("a list of permission rules", "RULE"),
        "allow this without asking, in this run: 'Bash(pytest *)'",
        default=(),
        repeats=True,
        terminal="allowed-tools",
        terminal_help=f"allow without asking: {_RULES}",
        terminal_placeholder="RULES",
        setting="permissions.allow",
        plain_setting=False,
        terminal_group="permissions",
        in_map=True,
    ),
    _everywhere(
        "deny",
        "deny rules",
        TEXTS.meaning("a list of permission rules", "RULE"),
        "deny this in this run; may be given again, as --allow and --add-dir",
        default=(),
        repeats=True,
        terminal="disallowed-tools",
        terminal_help="deny; rules as above",
        terminal_placeholder="RULES",
        setting="permissions.deny",
        plain_setting=False,
        terminal_group="permissions",
        in_map=True,
    ),
    _everywhere(
        "add_dirs",
        "more folders",
        TEXTS.meaning("a list of folders", "DIR")._replace(
            annotation="Sequence[str | Path]", fits=lambda value: _is_list_of(value, str, Path) and "" not in value
        ),
        "another folder to work in, besides the notebook's, in this run",
        default=(),
        repeats=True,
        layer=True,
        cell="add-dir",
        terminal="add-dir",
        terminal_help="a folder to work in besides this one",
        setting="permissions.additionalDirectories",
        plain_setting=False,
        terminal_group="permissions",
    ),
    _everywhere(
        "on_denied",
        "calls that need permission",
        one_of(ON_DENIED, "OnDenied | None", lambda _value: True, f"one of {', '.join(ON_DENIED)}", "HOW"),
        "a call that needs permission: ask, skip it and continue, or end the run with an error",
        terminal_help="what happens to a call that needs permission: ask you (or skip it if nobody can be asked), "
        "skip it and continue, or end the run with an error",
        python_names=ON_DENIED,
        setting="cellwright.onDenied",
        terminal_group="permissions",
    ),
    Option(
        "branches",
        "branches of the kernel",
        one_of(BRANCHES, "Branches | None", _or_none(_is_text), f"one of {', '.join(BRANCHES)}", "HOW"),
        "code that Claude tries in a confined copy of your kernel: on (unasked), ask, or off; the strictest counts",
        cell="branches",
        config="branches",
        setting="cellwright.branches",
        gap="Only a notebook's kernel has branches, and its settings say whether Claude may use them.",
        folder_says="tightens",
    ),
    Option(
        "branch",
        "a preview",
        FLAG,
        "a preview: the turn works on copies of the files and the kernel, and you accept what you want of it at its end",
        field="preview",
        default=False,
        flag=True,
        cell="branch",
        python="branch",
        panel="branch",
        gap="A preview is of one turn, and needs a notebook's kernel.",
    ),
    _everywhere(
        "fallback_models",
        "fallback models",
        TEXTS.meaning("a list of models' names", "M"),
        "continue with this model if the other is overloaded or unavailable",
        default=(),
        repeats=True,
        with_commas=True,
        cell="fallback-model",
        terminal="fallback-model",
        terminal_help="models to continue with, in this order, if the model is overloaded or unavailable; separated by "
        "commas",
        terminal_placeholder="MODELS",
        setting="fallbackModel",
        plain_setting=False,
    ),
    _everywhere(
        "agent",
        "the agent that works",
        TEXT.meaning("the name of an agent", "NAME"),
        "let this agent work itself: with its prompt, tools and model (/agents lists them)",
        setting="agent",
        terminal_group="permissions",
    ),
    _everywhere(
        "tools",
        "the only tools",
        Kind(
            "Sequence[Tool | str]",
            lambda text: tuple(text.replace(",", " ").split()),
            # a `Tool` is not imported for that: the tools themselves are held to it where they are used
            lambda value: _is_list_of(value, object),
            "a list of tools (`@cellwright.tool` makes one of a function) and names of built-in ones",
            TEXTS.sent,
            "NAMES",
            "texts",
        ),
        'the only tools Claude has, separated by commas; "" for none, default for all',
        field="tool_names",
        default=(),
        with_commas=True,
        terminal_help='the only tools Claude has, separated by commas; "" for none, "default" for all',
        config="",
        setting="",
        gap=_RULED_OUT,
    ),
    _everywhere(
        "builtin_tools",
        "no tools",
        FLAG,
        "let Claude answer without tools; blocks named lang:path are offered as files to write",
        default=True,
        flag=True,
        cell="no-tools",
        terminal="no-tools",
        panel="no_tools",
        terminal_help="let Claude answer without tools; blocks that are named lang:path are offered as files to write",
        config="",
        setting="",
        gap=_RULED_OUT,
    ),
    _everywhere(
        "context",
        "the project's code",
        one_of(CONTEXTS, "str | None", lambda _value: True, '"code" or None', "HOW"),
        "the context sent with the prompt: none, auto (changes in the notebook), code (these, and matching code of the "
        "project), cells or full (all code of the notebook, or all its cells)",
        field="code_context",
        panel="",
        python_names=("code",),
        terminal_names=("none", "code"),
        terminal_help="code: attach the project's code that fits the prompt best",
        setting="cellwright.codeContext",
        plain_setting=False,
        gap="The prompt has a member `context` of its own.",
    ),
    _everywhere(
        "numbers",
        "sources of numbers",
        FLAG,
        "do not look up the answer's numbers in what the conversation has seen",
        default=True,
        flag=True,
        cell="no-numbers",
        terminal="no-numbers",
        panel="",
        config="",
        setting="cellwright.numbers",
        plain_setting=False,
        gap="The panel and `%config` follow the setting.",
    ),
    _everywhere(
        *(
            "system_prompt",
            "the system prompt",
            TEXT._replace(fits=_or_none(_is_text)),
            "the system prompt, instead of Cellwright's own",
        ),
        config="",
        setting="",
        gap=_STYLES,
    ),
    _everywhere(
        "append_system_prompt",
        "text after it",
        TEXT._replace(annotation="str", fits=_is_text),
        "text added after the system prompt",
        default="",
        repeats=True,
        terminal_help="text added after it",
        config="",
        setting="",
        gap=_STYLES,
    ),
    Option(
        "schema",
        "the answer's type",
        TEXT._replace(annotation="Any", fits=lambda value: value != "", expected="a type", placeholder="NAME"),
        "return the answer as a value: a model, TypedDict, list[Model] or JSON schema",
        field="answer_type",
        cell="schema",
        terminal="schema",
        terminal_group="output",
        terminal_help="return the answer as JSON that fits the JSON schema in FILE",
        terminal_placeholder="FILE",
        python="schema",
        gap="A type belongs to one prompt, whose answer a program or a cell reads.",
    ),
    Option(
        "agents",
        "more agents",
        mapping("Mapping[str, Any]", "a dict of definitions by the agents' names"),
        "more agents: a JSON file with a description and a prompt for each name",
        terminal_help="more agents: for each name a description, a prompt, and anything else an agent's file may have",
        terminal_placeholder="FILE-OR-JSON",
        default={},
        cell="agents",
        terminal="agents",
        python="agents",
        gap=_IN_FILES,
        terminal_group="permissions",
    ),
    Option(
        "mcp_servers",
        "more MCP servers",
        mapping("Mapping[str, Any] | str | Path", "a dict as in .mcp.json, or such a file", str, Path),
        "MCP servers besides those of the settings, from a file such as .mcp.json",
        terminal_help="MCP servers besides those of the files",
        terminal_placeholder="FILE-OR-JSON",
        default={},
        cell="mcp-config",
        terminal="mcp-config",
        python="mcp_servers",
        gap=_IN_FILES,
        terminal_group="permissions",
    ),
    Option(
        "hooks",
        "hooks",
        mapping("HookCallbacks", "a dict of lists of hooks by their events"),
        "",
        default={},
        python="hooks",
        setting="hooks",
        plain_setting=False,
        gap="A hook of one prompt is a Python function; commands are hooks of the settings.",
    ),
    Option(
        "setup",
        "Setup hooks",
        TEXT,
        "",
        terminal="init",
        gap="Setup is what a script does before a session: `cellwright --init`, `--init-only`.",
    ),
)

BY_NAME: Mapping[str, Option] = {option.name: option for option in OPTIONS}

CHOSEN = tuple(option.name for option in OPTIONS if option.chosen)
"""The options that a command chooses for the prompts to come: `/model`, `/mode`, `/effort`."""


def environment_of(values: Mapping[str, Any]) -> dict[str, str]:
    """The variables in which hooks and skills find `values`, given by the names of options; "" for one that is not said."""
    return {option.environment: str(values.get(option.name) or "") for option in OPTIONS if option.environment}


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings by their dotted names, None for one that is not set, as a file has them."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        if value is not None:
            *outer, last = name.split(".")
            inner = found
            for key in outer:
                inner = inner.setdefault(key, {})
            inner[last] = value
    return found
