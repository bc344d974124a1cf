"""Every form of rule, and what stands in its parentheses.

Start with `rule.py`.

Not here: what a call is (`judges`).
"""
