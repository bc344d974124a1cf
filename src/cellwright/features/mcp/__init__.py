"""The MCP servers of a conversation: configured and trusted, connected, and as a feature.

Start with `feature.py`, which has the connections; `discovery.py` has the entries and the questions about them.

Not here: speaking with a server (`tools/mcp`), reading entries (`config/mcp`).
"""
