"""The way to the model: connected when it is first needed, and again when the environment's credentials have changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cellwright.model.provider import Provider

CREDENTIAL_NAMES = ("ANTHROPIC_", "CLAUDE_", "AWS_", "GOOGLE_", "CLOUD_ML_", "VERTEX_", "AZURE_", "CELLWRIGHT_")
"""How the names of environment variables start that say where the model is and who asks."""


class ModelConnection:
    """The provider that the environment leads to, or the one that was `given`."""

    def __init__(self, given: Provider | None) -> None:
        self._given = given
        self._provider: Provider | None = None
        self._credentials: dict[str, str] = {}

    def provider(self, environment: Callable[[], Mapping[str, str]]) -> Provider:
        """The way to the model by `environment()`. Raises `CellwrightError` API_KEY_MISSING."""
        if self._given is not None:
            return self._given
        environ = environment()
        credentials = {name: value for name, value in environ.items() if name.startswith(CREDENTIAL_NAMES)}
        if self._provider is None or self._credentials != credentials:
            from cellwright.model.anthropic import connect  # httpx2 is not needed before there is a prompt

            self._provider, self._credentials = connect(environ), credentials
        return self._provider
