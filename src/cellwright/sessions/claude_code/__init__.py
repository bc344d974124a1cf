"""Sessions of Claude Code's, in its own files: finding them, reading them, and going on with a copy as one of ours.

Its files are read and never written. Their format is its own affair and changes: what is not understood is left out.
Begin with `import_session.py`.
"""
