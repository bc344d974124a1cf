"""Judging tools that run a project's own programs: RunTests and Lint."""

# Paths are strings here: this runs for each call, and Path is several times slower.
# ruff: noqa: PTH112, PTH118

from __future__ import annotations

import os
from collections.abc import Iterator

from msgspec.structs import replace

from cellwright.agent.calls.approval import Decision
from cellwright.permissions.judges.files import judge_changes_below, judge_path
from cellwright.permissions.rules.rule import BYPASSED, EDIT, READ, JudgedCall, RuleBook, judge_by_rules


def judge_tests(book: RuleBook, call: JudgedCall) -> Decision:
    """Tests are the project's code, and code can do anything."""
    otherwise = Decision(
        "ask", "Runs the project's tests, and with them any code of the project, which needs your approval."
    )
    return _confined(book, call, _judge_running(book, call, otherwise, in_plan=False), reads=False)


def judge_lint(book: RuleBook, call: JudgedCall) -> Decision:
    """A linter reads the project's configuration, which is code for some; with `fix` it edits what it is given.

    The tool's fact `runs_project_code` is False where it is known that the linter only reads.
    """
    harmless = call.input.get("runs_project_code") is False
    if harmless:
        otherwise = Decision("allow", "The linter only reads, inside the session's folders.")
    else:
        otherwise = Decision("ask", "Runs a linter, which may run code of the project, so it needs your approval.")
    fixes = bool(call.input.get("fix"))
    running = _judge_running(book, call, otherwise, in_plan=harmless and not fixes)
    if not fixes or running.behavior == "deny" or running.firm:
        return _confined(book, call, running, reads=harmless and not fixes)
    edits = [_judge_fixing(book, path) for path in fixed_paths(call, book.cwd)]
    denied = next((edit for edit in edits if edit.behavior == "deny"), None)
    asked = next((edit for edit in edits if edit.behavior == "ask"), None)
    allowed = running if running.rule or running is BYPASSED else edits[0]
    return denied or _confined(book, call, asked or (allowed if running.behavior == "allow" else running), reads=False)


def _confined(book: RuleBook, call: JudgedCall, decision: Decision, *, reads: bool) -> Decision:
    """`decision` with the bounds of the programs: read-only where they run unasked and `reads`, else if all are confined."""
    if book.sandbox.abilities is None or decision.behavior == "deny":
        return decision
    from cellwright.permissions.confined import bounds  # where there is no sandbox nobody needs it

    confinement = None
    if reads and decision.behavior == "allow" and not decision.rule and decision is not BYPASSED:
        confinement = bounds.reading(book, tuple(_named_paths(call, book.cwd)))
    return bounds.within_allowed(book, decision) if confinement is None else replace(decision, confinement=confinement)


def _judge_running(book: RuleBook, call: JudgedCall, otherwise: Decision, *, in_plan: bool) -> Decision:
    reads = [judge_path(book, READ, path) for path in _named_paths(call, book.cwd)]
    if denied := next((read for read in reads if read.behavior == "deny"), None):
        return denied
    ruled = judge_by_rules(book, call.subject, otherwise, in_plan=in_plan)
    outside = next((read for read in reads if read.behavior == "ask"), None)
    return outside if outside and ruled.behavior == "allow" else ruled


def _judge_fixing(book: RuleBook, path: str) -> Decision:
    """Judge whether everything below `path` may be edited."""
    decision = judge_path(book, EDIT, path)
    folder = os.path.join(book.cwd, path)
    if decision.behavior == "deny" or not os.path.isdir(folder):
        return decision
    if restricted := judge_changes_below(book, folder):
        return restricted
    # a rule that names the folder alone, or some kinds of files in it, does not allow to change any file there
    return decision if decision.behavior == "ask" else judge_path(book, EDIT, os.path.join(path, "x", "x"))


def fixed_paths(call: JudgedCall, cwd: str) -> list[str]:
    """The files and folders in which a linter that fixes may change files: those it is given, or else its folder."""
    folder = os.path.join(cwd, call.text("path"))
    return [os.path.join(folder, path) for path in _words(call, "paths")] or [folder]


def _named_paths(call: JudgedCall, cwd: str) -> Iterator[str]:
    folder = os.path.join(cwd, call.text("path"))
    yield folder
    for word in (*_words(call, "paths"), *_words(call, "args")):
        # `tests/test_a.py::test_b` is a test in a file, `--rootdir=x` a flag with a folder
        path = word.partition("::")[0]
        path = path.partition("=")[2] if path.startswith("-") else path
        if path:
            yield os.path.join(folder, path)


def _words(call: JudgedCall, field: str) -> list[str]:
    value = call.input.get(field)
    return [word for word in value if isinstance(word, str)] if isinstance(value, list) else []
