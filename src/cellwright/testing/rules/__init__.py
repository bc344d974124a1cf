"""The Messages API's demands on a request.

Start with `invariants.py`, which asks them all: `request_fields.py` checks fields, `turn_order.py` the conversation,
and `prefix.py` says what "the same conversation so far" means. A rule's source is the API's documentation or a published
error message, and each rule has a row in `tests/testing/rules_of_messages.py` or `tests/testing/rules_of_options.py`.

Not here: anything of the rest of Cellwright. The server shall not agree with our client, it shall know better.
"""
