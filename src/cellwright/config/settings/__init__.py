"""Settings: which files there are, what they say, and what that comes to.

Start with `settings.py`: `Settings` is frozen and knows where each value is from. `known_settings.py` has every key,
`settings_files.py` the files, `layers.py` puts them together, `settings_in_force.py` holds them for a conversation.

Not here: what a rule or a hook does.
"""
