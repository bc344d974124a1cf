"""`WebFetch` and `WebSearch`.

Start with `web_fetch.py`; `client.py` decides which addresses may be reached.

Not here: which domains a rule names (`permissions/rules`).
"""
