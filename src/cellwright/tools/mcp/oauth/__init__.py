"""Signing in to MCP servers that are reached over HTTP: OAuth 2.1, on the `mcp` package's own client.

`provider.py` is the place to start: what goes with each request, and refreshing. `sign_in.py` is the way in a browser, which
only the user begins; `token_store.py` keeps what came of it. Nothing here opens a browser, and no token leaves this room but
in the header of a request to the server that it is for.
"""
