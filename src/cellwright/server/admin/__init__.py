"""An administrator's decisions: traits, and what puts them into force.

Start with `policy.py`.

Not here: a user's own settings (`config`).
"""
