"""Files as Claude sees them, by format: text in its encoding, pages of any size, images, PDF.

Not here: which of them `Read` takes when (`read.py`).
"""
