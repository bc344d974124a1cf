"""The conversation as a whole: who speaks when, and what of the API's own answers has to come back unchanged.

Start with `turn_order.py`. `prefix.py` says what "the same conversation so far" means; signatures of thinking,
compaction and the memory of given answers build on it. Not here: the fields of one request (`testing/rules/request`).
"""
