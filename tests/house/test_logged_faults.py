"""Exceptions are logged through one door, which knows what is to be expected."""

from __future__ import annotations

import ast
from pathlib import Path

import cellwright

ROOT = Path(cellwright.__file__).parent
ELSEWHERE = {"errors.py", "server/proxy/proxied_request.py"}
"""The door itself, and what tornado hands over as a traceback."""


def test_exceptions_are_logged_by_log_fault() -> None:
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        for call in (node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call)):
            by_name = isinstance(call.func, ast.Attribute) and ast.unparse(call.func) == "logger.exception"
            if by_name or any(each.arg == "exc_info" for each in call.keywords):
                found.append(path.relative_to(ROOT).as_posix())
    assert set(found) <= ELSEWHERE
