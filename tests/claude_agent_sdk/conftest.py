"""The model that programs of the SDK talk to, by the environment, in a folder of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cellwright.testing import MessagesServer


@pytest.fixture
def server(
    messages_server: Callable[..., MessagesServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> MessagesServer:
    made = messages_server()
    monkeypatch.setenv("ANTHROPIC_BASE_URL", made.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", made.api_key)
    monkeypatch.chdir(tmp_path)
    return made
