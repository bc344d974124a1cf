"""Shell commands taken apart: tokens, grammar, folders, the files a command names.

Start with `analysis.py`. Two readings have to agree (`tokens.py`, `bash_grammar.py`); what is not understood asks.

Not here: whether it may run (`judges`).
"""
