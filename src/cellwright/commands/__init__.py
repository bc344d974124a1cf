"""Slash commands, the same in the cell, the panel and the terminal.

Start with `registry.py`; a command is given what it may use in `command.py` and gives back a page of text.

Not here: drawing, and anything that only one front end has.
"""
