"""Pages about what users bring along: instructions, skills, agents, hooks, MCP servers, plugins.

A module for each page. Not here: finding and reading these things (`config`).
"""
