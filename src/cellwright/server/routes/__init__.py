"""The routes of REST: what they take, and what they answer.

Start with `routes.py`; `openapi.json` describes each, and a route without a description fails a test.

Not here: running (`runs`).
"""
