"""The second way to run a branch: a process of our own with the kernel's imports warm, which branches are forked from.

Start with `template.py`, the kernel's end of the process; `template_process.py` is the process, and `given_values.py` gives
a branch of it the variables that its code names, by value. Used if the kernel itself can't be forked, or a copy of it hangs.

Not here: what happens in a branch once it runs (`forked/`), which is the same for both ways.
"""
