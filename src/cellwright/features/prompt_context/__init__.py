"""Sent with a prompt: code that fits it, and news of what has changed or could not be loaded.

`code_context.py` finds the code; `file_blocks.py` and `news.py` tell once what is new.

Not here: mentions (`conversation/mentions.py`), instructions (`features/memory.py`), what the kernel adds
(`kernel/notebook_context.py`).
"""
