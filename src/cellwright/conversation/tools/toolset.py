"""The tools of a conversation, made once a session, since some share what they know of files and folders.

What the first answer's calls and its end need is imported while the model thinks about it (`ThinkingTime`): a session's
first request waits for nothing of that, and neither does its first call: thirty modules are 40 ms.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import os
import threading
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from msgspec.structs import replace

from cellwright.agent.agent_setup import AgentSetup
from cellwright.agent.calls.approval import Policy
from cellwright.agent.calls.input_schema import check_input
from cellwright.agent.calls.tool_names import written_tools
from cellwright.agent.subagent import SideRequest, small_model
from cellwright.agent.tool import GROUPS, TOOL_ALIASES, TOOL_SEARCH, Tool, is_chosen
from cellwright.config.hooks.hooks_in_force import HooksInForce
from cellwright.config.settings.settings import load_settings, tool_is_allowed
from cellwright.config.settings.settings_in_force import SettingsInForce
from cellwright.config.user_tools import brought_tools
from cellwright.conversation.model_connection import ModelConnection
from cellwright.conversation.resolve_options import has_small_window
from cellwright.conversation.runs.in_force import SandboxLookup
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.conversation.tools.built_in_tools import (
    ToolEnvironment,
    make_tools,
    never_unsaved,
    no_live_definition,
    whole_tool,
)
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.model.betas import may_defer
from cellwright.model.credentials import is_own_platform
from cellwright.permissions.rules.rule import RULE_NAMES
from cellwright.tools.files.file_state import BackupStore, FileState
from cellwright.tools.notebook.open_notebook import NothingOpen, OpenNotebook, OpenNotebooks
from cellwright.tools.search.tool_search import with_tool_search

if TYPE_CHECKING:
    from cellwright.tools.agent import StartAgent
    from cellwright.tools.shell.background import StopAgent
    from cellwright.tools.skill import LoadSkill


ToolMaker = Callable[[SettingsInForce], Sequence[Tool]]
"""Makes the tools that a process adds to the built-in ones."""

LATE_MODULES = ("cellwright.tools.code.navigation.project_code",)
"""Modules that calls import when they have been judged."""


def builtin_tools(*names: str, cwd: Path | str | None = None) -> tuple[Tool, ...]:
    """The built-in tools of these `names`, all where none is given, as objects that work in `cwd` (default: here).

    A name may be a group: `@read` and `@edit`, or a category such as `@search`. The tools share one memory of what was
    read. `ask` and `Agent` take the names themselves. Raises CellwrightError
    TOOL_NOT_FOUND for a name that there is not.

    >>> [tool.name for tool in builtin_tools("Read", "Grep")]
    ['Read', 'Grep']
    """
    folder = Path.cwd() if cwd is None else Path(cwd).absolute()
    made = make_tools(ToolEnvironment(cwd=folder, settings=load_settings(folder, os.environ)))
    return tuple(map(whole_tool, _named(made, names) if names else made))


def _named(tools: Sequence[Tool], names: Sequence[str]) -> tuple[Tool, ...]:
    """Choose tools by their names, names that others have for them, and groups. Raises CellwrightError TOOL_NOT_FOUND."""
    known = (name for name in names if name in GROUPS or any(is_chosen(tool, name) for tool in tools))
    if unknown := set(names).difference(known):
        there = f"{', '.join(sorted(tool.name for tool in tools))}; groups of them: {', '.join(GROUPS)}"
        message = f"Tool {', '.join(sorted(unknown))} was not found. The tools are: {there}."
        raise CellwrightError(ErrorCode.TOOL_NOT_FOUND, message)
    return tuple(tool for tool in tools if any(is_chosen(tool, name) for name in names))


def all_tools(place: ToolEnvironment, more: Sequence[Tool]) -> tuple[tuple[Tool, ...], list[str]]:
    """The built-in tools, this process's (`more`), those of packages and trusted folders; notices for the user."""
    own = (*make_tools(place), *more)
    # what rules know by name is a tool of ours: nobody else gets such a name, there or not
    brought = brought_tools(
        place.settings.tool_files, [*(tool.name for tool in own), *RULE_NAMES, "Task", *TOOL_ALIASES]
    )
    # what the administrator forbids Claude is not even told of
    tools = [tool for tool in (*own, *brought.tools.values()) if tool_is_allowed(tool.name, place.settings)]
    if tool_is_allowed(TOOL_SEARCH, place.settings) and tools_may_be_deferred(place.environ):
        return with_tool_search(tools), brought.notices
    return tuple(tools), brought.notices


def tools_may_be_deferred(environ: Mapping[str, str]) -> bool:
    """Return whether definitions may be loaded on demand on the way to the model."""
    return may_defer(environ, is_own_platform=is_own_platform(environ))


class KeptChanges(BackupStore, Protocol):
    """Keeps what tools change of files and of cells, so that it can be undone."""

    def recorded(self, notebook: OpenNotebook) -> OpenNotebook: ...
    def recorded_notebooks(self, notebooks: OpenNotebooks) -> OpenNotebooks: ...


class ConversationTools:
    """Makes the tools of runs, once a session. `more` makes this process's own; the rest is as in `ToolEnvironment`."""

    def __init__(
        self,
        in_force: SettingsInForce,
        hooks: HooksInForce,
        model: ModelConnection,
        kept: KeptChanges,
        *,
        is_unsaved: Callable[[Path], bool] = never_unsaved,
        open_notebooks: OpenNotebooks | None = None,
        more: ToolMaker | None = None,
        load_skill: LoadSkill | None = None,
        start_agent: StartAgent | None = None,
        stop_agent: StopAgent | None = None,
        live_definitions: Callable[[str], str] = no_live_definition,
    ) -> None:
        self.open_notebooks: OpenNotebooks = open_notebooks or NothingOpen()
        """The notebooks that are open in this process's front ends."""
        self.add_dirs: tuple[Path, ...] = ()
        """The folders that the run which goes on has besides the settings'."""
        self.notices: list[str] = []
        """The notices about tools that others bring."""
        self._in_force = in_force
        self._hooks = hooks
        self._model = model
        self._kept = kept
        self._is_unsaved = is_unsaved
        self._more = more
        self._load_skill = load_skill
        self._start_agent = start_agent
        self._stop_agent = stop_agent
        self._live_definitions = live_definitions
        self._making = threading.Lock()
        self._made: tuple[Tool, ...] | None = None
        self._path: dict[str, str] = {}
        """The PATH that plugins make; of the tools' environment, and so changed in its place."""
        self.file_state = FileState(is_unsaved, kept)
        """Claude's knowledge of files."""

    def forget(self) -> None:
        """The next run's tools are made anew, as the settings stand then: what was read is forgotten."""
        self._made = None

    def in_folder(self, folder: Path) -> tuple[Tool, ...]:
        """The built-in tools for work in `folder` instead, which know nothing of what was read before."""
        place = self._workplace(FileState(self._is_unsaved))
        return make_tools(replace(place, cwd=folder))

    def of(self, options: RunOptions) -> tuple[Tool, ...]:
        """The tools of a run: the built-in ones, this process's, and the ones that came with the options.

        Without the built-in ones those that the options name; with a small window those for every day. CellwrightError for a
        name that there is not, and for a tool that has the name by which rules know another.
        """
        if not options.builtin_tools and not options.tool_names:
            return options.tools
        path = self._in_force.plugin_path
        if path != self._path:
            self._path.clear()
            self._path.update(path)
        made = self._all()
        chosen = _named(made, options.tool_names)
        if options.builtin_tools and has_small_window(options, self._in_force.settings, self._in_force.environment):
            ours = written_tools()
            made = tuple(tool for tool in made if tool.everyday or tool.name not in ours)
        if taken := [tool.name for tool in options.tools if tool.name in TOOL_ALIASES]:
            own = ", ".join(f"{name} ({TOOL_ALIASES[name]})" for name in taken)
            message = f"Rules take these names for tools of ours: {own}. Give your tools other names."
            raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
        return (*(made if options.builtin_tools else chosen), *options.tools)

    def _all(self) -> tuple[Tool, ...]:
        with self._making:  # made twice, they would not share what was read
            made = self._made
            if made is None:
                self.file_state = FileState(self._is_unsaved, self._kept)
                more = () if self._more is None else self._more(self._in_force)
                made, self.notices = all_tools(self._workplace(self.file_state), more)
                self._made = made
        return made

    def _workplace(self, file_state: FileState) -> ToolEnvironment:
        environ = ChainMap(self._hooks.exported, self._path, self._in_force.environment)  # type: ignore[arg-type]  # it is only read
        return ToolEnvironment(
            cwd=self._in_force.cwd,
            settings=self._in_force.settings,
            environ=environ,
            side_request=SideRequest(lambda: self._model.provider, small_model(environ)),
            is_unsaved=self._is_unsaved,
            open_notebooks=self._kept.recorded_notebooks(self.open_notebooks),
            file_state=file_state,
            more_roots=lambda: self.add_dirs,
            load_skill=self._load_skill,
            start_agent=self._start_agent,
            stop_agent=self._stop_agent,
            live_definitions=self._live_definitions,
        )


class ThinkingTime:
    """The work while the model thinks about the first answer, done once; `add` may say more of it before."""

    def __init__(self, sandbox: SandboxLookup) -> None:
        self._sandbox = sandbox
        self._work: list[Callable[[], None]] = []
        self._asked = self._begun = False

    def add(self, work: Callable[[], None]) -> None:
        """Have this done, too; in a thread."""
        self._work.append(work)

    def begin(self, agent: AgentSetup, when_looked: Callable[[], None]) -> None:
        """A request of `agent` has left; on its loop. `when_looked` is called when the sandbox is known, in any thread."""

        def begin() -> None:
            self._sandbox.begin().add_done_callback(lambda _: when_looked())
            if not self._begun:
                self._begun = True
                # a policy as it is now: the one in force renews itself, on this thread alone
                work = functools.partial(self._do, agent.tools, agent.policy.allowing(()))
                threading.Thread(target=work, name="cellwright-thinking", daemon=True).start()

        if self._asked:  # the first answer has been shown
            begin()
        else:
            self._asked = True
            # an answer that comes at once is shown first: two threads at work hinder each other
            asyncio.get_running_loop().call_later(0.05, begin)

    def _do(self, tools: Sequence[Tool], policy: Policy) -> None:
        with suppress(Exception):
            self._sandbox.found()  # whoever needs it says what failed
        rehearse([tool for tool in tools if not (tool.defer_loading or tool.rarely_used)], policy)
        # what fails here fails again, with its message, when it is needed
        for name in LATE_MODULES:
            with suppress(Exception):
                importlib.import_module(name)
        for work in self._work:
            with suppress(Exception):
                work()


def rehearse(tools: Sequence[Tool], policy: Policy) -> None:
    """Check and judge a call of each of the tools, and do none: what is only imported for that is there from now on."""
    for tool in tools:
        # an example need not fit where it is taken for a call, and nobody is told
        with suppress(Exception):
            policy.decide(tool, check_input(tool, tool.input_examples[0] if tool.input_examples else {}))
