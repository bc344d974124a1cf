"""A traceback as short as it is useful: the user's frames, and the one where it happened."""

from __future__ import annotations

import site
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

OUR_FOLDER = str(Path(__file__).parents[2])
LIBRARY_FOLDERS = tuple(
    {
        sysconfig.get_path("stdlib"),
        sysconfig.get_path("platstdlib"),
        sysconfig.get_path("purelib"),
        sysconfig.get_path("platlib"),
        site.getusersitepackages(),
    }
)

HEAD_CHARS, TAIL_CHARS = 6_000, 6_000
"""Of a traceback that is longer than both."""

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
    return _bounded("".join(shown.format()))


def _bounded(text: str) -> str:
    """Messages of errors can hold whole data sets; the end says what happened, the beginning where."""
    if len(text) <= HEAD_CHARS + TAIL_CHARS:
        return text
    left_out = len(text) - HEAD_CHARS - TAIL_CHARS
    return f"{text[:HEAD_CHARS]}\n[… {left_out:,} characters left out …]\n{text[-TAIL_CHARS:]}"


def _parts(shown: traceback.TracebackException) -> Iterator[traceback.TracebackException]:
    waiting = [shown]  # no recursion: an error that comes of hundreds of others is no rarity in a loop that tries again
    while waiting:
        part = waiting.pop()
        yield part
        others = (part.__cause__, part.__context__, *(getattr(part, "exceptions", None) or ()))
        waiting += [other for other in others if other is not None]


def in_library(filename: str) -> bool:
    """Whether the file is a library's or ours, and not the user's."""
    folders = ("site-packages", "dist-packages")
    return filename.startswith((*LIBRARY_FOLDERS, OUR_FOLDER, "<frozen")) or any(
        folder in Path(filename).parts for folder in folders
    )


def _is_machinery(filename: str) -> bool:
    """Whether the file is ours or IPython's: what happens there says nothing about the user's code."""
    return filename.startswith(OUR_FOLDER) or "IPython" in Path(filename).parts
