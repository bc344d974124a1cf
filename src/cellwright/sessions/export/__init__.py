"""A conversation as Markdown, a notebook or JSON.

Start with `formats.py`; `exchanges.py` takes messages apart into prompts and what came of them. Pure functions of
messages.

Not here: reading a session or writing a file (`commands/sessions/export.py`).
"""
