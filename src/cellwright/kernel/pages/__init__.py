"""The pages that show this kernel's notebooks, and what goes between them and the kernel.

Start with `pages.py`; `live_notebook.py` is a notebook in the page that shows it.

Not here: the panel's conversation (`chat`).
"""
