"""The rules a permission question offers for a shell command: one for each simple command in it that needs approval."""
# Paths are strings here: this runs for each call, and Path is several times slower.
# ruff: noqa: PTH118

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from cellwright.errors import CellwrightError
from cellwright.events import Suggestion
from cellwright.permissions.judges.bash import ShellCall, judge_parts, shell_call
from cellwright.permissions.judges.simple_command import Part, judge_part
from cellwright.permissions.paths import normalised
from cellwright.permissions.rule_book import RuleBook
from cellwright.permissions.rules.path_pattern import escaped
from cellwright.permissions.rules.rule import CompiledRule, compile_rule, parse_rule
from cellwright.permissions.shell.command_paths import is_harmless
from cellwright.permissions.shell_folders import folder_named
from cellwright.text import visible_line

PREFIXES_FOR_SESSION = tuple(
    tuple(prefix.split())
    for prefix in (
        *("pytest", "python -m pytest", "python3 -m pytest", "uv run pytest", "ruff", "mypy", "tsc", "eslint"),
        *("npm test", "npm run", "pnpm test", "pnpm run", "yarn test", "yarn run", "cargo test", "cargo build"),
        *("cargo check", "cargo clippy", "go test", "go build", "go vet"),
    )
)
"""Commands repeated with other arguments all day: for a session their prefix is offered, not the exact command."""
_INTERPRETER = re.compile(
    r"(ba|da|z|k|fi|a|c|tc)?sh|python[\d.]*|ipython\d?|node|deno|bun|perl|ruby|php|lua|Rscript|R|psql|mysql|sqlite3|bc|xargs"
)
MAX_COMPARED = 10
"""With more rules than this, far too many to be offered, none is looked at closely."""


def suggestions_for_command(
    tool_input: Mapping[str, Any], folders: Sequence[str], cwd: str, allow: Sequence[CompiledRule] = ()
) -> list[Suggestion]:
    """Rules that might allow the command besides `allow`, "session" before "always"; the policy checks whether they do."""
    book = RuleBook("default", (), (), tuple(allow), tuple(folders), cwd)
    call = shell_call(book, tool_input)
    if call.problem or call.analysis.problem:
        return []
    asking = [part for part in call.parts if judge_part(book, part).behavior == "ask"]
    exact = [_rules_for(part) for part in asking]
    if not asking or None in exact:
        return []
    written = [rule for part in asking for rule in _written(part)]
    kept = _needed(book, call, _flat(exact))
    broader = _flat([_prefix(part) or rules for part, rules in zip(asking, exact, strict=True)])
    session = _needed(book, call, [*broader, *written])
    offered = [Suggestion(tuple(session), "session", _label(session, kept if session == kept else [], "session"))]
    if not written:
        offered.append(Suggestion(tuple(kept), "always", _label(kept, kept, "always")))
    return [suggestion for suggestion in offered if suggestion.rules]


def _needed(book: RuleBook, call: ShellCall, rules: Sequence[str]) -> list[str]:
    """`rules` without those that the others make superfluous: once `cd` may go to a folder, so may `ls`."""
    if not 1 < len(rules) <= MAX_COMPARED:
        return list(rules)
    try:
        compiled = {rule: compile_rule(parse_rule(rule), "allow", book.cwd) for rule in rules}
    except CellwrightError:  # no rule can say it, so it will not be offered
        return list(rules)
    for rule in rules:
        others = {each: kept for each, kept in compiled.items() if each != rule}
        allowing = replace(book, allow=(*book.allow, *filter(None, others.values())))
        if judge_parts(allowing, call).behavior == "allow":
            compiled = others
    return list(compiled)


def _flat(rules: Sequence[Sequence[str] | None]) -> list[str]:
    return list(dict.fromkeys(rule for each in rules for rule in each or ()))


def _rules_for(part: Part) -> list[str] | None:
    """The rules that say this command and nothing else, less those for files it writes; None where none can."""
    command = part.command
    if not command.words:
        return None if command.assignments else []
    if folder_named(command.words) is not None:
        return _folder_rule(part)
    if "*" in command.text or "\n" in command.text:
        return None  # a `*` in a rule stands for anything; and a rule is one line
    if _reads_its_commands(part):
        return None  # a rule would not say what it runs
    # of a command that only reads, it is what it writes to that needs approval
    only_redirect = part.read is not None and any(redirect.writes for redirect in command.redirects)
    return [] if only_redirect else [f"Bash({command.text})"]


def _reads_its_commands(part: Part) -> bool:
    """Whether what the program does comes from its input, as in `… | sh` and `python <<EOF`."""
    if part.read is not None:
        return False
    if any(redirect.operator in ("<<", "<<<", "<") for redirect in part.command.redirects):
        return True
    program, *arguments = part.words
    without_file = all(word.text.startswith("-") for word in arguments)
    inline = any(word.text in ("-c", "-e", "-m", "--version", "-V", "--help") for word in arguments)
    return without_file and not inline and _INTERPRETER.fullmatch(program.text.rpartition("/")[2]) is not None


def _folder_rule(part: Part) -> list[str] | None:
    folder = folder_named(part.command.words)
    starts = part.command.folders
    if folder is None or starts is None:
        return None
    places = {normalised(os.path.join(start, folder)) for start in starts}
    return [f"Read(/{escaped(place)}/**)" for place in sorted(places)]


def _written(part: Part) -> list[str]:
    rules = []
    for redirect in part.command.redirects:
        if redirect.writes and not redirect.is_descriptor and not is_harmless(redirect.target.text):
            for start in part.command.folders or ():
                rules.append(f"Edit(/{escaped(normalised(os.path.join(start, redirect.target.text)))})")
    return list(dict.fromkeys(rules))


def _prefix(part: Part) -> list[str] | None:
    if not part.plain_variables or part.gets_more:
        return None
    words = tuple(word.text for word in part.words)
    for prefix in PREFIXES_FOR_SESSION:
        if words[: len(prefix)] == prefix:
            return [f"Bash({' '.join(prefix)} *)"]
    return None


def _label(rules: Sequence[str], exact: Sequence[str], scope: str) -> str:
    """What the rules cover, whole: for one exact command short, since the card shows it."""
    where = "for this session" if scope == "session" else "in this project"
    if len(rules) == 1 and exact and rules[0].startswith("Bash("):
        if scope == "session":
            return "this exact command, for this session"
        return f"always allow exactly `{visible_line(rules[0][5:-1])}` in this project"
    if len(rules) == 1 and rules[0].endswith(" *)"):
        return f"every command that starts with `{rules[0][5:-3]}`, this session"
    listed = ", ".join(f"`{visible_line(rule)}`" for rule in rules)
    return f"{'always allow ' if scope == 'always' else ''}{listed} {where}"
