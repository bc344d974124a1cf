"""`WebFetch` and `WebSearch`.

Start with `web_fetch.py`; `client.py` decides which addresses may be reached, `page_text.py` parses pages in
a process of its own.

Not here: which domains a rule names (`permissions/rules`).
"""
