"""The judges, one for each kind of tool: what a call reads, writes, runs and reaches.

Start with `files.py`; `bash.py` takes a command apart and asks `simple_command.py` about each part.

Not here: the order of evaluation (`policy.py`).
"""
