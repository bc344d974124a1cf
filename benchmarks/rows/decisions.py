"""Rows of the permission policy: what one `decide()` costs, since every call of every tool waits for it."""

from __future__ import annotations

import functools
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.rows.row import Row
from cellwright.agent.calls.approval import Decision
from cellwright.permissions.policy import PermissionPolicy
from cellwright.tools.files.edit import edit_tool
from cellwright.tools.files.file_state import FileState
from cellwright.tools.files.read import read_tool
from cellwright.tools.shell.bash import bash_tool

DECISIONS = 300
ROUNDS = 7

RULES: Mapping[str, list[str]] = {
    "deny": ["Read(.env)", *(f"Read(./private{number}/**)" for number in range(9))],
    "ask": [f"Bash(publish{number} *)" for number in range(10)],
    "allow": [*(f"Bash(tool{number} *)" for number in range(10)), *(f"Edit(/made{number}/**)" for number in range(10))],
}
"""40 rules, as somebody has them who has used the system for a while."""
COMPOUND = "cd src && tool3 --all a.py | head -20 && tool4 2>&1 | tail -3"

READ, EDIT, LINK = "n decide: Read", "n decide: Edit, 40 rules", "n decide: Read by a link"
SIMPLE, JOINED, ASKED = "n decide: Bash, 40 rules", "n decide: Bash, joined", "n decide: asking"


@contextmanager
def _project() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name).resolve()
        (root / "src" / "package").mkdir(parents=True)
        (root / "src" / "package" / "a.py").touch()
        (root / "linked").symlink_to("src")
        yield root


def _microseconds(call: Callable[[], Any]) -> float:
    """CPU time, the best of some rounds: what the machine does besides only ever adds."""
    call()
    rounds = []
    for _ in range(ROUNDS):
        begun = time.process_time()
        for _ in range(DECISIONS):
            call()
        rounds.append((time.process_time() - begun) / DECISIONS * 1e6)
    return min(rounds)


def decide(name: str, subject: str) -> Mapping[str, float]:
    """Microseconds of one decision of a kind."""
    with _project() as root:
        file = str(root / "src" / "package" / "a.py")
        if subject == "floor":
            return {name: _microseconds(lambda: os.path.realpath(file).startswith(f"{root}/"))}
        policy = PermissionPolicy("acceptEdits", **RULES, roots=[root], cwd=root)
        plain = PermissionPolicy(roots=[root], cwd=root)
        asking = PermissionPolicy(**RULES, roots=[root], cwd=root)
        tools = {
            tool.name: tool for tool in (read_tool(FileState(), root), edit_tool(FileState(), root), bash_tool(root))
        }
        calls: Mapping[str, Callable[[], Decision]] = {
            READ: lambda: plain.decide(tools["Read"], {"file_path": file}),
            EDIT: lambda: policy.decide(tools["Edit"], {"file_path": file}),
            LINK: lambda: policy.decide(tools["Read"], {"file_path": str(root / "linked" / "package" / "a.py")}),
            SIMPLE: lambda: policy.decide(tools["Bash"], {"command": "tool3 --all a.py"}),
            JOINED: lambda: policy.decide(tools["Bash"], {"command": COMPOUND}),
            # as a session asks it: in a mode of its own, with what is offered judged anew
            ASKED: lambda: asking.in_mode("plan").in_mode("default").decide(tools["Edit"], {"file_path": file}),
        }
        return {name: _microseconds(calls[name])}


DECISION_ROWS = [
    # on a quiet machine the floor takes 13 µs, so that the bounds are 50 µs for files and 300 µs for a simple command
    Row(name, what, "µs", functools.partial(decide, name), ("floor", "cellwright"), max_ratio=ratio)
    for name, what, ratio in (
        (READ, "decide() of a Read in the root", 3.8),
        (EDIT, "… of an edit that acceptEdits allows", 3.8),
        (LINK, "… of a file behind a symbolic link", 7.5),
        (SIMPLE, "… of a simple command", 23),
        (JOINED, "… of four commands, joined", 115),
        (ASKED, "… of an edit that is asked for, its offers checked", 30),
    )
]
