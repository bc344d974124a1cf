"""Pages about what users bring along: instructions, skills, agents, hooks, MCP servers, plugins.

Start with `pages.py`; `plugins.py` is `/plugin`; `manage_report.py` and `manage_changes.py` are the screen "Manage".

Not here: finding and reading these things (`config`).
"""
