"""Tools for the work itself: todos and tasks, questions to the user, plan mode.

A file for each tool; those about tasks with ids are in `tasks/`. `todos.py` is what views know of the list.
"""
