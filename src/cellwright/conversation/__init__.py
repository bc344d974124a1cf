"""One session with its tools and one run at a time, whatever the features of the conversation.

Start with `core.py`, which makes the agents of runs. A run waits and is resolved in `runs`. `feature.py` is the seam: what a
feature may answer, who observes a run, and the form of lists that are sent once and when they change. `kernel_copies.py` is
what features ask of a kernel. `system_prompt.py` builds the system prompt, `mentions.py` reads and attaches what a prompt
mentions, `after_compaction.py` finds what is sent again behind a summary.

Not here: any feature, what features send, and the `Conversation` with all of them (`features/conversation.py`); drawing,
IPython, Jupyter.
"""
