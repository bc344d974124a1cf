"""The tools `Bash` and `TaskStop`: shell commands, also such as go on in the background.

Start with `bash.py`.

Not here: whether a command may run (`permissions`).
"""
