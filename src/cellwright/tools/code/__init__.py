"""Code as structure: definitions, syntax, `EditSymbol`, and the project's own tests and linters.

`edit_symbol.py`, `run_tests.py` and `lint.py` hold the tools of these names.

Not here: text edits (`tools/files`).
"""
