"""Judging Git, which only reads: where it may look, and what it would print of files that may not be read."""
# Paths are strings here: this runs for each call, and Path is several times slower.
# ruff: noqa: PTH118, PTH120

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from cellwright.agent.calls.approval import Decision
from cellwright.permissions.judges.files import judge_path
from cellwright.permissions.rules.rule import BYPASSED, READ, JudgedCall, RuleBook, judge_by_rules
from cellwright.permissions.shell.indirect_reads import hidden_by, may_show
from cellwright.permissions.shell.read_only.repositories import read_elsewhere, repository_of

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
    return ruled if book.sandbox.abilities is None else _confined(book, folder, ruled)


def _confined(book: RuleBook, folder: str, ruled: Decision) -> Decision:
    """`ruled` with the bounds of a git that only reads, where it runs unasked or the sandbox is on for all."""
    if ruled.behavior == "deny" or (
        (ruled.rule or ruled.behavior == "ask" or ruled is BYPASSED) and not book.sandbox.enabled
    ):
        return ruled
    from cellwright.permissions.confined import bounds  # where there is no sandbox nobody needs it

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
