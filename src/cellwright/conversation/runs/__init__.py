"""One run of a conversation: what it was given, how it is prepared, and when it is its turn.

Start with `starting_run.py`; `kinds.py` has the kinds of run and what one is given, `run_queue.py` says which run works
and which wait, `run.py` where it shows itself, its state and the bus of its events.

Not here: the loop (`agent`).
"""
