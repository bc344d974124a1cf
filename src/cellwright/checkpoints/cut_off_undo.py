"""An undo whose process was killed: it is ended as its files are now, which are all as it wanted them or all as before."""

from __future__ import annotations

from cellwright.checkpoints.journal import Journal
from cellwright.checkpoints.turn_recorder import at
from cellwright.checkpoints.undo_notes import name_of
from cellwright.sessions.session import Session
from cellwright.text import counted
from cellwright.tools.files.writing.recovery import recover_changes


def end_cut_off_undo(journal: Journal, session: Session) -> str:
    """End the undo that was cut off, but for its cells (`Undo.finish_cut_off`); gives what the user must know, or "".

    Where none of its files was changed it has not happened. Raises OSError when the journal cannot be written.
    """
    undo = journal.history.cut_off()
    if undo is None or journal.inherited:  # a fork has begun none of its own
        return ""
    recover_changes()
    left = [step for step in undo.files if at(step.path).sha256 != (None if step.now is None else step.now.sha256)]
    name = name_of(undo, journal.history)
    if undo.files and len(left) == len(undo.files):
        journal.append({"failed": undo.number})
        verb = "/undo" if undo.redo_of is None else "/redo"
        return f"{name} was cut off when its process was killed, and has changed nothing. {verb} starts it again."
    if undo.as_after is not None and session.next_seq == undo.was_after:
        session.return_to(undo.as_after)
        session.flush()
    undo.left = (*undo.left, *(str(step.path) for step in left))
    if not undo.cells:
        journal.append({"done": undo.number, "left": list(undo.left)})
    files = f": {counted(len(undo.files) - len(left), 'file')} changed back" if undo.files else ""
    return f"{name} was cut off when its process was killed. It is finished now{files}."
