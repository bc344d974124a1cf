"""Runs of clients: how many, in which kernels, their events for readers that come and go.

Start with `runs.py`; `run.py` is one.

Not here: the way to a kernel (`relay.py`).
"""
