"""The list of sessions, in SQLite with full-text search, made from the transcripts.

Start with `catalog.py`. What cannot be made anew (a title that the user gave, tags) stands beside the transcript
(`metadata.py`).

Not here: writing to a transcript. Nothing here is on the way of a run.
"""
