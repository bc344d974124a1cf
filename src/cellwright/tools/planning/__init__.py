"""Tools for the work itself: todos and tasks, questions to the user, plan mode.

`todo_write.py`, `tasks.py`, `ask_user.py` and `plan_mode.py` hold the tools.
"""
