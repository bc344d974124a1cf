"""One session with its tools and one run at a time: what every front end builds on.

Start with `conversation.py`; `core.py` has what every conversation has and makes its agents, `features` what it can do
besides talking to the model. A run waits and is resolved in `runs`, and is seen by observers (`observers.py`). `ask.py` is
`cellwright.ask` and `cellwright.stream`.

Not here: drawing, IPython, Jupyter Server.
"""
