"""Confining by mounts: a command sees the folders that are put together for it, and nothing else of the disk.

Start with `bubblewrap.py`, which also lets something stand where nothing does that is protected; `staging.py` has a
command change a copy of a folder, and then makes what may be made of it in the folder itself.

Not here: which places these are (`resolved_bounds.py`), and means without mounts.
"""
