"""The kernel beside the bounds of folders: its own files and the processes that it shows.

`kernel_files.py` says which files are the kernel's, and so in no bounds. `plain_commands.py` says which commands have no use
for processes; `process_mark.py` finds those of a command that have left everything else that they could be known by.

Not here: enforcing any of this (the mechanisms do), and ending processes (`tools/process`).
"""
