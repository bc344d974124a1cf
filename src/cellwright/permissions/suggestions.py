"""The rules a permission question offers, from the narrowest that helps: for this session, and to keep."""
# Paths are strings here: this runs for each call, and Path is several times slower.
# ruff: noqa: PTH111, PTH112, PTH119, PTH120

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from cellwright.errors import CellwrightError
from cellwright.events import Suggestion
from cellwright.permissions.command_suggestions import suggestions_for_command
from cellwright.permissions.judges.files import path_of
from cellwright.permissions.judges.patch import MAX_FILES, files_of, named_by
from cellwright.permissions.judges.project import fixed_paths
from cellwright.permissions.patch_names import PatchProblem
from cellwright.permissions.paths import PathProblem, inside, places
from cellwright.permissions.rule_book import Call
from cellwright.permissions.rules.domain_pattern import AddressProblem, host_of
from cellwright.permissions.rules.path_pattern import escaped
from cellwright.permissions.rules.rule import EDITORS, READERS, CompiledRule, parse_rule
from cellwright.text import visible_line

MAX_RULES = 5
"""Rules in one offer: more are not read by whoever is asked."""
MAX_SHOWN = 400
"""Characters of a rule that a card shows whole."""

Offer = Callable[[Call, Sequence[str], str], list[Suggestion]]


def suggestions_for(
    call: Call, folders: Sequence[str], cwd: str, allow: Sequence[CompiledRule] = ()
) -> list[Suggestion]:
    """Rules that might allow the call, "session" before "always". Whether they do is for the policy to check.

    What the rules `allow` cover already is not offered again.
    """
    if call.name == "Bash":
        offered = suggestions_for_command(call.input, folders, cwd, allow)
    else:
        offered = _OFFERS.get(call.name, _for_tool)(call, folders, cwd)
    return [suggestion for suggestion in offered if can_be_offered(suggestion)]


def can_be_offered(suggestion: Suggestion) -> bool:
    """Whether the card can show all that the suggestion covers, and the settings file can hold it as it is shown."""
    if not 0 < len(suggestion.rules) <= MAX_RULES:
        return False
    return all(len(rule) <= MAX_SHOWN and _is_rule(rule) for rule in suggestion.rules)


def _for_tool(call: Call, _folders: Sequence[str], _cwd: str) -> list[Suggestion]:
    name = visible_line(call.name)
    return [
        Suggestion((call.name,), "session", f"all calls of {name} in this session"),
        Suggestion((call.name,), "always", f"always allow {name} in this project"),
    ]


def _for_python(_call: Call, _folders: Sequence[str], _cwd: str) -> list[Suggestion]:
    return [Suggestion(("Python",), "session", "all Python of this session")]


def _for_cells(call: Call, _folders: Sequence[str], _cwd: str) -> list[Suggestion]:
    what = "any cells that are run" if call.name == "NotebookRun" else "any notebook that is verified"
    return [Suggestion((call.name,), "session", f"{what} in this session")]


def _for_fetch(call: Call, _folders: Sequence[str], _cwd: str) -> list[Suggestion]:
    try:
        host = host_of(call.text("url"))
    except AddressProblem:
        return []
    rule = f"WebFetch(domain:{host})"
    return [
        Suggestion((rule,), "session", f"all pages of {host} in this session"),
        Suggestion((rule,), "always", f"always allow pages of {host} in this project"),
    ]


def _for_skill(call: Call, _folders: Sequence[str], _cwd: str) -> list[Suggestion]:
    skill = call.text("skill").removeprefix("/")
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


def _for_file(call: Call, folders: Sequence[str], cwd: str) -> list[Suggestion]:
    path = path_of(call.name, call.input, cwd)
    if not path:
        return []
    return _for_reading(path, folders, cwd) if call.name in READERS else _for_editing([path], folders, cwd)


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
    """Whether the home folder or the session's are in `folder`: nobody means all that by looking at one file there."""
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


def _for_patch(call: Call, folders: Sequence[str], cwd: str) -> list[Suggestion]:
    try:
        paths = [path for path, _ in named_by(files_of(call))]
    except PatchProblem:
        return []
    return _for_editing(paths, folders, cwd) if len(paths) <= MAX_FILES else []


def _for_lint(call: Call, folders: Sequence[str], cwd: str) -> list[Suggestion]:
    if not call.input.get("fix"):
        return _for_tool(call, folders, cwd)
    edits = _for_editing(fixed_paths(call, cwd), folders, cwd)
    return [Suggestion(("Lint", *offer.rules), "session", f"all calls of Lint, and {offer.label}") for offer in edits]


def _for_question(_call: Call, _folders: Sequence[str], _cwd: str) -> list[Suggestion]:
    return []


_OFFERS: Mapping[str, Offer] = {
    "Python": _for_python,
    **dict.fromkeys(("NotebookRun", "NotebookVerify"), _for_cells),
    **dict.fromkeys(READERS | EDITORS, _for_file),
    "ApplyPatch": _for_patch,
    "Lint": _for_lint,
    "WebFetch": _for_fetch,
    "Skill": _for_skill,
    **dict.fromkeys(("AskUserQuestion", "ExitPlanMode"), _for_question),
}
