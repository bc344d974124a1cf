"""Subagents: those that Claude may start, how they run and are stopped, and how Claude learns of their end.

Start with `feature.py`, which lists them for Claude; `subagents.py` runs them, each in a folder of its own if it
asks for one (`worktree.py`), with notes from its earlier runs (`features/memory.py`).

Not here: reading the files that define them (`config/agents`).
"""
