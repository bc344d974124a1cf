"""One call of a tool: its input checked, permission asked for, run within its limits, its result bounded and redacted.

Start with `tool_calls.py`; `permission_gate.py` is a call's way to yes or no, `approval.py` the answers there are.

Not here: what a rule means (`permissions`), how a question looks (the front ends).
"""
