"""When a file was created, as far as the system and the file system tell."""

from __future__ import annotations

import ctypes
import functools
import os
import struct
import sys
from collections.abc import Callable

_AT_FDCWD, _NOFOLLOW, _BIRTH_TIME = -100, 0x100, 0x800
_BYTES, _MASK, _TIME = 256, (0, "=I"), (80, "=qI")
"""The size of Linux's `struct statx`; where in it are what is known, and the time of creation."""


def created_time(path: str, status: os.stat_result) -> float | None:
    """The time of creation in seconds since the epoch, of a link itself; None if nobody knows it."""
    if (known := getattr(status, "st_birthtime", None)) is not None:
        return float(known)
    if (statx := _statx()) is None:
        return None
    found = ctypes.create_string_buffer(_BYTES)
    if statx(_AT_FDCWD, os.fsencode(path), _NOFOLLOW, _BIRTH_TIME, found) != 0:
        return None
    [mask] = struct.unpack_from(_MASK[1], found, _MASK[0])
    seconds, nanoseconds = struct.unpack_from(_TIME[1], found, _TIME[0])
    return float(seconds + nanoseconds / 1e9) if mask & _BIRTH_TIME else None


@functools.cache
def _statx() -> Callable[..., int] | None:
    """Linux's own call: Python's `os.stat` leaves the time of creation out there."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        return ctypes.CDLL(None).statx
    except (OSError, AttributeError):  # an older C library
        return None
