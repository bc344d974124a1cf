"""Fixtures of place: every test has a home of its own, no credentials from outside, and servers that end with it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cellwright.testing import MessagesServer


@pytest.fixture(autouse=True)
def own_place(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """HOME and CELLWRIGHT_HOME in a fresh folder, and nothing in the environment that points to a real account."""
    home = tmp_path_factory.mktemp("home")
    for name in list(os.environ):
        if name.startswith(("ANTHROPIC_", "CLAUDE_", "CELLWRIGHT_", "AWS_", "XDG_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("CELLWRIGHT_HOME", str(home / "cellwright"))
    return home


@pytest.fixture
def messages_server() -> Iterator[Callable[..., MessagesServer]]:
    """Starts a `MessagesServer` for a script; it is stopped when the test ends."""
    with contextlib.ExitStack() as running:

        def start(script: Any = (), **options: Any) -> MessagesServer:
            return running.enter_context(MessagesServer(script, **options))

        yield start
