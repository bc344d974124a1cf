"""What Claude is told with a prompt: news of the notebook and of the namespace, what was mentioned, within a budget.

Start with `notebook_context.py`.

Not here: looking at values (`namespace`).
"""
