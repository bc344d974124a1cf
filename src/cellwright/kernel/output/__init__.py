"""A run's output in a cell: drawing operations while it runs, Markdown afterwards.

Start with `cell_output.py`; `op_log.py` is what a run is drawn from, for panels too, `transcript_ops.py` turns its events
into operations, `run_pages.py` sends them to the pages that show the run.

Not here: the widget (`widgets`), questions (`run/questions.py`).
"""
