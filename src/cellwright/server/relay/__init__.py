"""The ways to kernels: Jupyter's messages, and the conversation over a comm.

Start with `relay.py`.

Not here: what clients ask for (`routes`, `runs`).
"""
