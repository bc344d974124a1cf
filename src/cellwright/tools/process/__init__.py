"""Child processes: their environment, their limits, their output, and their end with ours.

Start with `runner.py`, by which everything is run; `child_processes.py` is how it is started and ended.

Not here: what a command may do (`permissions`).
"""
