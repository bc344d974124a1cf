"""`cellwright.map`: many prompts at once, each by itself. Start with `prompt_map.py`.

Here belong what the prompts share (how many at once, what they may cost, where answers are kept) and what comes of them;
a single prompt is an agent's run like any other.
"""
