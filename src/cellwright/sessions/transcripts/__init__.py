"""Transcripts on disk: their format, the one writer of each, and the place in another session that a fork goes on from.

Start with `transcript.py`, which is the format. Not here: what a message means (`sessions/api_messages.py`).
"""
