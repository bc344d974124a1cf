"""Plugins: skills, agents, commands, hooks and MCP servers that others have put together, in Claude Code's layout.

Start with `plugin.py`, which reads one from its folder, copies its files and hashes them.
`marketplace.py` fetches them and reads lists of plugins, `installed_plugins.py` keeps what the user has accepted and says
which count now, and `install.py` puts these together for `/plugin`.

Not here: running what a plugin brings. Its skills, agents, hooks and servers go the way that those of users go.
"""
