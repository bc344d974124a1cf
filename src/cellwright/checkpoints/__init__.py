"""Checkpoints: files and notebook cells as they were before turns changed them, and taking the changes back.

Start with `checkpoints.py`; the journal of a session is on disk before a change is made (`journal.py`).

Not here: how files are written (`tools/files`), how a user asks for an undo (`commands/undo.py`), any front end.
"""
