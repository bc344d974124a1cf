"""One run of a conversation: what it was given, how it is prepared, and when it is its turn.

Start with `starting_run.py`; `kinds.py` has the kinds of run and what one is given, `run.py` where a run shows itself, its
state and the bus of its events, and which run works and which wait. `without_a_run.py` is what needs none.

Not here: the loop (`agent`).
"""
