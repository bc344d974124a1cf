"""The instructions that users, projects and administrators write for Claude: `CLAUDE.md`, rules, `AGENTS.md`, imports.

Formats, places and order are Claude Code's. `find_memory_files.py` finds the files of a session, `nested_memory.py`
those that count when Claude looks at certain files. What is told of them, and when, is decided in
`features/memory.py`.
"""
