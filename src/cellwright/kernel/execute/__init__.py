"""Claude's code in the user's namespace: run, interrupted, its output caught.

Start with `python_tool.py`; `code_run.py` is the same on the thread that runs it.

Not here: cells of the notebook (`cells`).
"""
