"""The policy of a run, its sandbox and its budgets, as the settings and the machine stand.

The policy is made anew where the settings have changed since the last decision. The sandbox is looked for once, on a thread
of its own: trying what works takes some milliseconds. Budgets beyond a run are counted in files in the state folder, where
all processes count. What is spent is counted whether there is a budget or not: one that is set at noon knows of the morning.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from cellwright.agent.agent_setup import AgentSetup
from cellwright.agent.calls.approval import Decision, Policy, PolicyAround
from cellwright.agent.spending import Budget, CountedFile, SharedBudgets, SpendingFile, day_spending
from cellwright.config.settings.settings import Settings
from cellwright.config.settings.settings_in_force import SettingsInForce
from cellwright.conversation.feature import Feature
from cellwright.conversation.resolve_options import policy_of
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.errors import CellwrightError, log_fault
from cellwright.events import Answered, ContextAttached, Decided, Event, Notice, ToolEnd, ToolStart, UserPrompt
from cellwright.permissions.sandboxing import FindAbilities, SandboxAbilities
from cellwright.sessions.state_dir import state_folder
from cellwright.tools.process.child_processes import child_processes

if TYPE_CHECKING:
    from cellwright.agent.calls.approval import Confinement
    from cellwright.agent.tool import Tool
    from cellwright.permissions.policy import PermissionPolicy


logger = logging.getLogger(__name__)


class PolicyInForce:
    """A run's policy, by the settings of `in_force` and the run's options. Raises CellwrightError as `policy_of`.

    Where settings that have changed meanwhile allow no such run, every call is denied, with the reason.
    """

    def __init__(self, in_force: SettingsInForce, options: RunOptions, means: FindAbilities) -> None:
        self._in_force, self._options, self._means = in_force, options, means
        self._made_from = in_force.settings
        self._policy: Policy = self._made()

    @property
    def mode(self) -> str:
        return self.now().mode

    def decide(self, tool: Tool, tool_input: Mapping[str, Any]) -> Decision:
        return self.now().decide(tool, tool_input)

    def may_read(self, path: str) -> bool:
        return self.now().may_read(path)

    def confinement_for_project_code(self) -> Confinement | None:
        return self.now().confinement_for_project_code()

    def hides(self, tool: Tool) -> bool:
        return self.now().hides(tool)

    def allowing(self, rules: Sequence[str]) -> Policy:
        return self.now().allowing(rules)

    def in_mode(self, mode: str) -> Policy:
        return self.now().in_mode(mode)

    def without_trials(self) -> Policy:
        return self.now().without_trials()

    def now(self) -> Policy:
        """The policy as the settings are at this moment."""
        self._in_force.look()
        if self._in_force.settings is not self._made_from:
            self._made_from = self._in_force.settings
            try:
                self._policy = self._made()
            except CellwrightError as error:
                self._policy = _NothingRuns(self._policy, f"The settings have changed. {error.message}")
        return self._policy

    def _made(self) -> PermissionPolicy:
        in_force = self._in_force
        return policy_of(
            self._options, self._made_from, in_force.cwd, in_force.environ, self._means, in_force.notes_folder
        )


class _NothingRuns(PolicyAround, frozen=True):
    """The policy of settings that no run may have; `base` is what held until then."""

    reason: str

    def decide(self, _tool: Tool, _tool_input: Mapping[str, Any]) -> Decision:
        return Decision("deny", self.reason)

    def may_read(self, _path: str) -> bool:
        return False

    def allowing(self, _rules: Sequence[str]) -> Policy:
        return self

    def without_trials(self) -> Policy:
        return self


class CallsAtWork:
    """The calls of a run that may be writing: what changes while none is, the user has changed."""

    def __init__(self, in_force: SettingsInForce) -> None:
        self._in_force = in_force
        self._reading: set[str] = set()
        self._at_work: set[str] = set()

    def are_idle(self) -> bool:
        """Return whether nothing that Claude started runs."""
        return not self._at_work and not child_processes().running

    def on_event(self, event: Event) -> None:
        """Take note of calls that begin and end."""
        if not isinstance(event, UserPrompt | Notice | ContextAttached):
            self._in_force.run_answers()
        match event:
            case ToolStart():
                self._reading |= {str(call.tool_use["id"]) for call in event.calls if call.read_only}
            case Decided(behavior="allow") if event.tool_use_id not in self._reading:
                self._at_work.add(event.tool_use_id)
            case Answered(behavior="allow") if event.tool_use_id not in self._reading:
                self._in_force.look()  # what was changed before the answer, the user has changed
                self._at_work.add(event.tool_use_id)
            case ToolEnd() if event.tool_use_id in self._at_work:
                self._in_force.look()
                self._at_work.discard(event.tool_use_id)
            case _:
                pass


class BudgetsInForce(Feature):
    """The budgets of the session, of the notebook that `notebook` names, and of the day."""

    def __init__(self, settings: Callable[[], Settings], notebook: Callable[[], Path | None]) -> None:
        self._settings = settings
        self._notebook = notebook
        self._day: SpendingFile | None = None
        self._notebooks: dict[Path, SpendingFile] = {}

    @property
    def day(self) -> SpendingFile:
        """The spending of the user's processes today."""
        if self._day is None:
            self._day = day_spending(state_folder() / "spending" / "days")
        return self._day

    def notebook(self) -> tuple[Path, SpendingFile] | None:
        """The notebook that this process runs, and what was ever spent from it; None where it runs none."""
        path = self._notebook()
        if path is None:
            return None
        if path not in self._notebooks:
            name = hashlib.sha256(os.fsencode(path.resolve())).hexdigest()[:24]
            file = state_folder() / "spending" / "notebooks" / name
            self._notebooks[path] = SpendingFile(lambda: file)
        return path, self._notebooks[path]

    def agent(self, agent: AgentSetup, options: RunOptions) -> AgentSetup:
        return replace(agent, limits=replace(agent.limits, shared_budgets=self.of_run()))

    def of_run(self) -> SharedBudgets:
        """The budgets of a run that begins now, and the files where it counts."""
        settings = self._settings()
        files = [CountedFile(self.day, self._budget(settings, "day"))]
        if (notebook := self.notebook()) is not None:
            files.append(CountedFile(notebook[1], self._budget(settings, "notebook")))
        return SharedBudgets(self._budget(settings, "session"), tuple(files))

    def _budget(self, settings: Settings, whose: str) -> Budget | None:
        name, usd = {
            "session": ("sessionBudget", settings.session_budget),
            "notebook": ("notebookBudget", settings.notebook_budget),
            "day": ("dailyBudget", settings.daily_budget),
        }[whose]
        if usd is None:
            return None
        origin = settings.origin(f"cellwright.{name}")
        return Budget(usd, whose, f"`cellwright.{name}`{f' ({origin.label})' if origin is not None else ''}")


class SandboxFound(Struct, frozen=True):
    """The abilities of the sandbox (None: there is none), and each means that is missing, with the reason."""

    abilities: SandboxAbilities | None
    missing: Mapping[str, str] = field(default_factory=dict)


FindSandbox = Callable[[], SandboxFound]


def look_for_sandbox() -> SandboxFound:
    """Find out what this machine can confine commands by."""
    from cellwright.sandbox.mechanisms import find_sandbox, missing_means  # needed with the first run

    with contextlib.suppress(OSError):  # without a shell nothing can be started, as a command would say
        child_processes().watch()  # what is tried leaves files behind where this process is killed
    sandbox = find_sandbox()
    return SandboxFound(None if sandbox is None else sandbox.abilities, missing_means())


class SandboxLookup:
    """The search for the sandbox: begun before its result is needed, so that nobody waits long. From any thread."""

    def __init__(self, find: FindSandbox = look_for_sandbox) -> None:
        self._find = find
        self._lock = threading.Lock()
        self._future: Future[SandboxFound] | None = None

    def begin(self) -> Future[SandboxFound]:
        """Start to look, where nobody has yet."""
        with self._lock:
            if self._future is None:
                self._future = Future()
                threading.Thread(
                    target=self._look, args=(self._future,), name="cellwright-sandbox", daemon=True
                ).start()
            return self._future

    def found(self) -> SandboxFound:
        """Return what there is; waits for the end of the search."""
        return self.begin().result()

    def found_by_now(self) -> SandboxFound | None:
        """Return what there is; None while nobody knows yet."""
        future = self._future
        return future.result() if future is not None and future.done() else None

    def abilities(self) -> SandboxAbilities | None:
        """Return what can be enforced; waits for the end of the search."""
        return self.found().abilities

    def _look(self, future: Future[SandboxFound]) -> None:
        try:
            found = self._find()
        except Exception as error:  # noqa: BLE001  every later run asks for it, and there is none where looking for it fails
            log_fault(logger, "looking for the sandbox failed")
            found = SandboxFound(None, {"sandbox": f"looking for it failed: {error}"})
        future.set_result(found)
