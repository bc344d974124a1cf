"""The doctor: checks for everything that keeps Cellwright from working here, with advice on what to do about it.

Start with `examination.py`. A check is a plain function that gives a `Finding`; it changes nothing, asks nobody and
spends no tokens.

Not here: printing (`commands/installation.py`, `terminal`).
"""
