"""Claude Code as the way to the model: the signed-in `claude` program asks, for those with a subscription and no key.

Start with `provider.py`; `wire_format.py` is the same conversation in its words and in ours, `sign_in.py` says whether the
program is there.

Not here: the choice of the provider (the room `conversation`), the tools themselves.
"""
