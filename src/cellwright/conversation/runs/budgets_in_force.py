"""The budgets beyond a run that the settings name, and the files in the state folder where all processes count.

What is spent is counted whether there is a budget or not: one that is set at noon knows of the morning.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from cellwright.agent.agent_setup import AgentSetup
from cellwright.agent.spending.run_spending import Budget, CountedFile, SharedBudgets
from cellwright.agent.spending.spending_file import SpendingFile, day_spending
from cellwright.config.settings.settings import Settings
from cellwright.conversation.feature import Feature
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.sessions.state_dir import state_folder


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
