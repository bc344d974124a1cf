"""Features of a conversation, all that it can do besides talking to the model: a folder or file each.

Start with `standard.py`, the list of all in the order in which they are asked; a new feature is its object and a line there.
`conversation.py` is the `Conversation` that every front end builds on, `process_conversation.py` the one of this process.
Features of rooms below, which know no conversation, are in `standard.py`.

Not here: the questions that features answer (`conversation/feature.py`), and the runs that ask.
"""
