"""What a session's first calls import is there when the model has thought about its first answer."""

from __future__ import annotations

import subprocess
import sys

REHEARSED = """
import sys
from pathlib import Path
import cellwright
from cellwright.agent.calls.input_schema import check_input
from cellwright.config.settings.settings import Settings
from cellwright.conversation.tools.built_in_tools import ToolEnvironment, make_tools
from cellwright.conversation.tools.thinking_time import rehearse

cwd = Path.cwd()
place = ToolEnvironment(cwd=cwd, settings=Settings(project=cwd))
tools = [tool for tool in make_tools(place) if not tool.rarely_used]
policy = cellwright.PermissionPolicy(cwd=cwd)
before = {*sys.modules}
rehearse(tools, policy)
assert {*sys.modules} > before
known = {*sys.modules}
by_name = {tool.name: tool for tool in tools}
for name, given in (
    ("Read", {"file_path": "a.txt"}),
    ("Grep", {"pattern": "x"}),
    ("Bash", {"command": "ls -l | wc -l"}),
    ("Edit", {"file_path": "a.txt", "old_string": "a", "new_string": "b"}),
):
    policy.decide(by_name[name], check_input(by_name[name], given))
print(sorted({*sys.modules} - known))
"""


def test_a_first_call_imports_nothing_that_was_rehearsed() -> None:
    run = subprocess.run([sys.executable, "-c", REHEARSED], capture_output=True, text=True, check=False)
    assert run.stdout == "[]\n", run.stderr
