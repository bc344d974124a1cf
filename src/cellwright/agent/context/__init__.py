"""The contents of the model's context window, and the way on for a conversation that has filled it.

Not here: finding what is told again behind a summary, which is for whoever knows of it (`conversation/prompts`). Start
with `compaction.py`.
"""
