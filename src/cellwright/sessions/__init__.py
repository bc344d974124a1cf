"""A session on disk and in memory: its messages, its turns, its lock, its transcript.

Start with `session.py`; `transcripts/` holds the files and their format. `catalog/` finds sessions, `export.py` writes them
down for people. `state_dir.py` and `project_writes.py` write files: in our own folder, and below a project.

Not here: the loop that adds to a session (`agent`).
"""
