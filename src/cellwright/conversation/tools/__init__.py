"""The tools of a conversation: which there are, and how they are made."""
