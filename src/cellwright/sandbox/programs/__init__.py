"""The needs of single programs in a sandbox, found in files that a project or a confined command may have written.

`interpreters.py`: the Python behind a virtual environment, and packages that lie elsewhere. `git_configuration.py`: the copy
of git's configuration without its secrets. Which paths count although a project could have had a hand in them is in
`sandbox/paths.py`. Here alone such files are read; what all programs need is in `profile.py`.
"""
