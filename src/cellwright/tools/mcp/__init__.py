"""MCP servers as they run: the way to one, its tools as ours, what its results become.

`connection.py` is the place to start; `transports.py` starts programs and opens addresses. Which servers there are and who
allowed them is no business of this room (`config/mcp/`), nor is the conversation that uses them. The `mcp` package is
imported only where a connection is made. Nothing that a server says is believed: names, schemas and results are bounded
and cleaned here, before anybody else sees them.
"""
