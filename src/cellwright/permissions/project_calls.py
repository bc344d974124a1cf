"""Judging tools that run a project's own programs: RunTests and Lint."""

from __future__ import annotations

from collections.abc import Iterator

from cellwright.agent.approval import Decision
from cellwright.permissions.file_calls import judge_path
from cellwright.permissions.rule_book import Call, RuleBook, judge_by_rules
from cellwright.visible_text import visible_line

_PATH_FIELDS = ("path", "paths", "file_path", "files")


def judge_tests(book: RuleBook, call: Call) -> Decision:
    """Tests are the project's code, and code can do anything."""
    return _judge_running(book, call, "It runs the project's tests, and with them any code of the project")


def judge_lint(book: RuleBook, call: Call) -> Decision:
    """A linter reads the project's configuration, which is code for some; with `fix` it edits what it is given."""
    running = _judge_running(book, call, "It runs a linter, which may run code of the project")
    if not call.input.get("fix") or running.behavior == "deny":
        return running
    edits = [judge_path(book, "Edit", path) for path in _paths(book, call)]
    denied = next((edit for edit in edits if edit.behavior == "deny"), None)
    asked = next((edit for edit in edits if edit.behavior == "ask"), None)
    return denied or (running if running.behavior == "ask" and running.firm else asked or running)


def _judge_running(book: RuleBook, call: Call, what: str) -> Decision:
    reads = [judge_path(book, "Read", path) for path in _paths(book, call)]
    if denied := next((read for read in reads if read.behavior == "deny"), None):
        return denied
    ruled = judge_by_rules(book, call.name, Decision("ask", f"{what}, and no rule allows that."))
    outside = next((read for read in reads if read.behavior == "ask"), None)
    return outside if outside and ruled.behavior == "allow" else ruled


def _paths(book: RuleBook, call: Call) -> Iterator[str]:
    """The files and folders that a call names; the session's folder when it names none."""
    found = False
    for field in _PATH_FIELDS:
        value = call.input.get(field)
        for path in value if isinstance(value, list) else [value]:
            if isinstance(path, str) and path:
                found = True
                # `tests/test_a.py::test_b` is a test in a file
                yield path.partition("::")[0] or visible_line(path)
    if not found:
        yield book.cwd
