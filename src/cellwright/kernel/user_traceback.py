"""A traceback as short as it is useful: the user's frames, and the one where it happened."""

from __future__ import annotations

import site
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

OUR_FOLDER = str(Path(__file__).parents[1])
LIBRARY_FOLDERS = tuple(
    {
        sysconfig.get_path("stdlib"),
        sysconfig.get_path("platstdlib"),
        sysconfig.get_path("purelib"),
        sysconfig.get_path("platlib"),
        site.getusersitepackages(),
    }
)

NameOf = Callable[[str], str | None]


def short_traceback(error: BaseException, name_of: NameOf) -> str:
    """The traceback of `error` and of what caused it, without the frames of libraries except the last, and of ours.

    `name_of(file)` is the name that a cell's file is shown under, or None for other files.
    """
    shown = traceback.TracebackException.from_exception(error)
    for part in _parts(shown):
        frames = [frame for frame in part.stack if name_of(frame.filename) or not in_library(frame.filename)]
        if part.stack and part.stack[-1] not in frames and not _is_machinery(part.stack[-1].filename):
            frames.append(part.stack[-1])
        for frame in frames:
            frame.filename = name_of(frame.filename) or frame.filename
        part.stack[:] = frames
        if isinstance(getattr(part, "filename", None), str):  # only a SyntaxError has one
            part.filename = name_of(part.filename) or part.filename
    return "".join(shown.format())


def _parts(shown: traceback.TracebackException) -> Iterator[traceback.TracebackException]:
    yield shown
    for other in (shown.__cause__, shown.__context__, *(getattr(shown, "exceptions", None) or ())):
        if other is not None:
            yield from _parts(other)


def in_library(filename: str) -> bool:
    """Whether the file is a library's or ours, and not the user's."""
    folders = ("site-packages", "dist-packages")
    return filename.startswith((*LIBRARY_FOLDERS, OUR_FOLDER, "<frozen")) or any(
        folder in Path(filename).parts for folder in folders
    )


def _is_machinery(filename: str) -> bool:
    """Whether the file is ours or IPython's: what happens there says nothing about the user's code."""
    return filename.startswith(OUR_FOLDER) or "IPython" in Path(filename).parts
