"""Confining by mounts: a command sees the folders that are put together for it, and nothing else of the disk.

Start with `bubblewrap.py`. `placeholders.py` lets something stand where nothing does that is protected; `staging.py` has a
command change a copy of a folder, of which `staged_changes.py` makes what may be made in the folder itself.

Not here: which places these are (`resolved_bounds.py`), and means without mounts.
"""
