"""Reading and changing files.

`read.py`, `write.py`, `edit.py`, `multi_edit.py` and `apply_patch.py` hold the tools of these names. A file is changed
only through `changes.py`, several together through `atomic_write.py`: planned without writing, shown, then written
whole or not at all.

Not here: notebooks (`tools/notebook`).
"""
