"""The agent: a model, tools and a policy as frozen data, and the loop that runs them.

Start with `agent_setup.py` (what an agent is) and `loop.py` (what a run does). One call of a tool is in `calls/`, hooks as
the loop knows them in `hooks/`, turns that are kept and played again in `recording/`, an answer as a value of a type
in `structured_output.py`.

Not here: files and settings (`config`), what a call may do (`permissions`), any tool, any front end.
"""
