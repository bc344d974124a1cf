"""Judging tools that run programs of their own choice in the project: Git, which only reads, RunTests and Lint.

Of Git it is where it may look, and what it would print of files that may not be read.
"""

# Paths are strings here: this runs for each call, and Path is several times slower.
# ruff: noqa: PTH112, PTH118, PTH120
from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from cellwright.agent.calls.approval import Decision
from cellwright.permissions.confined import bounds
from cellwright.permissions.judges.files import judge_changes_below, judge_path
from cellwright.permissions.rules.rule import BYPASSED, EDIT, READ, JudgedCall, RuleBook, judge_by_rules
from cellwright.permissions.shell.command_paths import hidden_by, may_show
from cellwright.permissions.shell.git import read_elsewhere, repository_of

MAX_COLONS = 8
"""In one argument; no revision and no pathspec has more, and each may stand before a path."""


def judge_git(book: RuleBook, call: JudgedCall) -> Decision:
    """Judge whether Git may look. Paths that it names count as read; so does what it prints of files not named."""
    folder = os.path.join(book.cwd, call.touched)
    arguments = _arguments(call)
    named = [judge_path(book, READ, path) for path in _named(folder, arguments)]
    top = repository_of(folder)
    if top is not None and (elsewhere := read_elsewhere(top, (book.cwd, *book.folders, *book.readable))):
        named.append(judge_path(book, READ, elsewhere))
    denied = next((verdict for verdict in named if verdict.behavior == "deny"), None)
    ruled = judge_by_rules(book, call.subject, _unruled(book, call, folder, arguments, named), in_plan=True)
    if denied and ruled.behavior != "deny":
        return denied
    return ruled if book.sandbox.abilities is None else _git_confined(book, folder, ruled)


def _git_confined(book: RuleBook, folder: str, ruled: Decision) -> Decision:
    """`ruled` with the bounds of a git that only reads, where it runs unasked or the sandbox is on for all."""
    if ruled.behavior == "deny" or (
        (ruled.rule or ruled.behavior == "ask" or ruled is BYPASSED) and not book.sandbox.enabled
    ):
        return ruled
    repository = bounds.git_folders(book, (folder,))
    confinement = None if repository is None else bounds.reading(book, (folder, *repository))
    return bounds.within_allowed(book, ruled) if confinement is None else replace(ruled, confinement=confinement)


def _unruled(
    book: RuleBook, call: JudgedCall, folder: str, arguments: Sequence[str], named: Sequence[Decision]
) -> Decision:
    asked = next((verdict for verdict in named if verdict.behavior == "ask"), None)
    if asked:
        return asked
    if any(argument.count(":") > MAX_COLONS for argument in arguments):
        return Decision("ask", "An argument has more parts than can be looked at.", firm=True)
    if rule := hidden_by(book, folder, (call.text("subcommand"), *arguments)):
        return may_show(rule)
    return Decision("allow", "It only looks at the repository.")


def _arguments(call: JudgedCall) -> list[str]:
    given = call.input.get("args")
    return [argument for argument in given if isinstance(argument, str)] if isinstance(given, list) else []


def _named(folder: str, arguments: Sequence[str]) -> Iterator[str]:
    """Everything in a call that may name a file: the folder, arguments, `revision:path`, values of flags."""
    yield folder
    top = repository_of(folder)
    starts = (folder, *(_above(folder) if top is None else (top,)))  # `HEAD:path` starts at the repository's top
    for argument in arguments:
        value = argument if not argument.startswith("-") else argument.partition("=")[2]
        if value:
            yield os.path.join(folder, value)
        path = argument
        for _ in range(min(argument.count(":"), MAX_COLONS)):
            path = path.partition(":")[2]
            if path:
                yield from (os.path.join(start, path) for start in starts)


def _above(folder: str) -> Iterator[str]:
    while (parent := os.path.dirname(folder)) not in (folder, "/"):
        yield parent
        folder = parent


def judge_tests(book: RuleBook, call: JudgedCall) -> Decision:
    """Tests are the project's code, and code can do anything."""
    otherwise = Decision(
        "ask", "Runs the project's tests, and with them any code of the project, which needs your approval."
    )
    return _checks_confined(book, call, _judge_running(book, call, otherwise, in_plan=False), reads=False)


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
        return _checks_confined(book, call, running, reads=harmless and not fixes)
    edits = [_judge_fixing(book, path) for path in fixed_paths(call, book.cwd)]
    denied = next((edit for edit in edits if edit.behavior == "deny"), None)
    asked = next((edit for edit in edits if edit.behavior == "ask"), None)
    allowed = running if running.rule or running is BYPASSED else edits[0]
    decision = denied or asked or (allowed if running.behavior == "allow" else running)
    return decision if denied else _checks_confined(book, call, decision, reads=False)


def _checks_confined(book: RuleBook, call: JudgedCall, decision: Decision, *, reads: bool) -> Decision:
    """`decision` with the bounds of the programs: read-only where they run unasked and `reads`, else if all are confined."""
    if book.sandbox.abilities is None or decision.behavior == "deny":
        return decision
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
