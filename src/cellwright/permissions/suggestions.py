"""The rules a permission question offers, from the narrowest that helps: for this session, and to keep.

For a shell command there is one for each simple command in it that needs approval.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from cellwright.agent.tool import AccessKind
from cellwright.errors import CellwrightError
from cellwright.events import Suggestion
from cellwright.permissions.judges.bash import judge_parts
from cellwright.permissions.judges.files import path_of
from cellwright.permissions.judges.patch import MAX_FILES_JUDGED, files_of, named_by
from cellwright.permissions.judges.project_programs import fixed_paths
from cellwright.permissions.judges.shell_call import ShellCall, settled_parts, shell_call
from cellwright.permissions.judges.simple_command import CommandFacts, judge_part
from cellwright.permissions.patch_text import PatchProblem
from cellwright.permissions.paths import PathProblem, inside, normalised, places
from cellwright.permissions.rules.domain_pattern import AddressProblem, host_of
from cellwright.permissions.rules.path_pattern import escaped
from cellwright.permissions.rules.rule import (
    CompiledRule,
    JudgedCall,
    RuleBook,
    compile_rule,
    parse_rule,
)
from cellwright.permissions.shell.analysis import folder_named
from cellwright.permissions.shell.command_paths import is_harmless
from cellwright.text import lazy_pattern, visible_line

# Paths are strings here: this runs for each call, and Path is several times slower.
# ruff: noqa: PTH111, PTH112, PTH118, PTH119, PTH120


PREFIXES_FOR_SESSION = tuple(
    tuple(prefix.split())
    for prefix in (
        *("pytest", "python -m pytest", "python3 -m pytest", "uv run pytest", "ruff", "mypy", "tsc", "eslint"),
        *("npm test", "npm run", "pnpm test", "pnpm run", "yarn test", "yarn run", "cargo test", "cargo build"),
        *("cargo check", "cargo clippy", "go test", "go build", "go vet"),
    )
)
"""Commands repeated with other arguments all day: for a session their prefix is offered, not the exact command."""
_INTERPRETER = lazy_pattern(
    r"(ba|da|z|k|fi|a|c|tc)?sh|python[\d.]*|ipython\d?|node|deno|bun|perl|ruby|php|lua|Rscript|R|psql|mysql|sqlite3|bc|xargs"
)


def suggestions_for_command(
    tool_input: Mapping[str, Any], folders: Sequence[str], cwd: str, allow: Sequence[CompiledRule] = ()
) -> list[Suggestion]:
    """Rules that might allow the command besides `allow`, "session" before "always"; the policy checks whether they do."""
    book = RuleBook("default", (), (), tuple(allow), tuple(folders), cwd)
    call = shell_call(book, tool_input)
    if call.problem or call.analysis.problem:
        return []
    asking = [part for part in settled_parts(call.parts) if judge_part(book, part).behavior == "ask"]
    exact = [_rules_for(part) for part in asking]
    if not asking or None in exact:
        return []
    written = [rule for part in asking for rule in _written(part)]
    kept = _needed(book, call, _flat(exact))
    broader = _flat([_prefix(part) or rules for part, rules in zip(asking, exact, strict=True)])
    session = _needed(book, call, [*broader, *written])
    offered = [Suggestion(tuple(session), "session", _label(session, "session"))]
    if not written:
        offered.append(Suggestion(tuple(kept), "always", _label(kept, "always")))
    return [suggestion for suggestion in offered if suggestion.rules]


def _needed(book: RuleBook, call: ShellCall, rules: Sequence[str]) -> list[str]:
    """`rules` without those that the others make superfluous: once `cd` may go to a folder, so may `ls`."""
    # with more rules than this, far too many to be offered, none is looked at closely
    if not 1 < len(rules) <= 10:
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


def _rules_for(facts: CommandFacts) -> list[str] | None:
    """The rules that say this command and nothing else, less those for files it writes; None where none can."""
    command = facts.command
    if not command.words:
        return None if command.assignments else []
    if folder_named(command.words) is not None:
        return _folder_rule(facts)
    if "*" in command.text or "\n" in command.text:
        return None  # a `*` in a rule stands for anything; and a rule is one line
    if _reads_its_commands(facts):
        return None  # a rule would not say what it runs
    # of a command that only reads, it is what it writes to that needs approval
    only_redirect = facts.read is not None and any(redirect.writes for redirect in command.redirects)
    return [] if only_redirect else [f"Bash({command.text})"]


def _reads_its_commands(facts: CommandFacts) -> bool:
    """Return whether what the program does comes from its input, as in `… | sh` and `python <<EOF`."""
    if facts.read is not None:
        return False
    if any(redirect.operator in ("<<", "<<<", "<") for redirect in facts.command.redirects):
        return True
    program, *arguments = facts.words
    without_file = all(word.text.startswith("-") for word in arguments)
    inline = any(word.text in ("-c", "-e", "-m", "--version", "-V", "--help") for word in arguments)
    return without_file and not inline and _INTERPRETER.fullmatch(program.text.rpartition("/")[2]) is not None


def _folder_rule(facts: CommandFacts) -> list[str] | None:
    folder = folder_named(facts.command.words)
    starts = facts.command.folders
    if folder is None or starts is None:
        return None
    places = {normalised(os.path.join(start, folder)) for start in starts}
    return [f"Read(/{escaped(place)}/**)" for place in sorted(places)]


def _written(facts: CommandFacts) -> list[str]:
    rules = []
    for redirect in facts.command.redirects:
        if redirect.writes and not redirect.is_descriptor and not is_harmless(redirect.target.text):
            for start in facts.command.folders or ():
                rules.append(f"Edit(/{escaped(normalised(os.path.join(start, redirect.target.text)))})")
    return list(dict.fromkeys(rules))


def _prefix(facts: CommandFacts) -> list[str] | None:
    if not facts.plain_variables or facts.gets_more:
        return None
    words = tuple(word.text for word in facts.words)
    for prefix in PREFIXES_FOR_SESSION:
        if words[: len(prefix)] == prefix:
            return [f"Bash({' '.join(prefix)} *)"]
    return None


def _label(rules: Sequence[str], scope: str) -> str:
    """Describe all that the rules cover, in words: the card shows the command, and the rules beside the choice."""
    where = "for this session" if scope == "session" else "in this project"
    exact = [rule for rule in rules if rule.startswith("Bash(") and not rule.endswith(" *)")]
    parts = ["this command" if len(exact) == 1 else f"these {len(exact)} commands"] if exact else []
    for rule in rules:
        tool, _, about = rule[:-1].partition("(")
        if rule.endswith(" *)"):
            parts.append(f"every command that starts with `{visible_line(about[:-2])}`")
        elif tool != "Bash":
            parts.append(f"{'edits of' if tool == 'Edit' else 'reads in'} `{_file_in_words(about)}`")
    return f"{'always allow ' if scope == 'always' else ''}{', '.join([*parts[:-2], ' and '.join(parts[-2:])])} {where}"


def _file_in_words(about: str) -> str:
    """The file or folder that a rule names, short: the rule itself stands beside the words."""
    path = about.removesuffix("/**").removeprefix("/")
    return visible_line(os.path.basename(path) or path)


Offer = Callable[[JudgedCall, Sequence[str], str], list[Suggestion]]


def suggestions_for(
    call: JudgedCall, folders: Sequence[str], cwd: str, allow: Sequence[CompiledRule] = ()
) -> list[Suggestion]:
    """Rules that might allow the call, "session" before "always". Whether they do is for the policy to check.

    What the rules `allow` cover already is not offered again.
    """
    if call.access.kind == "shell":
        command = {**call.input, "command": call.touched}
        offered = suggestions_for_command(command, folders, cwd, allow)
    else:
        offered = _OFFERS.get(call.access.kind, _for_tool)(call, folders, cwd)
    return [suggestion for suggestion in offered if can_be_offered(suggestion)]


def can_be_offered(suggestion: Suggestion) -> bool:
    """Return whether the card can show all that the suggestion covers, and the settings file hold it as shown."""
    # rules in one offer: more are not read by whoever is asked
    if not 0 < len(suggestion.rules) <= 5:
        return False
    # characters of a rule that a card shows whole
    return all(len(rule) <= 400 and _is_rule(rule) for rule in suggestion.rules)


def _for_tool(call: JudgedCall, _folders: Sequence[str], _cwd: str) -> list[Suggestion]:
    name = visible_line(call.name)
    return [
        Suggestion((call.name,), "session", f"all calls of {name} in this session"),
        Suggestion((call.name,), "always", f"always allow {name} in this project"),
    ]


def _for_python(_call: JudgedCall, _folders: Sequence[str], _cwd: str) -> list[Suggestion]:
    return [Suggestion(("Python",), "session", "all Python of this session")]


def _for_branch(call: JudgedCall, folders: Sequence[str], cwd: str) -> list[Suggestion]:
    # a rule for branches means confined ones
    return (_for_tool if call.input.get("unconfined") == "" else _for_python)(call, folders, cwd)


def _for_cells(call: JudgedCall, _folders: Sequence[str], _cwd: str) -> list[Suggestion]:
    what = "any cells that are run" if call.access.kind == "cells" else "any notebook that is verified"
    return [Suggestion((call.name,), "session", f"{what} in this session")]


def _for_fetch(call: JudgedCall, _folders: Sequence[str], _cwd: str) -> list[Suggestion]:
    try:
        host = host_of(call.touched)
    except AddressProblem:
        return []
    rule = f"WebFetch(domain:{host})"
    return [
        Suggestion((rule,), "session", f"all pages of {host} in this session"),
        Suggestion((rule,), "always", f"always allow pages of {host} in this project"),
    ]


def _for_skill(call: JudgedCall, _folders: Sequence[str], _cwd: str) -> list[Suggestion]:
    skill = call.touched.removeprefix("/")
    if "*" in skill:
        return []  # in a rule it stands for any skill
    rule = f"Skill({skill} *)" if call.text("args").strip() else f"Skill({skill})"
    return [
        Suggestion((rule,), "session", f"the skill {skill} in this session"),
        Suggestion((rule,), "always", f"always allow the skill {skill} in this project"),
    ]


def _is_rule(text: str) -> bool:
    try:
        return str(parse_rule(text)) == text
    except CellwrightError:
        return False


def _for_file(call: JudgedCall, folders: Sequence[str], cwd: str) -> list[Suggestion]:
    path = path_of(call, cwd)
    if not path:
        return []
    return _for_reading(path, folders, cwd) if call.access.reads_files else _for_editing([path], folders, cwd)


def _for_reading(path: str, folders: Sequence[str], cwd: str) -> list[Suggestion]:
    try:
        found = places(path, cwd)[0]
    except PathProblem:
        return []
    shown = visible_line(found)
    if os.path.isdir(found) and not _holds_everything(found, folders):
        rule = f"Read(/{escaped(found)}/**)"
        return [
            Suggestion((rule,), "session", f"all reads in {shown} of this session"),
            Suggestion((rule,), "always", f"always allow reading in {shown} in this project"),
        ]
    exact, parent = f"Read(/{escaped(found)})", os.path.dirname(found)
    session = Suggestion((exact,), "session", f"all reads of {shown} in this session")
    if not _holds_everything(parent, folders):
        label = f"all reads in {visible_line(parent)} of this session"
        session = Suggestion((f"Read(/{escaped(parent)}/**)",), "session", label)
    return [session, Suggestion((exact,), "always", f"always allow reading {shown} in this project")]


def _holds_everything(folder: str, folders: Sequence[str]) -> bool:
    """Return whether home or the session's folders are in `folder`: nobody means that by looking at a file there."""
    return any(inside(each, [folder]) for each in (*folders, os.path.expanduser("~")))


def _for_editing(paths: Sequence[str], folders: Sequence[str], cwd: str) -> list[Suggestion]:
    """For the session only: the folder of the session that holds all of it, or else each file."""
    try:
        found = [places(path, cwd) for path in paths]
    except PathProblem:
        return []
    holding = [folder for folder in folders if all(inside(each[0], [folder]) for each in found)]
    if holding and all(inside(place, folders) for each in found for place in each):
        # a file has a place in each spelling of a folder that links lead to, and a rule has to cover all of them
        spellings = [each for each in folders if os.path.realpath(each) == os.path.realpath(holding[0])]
        named = _folder_in_words(spellings, cwd)
        rules = tuple(f"Edit(/{escaped(each)}/**)" for each in spellings)
        return [Suggestion(rules, "session", f"all edits in {named} for this session")]
    rules = tuple(dict.fromkeys(f"Edit(/{escaped(each[0])})" for each in found))
    files = ", ".join(visible_line(each[0]) for each in found)
    return [Suggestion(rules, "session", f"all edits of {files} in this session")]


def _folder_in_words(spellings: Sequence[str], cwd: str) -> str:
    if cwd in spellings:
        return f"this folder ({visible_line(os.path.basename(cwd))})"
    return visible_line(spellings[0])


def _for_patch(call: JudgedCall, folders: Sequence[str], cwd: str) -> list[Suggestion]:
    try:
        paths = [path for path, _ in named_by(files_of(call))]
    except PatchProblem:
        return []
    return _for_editing(paths, folders, cwd) if len(paths) <= MAX_FILES_JUDGED else []


def _for_lint(call: JudgedCall, folders: Sequence[str], cwd: str) -> list[Suggestion]:
    if not call.input.get("fix"):
        return _for_tool(call, folders, cwd)
    edits = _for_editing(fixed_paths(call, cwd), folders, cwd)
    return [Suggestion(("Lint", *offer.rules), "session", f"all calls of Lint, and {offer.label}") for offer in edits]


def _for_question(_call: JudgedCall, _folders: Sequence[str], _cwd: str) -> list[Suggestion]:
    return []


_OFFERS: Mapping[AccessKind, Offer] = {
    "python": _for_python,
    "branch": _for_branch,
    **dict.fromkeys(("cells", "fresh_kernel"), _for_cells),
    **dict.fromkeys(("read", "list", "index", "find", "search", "edit"), _for_file),
    "patch": _for_patch,
    "lint": _for_lint,
    "fetch": _for_fetch,
    "skill": _for_skill,
    **dict.fromkeys(("question", "plan"), _for_question),
}
