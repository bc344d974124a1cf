"""Paths: where they lead, and which lie below which."""

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
