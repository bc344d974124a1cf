"""The tools that find code: definitions, uses, calls, imports, outlines, what fits words, and how tangled it is.

One file each, named after the tool; `project_code.py` is what they share: the index, or the files where it has no answer.

Not here: the index itself (`codebase`), text search (`tools/search`), edits by name (`edit_symbol.py`).
"""
