"""The tools of a conversation, made together because some share what they know of files and folders.

The tools of a conversation: made once a session, since they share what was read.
"""

from __future__ import annotations

import os
import threading
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cellwright.agent.tool import Tool
from cellwright.checkpoints.checkpoints import Checkpoints
from cellwright.checkpoints.notebooks import RecordedNotebooks
from cellwright.config.hooks.hooks_in_force import HooksInForce
from cellwright.config.settings.allowed import tool_is_allowed
from cellwright.config.settings.settings import Settings
from cellwright.config.settings.settings_in_force import SettingsInForce
from cellwright.conversation.model_connection import ModelConnection
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.model.provider import Provider
from cellwright.permissions.policy import JUDGES
from cellwright.tools.files.file_state import FileState
from cellwright.tools.notebook.open_notebook import NothingOpen, OpenNotebooks

ToolMaker = Callable[[SettingsInForce], Sequence[Tool]]
"""Makes the tools that a process adds to the built-in ones."""


def never_unsaved(_path: Path) -> bool:
    """Where there is no editor."""
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Workplace:
    """What tools need of the place they work in.

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
    file_state: FileState | None = None
    """What the model knows of files, where others must know it, too."""


def builtin_tools(place: Workplace) -> tuple[Tool, ...]:
    """The tools that need no kernel, sharing one memory of what was read."""
    from cellwright.tools.code.lint import lint_tool
    from cellwright.tools.code.run_tests import run_tests_tool
    from cellwright.tools.files.read import file_tools
    from cellwright.tools.git.git import git_tool
    from cellwright.tools.notebook.notebook_edit import notebook_file_tools
    from cellwright.tools.planning.ask_user import ask_user_tool
    from cellwright.tools.planning.plan_mode import plan_tools
    from cellwright.tools.planning.todo_write import todo_tools
    from cellwright.tools.search.search_tools import search_tools
    from cellwright.tools.shell.bash import bash_tools
    from cellwright.tools.web.web_fetch import web_tools

    cwd, settings, environ = place.cwd, place.settings, place.environ
    state = place.file_state or FileState(place.is_unsaved)
    roots = (cwd, *settings.additional_directories)
    return (
        *file_tools(state, cwd, place.open_notebooks),
        *search_tools(cwd, environ=environ),
        git_tool(cwd, environ),
        run_tests_tool(cwd, environ),
        lint_tool(cwd, environ, state.keeper),
        *notebook_file_tools(state, cwd, place.open_notebooks),
        *bash_tools(
            cwd, roots, environ=environ, shown_chars=settings.bash_output_max_chars, seconds=settings.command_timeout
        ),
        *todo_tools(environ),
        ask_user_tool(),
        *plan_tools(settings.project, settings.plans_directory),
        *web_tools(
            environ,
            place.provider,
            seconds=settings.web_fetch_timeout,
            most_bytes=settings.max_file_size,
            cache_seconds=settings.cache_ttl,
        ),
    )


def all_tools(place: Workplace, more: Sequence[Tool]) -> tuple[tuple[Tool, ...], list[str]]:
    """The built-in tools, this process's (`more`), those of packages and trusted folders; notices for the user."""
    from cellwright.config.tool_plugins import brought_tools

    own = (*builtin_tools(place), *more)
    # what the policy knows by name, it may let run unasked: nobody else gets such a name, there or not
    brought = brought_tools(place.settings.tool_files, [*(tool.name for tool in own), *JUDGES, "Task"])
    tools = (*own, *brought.tools.values())
    # what the administrator forbids Claude is not even told of
    return tuple(tool for tool in tools if tool_is_allowed(tool.name, place.settings)), brought.notices


class ConversationTools:
    """Makes the tools of runs, once a session. `more` makes this process's own; the rest is as in `Workplace`."""

    def __init__(
        self,
        in_force: SettingsInForce,
        hooks: HooksInForce,
        model: ModelConnection,
        checkpoints: Checkpoints,
        *,
        is_unsaved: Callable[[Path], bool] = never_unsaved,
        open_notebooks: OpenNotebooks | None = None,
        more: ToolMaker | None = None,
    ) -> None:
        self.open_notebooks: OpenNotebooks = open_notebooks or NothingOpen()
        """The notebooks that are open in this process's front ends."""
        self.notices: list[str] = []
        """What is to be said of tools that others bring."""
        self._in_force = in_force
        self._hooks = hooks
        self._model = model
        self._checkpoints = checkpoints
        self._is_unsaved = is_unsaved
        self._more = more
        self._making = threading.Lock()
        self._made: tuple[Tool, ...] | None = None
        self.file_state = FileState(is_unsaved, checkpoints)
        """What Claude knows of files."""

    def forget(self) -> None:
        """The next run's tools are made anew, as the settings stand then: what was read is forgotten."""
        self._made = None

    def of(self, options: RunOptions) -> tuple[Tool, ...]:
        """The tools of a run: the built-in ones, this process's, and the ones that came with the options."""
        if not options.builtin_tools:
            return options.tools
        with self._making:  # made twice, they would not share what was read
            made = self._made
            if made is None:
                self.file_state = FileState(self._is_unsaved, self._checkpoints)
                more = () if self._more is None else self._more(self._in_force)
                made, self.notices = all_tools(self._workplace(self.file_state), more)
                self._made = made
        return (*made, *options.tools)

    def _workplace(self, file_state: FileState) -> Workplace:
        return Workplace(
            cwd=self._in_force.cwd,
            settings=self._in_force.settings,
            environ=ChainMap(self._hooks.exported, self._in_force.environment),  # type: ignore[arg-type]  # it is only read
            provider=lambda: self._model.provider,
            is_unsaved=self._is_unsaved,
            open_notebooks=RecordedNotebooks(self.open_notebooks, lambda: self._checkpoints.turn),
            file_state=file_state,
        )
