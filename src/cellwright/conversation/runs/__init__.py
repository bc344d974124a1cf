"""One run of a conversation: what it was given, how it is prepared, and when it is its turn.

Start with `starting_run.py`; `run_queue.py` says which run goes on and which wait, `run_request.py` what one is given,
`event_bus.py` who is told of its events.

Not here: the loop (`agent`).
"""
