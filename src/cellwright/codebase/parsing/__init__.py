"""Source texts taken apart by tree-sitter: grammars, definitions with all that belongs to them, and the facts of a file.

`grammars.py` says which file has which grammar; `facts.py` is what the index keeps of a file.

Not here: the check of edits (`tools/code/syntax_check.py`).
"""
