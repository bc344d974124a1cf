"""An answer as a value of a type: its schema as the API takes it, and the check of what came.

Start with `typed_answer.py`.

Not here: types of the user's namespace by name (`kernel/magic`).
"""
