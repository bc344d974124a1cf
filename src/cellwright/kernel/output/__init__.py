"""A run's output in a cell: drawing operations while it runs, Markdown afterwards.

Start with `cell_output.py`; `transcript_ops.py` turns events into operations, `op_log.py` keeps them for pages that
come later.

Not here: the widget (`widgets`), questions (`run/questions.py`).
"""
