"""A whole turn as a preview: it works on copies of the files and of the kernel, and at its end the user accepts parts.

Start with `feature.py`. `staged_tree.py` is the copy of the files, `staged_calls.py` what a call may do meanwhile,
`changes.py` what the turn would change.
"""
