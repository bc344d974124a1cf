"""Tools for the work itself: todos and tasks, questions to the user, plan mode.

`todos.py` keeps a list without ids, and is what views know of both lists; `tasks.py` keeps one with ids.
"""
