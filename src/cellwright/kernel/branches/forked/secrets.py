"""Secrets that the memory of a forked process holds, overwritten as far as they are found before Claude's code can look.

What Python's objects and the environment hold is found. What is not: copies in large blocks of memory, parts of a secret,
and a secret in another encoding.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from cellwright.redaction.redaction import secret_values

LARGEST_MAP = 64 * 2**20
"""The size in bytes above which a block of memory is an array's: all that Python's own objects use is smaller."""

MOST_LOOKED_AT = 256 * 2**20
"""Bytes in all; a hundred arrays of a few megabytes would take a second."""

LEAST_BYTES = 12
"""The length below which a text may stand in memory by chance, and something else breaks when it is overwritten."""


def secrets_of(environ: Mapping[str, str], others: Iterable[str | bytes] = ()) -> list[bytes]:
    """The secrets of `environ` and `others` (a key of the Messages API, the kernel's own), as they stand in memory."""
    found = (*secret_values(environ).values(), *others)
    return [each.encode("utf-8", "surrogateescape") if isinstance(each, str) else each for each in found]


def overwrite_in_memory(needles: Iterable[bytes]) -> int:
    """Overwrite each copy of `needles` in the memory of this process, theirs included; return their number.

    The process must have no other thread. Whatever still uses one of them has asterisks from now on.
    """
    sought = {bytes(needle) for needle in needles if len(needle) >= LEAST_BYTES}
    if not sought:
        return 0
    libc = ctypes.CDLL(None)
    libc.memmem.restype = ctypes.c_void_p
    libc.memmem.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t)
    # what is sought for must outlast the first copy that is found: it is kept where nothing is overwritten before the end
    sizes = [len(needle) for needle in sought]
    kept = mmap.mmap(-1, sum(sizes), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    kept.write(b"".join(sought))
    view = (ctypes.c_char * len(kept)).from_buffer(kept)
    first = ctypes.addressof(view)
    places = [(first + sum(sizes[:index]), size) for index, size in enumerate(sizes)]
    last = first + _whole_pages(len(kept))
    # the system may have laid it into a larger block of the same kind
    blocks = [part for begin, end in _blocks() for part in ((begin, min(end, first)), (max(begin, last), end))]
    count = 0
    for begin, end in blocks:
        for needle, size in places:
            at = begin
            while at < end and (found := libc.memmem(at, end - at, needle, size)):
                ctypes.memset(found, ord("*"), size)
                count += 1
                at = found + size
    ctypes.memset(first, 0, len(kept))
    return count


def _blocks() -> Iterator[tuple[int, int]]:
    """The parts of memory, by their first and last address, that hold what Python makes: private, written, of no file.

    The smallest blocks come first, and as many as `MOST_LOOKED_AT` allows.
    """
    found = []
    for line in Path("/proc/self/maps").read_text("utf-8", "surrogateescape").splitlines():
        addresses, access, *rest = line.split(None, 5)
        begin, end = (int(address, 16) for address in addresses.split("-"))
        of_no_file = len(rest) < 4 or rest[3] == "[heap]" or rest[3].startswith(("[stack", "[anon"))
        if access.startswith("rw") and access.endswith("p") and of_no_file and end - begin <= LARGEST_MAP:
            found.append((end - begin, begin))
    left = MOST_LOOKED_AT
    for size, begin in sorted(found):
        for part in _written(begin, begin + size):
            left -= part[1] - part[0]
            yield part
        if left < 0:
            return


def _written(begin: int, end: int) -> Iterator[tuple[int, int]]:
    """The parts of a block that hold anything. The rest, most of each thread's stack, would be made by reading it."""
    with open("/proc/self/pagemap", "rb", buffering=0) as pages:  # noqa: PTH123 - for each of many blocks
        entries = os.pread(pages.fileno(), (end - begin) // mmap.PAGESIZE * 8, begin // mmap.PAGESIZE * 8)
    if len(entries) * mmap.PAGESIZE != (end - begin) * 8:  # it grew meanwhile, or the system does not say
        yield begin, end
        return
    # the highest byte of each entry begins with the bits for a page in memory and one that was moved out
    for run in re.finditer(rb"[\x40-\xff]+", entries[7::8]):
        yield begin + run.start() * mmap.PAGESIZE, begin + run.end() * mmap.PAGESIZE


def _whole_pages(size: int) -> int:
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
