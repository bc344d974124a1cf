"""Failures that are to be expected print a line each and no traceback: a full disk, a hook that crashes."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import cellwright
from cellwright.testing import MessagesServer, say, turn, use

HOOK = """
import cellwright
async def boom(fields, tool_use_id, context):
    raise ValueError("boom")
print(cellwright.ask("hi", session=None, hooks={"PreToolUse": [boom], "Stop": [boom]}).text)
"""
FULL = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, ({bytes}, {bytes}))
from cellwright.terminal.main import main
sys.exit(main(["-p", "hi", "--permission-mode", "bypassPermissions", *sys.argv[1:]]))
"""
SCRIPT = [turn(use("Bash", command="seq 1 30000")), turn(use("Write", file_path="b", content="x" * 50_000)), say("ok")]


def printed(code: str, tmp_path: Path, server: MessagesServer, *arguments: str) -> str:
    environ = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key, "IS_SANDBOX": "1"}
    (tmp_path / "project").mkdir(exist_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=tmp_path / "project",
        env={**os.environ, **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="there are no limits of files")
@pytest.mark.parametrize("limit", [0, 60_000])
def test_a_full_disk(limit: int, tmp_path: Path, messages_server: Callable[..., MessagesServer]) -> None:
    text = printed(FULL.replace("{bytes}", str(limit)), tmp_path, messages_server(SCRIPT))
    assert "File too large" in text
    assert "Traceback" not in text
    assert "bug in Cellwright" not in text


def test_a_python_hook_that_raises(tmp_path: Path, messages_server: Callable[..., MessagesServer]) -> None:
    text = printed(HOOK, tmp_path, messages_server([turn(use("Bash", command="echo hi")), say("Done.")]))
    assert text.splitlines()[0] == "Done." or "Done." in text
    assert "ValueError: boom" in text
    assert "Traceback" not in text


def test_a_hook_command_that_crashes_is_named_by_its_error(
    tmp_path: Path, messages_server: Callable[..., MessagesServer]
) -> None:
    settings = tmp_path / "settings.json"
    crash = {"type": "command", "command": f"{sys.executable} -c 'raise ValueError(\"boom\")'"}
    settings.write_text(json.dumps({"hooks": {"UserPromptSubmit": [{"hooks": [crash]}]}}))
    script = FULL.partition("resource.setrlimit")[0] + FULL.partition("({bytes}, {bytes}))\n")[2]
    text = printed(script, tmp_path, messages_server([say("ok")]), "--settings", str(settings))
    assert "exited with 1: ValueError: boom" in text
    assert "Traceback" not in text


ROOT = Path(cellwright.__file__).parent
ELSEWHERE = {"errors.py", "server/proxy/proxied_request.py"}
"""The door itself, and what tornado hands over as a traceback."""


def test_exceptions_are_logged_by_log_fault() -> None:
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        source = path.read_text("utf-8")
        if "logger.exception" not in source and "exc_info" not in source:
            continue  # to parse a thousand modules takes seconds
        for call in (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)):
            by_name = isinstance(call.func, ast.Attribute) and ast.unparse(call.func) == "logger.exception"
            if by_name or any(each.arg == "exc_info" for each in call.keywords):
                found.append(path.relative_to(ROOT).as_posix())
    assert set(found) <= ELSEWHERE
