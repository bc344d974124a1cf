"""Accounts of runs, for those who look on: the state that views are drawn from, JSON lines, log lines, spans, numbers.

Start with `run_state.py`. Each module observes events.

Not here: anything that was said, read or run goes into no log line, span or number; JSON lines and views have it.
"""
