"""The door by which libraries come in that are imported when they are first needed, from whichever thread that is.

Python locks each module, not the package: two threads that import parts of one at the same time can meet in its circles.
One then gets half a module, or an error of Python's own. So those of which that is known are imported by one thread after
the other, and whole.
"""

from __future__ import annotations

import threading

importing = threading.RLock()
"""Held around each late import of a library whose parts import each other."""
