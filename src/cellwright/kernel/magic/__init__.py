"""`%%claude` and `%claude`: the line and its options, and what a cell is rewritten to.

Start with `magics.py`; `options.py` has every option.

Not here: running (`run`).
"""
