"""Child processes: their environment, their limits, their output, and their end with ours.

Start with `children.py`.

Not here: what a command may do (`permissions`).
"""
