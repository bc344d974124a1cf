"""The user's namespace: its variables, where they come from, what they hide.

Start with `variables_tool.py` (the tool `Variables`) and `namespace.py`.

Not here: running code to find out; values are looked at from outside.
"""
