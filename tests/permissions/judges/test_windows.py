"""What is asked on Windows, where nothing confines commands and Git Bash reads paths in its own way."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

DECIDE = r"""
import json, sys
from processes.windows.as_on_windows import enter

judges = ("policy", "judges.bash", "judges.files")
enter([*(f"cellwright.permissions.{name}" for name in judges), "declared_tools"])
from pathlib import Path
from cellwright.permissions.policy import PermissionPolicy
from declared_tools import tool_named

project = Path.cwd()
decided = {}
for mode, rules, name, tool_input in json.loads(sys.argv[1]):
    policy = PermissionPolicy(mode=mode, roots=[project], cwd=project, allow=rules)
    decision = policy.decide(tool_named(name), tool_input)
    decided[f"{mode} {name} {[*tool_input.values()]} {rules}"] = decision.behavior
print(json.dumps(decided))
"""

CALLS = [
    ("default", [], "Bash", {"command": "ls"}, "ask"),
    ("default", [], "Bash", {"command": "git status"}, "ask"),
    ("default", [], "Bash", {"command": "cat a.txt | head"}, "ask"),
    ("acceptEdits", [], "Bash", {"command": "mkdir x"}, "ask"),
    ("default", ["Bash(git status)"], "Bash", {"command": "git status"}, "allow"),
    ("default", [], "Read", {"file_path": "a.txt"}, "allow"),
    ("default", [], "Read", {"file_path": "//evil/share/a.txt"}, "deny"),
    ("default", [], "Read", {"file_path": "a.txt:hidden"}, "deny"),
    ("acceptEdits", [], "Write", {"file_path": "a.py", "content": "x"}, "allow"),
    ("acceptEdits", [], "Write", {"file_path": r".git.\config", "content": "x"}, "deny"),
]


def test_without_a_sandbox_every_command_asks(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x", "utf-8")
    shared = str(Path(__file__).parents[2] / "shared")
    run = subprocess.run(
        [sys.executable, "-c", DECIDE, json.dumps([call[:4] for call in CALLS])],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": shared},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    decided = dict(zip(json.loads(run.stdout).items(), CALLS, strict=True))
    assert {what: found for (what, found), call in decided.items() if found != call[4]} == {}
