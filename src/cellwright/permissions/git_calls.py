"""Judging Git, which only reads: where it may look, and what it would print of files that may not be read."""
# Paths are strings here: this runs for each call, and Path is several times slower.
# ruff: noqa: PTH118, PTH120

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence

from cellwright.agent.approval import Decision
from cellwright.permissions.file_calls import judge_path
from cellwright.permissions.paths import PathProblem, places
from cellwright.permissions.rule_book import Call, RuleBook, judge_by_rules
from cellwright.permissions.rules import CompiledRule
from cellwright.permissions.searched_folders import TooManyFiles, named_below

PRINTS_CONTENT = frozenset({"diff", "show", "blame"})
"""Subcommands that print what is in files."""
_PRINTING_FLAG = re.compile(
    r"-[puUcGSL].*|-m|--patch.*|--cc|--unified.*|--remerge-diff|--word-diff.*|--function-context"
)
MAX_COLONS = 8
"""In one argument; no revision and no pathspec has more, and each may stand before a path."""
_SPECIAL = re.compile(r"[*?\[\\]|\A:")


def judge_git(book: RuleBook, call: Call) -> Decision:
    """May Git look? Each path that it names counts as read; so does what it prints of files it does not name."""
    folder = os.path.join(book.cwd, call.text("path"))
    arguments = _arguments(call)
    named = [judge_path(book, "Read", path) for path in _named(folder, arguments)]
    denied = next((verdict for verdict in named if verdict.behavior == "deny"), None)
    ruled = judge_by_rules(book, call.name, _unruled(book, call, folder, arguments, named), in_plan=True)
    return denied if denied and ruled.behavior != "deny" else ruled


def _unruled(book: RuleBook, call: Call, folder: str, arguments: Sequence[str], named: Sequence[Decision]) -> Decision:
    asked = next((verdict for verdict in named if verdict.behavior == "ask"), None)
    if asked:
        return asked
    if any(argument.count(":") > MAX_COLONS for argument in arguments):
        return Decision("ask", "An argument has more parts than can be looked at.", firm=True)
    if (rule := _unseen_restriction(book, folder, arguments)) and _prints_content(call, arguments):
        return Decision(
            "ask",
            f"It may print files that the rule `{rule.rule}` is about. Naming others behind `--` needs no question.",
        )
    return Decision("allow", "It only looks at the repository.")


def _arguments(call: Call) -> list[str]:
    given = call.input.get("args")
    return [argument for argument in given if isinstance(argument, str)] if isinstance(given, list) else []


def _named(folder: str, arguments: Sequence[str]) -> Iterator[str]:
    """Everything in a call that may name a file: the folder, arguments, `revision:path`, values of flags."""
    yield folder
    for argument in arguments:
        value = argument if not argument.startswith("-") else argument.partition("=")[2]
        if value:
            yield os.path.join(folder, value)
        path = argument
        for _ in range(min(argument.count(":"), MAX_COLONS)):
            path = path.partition(":")[2]
            if path:
                # the repository's folder is this one or one above it
                yield from (os.path.join(above, path) for above in (folder, *_above(folder)))


def _above(folder: str) -> Iterator[str]:
    while (parent := os.path.dirname(folder)) not in (folder, "/"):
        yield parent
        folder = parent


def _prints_content(call: Call, arguments: Sequence[str]) -> bool:
    if call.text("subcommand") in PRINTS_CONTENT:
        return True
    return call.text("subcommand") == "log" and any(_PRINTING_FLAG.fullmatch(argument) for argument in arguments)


def _unseen_restriction(book: RuleBook, folder: str, arguments: Sequence[str]) -> CompiledRule | None:
    """A rule against reading something that git may print, although no argument names it."""
    rules = [rule for rule in (*book.deny, *book.ask) if rule.path and rule.names("Read")]
    try:
        root = places(folder, book.cwd)[-1]
        about = [rule for rule in rules if rule.path and rule.path.may_match_below(root)]
        if not about:
            return None
        behind = list(arguments[arguments.index("--") + 1 :]) if "--" in arguments else []
        if not behind or any(_SPECIAL.search(argument) for argument in behind):
            return about[0]
        for argument in behind:
            if hidden := named_below(os.path.join(root, argument), about, ""):
                return hidden[1]
    except (PathProblem, TooManyFiles):
        return next(iter(rules), None)
    return None
