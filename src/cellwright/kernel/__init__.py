"""Everything inside IPython: the magics, a cell's run, its output, its questions, code in the user's namespace.

Start with `extension.py`, which puts the magic into a shell and takes it out again; everything heavy hangs on
`conversation.py`. A cell goes from `magic/` to `run/`, what it shows through `output/` to `widgets/`.

Not here: Jupyter Server, state in the user's namespace, and on the agent's thread nothing that waits for the main
thread except through its job queue.
"""
