"""What the user is shown of an undo before it is done."""

from __future__ import annotations

from pathlib import Path

from cellwright.checkpoints.plan_files import FileUndo
from cellwright.checkpoints.told import bounded, names_of
from cellwright.checkpoints.undo import UndoPlan
from cellwright.events import Changed
from cellwright.tools.paths import shown_path

WOULD_BE = {"created": "comes back", "deleted": "goes away", "changed": "is changed back"}
"""What a plan does, by what it makes of a file."""


def in_figures(changed: Changed) -> str:
    """`+3 −1`; empty where lines were not counted."""
    return "" if changed.added is None else f"+{changed.added} −{changed.removed}"


def preview(plan: UndoPlan, cwd: Path) -> str:
    """What a plan would do, a line for each file and cell; what it would not do, and why."""
    lines = [
        f"{changed.where}  {WOULD_BE[changed.kind]}  {in_figures(changed)}".rstrip()
        for changed in changes_of_plan(plan, cwd)
    ]
    if not lines and plan.code:
        lines = ["No file or cell changes."]
    if plan.as_after is not None:
        verb = "come back into" if plan.redo_of is not None else "go out of"
        lines.append(f"The messages of {names_of(plan.turns)} {verb} the conversation.")
    if plan.refused:
        lines += ["", "Left as they are:", *bounded([f"  {name}: {why}" for name, why in left_out(plan, cwd)])]
    if plan.effects and plan.redo_of is None:
        lines += ["", "Cannot be taken back:", *bounded([f"  {effect}" for effect in plan.effects])]
    return "\n".join(lines)


def changes_of_plan(plan: UndoPlan, cwd: Path) -> list[Changed]:
    """What a plan changes, for people."""
    return [file.shown(cwd) for file in plan.file_changes] + [cell.shown(cwd) for cell in plan.cell_changes]


def left_out(plan: UndoPlan, cwd: Path) -> list[tuple[str, str]]:
    """What a plan leaves as it is, with the reasons."""
    return [
        (shown_path(cwd, undo.path) if isinstance(undo, FileUndo) else undo.shown(cwd).where, undo.refused)
        for undo in plan.refused
    ]
