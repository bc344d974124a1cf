"""The Messages API through a server that keeps the key.

A request of a kernel comes with the kernel's token, is checked, reserved, sent with the server's key, streamed back,
counted and logged. Start with `proxied_request.py`; `request_rules.py` says what may go, `proxy.py` what it may cost,
and only its `Upstream` knows the key.

Not here: anything of what was said. No module looks into messages, but for their sizes.
"""
