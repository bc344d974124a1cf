"""Cells that Claude runs: `NotebookRun` and `NotebookVerify`.

Start with `notebook_run.py`; `run_cells.py` runs one after another, `fresh_kernel.py` runs a copy of the notebook
from clean.

Not here: cells of the user's (`run`).
"""
