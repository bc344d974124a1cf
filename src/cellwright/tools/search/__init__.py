"""`Glob`, `Grep`, `LS` and `FileTree`, by ripgrep, and `ToolSearch`, which finds tools.

Start with `grep.py`.

Not here: definitions and references (`tools/code`).
"""
