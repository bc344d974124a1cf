"""The way to the model: connected when it is first needed, and again when the environment's credentials have changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cellwright.config.api_key_helper import with_helpers_key
from cellwright.model.pricing import Tally
from cellwright.model.provider import Provider

if TYPE_CHECKING:
    from cellwright.config.settings.settings_in_force import SettingsInForce

CREDENTIAL_NAMES = ("ANTHROPIC_", "CLAUDE_", "AWS_", "GOOGLE_", "CLOUD_ML_", "VERTEX_", "AZURE_", "CELLWRIGHT_")
"""The beginnings of the names of environment variables that say where the model is and who asks."""


class ModelConnection:
    """The provider that the environment leads to, or the one that was `given`.

    `completions` is what inline completion has spent beside the runs.
    """

    def __init__(self, in_force: SettingsInForce, given: Provider | None) -> None:
        self.completions = Tally()
        self._in_force = in_force
        self._given = given
        self._provider: Provider | None = None
        self._credentials: dict[str, str] = {}

    @property
    def provider(self) -> Provider:
        """The way to the model. Raises `CellwrightError` API_KEY_MISSING; a key helper may take its time."""
        if self._given is not None:
            return self._given
        environ = with_helpers_key(self._in_force.environment, self._in_force.settings.api_key_helper)
        credentials = {name: value for name, value in environ.items() if name.startswith(CREDENTIAL_NAMES)}
        if self._provider is None or self._credentials != credentials:
            from cellwright.model.anthropic import connect  # httpx2 is not needed before there is a prompt

            self._provider, self._credentials = connect(environ), credentials
        return self._provider

    def count_completion(self, usage: Mapping[str, Any], cost_usd: float | None) -> None:
        """Count what one inline completion has spent."""
        self.completions = self.completions.plus(usage, cost_usd)
