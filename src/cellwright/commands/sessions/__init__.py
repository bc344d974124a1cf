"""Commands about the conversation: sessions as kept, what is said besides prompts, its answers. Start with `sessions.py`."""
