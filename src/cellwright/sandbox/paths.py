"""Paths: where they lead, which lie below which, and which of the environment's count.

A command changes what lies in the session's folders, and a project is whatever somebody put there. So a file that lies
there opens nothing outside, and neither does a link.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path


def below(path: str, folder: str) -> bool:
    """Return whether `path` is `folder` or lies below it; both are absolute and written in full."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def exists(path: str | Path) -> bool:
    """Return whether something is at `path`, as far as we can see: where we may not go, nothing is.

    (`Path.exists` raises an error there before Python 3.14.)
    """
    return os.path.exists(path)  # noqa: PTH110


def outermost(paths: Iterable[str]) -> tuple[str, ...]:
    """The paths that lie below none of the others."""
    kept: list[str] = []
    for path in sorted(set(paths), key=lambda path: path.rstrip("/").split("/")):
        if not (kept and below(path, kept[-1])):
            kept.append(path)
    return tuple(kept)


class Places:
    """Real paths, and the symbolic links that were met on the way."""

    def __init__(self) -> None:
        self.links: dict[str, str] = {}

    def real(self, paths: Iterable[str]) -> list[str]:
        """Return where each of `paths` leads."""
        return [self._real(path) for path in paths]

    def _real(self, path: str) -> str:
        real = os.path.realpath(path)
        if real != path:
            self._follow(path)
        return real

    def _follow(self, path: str) -> None:
        here, names = "/", path.split("/")
        for _ in range(40):  # as many links as the system follows
            while names:
                name = names.pop(0)
                if name in ("", "."):
                    continue
                here = str(Path(here).parent) if name == ".." else f"{here.rstrip('/')}/{name}"
                try:
                    target = str(Path(here).readlink())
                except OSError:  # no link
                    continue
                self.links[here] = target
                here = "/" if target.startswith("/") else str(Path(here).parent)
                names = [*target.split("/"), *names]
                break


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
