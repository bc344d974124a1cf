"""Judging tools that run a project's own programs: RunTests and Lint."""

# Paths are strings here: this runs for each call, and Path is several times slower.
# ruff: noqa: PTH112, PTH118

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

from cellwright.agent.approval import Decision
from cellwright.permissions.file_calls import judge_path
from cellwright.permissions.rule_book import Call, RuleBook, asked_by, denied_by, judge_by_rules
from cellwright.permissions.rules import Behavior, CompiledRule
from cellwright.permissions.searched_folders import TooManyFiles, named_below
from cellwright.visible_text import visible_line

_RESTRICTIONS: tuple[tuple[Behavior, Callable[[CompiledRule, str], Decision]], ...] = (
    ("deny", denied_by),
    ("ask", asked_by),
)
_PATH_FIELDS = ("path", "paths", "file_path", "files")


def judge_tests(book: RuleBook, call: Call) -> Decision:
    """Tests are the project's code, and code can do anything."""
    return _judge_running(book, call, "It runs the project's tests, and with them any code of the project")


def judge_lint(book: RuleBook, call: Call) -> Decision:
    """A linter reads the project's configuration, which is code for some; with `fix` it edits what it is given."""
    running = _judge_running(book, call, "It runs a linter, which may run code of the project")
    if not call.input.get("fix") or running.behavior == "deny":
        return running
    edits = [_judge_fixing(book, path) for path in paths_given(call, book.cwd)]
    denied = next((edit for edit in edits if edit.behavior == "deny"), None)
    asked = next((edit for edit in edits if edit.behavior == "ask"), None)
    return denied or (running if running.behavior == "ask" and running.firm else asked or running)


def _judge_fixing(book: RuleBook, path: str) -> Decision:
    """May everything below `path` be edited?"""
    decision = judge_path(book, "Edit", path)
    folder = os.path.join(book.cwd, path)
    if decision.behavior == "deny" or not os.path.isdir(folder):
        return decision
    for behavior, verdict in _RESTRICTIONS:
        rules = [rule for rule in book.about(behavior, "Edit") if rule.path]
        try:
            found = named_below(folder, rules, "")
        except TooManyFiles:
            reason = f"The folder is too large to see whether it holds what the rule `{rules[0].rule}` is about."
            return Decision("ask", reason, firm=True)
        if found:
            return verdict(found[1], f"Changing {visible_line(found[0])}")
    # a rule that names the folder alone, or some kinds of files in it, does not allow to change any file there
    return decision if decision.behavior == "ask" else judge_path(book, "Edit", os.path.join(path, "x", "x"))


def _judge_running(book: RuleBook, call: Call, what: str) -> Decision:
    reads = [judge_path(book, "Read", path) for path in paths_given(call, book.cwd)]
    if denied := next((read for read in reads if read.behavior == "deny"), None):
        return denied
    ruled = judge_by_rules(book, call.name, Decision("ask", f"{what}, and no rule allows that."))
    outside = next((read for read in reads if read.behavior == "ask"), None)
    return outside if outside and ruled.behavior == "allow" else ruled


def paths_given(call: Call, cwd: str) -> Iterator[str]:
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
        yield cwd
