"""All sessions of this server on one screen: what runs, waits and asks in each of its kernels.

Start with `overview.py`.

Not here: runs that clients ask for (`runs`). Nothing here loads Cellwright into a kernel or keeps one from being culled.
"""
