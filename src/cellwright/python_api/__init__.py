"""Python programs that want more than one prompt: an `Agent` with a conversation of its own.

Start with `agent.py`. `cellwright.ask` and `cellwright.stream` are in the conversation's room, which knows no commands.

Not here: a second way to do what a command does, drawing, Jupyter.
"""
