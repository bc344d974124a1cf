"""MCP servers as they run: the way to one, its tools as ours, what its results become.

`connection.py` is the place to start; `transports.py` starts programs and opens addresses. Which servers there are and who
allowed them is no business of this room (`config/mcp/`), nor is the conversation that uses them. The `mcp` package is
imported only where a connection is made. Nothing that a server says is believed: names, schemas and results are bounded
and cleaned here, before anybody else sees them.

Servers that are reached over HTTP may want a sign-in (OAuth 2.1, on the package's own client): `oauth.py` has what goes
with each request and the way in a browser, which only the user begins, `token_store.py` keeps what came of it. Nothing here
opens a browser, and no token leaves this room but in the header of a request to the server that it is for.
"""
