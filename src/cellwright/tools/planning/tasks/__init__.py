"""The Task tools: a list of tasks with ids, changed one at a time. Names and fields are Claude Code's.

Start with `tasks.py`, the list; `session_tasks.py` finds it again in the session's messages. A file for each tool.

Not here: `TodoWrite`, which keeps a list without ids (`planning/todo_write.py`).
"""
