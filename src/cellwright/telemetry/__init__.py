"""Accounts of runs outside the conversation: log lines, spans, JSON lines, numbers.

Start with `json_lines.py`. Each module observes events.

Not here: anything that was said, read or run, except where a user asked for it (JSON lines).
"""
