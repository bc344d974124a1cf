"""Texts of every conversation besides the user's words: the system prompt, mentions, what is sent behind a summary.

`system_prompt.py` builds the system prompt, `mentions.py` reads and attaches what a prompt mentions,
`after_compaction.py` finds what is sent again, `tagged_list.py` has the form of lists that are sent once and when they
change.

Not here: what features send (`features`).
"""
