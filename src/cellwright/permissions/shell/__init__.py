"""Shell commands taken apart: tokens, grammar, folders, the files a command names.

Start with `analysis.py`. One reader (`reading.py`) says what is run; what is not understood asks.

Not here: whether it may run (`judges`).
"""
