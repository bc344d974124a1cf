"""Commands that only read, and so run unasked.

Start with `commands.py`.

Not here: commands that change something (`mutating_commands.py`).
"""
