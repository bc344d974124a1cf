"""The MCP servers of a conversation, in three: configured and trusted, connected, and as a feature.

Start with `feature.py`; `connections.py` has the connections, `discovery.py` the entries and the questions about them.

Not here: speaking with a server (`tools/mcp`), reading entries (`config/mcp`).
"""
