"""The keys and clouds that users bring: a helper's, one that was entered, and where it is kept. Start with `stored_key.py`.

Which credential of the environment counts is the room `model`'s to say.
"""
