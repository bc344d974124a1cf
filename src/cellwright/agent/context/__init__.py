"""What fills the model's context window, and how a conversation that has filled it goes on.

What is told again behind a summary is found by whoever knows of it (`conversation/prompts`). Start with `compaction.py`.
"""
