"""Steps of a safe write: a folder held open, a new file made where nobody looks, and what a process that was killed left.

Start with `staged_file.py`. `recovery.py` ends the changes that were cut off, from the records of
`sessions/file_changes.py`.

Not here: the order of the steps for one file or many (`atomic_write.py`).
"""
