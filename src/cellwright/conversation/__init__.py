"""One session with its tools and one run at a time, whatever the features of the conversation.

Start with `core.py`, which makes the agents of runs. A run waits and is resolved in `runs`, and is seen by observers
(`observers.py`). `feature.py` is the seam: what a feature may answer, and
`kernel_copies.py` what features ask of a kernel.

Not here: any feature, and the `Conversation` with all of them (`features/conversation.py`); drawing, IPython, Jupyter.
"""
