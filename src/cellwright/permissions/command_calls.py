"""Judging a Bash command: what restricts looks at everything it might run, what allows covers one simple command."""
# Paths are strings here: this runs for each call, and Path is several times slower.
# ruff: noqa: PTH207

from __future__ import annotations

import glob
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from cellwright.agent.approval import Decision
from cellwright.permissions.critical_deletes import critical_delete
from cellwright.permissions.file_calls import judge_file, protected_among, text_field
from cellwright.permissions.paths import PathProblem, places
from cellwright.permissions.read_only_commands import files_printed
from cellwright.permissions.rough_commands import RoughCommand, read_rough
from cellwright.permissions.rule_book import BYPASSED, RuleBook, allowed_by, asked_by, denied_by, denied_by_plan
from cellwright.permissions.rules import READERS, CompiledRule
from cellwright.permissions.simple_commands import MAX_LENGTH, NotSimple, Word, read_simple
from cellwright.visible_text import unseen_characters, visible_line

_WILD = re.compile(r"[*?\[]")
MAX_EXPANDED = 200
"""File names looked at for one wildcard."""
MAX_WILD_PARTS = 2
"""A word with more wildcard components is not expanded: it counts as naming anything."""


def judge_command(book: RuleBook, tool_input: Mapping[str, Any]) -> Decision:
    """May this shell command run? `tool_input` is Bash's, with the fact "cwd": the folder that its shell is in."""
    command = text_field(tool_input, "command")
    rough = read_rough(command)
    if denied := _denied(book, rough):
        return denied
    words: tuple[Word, ...] = ()
    printed, why = None, ""
    try:
        words = read_simple(command)
        printed = _printed_files(book, words)
    except NotSimple as problem:
        why = str(problem)
    if book.mode == "plan" and printed is None:
        return denied_by_plan("Bash")
    if asked := _asked(book, rough, prints=printed is not None) or _unsafe(book, command, rough):
        return asked
    if book.mode == "bypassPermissions":
        return BYPASSED
    if printed is not None:
        return _judge_printed(book, printed)
    return _judge_allowed(book, command, rough, words, why)


def _denied(book: RuleBook, rough: RoughCommand) -> Decision | None:
    if rule := _command_rule(book.deny, rough):
        return denied_by(rule, "This command")
    for rule, name in _file_rules(book, book.deny, rough.words, reading=True):
        return denied_by(rule, f"A command that names {visible_line(name)}")
    for rule, name in _file_rules(book, book.deny, rough.redirects, reading=False):
        return denied_by(rule, f"Redirecting to {visible_line(name)}")
    return None


def _asked(book: RuleBook, rough: RoughCommand, *, prints: bool) -> Decision | None:
    if rule := _command_rule(book.ask, rough):
        return asked_by(rule, "This command")
    for rule, name in _file_rules(book, book.ask, rough.words, reading=True):
        return asked_by(rule, f"A command that names {visible_line(name)}")
    if not prints:
        # whether the command changes the file it names is not known here
        for rule, name in _file_rules(book, (*book.ask, *book.deny), rough.words, reading=False):
            return asked_by(rule, f"A command that may change {visible_line(name)}")
    return None


def _unsafe(book: RuleBook, command: str, rough: RoughCommand) -> Decision | None:
    if target := critical_delete(command, book.folders, book.cwd):
        return Decision("ask", f"The command deletes {visible_line(target)}; no mode and no rule allows that unasked.")
    scoped = next((rule for rule in (*book.deny, *book.ask) if rule.restricts or rule.path), None)
    if scoped and any(part.opaque for part in rough.parts):
        reason = f"What the command runs shows only when it runs, so the rule `{scoped.rule}` cannot be checked."
        return Decision("ask", reason)
    return None


def _judge_printed(book: RuleBook, files: Sequence[str]) -> Decision:
    for file in files:
        decision = judge_file(book, "Read", {"file_path": file})
        if decision.behavior != "allow":
            return decision
    return Decision("allow", "The command only prints.")


def _judge_allowed(book: RuleBook, command: str, rough: RoughCommand, words: Sequence[Word], why: str) -> Decision:
    every_use = next((rule for rule in book.allow if rule.every_use and rule.names("Bash")), None)
    rule = every_use or next((rule for rule in book.allow if rule.grants and words and rule.grants.covers(words)), None)
    if rule is None:
        reason = f"The command {why}; rules only allow single commands." if why else "No rule allows this command."
        return Decision("ask", reason)
    if rule.grants is None or not rule.grants.is_exact:
        if unseen := unseen_characters(command):
            return Decision("ask", f"The command has a character that cannot be seen ({unseen[0]}).")
        if len(command) > MAX_LENGTH:
            return Decision("ask", f"The command is longer than {MAX_LENGTH:,} characters.")
        if part := next((part for name in rough.words if (part := protected_among(_named(book, name) or ()))), None):
            return Decision("ask", f"The command names `{part}`, which is protected: each change needs your consent.")
    return allowed_by(rule)


def _printed_files(book: RuleBook, words: Sequence[Word]) -> list[str] | None:
    files = files_printed(words)
    if files == [] and words[0].text == "ls" and any(rule.path for rule in (*book.deny, *book.ask)):
        return None  # which folder it lists, and so whether a rule is about it, is known to the shell alone
    return files


def _command_rule(rules: Sequence[CompiledRule], rough: RoughCommand) -> CompiledRule | None:
    for rule in rules:
        if rule.names("Bash") and (rule.every_use or (rule.restricts is not None and rule.restricts.touches(rough))):
            return rule
    return None


def _file_rules(
    book: RuleBook, rules: Sequence[CompiledRule], names: Sequence[str], *, reading: bool
) -> Iterator[tuple[CompiledRule, str]]:
    about = [rule for rule in rules if rule.path and (rule.rule.tool in READERS) is reading]
    for name in names if about else ():
        found = _named(book, name)
        for rule in about:
            if found is None or rule.covers_place(found):
                yield rule, name


def _named(book: RuleBook, name: str) -> tuple[str, ...] | None:
    """The places that a word of a command may name, wildcards expanded; None where that may be anything."""
    spellings = [name]
    if sum(1 for part in name.split("/") if _WILD.search(part)) > MAX_WILD_PARTS:
        return None
    try:
        if _WILD.search(name):
            spellings += islice(glob.iglob(name, root_dir=book.cwd, include_hidden=True), MAX_EXPANDED)
        return tuple(place for spelling in spellings for place in places(spelling, book.cwd))
    except (PathProblem, ValueError):  # no file can have such a name
        return ()
