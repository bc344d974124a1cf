"""The user's namespace: its variables, where they come from, what they hide.

Start with `variables_tool.py` (the tool `Variables`) and `namespace.py`. `describe.py` finds who knows a type: itself for
plain values and objects, `arrays.py` and `tables.py` for those of libraries.

Not here: running code to find out; values are looked at from outside. No description runs code of the user's (no
`__repr__`, `__len__`, property), computes what is lazy, or imports a library: a value of pandas is there only if pandas is.
"""
