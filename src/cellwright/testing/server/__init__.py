"""The strict local Messages API server: real HTTP, a scripted model.

Start with `messages_server.py`.

Not here: rules of requests (`rules`).
"""
