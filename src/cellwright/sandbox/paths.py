"""Paths: where they lead, which lie below which, which of the environment's count, and which are the kernel's own.

A command changes what lies in the session's folders, and a project is whatever somebody put there. So a file that lies
there opens nothing outside, and neither does a link.

The kernel's own files are settings, devices and processes that look like files, and are no part of any folder. Whoever may
write them acts outside of a sandbox (`/proc/sys/kernel/core_pattern` names a program that the kernel runs as root), and
root may write them without any capability. So no bounds reach them, not even those that start at `/`: a mechanism gives
each command what it needs of them, and nothing else.
"""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from cellwright.text import lazy_pattern

KNOB = "/proc/sys/kernel/core_pattern"
"""The file that a canary opens for writing, without changing it: root alone could, and must not inside of a sandbox."""

MASKED = (
    *(
        "acpi",
        "asound",
        "kallsyms",
        "kcore",
        "keys",
        "kmsg",
        "kpagecgroup",
        "kpagecount",
        "kpageflags",
        "latency_stats",
    ),
    *("pagetypeinfo", "sched_debug", "scsi", "slabinfo", "sysrq-trigger", "timer_list", "timer_stats", "vmallocinfo"),
)
"""Names in `/proc` that show the kernel's memory, or what other processes do: as runc hides them, and what root sees."""

HARDWARE = ("/sys/firmware", "/sys/devices/virtual/powercap")
"""Folders that runc hides, too."""

PLAIN = (
    *("cmdline", "cpuinfo", "devices", "filesystems", "loadavg", "meminfo", "modules", "partitions", "stat", "swaps"),
    *("sys", "uptime", "version", "vmstat"),
)
"""Names in `/proc` that show the machine, and nothing of any process."""

_KERNELS = frozenset(
    (
        *("proc", "sysfs", "devtmpfs", "devpts", "cgroup", "cgroup2", "debugfs", "tracefs", "securityfs", "configfs"),
        *("bpf", "pstore", "efivarfs", "binfmt_misc", "mqueue", "fusectl", "selinuxfs", "rpc_pipefs", "nfsd", "nsfs"),
        *("resctrl", "functionfs", "binder"),
    )
)
_PRIVATE = frozenset({"proc", "devtmpfs", "devpts", "mqueue", "nsfs"})
_ESCAPED = lazy_pattern(r"\\([0-7]{3})")


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
        found = []
        for path in paths:
            real = os.path.realpath(path)
            if real != path:
                self._follow(path)
            found.append(real)
        return found

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


class KernelPlaces(Struct, frozen=True):
    """The places where kernel files are mounted; each covers what lies below it, but for what is mounted there in turn.

    `private` shows processes or devices, and `shared` the machine, which may be read. `others` are plain folders that are
    mounted among the devices, as `/dev/shm` is.
    """

    private: tuple[str, ...]
    shared: tuple[str, ...]
    others: tuple[str, ...]

    def below(self, folder: str) -> Iterator[str]:
        """Find all of them that lie in `folder` and not at its top."""
        return (place for place in (*self.private, *self.shared) if place != folder and below(place, folder))

    def hold(self, path: str) -> bool:
        """Return whether what is at `path` is the kernel's."""
        kernels = max((len(place) for place in (*self.private, *self.shared) if below(path, place)), default=0)
        return kernels > max((len(place) for place in self.others if below(path, place)), default=0)


def kernel_places() -> KernelPlaces:
    """Find them as they are mounted now; the answer may be some seconds old."""
    return _places(int(time.monotonic() // 10))


@functools.lru_cache(maxsize=1)
def _places(_when: int) -> KernelPlaces:
    try:
        with Path("/proc/self/mountinfo").open(encoding="utf-8", errors="surrogateescape") as lines:
            return places_of(lines)
    except OSError:  # no Linux, or no `/proc`
        return places_of(())


def places_of(mountinfo: Iterable[str]) -> KernelPlaces:
    """Read them from lines of `/proc/self/mountinfo`; the usual ones are among them whatever is mounted there."""
    private, shared, others = dict.fromkeys(("/proc", "/dev")), dict.fromkeys(("/sys",)), dict.fromkeys(("/dev/shm",))
    for line in mountinfo:
        mount, _, kind = line.partition(" - ")
        words = mount.split()
        kinds = kind.split()
        if len(words) < 5 or not kinds:
            continue
        place = _ESCAPED.sub(lambda found: chr(int(found[1], 8)), words[4])
        if place == "/dev" or any(below(place, fixed) for fixed in ("/proc", "/sys")):
            continue
        if kinds[0] == "devtmpfs" and words[3] != "/":
            continue  # one device, as containers cover files by `/dev/null`
        if kinds[0] in _PRIVATE:
            private[place] = None
        elif kinds[0] in _KERNELS:
            shared[place] = None
        elif below(place, "/dev"):
            others[place] = None
    return KernelPlaces(tuple(private), tuple(shared), tuple(others))


def masked_files() -> Iterator[str]:
    """The files and folders of `/proc` that are masked, where we could read them and so could a command."""
    return (path for name in MASKED if exists(path := f"/proc/{name}") and os.access(path, os.R_OK))
