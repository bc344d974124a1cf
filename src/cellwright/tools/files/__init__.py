"""Reading and changing files.

`read.py`, `write.py`, `edit.py` (with `MultiEdit`) and `apply_patch.py` hold the tools of these names. A file is changed
only through `changes.py`, several together through `patched_files.py`: planned without writing, shown, then written whole
or not at all. The steps of a safe write are in `atomic_write.py`, which begins with a `staged_file.py`, and
ends the changes that were cut off, from the records of `sessions/file_changes.py`.

Files as Claude sees them, by format: `text.py` has lines and pages of any size, `encodings.py` their characters, `pdf.py`
pages to look at. Which of them `Read` takes when, `read.py` says.

Not here: notebooks (`tools/notebook`), reading a diff (`permissions/patch_text.py`).
"""
