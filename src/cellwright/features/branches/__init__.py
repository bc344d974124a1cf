"""Branches of the kernel as a conversation has them: when a snapshot is due, whose branch is whose, what the user is told.

Start with `feature.py`; `preview.py` makes a whole turn a preview. How a kernel is forked, and the tool that runs code
there, are the kernel's (`kernel/branches`).
"""
