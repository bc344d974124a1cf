"""Claude's code in the user's namespace: run, interrupted, its output caught.

Start with `python_tool.py`; `branch_tool.py` is the same for copies of the kernel (`kernel/branches`).
`code_run.py` is a call of Python on the thread that runs it.

Not here: cells of the notebook (`cells`).
"""
