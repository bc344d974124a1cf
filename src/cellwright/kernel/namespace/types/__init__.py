"""Descriptions of values: plain ones and objects, arrays, tables, and of further libraries.

Start with `describe.py`, which finds who knows a type. Nothing here runs code of the user's (no `__repr__`,
`__len__`, property), computes what is lazy, or imports a library: a value of pandas is there only when pandas is.
"""
