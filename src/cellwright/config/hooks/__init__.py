"""Hooks of settings files: read, matched with events, and run.

Start with `hooks.py`; each kind of hook has its module (`command.py`, `http_and_mcp.py`, `prompt_and_agent.py`).

Not here: what the loop does with an answer (`agent/hooks`).
"""
