"""Tools for the work itself: todos and tasks, questions to the user, plan mode.

`todo_tools.py` keeps a list without ids, `tasks.py` one with ids; `todos.py` is what views know of both.
"""
