"""Text of models and tools as Markdown that means the same to every renderer, and in which nothing is active.

Start with `safe_markdown.py`. `escaping.py` has the small pieces for what we write ourselves: a title, a code block.

Not here: what is written (`sessions/export`, `kernel/output`), and what the browser draws (it has a renderer of its own).
"""
