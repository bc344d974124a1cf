"""Commands about the conversation as it is kept: which one goes on, as a file, summarised. Start with `sessions.py`."""
