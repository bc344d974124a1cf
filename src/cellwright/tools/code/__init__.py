"""Code as structure: finding it, `EditSymbol`, the check of syntax, and the project's own tests and linters.

`edit_symbol.py`, `run_tests.py` and `lint.py` hold the tools of these names, `navigation` those that find code.

Not here: text edits (`tools/files`).
"""
