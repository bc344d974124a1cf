"""The tool `Bash`, and commands that go on in the background.

Start with `bash.py`.

Not here: whether a command may run (`permissions`).
"""
