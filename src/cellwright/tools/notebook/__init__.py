"""Notebook files, cell by cell and byte for byte: `NotebookRead` and `NotebookEdit`.

Start with `notebook_edit.py`; `open_notebook.py` is the contract of a notebook as its user sees it, in a file or in a
page.

Not here: running cells (`kernel/cells`).
"""
