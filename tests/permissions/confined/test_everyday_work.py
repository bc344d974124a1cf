"""The questions of a day's work: a data scientist's agent runs its commands, and what is asked before or after is counted.

Each command runs for real, with each means of confinement. Nobody says yes.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import pytest
from msgspec import Struct

from cellwright.agent.agent_setup import AgentSetup
from cellwright.agent.calls.approval import Allow, Deny, ToolUse
from cellwright.agent.loop import run_agent
from cellwright.conversation.system_prompt import system_blocks
from cellwright.model.anthropic import connect
from cellwright.permissions.policy import PermissionPolicy
from cellwright.permissions.sandboxing import SandboxRules
from cellwright.sandbox.mechanisms import Sandbox
from cellwright.sessions.session import Session
from cellwright.testing import MessagesServer, say, turn, use
from cellwright.tools.process.child_processes import ChildProcesses
from cellwright.tools.shell.bash import bash_tool
from confined import sandbox_by, staging_sandbox
from everyday_commands import analysis, changing

READING_MAY_ASK = 2
CHANGING_MAY_ASK = 15
CANARY = "nobody may change this"

FILES = {
    "data/train.csv": "kind,price,stars\nchair,10.5,4\ntable,99,5\nchair,12,\n",
    "src/shop/__init__.py": "",
    "src/shop/prices.py": "def total(prices: list[float]) -> float:\n    return sum(prices)\n",
    "tests/test_prices.py": "from shop.prices import total\n\n\ndef test_total(tmp_path):\n"
    "    (tmp_path / 'x').write_text('x')\n    assert total([1, 2]) == 3\n",
    "summary.py": "import csv, sys\npath = sys.argv[1] if len(sys.argv) > 1 else 'data/train.csv'\n"
    "for row in csv.reader(open(path)):\n    print(row)\n",
    "train.py": "import json, sys\nfrom pathlib import Path\n"
    "path = sys.argv[2] if len(sys.argv) > 2 else 'model.json'\n"
    "Path(path).write_text(json.dumps({'w': 1}))\nprint('loss 0.1')\n",
    "summary.js": "console.log(require('fs').readFileSync('data/train.csv', 'utf8'))\n",
    "count.sh": "#!/bin/sh\nwc -l data/*.csv\n",
    "notes.md": "Prices\ntotal of all\n",
    "fix.diff": "--- notes2.md\n+++ notes2.md\n@@ -1,2 +1,2 @@\n-# Notes\n+# More notes\n x\n",
    "pyproject.toml": "[project]\nname = 'shop'\nversion = '1'\n\n[tool.pytest.ini_options]\npythonpath = ['src']\n",
    "package.json": json.dumps(
        {
            "name": "shop",
            "scripts": {"test": "node summary.js", "build": "node -e \"require('fs').writeFileSync('b', '')\""},
        }
    ),
    "Makefile": "all:\n\techo made > built.txt\nclean:\n\trm -f built.txt\ntest:\n\tpython -m pytest -q\n",
    "nb.ipynb": json.dumps(
        {
            "cells": [
                {
                    "cell_type": "code",
                    "id": "a",
                    "metadata": {},
                    "execution_count": None,
                    "outputs": [],
                    "source": ["1 + 1"],
                }
            ],
            "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}},
            "nbformat": 4,
            "nbformat_minor": 5,
        }
    ),
}


class Day(Struct):
    """A home with canaries, and in it a project."""

    home: Path
    project: Path

    def state(self) -> dict[str, bytes]:
        """All files of the home, the project's among them."""
        return {str(path): path.read_bytes() for path in self.home.rglob("*") if path.is_file()}

    def work(self, commands: Sequence[str], sandbox: Sandbox, mode: str) -> list[str]:
        """Have Claude run `commands`, and return those that are asked about: no answer is a yes."""
        asked: list[str] = []

        async def no(question: ToolUse) -> Allow | Deny:
            asked.append(str(question.input["command"]))
            print(f"asks: {question.input['command']} — {question.decision.reason}")
            return Deny("no")

        async def play() -> None:
            children = ChildProcesses(find_sandbox=lambda: sandbox)
            turns = [turn(use("Bash", command=command)) for command in commands]
            policy = PermissionPolicy(
                mode=mode, roots=[self.project], cwd=self.project, sandbox=SandboxRules(means=sandbox.abilities)
            )
            try:
                with MessagesServer([*turns, turn(say("Done."))]) as server:
                    agent = AgentSetup(
                        provider=connect({"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key}),
                        model="claude-opus-5-5",
                        system=system_blocks(),
                        tools=[bash_tool(self.project, children=children)],
                        policy=policy,
                        can_use_tool=no,
                    )
                    session = Session.create(self.project, None)
                    await run_agent(agent, "Go.", session, lambda _: None)
                    for command, message in zip(commands, session.messages[2::2], strict=True):
                        (result,) = message["content"]
                        last = str(result["content"]).splitlines()[-1]
                        print(f"{'failed' if result.get('is_error') else 'ran'}: {command.splitlines()[0]}: {last}")
            finally:
                children.stop()

        asyncio.run(play())
        return asked


@pytest.fixture
def day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Day:
    home, project = tmp_path / "home", tmp_path / "home" / "shop"
    for name, text in FILES.items():
        file = project / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")
    (project / "count.sh").chmod(0o755)
    (project / "out").mkdir()
    pd.read_csv(project / "data/train.csv").to_parquet(project / "data/train.parquet")
    with zipfile.ZipFile(project / "data/archive.zip", "w") as archive:
        archive.writestr("inner.txt", "x")
    with sqlite3.connect(project / "data/app.db") as database:
        database.execute("create table items (id integer, name text)")
    database.close()
    for name in ("diary.txt", ".bashrc", "other/notes.txt"):
        (home / name).parent.mkdir(exist_ok=True)
        (home / name).write_text(CANARY, "utf-8")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM"):
        monkeypatch.setenv(name, os.devnull)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-qm", "x"]):
        subprocess.run([*git, *arguments], cwd=project, check=True)
    return Day(home, project)


@pytest.mark.thorough
@pytest.mark.parametrize("means", ["Landlock", "bubblewrap"])
def test_everyday_reading_asks_next_to_nothing_and_changes_nothing(
    day: Day, means: str, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = analysis()
    assert len(commands) == len(set(commands)) >= 100
    before = day.state()
    asked = day.work(commands, sandbox_by(means), "default")
    with capsys.disabled():
        print(f"\nof {len(commands)} everyday reading commands ask, with {means}: {len(asked)}")
    assert len(asked) <= READING_MAY_ASK, asked
    assert day.state() == before


@pytest.mark.parametrize("means", ["Landlock", pytest.param("bubblewrap", marks=pytest.mark.thorough)])
def test_everyday_changes_ask_seldom_in_accept_edits(day: Day, means: str, capsys: pytest.CaptureFixture[str]) -> None:
    commands = changing()
    assert len(commands) == len(set(commands)) == 50
    sandbox = staging_sandbox() if means == "bubblewrap" else sandbox_by(means)
    outside = {name: content for name, content in day.state().items() if f"{day.project}/" not in name}
    git = (day.project / ".git/HEAD").read_bytes()
    asked = day.work(commands, sandbox, "acceptEdits")
    with capsys.disabled():
        print(f"\nof {len(commands)} everyday changes ask, with {means} in acceptEdits: {len(asked)}")
    if means == "bubblewrap":
        assert len(asked) <= CHANGING_MAY_ASK, asked
        assert json.loads((day.project / "model.json").read_text("utf-8")) == {"w": 1}
        assert (day.project / "out/head.csv").exists()
    after = {name: content for name, content in day.state().items() if f"{day.project}/" not in name}
    assert after == outside
    assert (day.project / ".git/HEAD").read_bytes() == git
