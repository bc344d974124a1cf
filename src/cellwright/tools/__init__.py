"""Claude's tools that need no kernel: the built-in ones, a folder for each family.

A tool is a function with a typed input, a description (a prompt) and limits; results are such that Claude can go on
from them.

Not here: permission (decided before the call), IPython, settings, anything that draws.
"""
