"""Agents that work for Claude: what it may start, and how it is started, stopped, and told of their end.

Start with `feature.py`, the list that Claude has of them; `subagents.py` runs them, each in a folder of its own if it
asks for one (`worktree.py`), with notes from its earlier runs (`agent_memory.py`).

Not here: reading the files that define them (`config/agents`).
"""
