"""The filter of system calls: what neither file rules nor namespaces refuse, as a program for Linux's seccomp.

Refused are, besides the network: other processes' memory, keyrings, io_uring (which would get around all of this), new
namespaces, signals by way of a file's owner, and what only an administrator needs. Of `ioctl`, which takes thousands of
requests and changes files through descriptors that may only read, a list is let through. A program in a foreign instruction
set is killed: there the same numbers mean other calls.
"""

from __future__ import annotations

import errno
import os
import struct
import sys
from collections.abc import Iterable
from typing import Literal

from msgspec import Struct

Network = Literal["none", "hosts", "any"]
"""The network that may be reached: nothing, what the one socket of an own network leads to, or everything."""

Instruction = tuple[int, int, int, int]
"""The operation, the jumps if true and if false (counted from the next instruction), and its operand."""

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_NUMBER_AT, _ARCHITECTURE_AT, _ARGUMENTS_AT = 0, 4, 16

_KILL, _ALLOW, _ANSWER = 0x80000000, 0x7FFF0000, 0x00050000
_REFUSE = _ANSWER | errno.EPERM
_PRETEND = _ANSWER
"""The call does nothing and says that it has."""
_ABSENT = _ANSWER | errno.ENOSYS
_NOT_FOR_THIS = _ANSWER | errno.ENOTTY
"""As a file answers that does not know a request: programs then do without."""

_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_STREAM, _SEQPACKET, _TYPE_BITS = 1, 5, 0xF

_TERMINAL_REQUESTS, _REQUEST_GROUP = 0x5400, 0xFFFFFF00
_REFUSED_REQUESTS = (
    # TIOCSTI and TIOCLINUX type into the terminal; TIOCCONS, TIOCSSERIAL, TIOCSETD and TIOCVHANGUP take it from others
    *(0x5412, 0x541C, 0x541D, 0x541F, 0x5423, 0x5437),
    # FIOSETOWN and SIOCSPGRP: who gets signals about a socket
    *(0x8901, 0x8902),
    # flags, project, version and verity of a file, through a descriptor that may only read
    *(0x40086602, 0x40046602, 0x401C5820, 0x40087602, 0x40047602, 0x40806685),
)
_KNOWN_REQUESTS = (
    # terminals: TCGETS2, TCSETS2, TCSETSW2, TCSETSF2, TIOCGPTN, TIOCSPTLCK, TIOCGDEV, TIOCGPKT, TIOCGPTLCK, TIOCGEXCL
    *(0x802C542A, 0x402C542B, 0x402C542C, 0x402C542D, 0x80045430, 0x40045431, 0x80045432, 0x80045438, 0x80045439),
    0x80045440,
    # files: FIGETBSZ, FICLONE, FICLONERANGE, FIEMAP, and flags, project, version, label and UUID as they are
    *(0x2, 0x40049409, 0x4020940D, 0xC020660B, 0x80086601, 0x80046601, 0x801C581F, 0x80087601, 0x80047601),
    *(0x81009431, 0x80111500),
    # sockets: owner, mark, time stamps; interfaces as they are
    *(0x8903, 0x8904, 0x8905, 0x8906, 0x8907, 0x8910, 0x8912, 0x8913, 0x8915, 0x8917, 0x8919, 0x891B, 0x891D, 0x8921),
    *(0x8927, 0x8933, 0x8942, 0x8946),
    0x80045200,  # RNDGETENTCNT
)
_REFUSED_FILE_COMMANDS = (8, 10, 15, 1024, 1026, 1036, 1040)
"""F_SETOWN, F_SETSIG, F_SETOWN_EX, F_SETLEASE, F_NOTIFY: who is signalled about a file, and when. Two more write to it."""

MARKED_LIMIT = 15
"""RLIMIT_RTTIME, in microseconds: nobody confined can change it, so it marks them (`confined_process.py`)."""


class _Machine(Struct, frozen=True):
    """An architecture as the filter is told it, and the numbers of its calls that differ from machine to machine."""

    architecture: int
    numbers: dict[str, int]


_X86_64 = _Machine(
    0xC000003E,
    {
        **{"socket": 41, "connect": 42, "socketpair": 53, "clone": 56, "ioctl": 16, "prlimit64": 302, "kill": 62},
        **{"ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "kcmp": 312, "userfaultfd": 323},
        **{"add_key": 248, "request_key": 249, "keyctl": 250, "bpf": 321, "perf_event_open": 298},
        **{"mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "setns": 308, "unshare": 272},
        **{"open_by_handle_at": 304, "init_module": 175, "finit_module": 313, "delete_module": 176},
        **{"kexec_load": 246, "kexec_file_load": 320, "swapon": 167, "swapoff": 168, "reboot": 169, "acct": 163},
        **{"settimeofday": 164, "clock_settime": 227, "adjtimex": 159, "clock_adjtime": 305, "syslog": 103},
        **{"sethostname": 170, "setdomainname": 171, "quotactl": 179, "iopl": 172, "ioperm": 173},
        **{"shmget": 29, "shmat": 30, "shmctl": 31, "msgget": 68, "msgsnd": 69, "msgrcv": 70, "msgctl": 71},
        **{"semget": 64, "semop": 65, "semctl": 66, "semtimedop": 220, "mq_open": 240, "mq_unlink": 241},
        **{"fcntl": 72, "setrlimit": 160, "fanotify_init": 300, "bind": 49},
        **{"tkill": 200, "tgkill": 234, "rt_sigqueueinfo": 129, "rt_tgsigqueueinfo": 297},
        **{"chmod": 90, "fchmod": 91, "fchmodat": 268, "chown": 92, "fchown": 93, "lchown": 94, "fchownat": 260},
        **{"utime": 132, "utimes": 235, "futimesat": 261, "utimensat": 280},
        **{"setxattr": 188, "lsetxattr": 189, "fsetxattr": 190},
        **{"removexattr": 197, "lremovexattr": 198, "fremovexattr": 199},
    },
)
_AARCH64 = _Machine(
    0xC00000B7,
    {
        **{"socket": 198, "connect": 203, "socketpair": 199, "clone": 220, "ioctl": 29, "prlimit64": 261, "kill": 129},
        **{"ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271, "kcmp": 272, "userfaultfd": 282},
        **{"add_key": 217, "request_key": 218, "keyctl": 219, "bpf": 280, "perf_event_open": 241},
        **{"mount": 40, "umount2": 39, "pivot_root": 41, "chroot": 51, "setns": 268, "unshare": 97},
        **{"open_by_handle_at": 265, "init_module": 105, "finit_module": 273, "delete_module": 106},
        **{"kexec_load": 104, "kexec_file_load": 294, "swapon": 224, "swapoff": 225, "reboot": 142, "acct": 89},
        **{"settimeofday": 170, "clock_settime": 112, "adjtimex": 171, "clock_adjtime": 266, "syslog": 116},
        **{"sethostname": 161, "setdomainname": 162, "quotactl": 60},
        **{"shmget": 194, "shmctl": 195, "shmat": 196, "msgget": 186, "msgctl": 187, "msgrcv": 188, "msgsnd": 189},
        **{"semget": 190, "semctl": 191, "semtimedop": 192, "semop": 193, "mq_open": 180, "mq_unlink": 181},
        **{"fcntl": 25, "setrlimit": 164, "fanotify_init": 262, "bind": 200},
        **{"tkill": 130, "tgkill": 131, "rt_sigqueueinfo": 138, "rt_tgsigqueueinfo": 240},
        **{"fchmod": 52, "fchmodat": 53, "fchown": 55, "fchownat": 54, "utimensat": 88},
        **{"setxattr": 5, "lsetxattr": 6, "fsetxattr": 7, "removexattr": 14, "lremovexattr": 15, "fremovexattr": 16},
    },
)
_EVERYWHERE = {
    **{"clone3": 435, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427, "pidfd_getfd": 438},
    **{"open_tree": 428, "move_mount": 429, "fsopen": 430, "fsconfig": 431, "fsmount": 432, "fspick": 433},
    **{"mount_setattr": 442, "open_tree_attr": 467, "quotactl_fd": 443, "process_madvise": 440},
    **{"process_mrelease": 448},
    **{"pidfd_send_signal": 424, "fchmodat2": 452, "setxattrat": 463, "removexattrat": 466, "file_setattr": 469},
}
"""Calls that came when all machines got the same numbers."""

_MACHINES = {"x86_64": _X86_64, "aarch64": _AARCH64}

_FOREIGN_PROCESSES = (
    *("ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "process_mrelease", "pidfd_getfd", "kcmp"),
)
_AROUND_THE_FILTER = ("io_uring_setup", "io_uring_enter", "io_uring_register")
_KERNEL_MEMORY = ("bpf", "perf_event_open", "userfaultfd")
_KEYRINGS = ("add_key", "request_key", "keyctl")
_NAMESPACES = (
    *("mount", "umount2", "pivot_root", "chroot", "setns", "unshare", "open_by_handle_at", "open_tree", "move_mount"),
    *("fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr", "open_tree_attr"),
)
_ADMINISTRATION = (
    *("init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "swapon", "swapoff", "reboot"),
    *("acct", "settimeofday", "clock_settime", "adjtimex", "clock_adjtime", "syslog", "sethostname", "setdomainname"),
    *("quotactl", "quotactl_fd", "iopl", "ioperm", "fanotify_init", "file_setattr"),
)
_SHARED_BY_KEY = (
    *("shmget", "shmat", "shmctl", "msgget", "msgsnd", "msgrcv", "msgctl", "semget", "semop", "semtimedop", "semctl"),
    *("mq_open", "mq_unlink"),
)
_SIGNALS = ("tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_send_signal")
_PERMISSIONS = ("chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat")
_TIMES_AND_ATTRIBUTES = (
    *("utime", "utimes", "futimesat", "utimensat", "setxattr", "lsetxattr", "fsetxattr", "setxattrat"),
    *("removexattr", "lremovexattr", "fremovexattr", "removexattrat"),
)


class Filter(Struct, frozen=True, kw_only=True):
    """The calls that are refused besides the usual; each field is for what the means beside the filter leaves open.

    `metadata` says what changing modes, owners, times and attributes does: it is done; it is not, and reports success (a
    failure breaks `cp -p` and `tar` where nothing is to be kept anyway); or, where files are kept, what changes
    permissions is refused, so that nobody is told that a script is executable now. `signals`: none to other processes.
    `shared_by_key`: no System V or POSIX objects that other processes may hold, too, and no socket's name that others
    could take for somebody else's. `keeps_marks`: nobody changes the limit that marks them; without it a process may change
    its own.
    """

    network: Network = "none"
    metadata: Literal["done", "pretended", "refused"] = "done"
    signals: bool = False
    shared_by_key: bool = False
    keeps_marks: bool = True


def machine() -> str:
    """The architecture that the filter is written for; "" where it is not one of ours or its programs are 32 bits wide."""
    if sys.platform == "win32":
        return ""
    name = os.uname().machine
    return name if name in _MACHINES and sys.maxsize > 2**32 else ""


def program(rules: Filter, name: str | None = None) -> bytes:
    """The filter for the machine `name` (default: this one), ready to be loaded."""
    built = _MACHINES[name or machine()]
    numbers = {**built.numbers, **_EVERYWHERE}
    instructions: list[Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE_AT),
        (_EQUAL, 1, 0, built.architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER_AT),
    ]
    if built is _X86_64:
        # the bit of x32's calls
        instructions += [(_AT_LEAST, 0, 1, 0x40000000), (_RETURN, 0, 0, _KILL)]
    for call, answer in _answers(rules):
        if call in numbers:
            instructions += [(_EQUAL, 0, 1, numbers[call]), (_RETURN, 0, 0, answer)]
    for call, block in _blocks(rules):
        instructions += [(_EQUAL, 0, len(block), numbers[call]), *block]
    instructions.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in instructions)


def _answers(rules: Filter) -> Iterable[tuple[str, int]]:
    """Calls that are answered without a look at their arguments."""
    refused = [*_FOREIGN_PROCESSES, *_AROUND_THE_FILTER, *_KERNEL_MEMORY, *_KEYRINGS, *_NAMESPACES, *_ADMINISTRATION]
    if rules.network == "none":
        refused.append("connect")
    if rules.signals:
        refused += _SIGNALS
    if rules.shared_by_key:
        refused += _SHARED_BY_KEY
    if rules.shared_by_key and rules.network == "none":
        refused.append("bind")  # who binds is not connected to, since `connect` is refused
    yield from ((call, _REFUSE) for call in refused)
    if rules.metadata != "done":
        yield from ((call, _PRETEND if rules.metadata == "pretended" else _REFUSE) for call in _PERMISSIONS)
        yield from ((call, _PRETEND) for call in _TIMES_AND_ATTRIBUTES)
    # its flags cannot be looked at; programs then take `clone`
    yield "clone3", _ABSENT


def _blocks(rules: Filter) -> Iterable[tuple[str, list[Instruction]]]:
    """Calls that are judged by their arguments: each block ends with an answer on every way through it."""
    connected = [
        *_argument(1),
        (_AND, 0, 0, _TYPE_BITS),
        (_EQUAL, 1, 0, _STREAM),
        (_EQUAL, 0, 1, _SEQPACKET),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE),
    ]
    if rules.network == "none":
        # a datagram socket sends to any address without being connected
        yield "socket", [*_argument(0), (_EQUAL, 1, 0, _UNIX), (_RETURN, 0, 0, _REFUSE), *connected]
    else:
        # `connect` is open now, so there must be no socket that could be connected to a path
        families = [_INET, _INET6, *([_NETLINK] if rules.network == "any" else [])]
        yield "socket", [*_argument(0), *_one_of(families, _ALLOW, _REFUSE)]
    yield "socketpair", connected
    # new namespaces; and a child of the parent's, which would be ours
    yield "clone", [*_argument(0), (_ANY_BIT, 0, 1, 0x7E020000 | 0x8000), *_answer(_REFUSE), *_answer(_ALLOW)]
    yield (
        "ioctl",
        [
            *_argument(1),
            *_each_of(_REFUSED_REQUESTS, _REFUSE),
            *_each_of(_KNOWN_REQUESTS, _ALLOW),
            (_AND, 0, 0, _REQUEST_GROUP),
            *_one_of([_TERMINAL_REQUESTS], _ALLOW, _NOT_FOR_THIS),
        ],
    )
    yield "fcntl", [*_argument(1), *_one_of(_REFUSED_FILE_COMMANDS, _REFUSE, _ALLOW)]
    yield from _blocks_for_limits(keeps_marks=rules.keeps_marks)
    if rules.signals:
        # to the own group, and signal 0, which only asks whether somebody is there
        own_group = [*_argument(0), (_EQUAL, 0, 1, 0), *_answer(_ALLOW)]
        yield "kill", [*own_group, *_argument(1), (_EQUAL, 1, 0, 0), *_answer(_REFUSE), *_answer(_ALLOW)]


def _blocks_for_limits(*, keeps_marks: bool) -> Iterable[tuple[str, list[Instruction]]]:
    if keeps_marks:
        yield "setrlimit", [*_argument(0), *_one_of([MARKED_LIMIT], _REFUSE, _ALLOW)]
    # other processes' limits may be read but not set: a new limit is a pointer, of which neither half is looked at alone
    yield (
        "prlimit64",
        [
            *([*_argument(1), (_EQUAL, 3, 0, MARKED_LIMIT)] if keeps_marks else []),
            *_argument(0),
            (_EQUAL, 0, 1, 0),
            *_answer(_ALLOW),
            *_argument(2),
            (_EQUAL, 1, 0, 0),
            *_answer(_REFUSE),
            *_argument(2, high=True),
            (_EQUAL, 1, 0, 0),
            *_answer(_REFUSE),
            *_answer(_ALLOW),
        ],
    )


def _argument(index: int, *, high: bool = False) -> list[Instruction]:
    """Load an argument's lower half, or the higher."""
    return [(_LOAD, 0, 0, _ARGUMENTS_AT + 8 * index + (4 if high else 0))]


def _answer(value: int) -> list[Instruction]:
    return [(_RETURN, 0, 0, value)]


def _each_of(values: Iterable[int], then: int) -> list[Instruction]:
    """Answer `then` where what was loaded is one of `values`, and go on behind this otherwise."""
    return [instruction for value in values for instruction in ((_EQUAL, 0, 1, value), (_RETURN, 0, 0, then))]


def _one_of(values: Iterable[int], then: int, otherwise: int) -> list[Instruction]:
    """Answer `then` where what was loaded is one of `values`."""
    return [*_each_of(values, then), (_RETURN, 0, 0, otherwise)]
