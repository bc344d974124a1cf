"""The server as a page of its kernels: notebooks that nobody has open in a browser.

Start with `notebooks.py`, which works on the shared document of jupyter-collaboration where there is one.

Not here: the pages' side in a browser (`labextension`).
"""
