"""Hooks of settings files: read, matched with events, and run.

Start with `hooks.py`; each kind of hook has its module (`command.py`, `asked_hooks.py`).

Not here: what the loop does with an answer (`agent/hooks`).
"""
