"""Paths from variables, from PATH and from files of configuration: they count unless the session's folders steer them.

A command changes what lies in the session's folders, and a project is whatever somebody put there. So a file that lies
there opens nothing outside, and neither does a link.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from cellwright.sandbox.paths import Places, below


def steered(path: str, roots: Iterable[str]) -> bool:
    """Return whether what lies in `roots` decides where `path` leads: it lies there itself, or a link to it does."""
    way = Places()
    (real,) = way.real([path])
    return any(below(place, root) for root in roots for place in (real, *way.links))


def led_out(path: str, roots: Iterable[str], within: Iterable[str] | None = None) -> bool:
    """Return whether a link in `roots` leads `path` out of `within`, which is by default the same."""
    roots = tuple(roots)
    way = Places()
    (real,) = way.real([path])
    if any(below(real, folder) for folder in (roots if within is None else within)):
        return False
    return any(below(link, root) for root in roots for link in way.links)


def unmoved(paths: Iterable[str], others: Iterable[str]) -> list[str]:
    """`paths` less those that a link below another one of them, or of `others`, leads out of them.

    It may be a later link than was meant.
    """
    given = list(dict.fromkeys(paths))
    sure = [path for path in given if os.path.realpath(path) == path]
    roots = [path for path in (*sure, *others) if path != "/"]
    return [path for path in given if not led_out(path, roots, sure)]


def holds(path: str, home: str) -> bool:
    """Return whether `path` is the home or above it: never an environment, whatever says so."""
    real = os.path.realpath(path)
    return real == "/" or home == real or home.startswith(real + "/")


def entries_of(folder: Path) -> list[Path]:
    """The entries of a folder; none if it is absent or closed to us."""
    try:
        return list(folder.iterdir())
    except OSError:
        return []
