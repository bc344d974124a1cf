"""Secrets: one table of what they look like, and the one search for them that every exit uses.

`redaction.py` searches texts and JSON. `secret_names.py` knows names, `secret_kinds.py` looks, `named_secrets.py` the
places where a name decides about what stands beside it. A new kind needs an example, and a new exit a line, in
`tests/redaction`.

Not here: which results are redacted when (`agent/calls/tool_results.py`).
"""
