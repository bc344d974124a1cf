"""The abilities of a conversation besides talking to the model: one object a feature, asked in one order.

Start with `feature.py`: the questions that every feature may answer. `standard.py` is the list; a new feature is its
object and a line there. Features of rooms below, which know no conversation, are in `rooms_below.py`.

Not here: the runs that ask (`conversation/runs`).
"""
