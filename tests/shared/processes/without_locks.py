"""A program run where no file can be locked, as on a network file system without a lock daemon: `flock` gives ENOLCK.

    python without_locks.py PROGRAM ARGUMENT...

The kernel itself refuses, by a seccomp filter that the program and its children keep.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys

FLOCK = {"x86_64": 73, "aarch64": 32}
LOAD, IF_EQUAL, ANSWER = 0x20, 0x15, 0x06
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | errno.ENOLCK
NO_NEW_PRIVS, SET_SECCOMP, FILTER_MODE = 38, 22, 2


class _Program(ctypes.Structure):
    _fields_ = (("count", ctypes.c_ushort), ("code", ctypes.c_char_p))


def refuse_locks() -> None:
    """Have this process and its children refused every `flock`. Raises OSError where the system has no such filters."""
    steps = [
        (LOAD, 0, 0, 0),
        (IF_EQUAL, 0, 1, FLOCK[platform.machine()]),
        (ANSWER, 0, 0, REFUSE),
        (ANSWER, 0, 0, ALLOW),
    ]
    code = b"".join(struct.pack("=HBBI", *step) for step in steps)
    libc = ctypes.CDLL(None, use_errno=True)
    program = _Program(len(steps), code)
    for call in ((NO_NEW_PRIVS, 1, 0, 0, 0), (SET_SECCOMP, FILTER_MODE, ctypes.byref(program), 0, 0)):
        if libc.prctl(*call) != 0:
            raise OSError(ctypes.get_errno(), "no filter of system calls")


if __name__ == "__main__":
    refuse_locks()
    os.execv(sys.argv[1], sys.argv[1:])
