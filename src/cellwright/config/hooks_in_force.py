"""The hooks of a conversation as its settings stand: read when there are any, told of what happens between runs."""

from __future__ import annotations

import concurrent.futures
import contextlib
from collections.abc import Mapping

from cellwright.agent.agent_thread import AgentThread
from cellwright.agent.hooks import NO_HOOKS, Hooks
from cellwright.agent.run_hooks import session_fields
from cellwright.agent.session import Session
from cellwright.config.settings import Settings

LONGEST_END_SECONDS = 61.0
"""How long the end of a session is waited for; each of its hooks has a time of its own."""


class HooksInForce:
    """The hooks of settings files, for one conversation after another session."""

    def __init__(self) -> None:
        self.hooks: Hooks = NO_HOOKS
        self._read_from: object = ()

    def of(self, settings: Settings, environ: Mapping[str, str]) -> Hooks:
        """The hooks that `settings` say; the same ones as long as the settings say the same."""
        key = (
            settings.hooks,
            settings.env,
            settings.disable_all_hooks,
            settings.allow_managed_hooks_only,
            settings.allowed_http_hook_urls,
            settings.http_hook_allowed_env_vars,
        )
        if key != self._read_from:
            self._read_from = key
            self.hooks = NO_HOOKS
            if settings.hooks:
                from cellwright.config.hooks import settings_hooks  # nobody without hooks waits for it

                self.hooks = settings_hooks(settings, environ)
        return self.hooks

    def end_session(self, session: Session, mode: str, reason: str, thread: AgentThread, *, wait: bool) -> None:
        """Tell SessionEnd hooks that a session which had begun is left."""
        if session.started_by or not self.hooks.listens_to("SessionEnd"):
            return
        fields = {**session_fields("SessionEnd", session, mode), "reason": reason}
        task = thread.submit(self.hooks.fire("SessionEnd", fields, None))
        if wait:
            with contextlib.suppress(TimeoutError, concurrent.futures.CancelledError):
                task.future.result(LONGEST_END_SECONDS)
