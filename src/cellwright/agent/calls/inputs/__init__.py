"""The inputs of calls: how tools offer them, the other names that are taken for them, and words for what does not fit.

Start with `other_names.py`. Not here: the check itself, which is `check_input.py` beside this room.
"""
