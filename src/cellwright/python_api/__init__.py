"""Python programs: `cellwright.ask`, `stream` and `map`, and an `Agent` with a conversation of its own.

Start with `ask.py`; `ask_options.py` has what may be said with a prompt. `agent.py` is for programs that want more than one
prompt, `prompt_map.py` for many prompts at once.

Not here: a second way to do what a command does, drawing, Jupyter.
"""
