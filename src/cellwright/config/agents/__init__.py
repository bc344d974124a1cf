"""Agents that users bring: a Markdown file each in `agents/` of a `.claude` folder, and those that come along.

Places and front matter are Claude Code's. `agents.py` finds and reads them. They are told to
Claude in `features/agents/feature.py` and put to work in `features/agents/subagents.py`.
"""
