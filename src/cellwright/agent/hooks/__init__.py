"""Hooks as the loop knows them: who listens, what they are told, and what their answers come to.

Start with `protocol.py`. Python callables answer the same JSON as programs do (`hook_answers.py`).

Not here: hooks of settings files and the processes they start (`config/hooks`).
"""
