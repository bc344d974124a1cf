"""Whole turns kept in a file, and played again without a request.

`recordings.py` is the format, `recorder.py` writes it, `replay.py` plays it, `replay_drift.py` says what has changed
since.

Not here: which recording belongs to a cell (`kernel/run`), where played edits are made (`conversation/replayed_edits.py`).
"""
