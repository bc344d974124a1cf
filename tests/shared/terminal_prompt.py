"""The sign of an interactive terminal that it waits for a prompt.

What is typed before it is read by what goes on: Claude is told it, or it becomes the beginning of the next prompt.
"""

READY = "What is Claude to do?"
