"""The real program `claude`, asked by us and asking the strict local server; `make leg LEG=claude-code` installs it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

# importlib mode leaves it out
sys.path.insert(0, str(Path(__file__).parents[2] / "kernel" / "support"))

from cellwright.testing import MessagesServer
from talk import Talk


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Talk]:
    with MessagesServer() as server:
        talk = Talk(server, tmp_path)
        talk.settings(cellwright={"provider": "claude-code"})
        yield talk
        talk.close()
