"""Context told with a prompt: news of the notebook and of the namespace, and mentions, within a budget.

Start with `notebook_context.py`.

Not here: looking at values (`namespace`).
"""
