"""Trust in a folder: the parts of it that count, by whose files they are and what their user has said of them.

Start with `trust.py`; `trust_store.py` keeps the answers, `project_files.py` says whose word a file is.

Not here: asking (the front ends do).
"""
