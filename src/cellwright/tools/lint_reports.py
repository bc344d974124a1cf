"""What linters report, each in its own format, as one kind of problem."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

_TSC = re.compile(
    r"^(?P<file>[^\n(]+)\((?P<line>\d+),(?P<column>\d+)\): (?P<severity>\w+) (?P<code>TS\d+): (?P<message>.*)",
    re.MULTILINE,
)
_FLAKE8 = re.compile(
    r"^(?P<file>[^\n:]+):(?P<line>\d+):(?P<column>\d+): (?P<code>[A-Z]+\d+) (?P<message>.*)", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that a linter found. `line` and `column` count from 1; 0 where it says none."""

    file: str
    line: int
    column: int
    code: str
    message: str
    severity: str = "error"
    fixable: bool = False

    def to_json(self) -> dict[str, Any]:
        """For the views."""
        return asdict(self)


Reader = Callable[[str], list[Problem]]
"""Reads a linter's output. Raises ValueError (KeyError, TypeError) for what is none."""


def read_ruff(text: str) -> list[Problem]:
    """`ruff check --output-format=json`."""
    return [
        Problem(
            found["filename"],
            found["location"]["row"],
            found["location"]["column"],
            found["code"] or "syntax",
            found["message"],
            fixable=bool(found.get("fix")) and found["fix"].get("applicability") == "safe",
        )
        for found in json.loads(text or "[]")
    ]


def read_eslint(text: str) -> list[Problem]:
    """`eslint --format json`."""
    return [
        Problem(
            file["filePath"],
            found.get("line") or 0,
            found.get("column") or 0,
            found.get("ruleId") or "",
            found["message"],
            "error" if found.get("severity") == 2 else "warning",
            fixable="fix" in found,
        )
        for file in json.loads(text or "[]")
        for found in file["messages"]
    ]


def read_mypy(text: str) -> list[Problem]:
    """`mypy --output=json`: an object a line."""
    problems = []
    for line in text.splitlines():
        if not line.startswith("{"):
            continue
        found = json.loads(line)
        place = (found["file"], max(found["line"], 0), max(found["column"] + 1, 0))
        problems.append(Problem(*place, found.get("code") or "", found["message"], found.get("severity", "error")))
    return problems


def read_tsc(text: str) -> list[Problem]:
    """`tsc --pretty false`."""
    return [
        Problem(
            found["file"], int(found["line"]), int(found["column"]), found["code"], found["message"], found["severity"]
        )
        for found in _TSC.finditer(text)
    ]


def read_flake8(text: str) -> list[Problem]:
    """flake8's default format."""
    return [
        Problem(found["file"], int(found["line"]), int(found["column"]), found["code"], found["message"])
        for found in _FLAKE8.finditer(text)
    ]


def read_clippy(text: str) -> list[Problem]:
    """`cargo clippy --message-format=json`: an object a line."""
    problems = []
    for line in text.splitlines():
        if not line.startswith("{"):
            continue
        found = json.loads(line)
        message = found.get("message") if found.get("reason") == "compiler-message" else None
        spans = [span for span in (message or {}).get("spans", ()) if span.get("is_primary")]
        if message is None or not spans:
            continue
        code = (message.get("code") or {}).get("code", "")
        place = (spans[0]["file_name"], spans[0]["line_start"], spans[0]["column_start"])
        problems.append(Problem(*place, code, message["message"], message.get("level", "error")))
    return problems
