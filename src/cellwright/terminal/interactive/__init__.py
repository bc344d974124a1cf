"""The interactive session: the line that prompts are typed in, keys without Enter, lists to choose from.

Start with `interact.py`. Not here: what a single prompt needs, too (views, questions).
"""
