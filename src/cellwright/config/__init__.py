"""Everything that users bring: settings, hooks, trust, plug-ins, in Claude Code's formats and places.

Start with `settings/settings.py`.

Not here: deciding about calls (`permissions`), running an agent (`conversation`), IPython. Nothing that came with a
project's folder is executed before the folder is trusted.
"""
