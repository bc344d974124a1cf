"""The terminal: the command line, what is drawn or printed, questions, the interactive session, exit codes.

Start with `main.py`. Everything runs on the main thread; the run itself is on the agent's.

Not here: what a cell needs too (`conversation`), IPython. `rich` is imported when the first request is on its way.
"""
