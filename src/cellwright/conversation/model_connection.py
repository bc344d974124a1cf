"""The way to the model: connected when it is first needed, and again when the environment's credentials have changed."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from cellwright.config.credentials.stored_key import with_key
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.model.models import ProviderName
from cellwright.model.pricing import Tally
from cellwright.model.provider import Provider, Request

if TYPE_CHECKING:
    from cellwright.config.settings.settings_in_force import SettingsInForce
    from cellwright.model.anthropic import AnthropicProvider
    from cellwright.model.claude_code_provider import ClaudeCodeProvider

CREDENTIAL_NAMES = ("ANTHROPIC_", "CLAUDE_", "AWS_", "GOOGLE_", "CLOUD_ML_", "VERTEX_", "AZURE_", "CELLWRIGHT_")
"""The beginnings of the names of environment variables that say where the model is and who asks."""

_of_run: ContextVar[ProviderName | None] = ContextVar("provider of the run", default=None)
"""The choice of the run that goes on in this task, which what its tools and hooks ask besides follows."""


class ModelConnection:
    """The provider that the settings and the environment lead to, or the one that was `given`.

    `completions` is what inline completion has spent beside the runs.
    """

    def __init__(self, in_force: SettingsInForce, given: Provider | None) -> None:
        self.completions = Tally()
        self._in_force = in_force
        self._given = given
        self._provider: AnthropicProvider | None = None
        self._program: ClaudeCodeProvider | None = None
        self._credentials: dict[str, str] = {}
        self.keys: dict[str, str] = {}
        """The key that is in no environment: of `apiKeyHelper`, or of `cellwright auth login`."""

    @property
    def provider(self) -> Provider:
        """The way to the model. Raises `CellwrightError` API_KEY_MISSING; a key helper may take its time."""
        return self.chosen(_of_run.get())

    @property
    def is_given(self) -> bool:
        """True where the provider was handed in: no key is looked for."""
        return self._given is not None

    def use_in_this_task(self, name: ProviderName | None) -> None:
        """Have `name` be the way to the model in the task that calls, and in those that it starts."""
        _of_run.set(name)

    def name(self, chosen: ProviderName | None = None) -> ProviderName:
        """The name of the way: the one of a run, else what the settings say."""
        return chosen or self._in_force.settings.provider

    def chosen(self, name: ProviderName | None) -> Provider:
        """The provider of this name; None: as the settings say. Raises `CellwrightError` where it cannot be had."""
        if self._given is not None:
            return self._given
        return self._claude_code() if self.name(name) == "claude-code" else self._api()

    def _api(self) -> AnthropicProvider:
        settings = self._in_force.settings
        environ = with_key(
            self._in_force.environment, settings.api_key_helper, own_credentials=settings.own_credentials
        )
        credentials = _credentials(environ)
        self.keys = {
            name: key for name, key in credentials.items() if key and self._in_force.environment.get(name) != key
        }
        if self._provider is None or self._credentials != credentials:
            from cellwright.model.anthropic import connect  # httpx2 is not needed before there is a prompt

            self._provider, self._credentials = connect(environ), credentials
        return self._provider

    def _claude_code(self) -> ClaudeCodeProvider:
        if not self._in_force.settings.own_credentials:
            message = (
                "The administrator's settings don't allow credentials of your own, and that includes Claude Code "
                "(`--provider api`)."
            )
            raise CellwrightError(ErrorCode.PERMISSION_DENIED, message)
        if self._program is None:
            from cellwright.model.claude_code_provider import ClaudeCodeProvider  # few ask that way
            from cellwright.model.claude_code_sign_in import find_program

            environ = self._in_force.environment
            self._program = ClaudeCodeProvider(find_program(environ), lambda: self._in_force.environment)
        return self._program

    def prepare(self) -> Coroutine[Any, Any, None] | None:
        """The preparation of the first request, to be run on the agent's thread; None where there is none.

        Raises `CellwrightError` as `provider`.
        """
        self.provider  # noqa: B018  connects
        ready = self._program if self.name() == "claude-code" else self._provider
        return None if self._given is not None or ready is None else ready.prepare()

    async def count_tokens(self, request: Request, chosen: ProviderName | None) -> int | None:
        """Return the API's own count of a request's input, which costs nothing.

        None where the way to the model has no counter, or none that answers at once.
        """
        if self._given is not None or self.name(chosen) != "api":
            return None
        try:
            provider = await asyncio.to_thread(self._api)
        except CellwrightError:
            return None
        return await provider.count_tokens(request)

    @property
    def has_programs(self) -> bool:
        """True where programs may be running that ask the model."""
        return self._program is not None

    async def end_programs(self) -> None:
        """End the programs that ask the model. On the agent's thread."""
        if self._program is not None:
            await self._program.aclose()

    def count_completion(self, usage: Mapping[str, Any], cost_usd: float | None) -> None:
        """Count what one inline completion has spent."""
        self.completions = self.completions.plus(usage, cost_usd)


def _credentials(environ: Mapping[str, str]) -> dict[str, str]:
    # by the names: the process's environment decodes each value that is asked for
    return {name: environ[name] for name in environ if name.startswith(CREDENTIAL_NAMES)}
