"""The tools that need no kernel, with what they need of the place they work in; most are made with their first call.

Thirty tools are eighty modules, and a session's first request needs nothing of them but what Claude is told. Definitions
that no setting changes are in `written_definitions.json`; `tests/house/test_written_definitions.py` writes it, and says
where one is no longer what its tool says. Tools that settings or the environment describe otherwise are made at once.
"""

from __future__ import annotations

import functools
import importlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from cellwright.agent.calls.tool_input import written_schema
from cellwright.agent.tool import Category, Tool, ToolAccess, ToolLimits
from cellwright.config.settings.settings import Settings
from cellwright.errors import ErrorCode, ToolError
from cellwright.events import QuestionKind
from cellwright.tools.agent import agent_tool
from cellwright.tools.files.file_state import FileState
from cellwright.tools.files.read import read_tool
from cellwright.tools.notebook.open_notebook import NothingOpen, OpenNotebooks
from cellwright.tools.planning.ask_user_question import ask_user_question_tool
from cellwright.tools.planning.plan_mode import exit_plan_mode_tool
from cellwright.tools.planning.todos import task_tools_enabled
from cellwright.tools.shell.background import background_tasks, task_stop_tool
from cellwright.tools.shell.bash import bash_tool
from cellwright.tools.skill import skill_tool
from cellwright.tools.web.web_fetch import web_fetch_tool
from cellwright.tools.web.web_search import choose_engine, web_search_tool

if TYPE_CHECKING:
    from cellwright.agent.subagent import SideRequest
    from cellwright.tools.agent import StartAgent
    from cellwright.tools.code.navigation.project_code import ProjectCode
    from cellwright.tools.shell.background import StopAgent
    from cellwright.tools.skill import LoadSkill


WRITTEN_DEFINITIONS = Path(__file__).with_name("written_definitions.json")

FUNCTIONS = ("facts", "prepare", "preview", "title")
"""The functions that some tools have."""


class WrittenDefinition(Struct, frozen=True, omit_defaults=True):
    """A tool as it describes itself. `input` is the class that its schema is written under, `functions` those it has."""

    description: str
    input: str
    access: ToolAccess
    read_only: bool
    limits: ToolLimits
    category: Category
    best_for: str
    input_examples: Sequence[Mapping[str, Any]]
    asks: QuestionKind
    asks_together: bool
    functions: Sequence[str]
    everyday: bool = False
    rarely_used: bool = False
    has_effects: bool | None = None
    other_names: Sequence[str] = ()


class LaterTool(Tool, frozen=True, kw_only=True):
    """A tool as its written definition says it; `made` gives the tool itself, which its calls come to."""

    made: Callable[[], Tool]

    def canonical(self, values: Mapping[str, Any]) -> dict[str, Any]:
        # the first thing that is done with a call
        try:
            made = self.made()
        except (OSError, ImportError) as error:
            message = f"{self.name} cannot be loaded: {error}. Nothing was run."
            raise ToolError(message, code=ErrorCode.EXECUTION_ERROR) from error
        return made.canonical(values)


def later_tool(name: str, make: Callable[[], Tool]) -> Tool:
    """The tool `name`, made by `make` with its first call; at once where its definition is not written."""
    definition = _definitions().get(name)
    if definition is None:
        return make()
    made = _once(make)

    def function_of(function: str) -> Any:
        return lambda *given: getattr(made(), function)(*given)

    return LaterTool(
        name=name,
        description=definition.description,
        input_schema=written_schema(definition.input),
        access=definition.access,
        read_only=definition.read_only,
        limits=definition.limits,
        category=definition.category,
        best_for=definition.best_for,
        input_examples=definition.input_examples,
        asks=definition.asks,
        asks_together=definition.asks_together,
        everyday=definition.everyday,
        rarely_used=definition.rarely_used,
        has_effects=definition.has_effects,
        other_names=tuple(definition.other_names),
        call=function_of("call"),
        **{function: function_of(function) for function in definition.functions},
        made=made,
    )


def whole_tool(tool: Tool) -> Tool:
    """The tool itself, made now if it was to be made later."""
    return replace(tool.made(), defer_loading=tool.defer_loading) if isinstance(tool, LaterTool) else tool


@functools.cache
def _definitions() -> Mapping[str, WrittenDefinition]:
    return msgspec.json.decode(WRITTEN_DEFINITIONS.read_bytes(), type=dict[str, WrittenDefinition])


def _once(make: Callable[[], Tool]) -> Callable[[], Tool]:
    """`make`, called once, from whatever threads: some tools remember what they have prepared."""
    lock = threading.Lock()
    found: list[Tool] = []

    def made() -> Tool:
        with lock:
            if not found:
                found.append(make())
            return found[0]

    return made


def never_unsaved(_path: Path) -> bool:
    """Return False, for use where there is no editor."""
    return False


def no_live_definition(_name: str) -> str:
    """Return "", where nothing is defined but in files."""
    return ""


class ToolEnvironment(Struct, frozen=True, kw_only=True):
    """The things tools need of the place they work in.

    `side_request` is the way to a small model for tools that ask one; without it they do without.
    `is_unsaved` says of a file whether it is open in an editor with changes that are not on disk; `open_notebooks` are the
    notebooks that can be worked on where their user sees them.
    """

    cwd: Path
    settings: Settings
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    side_request: SideRequest | None = None
    is_unsaved: Callable[[Path], bool] = never_unsaved
    open_notebooks: OpenNotebooks = field(default_factory=NothingOpen)
    more_roots: Callable[[], Sequence[Path]] = tuple
    """The folders that the run which goes on has besides the settings'."""
    load_skill: LoadSkill | None = None
    """Renders skills; without it there is no tool for them."""
    start_agent: StartAgent | None = None
    """Has other agents do tasks; without it there is no tool for that."""
    stop_agent: StopAgent | None = None
    """Ends one that works in the background."""
    live_definitions: Callable[[str], str] = no_live_definition
    """Says of a name what this process itself has by it that is in no file; "" for nothing."""
    file_state: FileState | None = None
    """The model's knowledge of files, where others must have it, too."""


def make_tools(place: ToolEnvironment) -> tuple[Tool, ...]:
    """The tools that need no kernel, sharing one memory of what was read."""
    cwd, settings, environ = place.cwd, place.settings, place.environ
    make = ToolMakers(place)

    def of_group(group: str) -> Iterator[Tool]:
        return (
            later_tool(name, functools.partial(maker.tool, make))
            for name, maker in LATER.items()
            if maker.group == group
        )

    engine = choose_engine(environ, place.side_request)
    return (
        read_tool(make.state, cwd, place.open_notebooks, make.related_line),
        *of_group("work"),
        bash_tool(
            cwd,
            (cwd, *settings.additional_directories),
            environ=environ,
            shown_chars=settings.bash_output_max_chars,
            seconds=settings.command_timeout,
            more_roots=place.more_roots,
        ),
        task_stop_tool(background_tasks(), place.stop_agent),
        *(_task_tools() if task_tools_enabled(environ) else of_group("list")),
        ask_user_question_tool(),
        *of_group("plan"),
        exit_plan_mode_tool(settings.project, settings.plans_directory),
        web_fetch_tool(
            place.side_request,
            seconds=settings.web_fetch_timeout,
            most_bytes=settings.max_file_size,
            cache_seconds=settings.cache_ttl,
            environ=environ,
        ),
        *([] if engine is None else [web_search_tool(engine, environ)]),
        *([] if place.load_skill is None else [skill_tool(place.load_skill, place.start_agent)]),
        *([] if place.start_agent is None else [agent_tool(place.start_agent)]),
    )


def _task_tools() -> tuple[Tool, ...]:
    """The tools for a list of tasks, where the user wants them in place of TodoWrite and TodoRead."""
    from cellwright.tools.planning.tasks import (
        SessionTasks,
        task_create_tool,
        task_get_tool,
        task_list_tool,
        task_update_tool,
    )

    tasks_of = SessionTasks().of
    return (
        task_create_tool(tasks_of),
        task_get_tool(tasks_of),
        task_update_tool(tasks_of),
        task_list_tool(tasks_of),
    )


class ToolMakers:
    """The makers of the tools of one place, which share one memory of what was read."""

    def __init__(self, place: ToolEnvironment) -> None:
        self.place = place
        self.cwd = place.cwd
        self.state = place.file_state or FileState(place.is_unsaved)
        self.environ = place.environ
        self.open_notebooks = place.open_notebooks

    @functools.cached_property
    def project_code(self) -> ProjectCode:
        from cellwright.tools.code.navigation.project_code import project_code

        place, settings = self.place, self.place.settings
        rules = (*settings.deny, *settings.ask)
        return project_code(self.cwd, rules, place.environ, settings.embedding, place.live_definitions)

    async def related_line(self, path: Path, lines: tuple[int, int] | None, may_read: Callable[[str], bool]) -> str:
        """One line about the file at `path` that was read, for Read."""
        from cellwright.tools.code.navigation.project_code import related_line

        return await related_line(self.project_code, path, lines, may_read)


class ToolMaker(NamedTuple):
    """`module:function` below `cellwright.tools`, what it is called with (attributes of `ToolMakers`), and its place."""

    function: str
    needs: tuple[str, ...] = ()
    group: Literal["work", "list", "plan"] = "work"

    def tool(self, makers: ToolMakers) -> Tool:
        """Make the tool."""
        module, _, function = self.function.partition(":")
        make = getattr(importlib.import_module(f"cellwright.tools.{module}"), function)
        made: Tool = make(*(attrgetter(name)(makers) for name in self.needs))
        return made


LATER: Mapping[str, ToolMaker] = {
    "Write": ToolMaker("files.write:write_tool", ("state", "cwd")),
    "Edit": ToolMaker("files.edit:edit_tool", ("state", "cwd")),
    "MultiEdit": ToolMaker("files.edit:multi_edit_tool", ("state", "cwd")),
    "ApplyPatch": ToolMaker("files.apply_patch:apply_patch_tool", ("state", "cwd")),
    "EditSymbol": ToolMaker("code.edit_symbol:edit_symbol_tool", ("state", "cwd")),
    "RenameSymbol": ToolMaker("code.rename_symbol:rename_symbol_tool", ("project_code", "state")),
    "Glob": ToolMaker("search.glob:glob_tool", ("cwd", "environ")),
    "Grep": ToolMaker("search.grep:grep_tool", ("cwd",)),
    "LS": ToolMaker("search.ls:ls_tool", ("cwd",)),
    "FileTree": ToolMaker("search.file_tree:file_tree_tool", ("cwd",)),
    "SemanticSearch": ToolMaker("code.navigation.search_code:semantic_search_tool", ("project_code",)),
    "FindDefinitions": ToolMaker("code.navigation.find_names:find_definitions_tool", ("project_code",)),
    "FindReferences": ToolMaker("code.navigation.find_names:find_references_tool", ("project_code",)),
    "CodeOutline": ToolMaker("code.navigation.code_outline:code_outline_tool", ("project_code",)),
    "CodeContext": ToolMaker("code.navigation.code_context:code_context_tool", ("project_code",)),
    "AnalyzeFunction": ToolMaker("code.navigation.code_context:analyze_function_tool", ("project_code",)),
    "ImportChain": ToolMaker("code.navigation.chains:import_chain_tool", ("project_code",)),
    "CallChain": ToolMaker("code.navigation.chains:call_chain_tool", ("project_code",)),
    "SimilarCode": ToolMaker("code.navigation.search_code:similar_code_tool", ("project_code",)),
    "CodeMetrics": ToolMaker("code.navigation.code_metrics:code_metrics_tool", ("project_code",)),
    "Git": ToolMaker("git:git_tool", ("cwd", "environ")),
    "RunTests": ToolMaker("code.run_tests:run_tests_tool", ("cwd", "environ")),
    "Lint": ToolMaker("code.lint:lint_tool", ("cwd", "environ", "state.keeper")),
    "NotebookEdit": ToolMaker("notebook.notebook_edit:notebook_edit_tool", ("state", "cwd", "open_notebooks")),
    "NotebookRead": ToolMaker("notebook.notebook_read:notebook_read_tool", ("state", "cwd", "open_notebooks")),
    "TodoWrite": ToolMaker("planning.todos:todo_write_tool", group="list"),
    "TodoRead": ToolMaker("planning.todos:todo_read_tool", group="list"),
    "EnterPlanMode": ToolMaker("planning.plan_mode:enter_plan_mode_tool", group="plan"),
}
"""The tools that neither settings nor the environment describe otherwise, in the order in which Claude has them."""
