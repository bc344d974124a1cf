"""Branches of the kernel: Claude's code in a copy-on-write copy of the kernel's process, beside the user's cells.

Start with `kernel_branches.py`: one snapshot a turn, which `snapshot.py` makes, and branches forked from that (`branch.py`
is the kernel's end of one). `forked.py` is what happens in the copies, `resets.py` what each must give up first: both are
imported in the kernel, since a copy would do it anew each time. Nothing of this is imported before the first snapshot.

The second way, if the kernel itself can't be forked or a copy of it hangs, is a process of our own with the kernel's imports
warm, which branches are forked from: `template.py` is the kernel's end of it, and `given_values.py` gives a branch the
variables that its code names, by value. What happens in a branch is the same.

Not here: the tool that Claude calls, permissions, and what keeps a branch within its bounds (`sandbox`).
"""
