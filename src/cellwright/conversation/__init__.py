"""One session with its tools and one run at a time: what every front end builds on.

Start with `conversation.py`; a run is prepared and waits in `runs`, and is seen by
observers (`observers.py`). What a conversation consists of has a file each: `session_choice.py`,
`tools`, `model_connection.py`. `ask.py` is `cellwright.ask` and `cellwright.stream`.

Not here: drawing, IPython, Jupyter Server.
"""
