"""Branches of the kernel: Claude's code in a copy-on-write copy of the kernel's process, beside the user's cells.

Start with `kernel_branches.py`: one snapshot a turn, which `forker.py` makes, and branches forked from that (`branch.py` is
the kernel's end of one). `forked/` is what happens in the copies. Nothing of this is imported before the first snapshot.

Not here: the tool that Claude calls, permissions, and what keeps a branch within its bounds (`sandbox`).
"""
