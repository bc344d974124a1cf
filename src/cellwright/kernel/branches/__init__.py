"""Branches of the kernel: Claude's code in a copy-on-write copy of the kernel's process, beside the user's cells.

Start with `kernel_branches.py`: one snapshot a turn (`forker.py` makes it, `snapshot_process.py` is it), and branches forked
from that (`branch.py` is the kernel's end of one, `branch_process.py` the other). `resets.py` lists what a forked process
must give up before it may live. Nothing of this is imported before the first snapshot.

Not here: the tool that Claude calls, permissions, and what keeps a branch within its bounds (`sandbox`).
"""
