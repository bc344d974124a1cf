"""The pages that show this kernel's notebooks, and what goes between them and the kernel.

Start with `pages.py`; `open_notebooks.py` has the notebooks that the pages show.

Not here: the panel's conversation (`chat`).
"""
