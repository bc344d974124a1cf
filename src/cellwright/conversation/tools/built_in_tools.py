"""The tools that need no kernel, with what they need of the place they work in.

Most are made with their first call (`tools/later_tool.py`): each has a function here that imports it then. Those that
settings or the environment describe otherwise are made at once.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct, field

from cellwright.agent.tool import Tool
from cellwright.config.settings.settings import Settings
from cellwright.model.provider import Provider
from cellwright.tools.files.file_state import FileState
from cellwright.tools.later_tool import later_tool
from cellwright.tools.notebook.open_notebook import NothingOpen, OpenNotebooks

if TYPE_CHECKING:
    from cellwright.tools.agents.agent import StartAgent
    from cellwright.tools.code.navigation.project_code import ProjectCode
    from cellwright.tools.shell.task_stop import StopAgent
    from cellwright.tools.skills.skill import LoadSkill


def never_unsaved(_path: Path) -> bool:
    """Return False, for use where there is no editor."""
    return False


def no_live_definition(_name: str) -> str:
    """Return "", where nothing is defined but in files."""
    return ""


class ToolEnvironment(Struct, frozen=True, kw_only=True):
    """The things tools need of the place they work in.

    `provider` is the way to the model for tools that ask a small one; it is called when there is something to ask.
    `is_unsaved` says of a file whether it is open in an editor with changes that are not on disk; `open_notebooks` are the
    notebooks that can be worked on where their user sees them.
    """

    cwd: Path
    settings: Settings
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    provider: Callable[[], Provider] | None = None
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
    from cellwright.agent.side_request import SideRequest, small_model
    from cellwright.tools.agents.agent import agent_tool
    from cellwright.tools.files.read import read_tool
    from cellwright.tools.planning.ask_user_question import ask_user_question_tool
    from cellwright.tools.planning.exit_plan_mode import exit_plan_mode_tool
    from cellwright.tools.planning.todos import task_tools_enabled
    from cellwright.tools.shell.background import background_tasks
    from cellwright.tools.shell.bash import bash_tool
    from cellwright.tools.shell.task_stop import task_stop_tool
    from cellwright.tools.skills.skill import skill_tool
    from cellwright.tools.web.web_fetch import web_fetch_tool
    from cellwright.tools.web.web_search import choose_engine, web_search_tool

    cwd, settings, environ = place.cwd, place.settings, place.environ
    make = ToolMakers(place)

    def later(name: str) -> Tool:
        return later_tool(name, functools.partial(LATER[name], make))

    side_request = None if place.provider is None else SideRequest(place.provider, small_model(environ))
    engine = choose_engine(environ, side_request)
    return (
        read_tool(make.state, cwd, place.open_notebooks, make.related_line),
        later("Write"),
        later("Edit"),
        later("MultiEdit"),
        later("ApplyPatch"),
        later("EditSymbol"),
        later("RenameSymbol"),
        later("Glob"),
        later("Grep"),
        later("LS"),
        later("FileTree"),
        later("SemanticSearch"),
        later("FindDefinitions"),
        later("FindReferences"),
        later("CodeOutline"),
        later("CodeContext"),
        later("AnalyzeFunction"),
        later("ImportChain"),
        later("CallChain"),
        later("SimilarCode"),
        later("CodeMetrics"),
        later("Git"),
        later("RunTests"),
        later("Lint"),
        later("NotebookEdit"),
        later("NotebookRead"),
        bash_tool(
            cwd,
            (cwd, *settings.additional_directories),
            environ=environ,
            shown_chars=settings.bash_output_max_chars,
            seconds=settings.command_timeout,
            more_roots=place.more_roots,
        ),
        task_stop_tool(background_tasks(), place.stop_agent),
        *(_task_tools() if task_tools_enabled(environ) else (later("TodoWrite"), later("TodoRead"))),
        ask_user_question_tool(),
        later("EnterPlanMode"),
        exit_plan_mode_tool(settings.project, settings.plans_directory),
        web_fetch_tool(
            side_request,
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
    from cellwright.tools.planning.tasks.session_tasks import SessionTasks
    from cellwright.tools.planning.tasks.task_create import task_create_tool
    from cellwright.tools.planning.tasks.task_get import task_get_tool
    from cellwright.tools.planning.tasks.task_list import task_list_tool
    from cellwright.tools.planning.tasks.task_update import task_update_tool

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
        self.code = functools.cache(self._project_code)

    def _project_code(self) -> ProjectCode:
        from cellwright.tools.code.navigation.project_code import project_code

        place, settings = self.place, self.place.settings
        rules = (*settings.deny, *settings.ask)
        return project_code(self.cwd, rules, place.environ, settings.embedding, place.live_definitions)

    async def related_line(self, path: Path, lines: tuple[int, int] | None, may_read: Callable[[str], bool]) -> str:
        """One line about the file at `path` that was read, for Read."""
        from cellwright.tools.code.navigation.related_code import related_line

        return await related_line(self.code(), path, lines, may_read)

    def write(self) -> Tool:
        from cellwright.tools.files.write import write_tool

        return write_tool(self.state, self.cwd)

    def edit(self) -> Tool:
        from cellwright.tools.files.edit import edit_tool

        return edit_tool(self.state, self.cwd)

    def multi_edit(self) -> Tool:
        from cellwright.tools.files.multi_edit import multi_edit_tool

        return multi_edit_tool(self.state, self.cwd)

    def apply_patch(self) -> Tool:
        from cellwright.tools.files.apply_patch import apply_patch_tool

        return apply_patch_tool(self.state, self.cwd)

    def edit_symbol(self) -> Tool:
        from cellwright.tools.code.edit_symbol import edit_symbol_tool

        return edit_symbol_tool(self.state, self.cwd)

    def rename_symbol(self) -> Tool:
        from cellwright.tools.code.rename_symbol import rename_symbol_tool

        return rename_symbol_tool(self.code(), self.state)

    def glob(self) -> Tool:
        from cellwright.tools.search.glob import glob_tool

        return glob_tool(self.cwd, environ=self.place.environ)

    def grep(self) -> Tool:
        from cellwright.tools.search.grep import grep_tool

        return grep_tool(self.cwd)

    def ls(self) -> Tool:
        from cellwright.tools.search.ls import ls_tool

        return ls_tool(self.cwd)

    def file_tree(self) -> Tool:
        from cellwright.tools.search.file_tree import file_tree_tool

        return file_tree_tool(self.cwd)

    def semantic_search(self) -> Tool:
        from cellwright.tools.code.navigation.semantic_search import semantic_search_tool

        return semantic_search_tool(self.code())

    def find_definitions(self) -> Tool:
        from cellwright.tools.code.navigation.find_definitions import find_definitions_tool

        return find_definitions_tool(self.code())

    def find_references(self) -> Tool:
        from cellwright.tools.code.navigation.find_references import find_references_tool

        return find_references_tool(self.code())

    def code_outline(self) -> Tool:
        from cellwright.tools.code.navigation.code_outline import code_outline_tool

        return code_outline_tool(self.code())

    def code_context(self) -> Tool:
        from cellwright.tools.code.navigation.code_context import code_context_tool

        return code_context_tool(self.code())

    def analyze_function(self) -> Tool:
        from cellwright.tools.code.navigation.analyze_function import analyze_function_tool

        return analyze_function_tool(self.code())

    def import_chain(self) -> Tool:
        from cellwright.tools.code.navigation.import_chain import import_chain_tool

        return import_chain_tool(self.code())

    def call_chain(self) -> Tool:
        from cellwright.tools.code.navigation.call_chain import call_chain_tool

        return call_chain_tool(self.code())

    def similar_code(self) -> Tool:
        from cellwright.tools.code.navigation.similar_code import similar_code_tool

        return similar_code_tool(self.code())

    def code_metrics(self) -> Tool:
        from cellwright.tools.code.navigation.code_metrics import code_metrics_tool

        return code_metrics_tool(self.code())

    def git(self) -> Tool:
        from cellwright.tools.git.git import git_tool

        return git_tool(self.cwd, self.place.environ)

    def run_tests(self) -> Tool:
        from cellwright.tools.code.run_tests import run_tests_tool

        return run_tests_tool(self.cwd, self.place.environ)

    def lint(self) -> Tool:
        from cellwright.tools.code.lint import lint_tool

        return lint_tool(self.cwd, self.place.environ, self.state.keeper)

    def notebook_edit(self) -> Tool:
        from cellwright.tools.notebook.notebook_edit import notebook_edit_tool

        return notebook_edit_tool(self.state, self.cwd, self.place.open_notebooks)

    def notebook_read(self) -> Tool:
        from cellwright.tools.notebook.notebook_read import notebook_read_tool

        return notebook_read_tool(self.state, self.cwd, self.place.open_notebooks)

    def enter_plan_mode(self) -> Tool:
        from cellwright.tools.planning.enter_plan_mode import enter_plan_mode_tool

        return enter_plan_mode_tool()

    def todo_write(self) -> Tool:
        from cellwright.tools.planning.todo_write import todo_write_tool

        return todo_write_tool()

    def todo_read(self) -> Tool:
        from cellwright.tools.planning.todo_read import todo_read_tool

        return todo_read_tool()


LATER: Mapping[str, Callable[[ToolMakers], Tool]] = {
    "Write": ToolMakers.write,
    "Edit": ToolMakers.edit,
    "MultiEdit": ToolMakers.multi_edit,
    "ApplyPatch": ToolMakers.apply_patch,
    "EditSymbol": ToolMakers.edit_symbol,
    "RenameSymbol": ToolMakers.rename_symbol,
    "Glob": ToolMakers.glob,
    "Grep": ToolMakers.grep,
    "LS": ToolMakers.ls,
    "FileTree": ToolMakers.file_tree,
    "SemanticSearch": ToolMakers.semantic_search,
    "FindDefinitions": ToolMakers.find_definitions,
    "FindReferences": ToolMakers.find_references,
    "CodeOutline": ToolMakers.code_outline,
    "CodeContext": ToolMakers.code_context,
    "AnalyzeFunction": ToolMakers.analyze_function,
    "ImportChain": ToolMakers.import_chain,
    "CallChain": ToolMakers.call_chain,
    "SimilarCode": ToolMakers.similar_code,
    "CodeMetrics": ToolMakers.code_metrics,
    "Git": ToolMakers.git,
    "RunTests": ToolMakers.run_tests,
    "Lint": ToolMakers.lint,
    "NotebookEdit": ToolMakers.notebook_edit,
    "NotebookRead": ToolMakers.notebook_read,
    "EnterPlanMode": ToolMakers.enter_plan_mode,
    "TodoWrite": ToolMakers.todo_write,
    "TodoRead": ToolMakers.todo_read,
}
"""The tools that neither settings nor the environment describe otherwise."""
