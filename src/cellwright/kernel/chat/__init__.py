"""The panel's side of a conversation: its prompts, its log, its completions, its sessions.

Start with `chat.py`; `requests.py` answers what panels ask for, `conversation_log.py` follows the conversation from its
beginning, `connections.py` sends each panel what it lacks.

Not here: the notebook that a page shows (`pages`).
"""
