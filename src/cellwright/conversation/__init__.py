"""One session with its tools and one run at a time: what every front end builds on.

Start with `conversation.py`; a run is prepared in `starting_run.py`, waits in `run_queue.py`, and is seen by
observers (`observers.py`). `ask.py` is `cellwright.ask` and `cellwright.stream`.

Not here: drawing, IPython, Jupyter Server.
"""
