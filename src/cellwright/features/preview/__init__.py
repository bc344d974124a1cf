"""A whole turn as a preview: it works on copies of the files and of the kernel, and at its end the user accepts parts.

Start with `feature.py`. `open_preview.py` is one preview: what it would change, and its question; `staged.py` is the copy of
the files, and what a call may do meanwhile.
"""
