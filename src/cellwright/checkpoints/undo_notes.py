"""Notes that tell Claude, with the next prompt, of turns that were taken back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cellwright.checkpoints.records import CheckpointTurn, History, Undone
from cellwright.tools.paths import shown_path

LISTED = 40


def names_of(turns: Sequence[CheckpointTurn]) -> str:
    """`turn 3 “Rename it”`, `turns 2 to 4`"""
    numbers = sorted(turn.number for turn in turns)
    if len(numbers) == 1:
        return f"turn {numbers[0]} “{turns[0].prompt}”"
    return f"turns {', '.join(map(str, numbers))}"


def name_of(undo: Undone, history: History) -> str:
    """Name an undo or a redo, as the beginning of a sentence: `The undo of turn 3 “Rename it”`."""
    turns = [turn for turn in history.turns if turn.number in undo.turns]
    return f"The {'undo' if undo.redo_of is None else 'redo'} of {names_of(turns) if turns else 'a turn'}"


def describe_undos(history: History, cwd: Path) -> str:
    """Describe for Claude what happened to its changes since it was last asked; empty where nothing did."""
    parts = [_undo_note(undo, history, cwd) for undo in history.unreported()]
    if not parts:
        return ""
    return "<undo>\n" + "\n".join(parts) + "\nRead files and cells again before you rely on their contents.\n</undo>"


def _undo_note(undo: Undone, history: History, cwd: Path) -> str:
    turns = [turn for turn in history.turns if turn.number in undo.turns]
    which = names_of(turns) if turns else "a turn"
    changed = [shown_path(cwd, step.path) for step in undo.files]
    changed += [f"{shown_path(cwd, step.notebook)}#{step.cell_id}" for step in undo.cells]
    listed = ", ".join(bounded(changed)) or "nothing"
    if undo.redo_of is not None:
        return f"The user has redone {which}. Restored to the state in which your turn left them: {listed}."
    parts = [f"The user has undone {which}."]
    if undo.code:
        parts.append(f"Restored to the state before your changes: {listed}.")
    else:
        kept = [shown_path(cwd, path) for turn in turns for path in turn.files if turn.files[path].changed]
        parts.append(f"Changes in files stay: {', '.join(bounded(kept)) or 'nothing'}.")
    if undo.left:
        parts.append(f"Not restored, because it has changed since: {', '.join(bounded(list(undo.left)))}.")
    if undo.as_after is not None:
        parts.append("Its messages are no longer in this conversation.")
    return " ".join(parts)


def bounded(lines: list[str]) -> list[str]:
    """`lines`, or the first of them and how many more there are."""
    return lines if len(lines) <= LISTED else [*lines[:LISTED], f"… and {len(lines) - LISTED} more"]
