"""Agents that users bring: a Markdown file each in `agents/` of a `.claude` folder, and those that come along.

Places and front matter are Claude Code's. `find_agents.py` finds them, `agent_definition.py` reads one. They are told to
Claude in `features/agents/feature.py` and put to work in `features/agents/subagents.py`.
"""
