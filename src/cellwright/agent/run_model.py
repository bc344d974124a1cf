"""The model that answers in a run: the agent's own, the one for plan mode, the one the user has chosen, or a fallback."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cellwright.agent.run_errors import is_of_model
from cellwright.errors import ApiError
from cellwright.events import Emit, Notice
from cellwright.model.models import limits

if TYPE_CHECKING:
    from cellwright.agent.agent_setup import ModelSettings
    from cellwright.agent.spending import Spending
    from cellwright.model.provider import RequestOptions
    from cellwright.sessions.session import Session


class RunModel:
    """The choice of one run, which changes `spending.model` with it. `max_tokens` bounds its next answer."""

    def __init__(self, own: str, settings: ModelSettings, session: Session, emit: Emit, spending: Spending) -> None:
        self._own = own
        self._settings = settings
        self._session = session
        self._emit = emit
        self._spending = spending
        self._chosen = ""
        """The model that the user has chosen while the run continues."""
        self.fallbacks = [name for name in dict.fromkeys(settings.fallback_models) if name != own]
        self.name = own
        self.max_tokens = min(settings.max_tokens, limits(own).max_output)

    @property
    def is_own(self) -> bool:
        """True while the agent's own model answers."""
        return self.name == self._own

    def options(self) -> RequestOptions:
        """The agent's options that the answering model supports. One notice names those that the agent's own model lacks."""
        lacking = self._settings.lacking(self.name)
        if lacking and self.is_own and self._session.told_lacking != lacking:
            self._session.told_lacking = lacking
            self._emit(Notice(lacking, "warning"))
        return self._settings.accepted_by(self.name, is_own=self.is_own)

    def choose(self, chosen: str | None, mode: str) -> None:
        """Have the model answer that the user has `chosen` meanwhile, else the one for the session's `mode`.

        Where a fallback continues already, only the user takes its place.
        """
        plan, model = self._settings.plan_model, chosen
        if model is None:
            if plan is None or self.name not in (self._own, plan):
                return
            model = plan if mode == "plan" else self._own
        elif model != self._chosen:
            self._chosen = model  # once: a fallback may have to take its place later
        else:
            return
        if model != self.name:
            self.name = self._spending.model = model
            self.max_tokens = min(self._settings.max_tokens, limits(model).max_output)

    def may_fall_back(self, error: ApiError) -> bool:
        """Return whether another model may answer, as this one cannot."""
        return bool(self.fallbacks) and is_of_model(error)

    def fall_back(self, why: str) -> None:
        """Have the next model answer from here on, until the run ends."""
        before, self.name = self.name, self.fallbacks.pop(0)
        self.max_tokens = min(self.max_tokens, limits(self.name).max_output)
        self._spending.model = self.name
        self._emit(Notice(f"{before} cannot answer now ({why}) {self.name} continues with this prompt.", "warning"))

    def next(self, error: ApiError) -> str | None:
        """Fall back if `error` is the model's, and return the model that answers then; None if this one is kept."""
        if not self.may_fall_back(error):
            return None
        self.fall_back(error.message)
        return self.name

    def allow_longer_answers(self) -> None:
        """Let the next answer be twice as long, as far as the model can."""
        self.max_tokens = min(self.max_tokens * 2, limits(self.name).max_output)
