"""A whole turn as a preview: it works on copies of the files and of the kernel, and at its end the user accepts parts.

Start with `feature.py`. `open_preview.py` is one preview with its question, `changes.py` what it would change,
`staged_tree.py` the copy of the files, and `staged_calls.py` what a call may do meanwhile.
"""
