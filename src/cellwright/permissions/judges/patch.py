"""Judging ApplyPatch: every file that the patch reads, changes, makes, renames or deletes.

The tool reads the patch with the same reader (`patch_text.read_patch`), so the names judged here are exactly those it
goes by: absolute, or relative to the session's folder, with `..` and symbolic links not yet followed. A patch that
cannot be read (`PatchProblem`) is refused by the tool as well: nothing of it is ever applied.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from cellwright.agent.calls.approval import Decision
from cellwright.permissions.judges.files import judge_path
from cellwright.permissions.patch_text import FilePatch, PatchProblem, read_patch
from cellwright.permissions.rules.rule import READ, JudgedCall, RuleBook, first_of_every_use
from cellwright.text import visible_line

PathKind = Literal["read", "edit", "create", "delete"]


def paths_in_patch(patch: str, strip: int | None = None) -> list[tuple[str, PathKind]]:
    """Each file that a patch reads or changes, in the patch's order. Raises PatchProblem.

    A rename is a `delete` and a `create`, a copy a `read` and a `create`.
    """
    return [pair for file in read_patch(patch, strip) for pair in paths_of(file)]


def paths_of(file: FilePatch) -> list[tuple[str, PathKind]]:
    """The same for one file of a patch."""
    old, new = file.old, file.new
    if old is None or new is None:
        return [(new or old or "", "create" if old is None else "delete")]
    if file.action == "edit":
        return [(new, "edit")]
    return [(old, "delete" if file.action == "rename" else "read"), (new, "create")]


MAX_FILES_JUDGED = 500
"""The most files of a patch that a question names; one with more is asked about as a whole."""
MAX_FILES_NAMED = 10_000
"""A larger one is denied: not even the deny rules can be looked up for it in good time."""
PLAIN_FILES = ("100644", "100755", "100664")
"""Git's modes of files; others are symbolic links and submodules, which lead elsewhere."""


def judge_patch(book: RuleBook, call: JudgedCall) -> Decision:
    """Judge whether the patch may be applied. What one file of it needs, all of it needs."""
    try:
        files = files_of(call)
    except PatchProblem as problem:
        if rule := first_of_every_use(book.deny, call.subject):
            return Decision("deny", f"ApplyPatch is denied by the rule `{rule.rule}`.", str(rule.rule))
        return Decision("deny", f"The patch cannot be understood, so no file can be meant. {problem}")
    pairs = named_by(files)
    if len(pairs) > MAX_FILES_JUDGED:
        worst = _of_too_many(book, call, pairs)
    else:
        worst = _worst([judge_path(book, READ if kind == "read" else call.subject, path) for path, kind in pairs])
    if worst.behavior != "deny" and (link := _link_among(files)):
        reason = f"It makes or changes a link to another place: {visible_line(link)}."
        return Decision("ask", reason, firm=True)
    return worst


def files_of(call: JudgedCall) -> tuple[FilePatch, ...]:
    """The files of the call's patch. Raises PatchProblem."""
    strip = call.input.get("strip")
    return read_patch(call.touched, strip if isinstance(strip, int) else None)


def named_by(files: Sequence[FilePatch]) -> list[tuple[str, PathKind]]:
    """Each path with what happens to it, once."""
    return list(dict.fromkeys(pair for file in files for pair in paths_of(file)))


def _of_too_many(book: RuleBook, call: JudgedCall, pairs: Sequence[tuple[str, PathKind]]) -> Decision:
    if len(pairs) > MAX_FILES_NAMED:
        return Decision("deny", f"The patch names more than {MAX_FILES_NAMED:,} files. Send it in parts.")
    # every file is judged all the same: a limit must not be a way around a rule, nor ask where nothing else would
    worst = _worst([judge_path(book, call.subject, path) for path, _ in pairs])
    if worst.behavior != "ask":
        return worst
    return Decision("ask", f"It changes {len(pairs):,} files, more than a question can show.", firm=True)


def _worst(verdicts: Sequence[Decision]) -> Decision:
    def strictness(verdict: Decision) -> tuple[bool, bool, bool]:
        return verdict.behavior == "deny", verdict.firm, verdict.behavior == "ask"

    return max(verdicts, key=strictness)


def _link_among(files: Sequence[FilePatch]) -> str | None:
    for file in files:
        if any(mode is not None and mode not in PLAIN_FILES for mode in (file.old_mode, file.new_mode)):
            return file.new or file.old
    return None
