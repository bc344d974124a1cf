"""One prompt of a cell: prepared, recorded or played, asked about, interrupted.

Start with `cell_run.py`.

Not here: what a cell shows (`output`).
"""
