"""Images as the API takes them.

Start with `api_images.py`; `png_checksums.py` mends what Pillow refuses.
"""
