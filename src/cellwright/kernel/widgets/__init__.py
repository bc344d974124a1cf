"""The widget in a cell's output, and its bundle.

Start with `transcript.py`. The bundle is built from `labextension/src/transcript`.

Not here: what is drawn; that is decided in `output`.
"""
