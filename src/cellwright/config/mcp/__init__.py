"""MCP servers as they are configured: where they stand, what counts of them, what the user said to those of a project.

`servers.py` is the place to start. Nothing is started or reached here; `tools/mcp/` does that.
"""
