"""The options of one run, the user's choices for the prompts to come, and a run's result.

Chosen are options of the table, and with `/output-style`, `/add-dir` and `/autocompact`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from cellwright.agent.structured_output import AnswerProblem, AnswerType
from cellwright.agent.tool import Tool
from cellwright.config.agents import NoAgent, given_definition
from cellwright.config.settings.layers import Layer
from cellwright.config.settings.option_table import BY_NAME, CHOSEN, OnDenied, nested
from cellwright.config.settings.settings import CommonOptions
from cellwright.config.settings.settings_files import InlineSettings
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.events import Event, ExtensionsLoaded, NotLoaded, Number, NumbersTraced, RunEnd
from cellwright.markdown.safe_markdown import safe_markdown
from cellwright.model.models import ProviderName

if TYPE_CHECKING:
    from cellwright.agent.hooks.callbacks import HookCallbacks
    from cellwright.config.agents import AgentDefinition

LABEL = f"chosen with a command (/{', /'.join((*CHOSEN, 'output-style', 'add-dir', 'autocompact'))})"

FindInlineSettings = Callable[[], tuple[InlineSettings, ...]]
"""Gives the settings that are in no file, the lowest first."""


class RunOptions(CommonOptions, frozen=True, kw_only=True):
    """The options one run may have. None leaves the default; `allow` and `deny` are rules besides the settings'.

    `agent` is the name of one that works itself in place of the usual one.
    `add_dirs` are folders to work in besides the project. `on_denied` says what becomes of a call that needs a permission:
    somebody is asked, or nobody is, and Claude goes on without it ("skip") or the run ends ("error"). `fallback_models` are
    tried in turn where the model is overloaded or not there. `provider` is the way to the model.
    `branches` says whether code may be tried in a copy of the kernel, if the settings do not say less.
    `system_prompt` stands in place of ours, `append_system_prompt` after it.
    `setup` ("init", "maintenance") has Setup hooks run where the session begins with this run.
    """

    mode: str | None = None
    budget_usd: float | None = None
    provider: ProviderName | None = None
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    add_dirs: tuple[Path, ...] = ()
    on_denied: OnDenied | None = None
    branches: str | None = None
    setup: str = ""
    fallback_models: tuple[str, ...] | None = None
    tools: tuple[Tool, ...] = ()
    tool_names: tuple[str, ...] = ()
    """The built-in tools that a run without the others has."""
    builtin_tools: bool = True
    proposes_files: bool = False
    """In a run without tools: blocks of the answer that name files are offered to be written."""
    preview: bool = False
    """The turn works on copies, and the user accepts what they want of it at its end."""
    numbers: bool = True
    """The numbers of the answer are looked up in what the conversation has seen, if the settings say so, too."""
    code_context: bool = False
    """The project's code that fits the prompt best goes with it."""
    system_prompt: str | None = None
    append_system_prompt: str = ""
    hooks: HookCallbacks = msgspec.field(default_factory=dict)
    answer_type: AnswerType | None = None
    agents: Mapping[str, AgentDefinition] = msgspec.field(default_factory=dict)
    """Agents besides those of files, by name."""
    mcp_servers: Mapping[str, Any] = msgspec.field(default_factory=dict)
    """MCP servers besides those of files, in the form of `.mcp.json`."""

    @property
    def has_servers(self) -> bool:
        """True where a run has tools of MCP servers: those of the settings with the built-in tools, its own always."""
        return self.builtin_tools or bool(self.mcp_servers)


def given_agents(given: Mapping[str, Any], bad: Callable[[str, str], Exception]) -> dict[str, AgentDefinition]:
    """The agents that are given as definitions; raises what `bad` makes of the name and the fault of one."""
    found: dict[str, AgentDefinition] = {}
    for name, each in given.items():
        try:
            found[str(name)] = given_definition(str(name), each)
        except NoAgent as problem:
            raise bad(str(name), str(problem)) from None
    return found


EVERY_TOOL = (None, ("default",))
"""The values of the option `tools` that leave all of them."""


def options_of(given: Mapping[str, Any]) -> RunOptions:
    """Return the options of a run from values by the names of the table of options; None leaves the default.

    Without tools, the blocks of the answer that name files are offered. Raises CellwrightError INVALID_PARAMETERS for a
    folder that is not there.
    """
    values = {name: value for name, value in given.items() if value is not None}
    values |= {name: tuple(values[name]) for name in ("allow", "deny") if name in values}
    tools, has_tools = given.get("tools"), given.get("builtin_tools", True)
    every_tool = tools in EVERY_TOOL
    values["tools"] = () if every_tool else tuple(tools or ())
    values["builtin_tools"] = every_tool and has_tools
    if "add_dirs" in values:
        values["add_dirs"] = tuple(map(existing_folder, values["add_dirs"]))
    if "fallback_models" in values:
        values["fallback_models"] = tuple(values["fallback_models"]) or None
    if "context" in values:
        values["context"] = values["context"] == "code"
    fields = {BY_NAME[name].run_field: value for name, value in values.items()}
    return RunOptions(**fields, proposes_files=not has_tools)


def existing_folder(name: str | Path) -> Path:
    """The folder that `name` says. Raises CellwrightError INVALID_PARAMETERS where there is none."""
    folder = Path(name).expanduser().absolute()
    if not folder.is_dir():
        message = f"Folder {str(name)!r} was not found. Nothing was sent."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    return folder


@dataclass(frozen=True, kw_only=True)
class Result:
    """The outcome of a run; in a notebook it shows its text.

    `not_loaded` is what was configured and the run had to do without: MCP servers, plugins, skills, hooks, agents.
    `numbers` are those that the answer states, in order, each with its source in the conversation (`docs/numbers.md`).
    `text` is the answer; `value` is it as the type that was asked for (`schema=`), None where there was none. `session_id`
    is where the conversation can be resumed; `usage` sums the API's blocks, `cost_usd` is None where a price is not known;
    `stop_reason` is the last message's. `events` is everything that happened, in order: a `ToolEnd` has what a tool gave as
    data in `structured`, the last is the `RunEnd`.

    >>> import cellwright
    >>> from cellwright.events import RunEnd, ToolEnd
    >>> result = cellwright.ask("Which tables are here?", session=None)
    >>> result.text, result.stop_reason, result.value
    ('There is one: sales.csv.', 'end_turn', None)
    >>> [call.structured["filenames"] for call in result.events if isinstance(call, ToolEnd)]
    [['sales.csv']]
    >>> end = result.events[-1]
    >>> isinstance(end, RunEnd), end.text == result.text, end.usage == result.usage, end.cost_usd == result.cost_usd
    (True, True, True, True)
    >>> result.usage["output_tokens"] > 0, result.cost_usd > 0, end.session_id == result.session_id
    (True, True, True)
    """

    text: str
    session_id: str
    usage: Mapping[str, Any]
    cost_usd: float | None
    stop_reason: str
    events: tuple[Event, ...] = field(repr=False)
    value: Any = None
    not_loaded: tuple[NotLoaded, ...] = ()
    numbers: tuple[Number, ...] = ()

    def _repr_markdown_(self) -> str:
        return safe_markdown(self.text)


class RunError(CellwrightError):
    """A run did not end by itself: refused, out of turns or budget, or the API failed. `result` is what there is.

    >>> import cellwright
    >>> try:
    ...     cellwright.ask("Which tables are here?", session=None, max_turns=1)
    ... except RunError as error:
    ...     print(error.code, error.result.stop_reason)
    MAX_TURNS_REACHED max_turns
    """

    result: Result | None = None


def result_of(end: RunEnd, events: Sequence[Event], answer_type: AnswerType | None = None) -> Result:
    """The result of a run that ended. Raises `RunError` when it did not end by itself."""
    result = Result(
        text=end.text,
        session_id=end.session_id,
        usage=end.usage,
        cost_usd=end.cost_usd,
        stop_reason=end.stop_reason,
        events=tuple(events),
        numbers=next((event.numbers for event in reversed(events) if isinstance(event, NumbersTraced)), ()),
        not_loaded=next((event.not_loaded for event in events if isinstance(event, ExtensionsLoaded)), ()),
    )
    if end.error is not None:
        error = RunError(
            ErrorCode(end.error["code"]),
            end.error["message"],
            details=end.error["details"],
            recoverable=end.error["recoverable"],
        )
        error.result = result
        raise error
    return result if answer_type is None else _with_value(result, answer_type)


def _with_value(result: Result, answer_type: AnswerType) -> Result:
    try:
        return replace(result, value=answer_type.read(result.text))
    except AnswerProblem as problem:  # the model stopped for a reason that is not known here
        error = RunError(ErrorCode.EXECUTION_ERROR, f"The answer is not a valid {answer_type.name}: {problem}.")
        error.result = result
        raise error from None


class Choices(Struct):
    """The choices of one conversation: a layer of its settings above all but the administrator's. None: not chosen."""

    options: dict[str, Any] = msgspec.field(default_factory=dict)
    """Those of the table of options, by their names."""
    output_style: str | None = None
    folders: tuple[Path, ...] = ()
    compacts: bool | None = None
    compact_share: float | None = None
    folder: Path = msgspec.field(default_factory=Path.cwd)

    def set(self, name: str, value: Any) -> None:
        """Choose `value`, None for what else says it."""
        if name in CHOSEN:
            self.options[name] = value
        else:
            setattr(self, name, value)

    def layers(self) -> tuple[InlineSettings, ...]:
        """The choices as a layer of settings; none where nothing is chosen."""
        said = {
            "outputStyle": self.output_style,
            "permissions.additionalDirectories": [str(folder) for folder in self.folders] or None,
            "autoCompactEnabled": self.compacts,
            "cellwright.autoCompactShare": self.compact_share,
        }
        chosen = nested({**{BY_NAME[name].setting: value for name, value in self.options.items()}, **said})
        layer = Layer(scope="options", label=LABEL, root=self.folder, folder=self.folder)
        return ((layer, chosen),) if chosen else ()

    def over(self, options: RunOptions) -> RunOptions:
        """The options that a command began with, less what was chosen since: that is newer."""
        return msgspec.structs.replace(
            options, **{BY_NAME[name].run_field: None for name, value in self.options.items() if value}
        )


def with_choices(given: FindInlineSettings, choices: Choices) -> FindInlineSettings:
    """The settings that are in no file: those that were `given`, and above them what is chosen."""
    return lambda: (*given(), *choices.layers())
