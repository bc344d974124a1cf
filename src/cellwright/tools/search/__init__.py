"""`Glob`, `Grep` and `LS`, by ripgrep.

Start with `grep.py`.

Not here: definitions and references (`tools/code`).
"""
