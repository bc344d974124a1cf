"""Claude Code's command line, taken as it is: its flags, and the JSON that it writes and reads.

Start with `flags.py`. Not here: our own options (`arguments.py`) and formats.
"""
