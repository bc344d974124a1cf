"""All that is sent with a user's words: what they mention, the instructions in force, the skills there are.

`prompt.py` puts a prompt together; each `ContextProvider` finds one kind of thing that is told besides.
"""
