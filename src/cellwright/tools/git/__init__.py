"""The tool `Git`: git for reading, running nothing that a repository names.

Start with `git.py`.
"""
