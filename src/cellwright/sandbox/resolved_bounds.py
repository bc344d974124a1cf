"""A confinement as it comes out on this disk: real paths, with what programs need, less what is hidden.

A means is given `Bounds` and asks nothing more. They hold for one command, since files come and go.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from msgspec import Struct

from cellwright.agent.calls.approval import Confinement
from cellwright.sandbox.paths import Places, below, exists, led_out, outermost, unmoved
from cellwright.sandbox.profile import NO_NEEDS, git_folders, needed_by_programs, secret_places
from cellwright.sandbox.seccomp import Network

MOST_ENTRIES = 20_000


class ConfinementError(OSError):
    """A command was not started: what it may touch cannot be enforced."""


class Bounds(Struct, frozen=True, kw_only=True):
    """The places that one command may touch, in real paths; a folder stands for all below it.

    `read`: read and run. `data`: read. `write`: read, run and change. `temporary`: the same, the command's own.
    `hidden` exists and lies below one of these. `protected` lies below one of `write` and need not exist. `links` are the
    symbolic links on the way to all this, each with its target. `metadata`: modes, owners and times may be changed where
    the means cannot tell for which files. `staged`: what is changed below `write` is judged before it is done; below
    `unstaged` of it only if that is possible.
    """

    read: tuple[str, ...] = ()
    data: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    temporary: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    network: Network = "none"
    metadata: bool = False
    staged: bool = False
    unstaged: tuple[str, ...] = ()


def session_folders(confinement: Confinement, places: Places | None = None) -> tuple[str, ...]:
    """The real paths of all that `confinement` lets a command read: what lies there may be the command's own work."""
    given = unmoved([*confinement.read, *confinement.write], ())
    return outermost((Places() if places is None else places).real(given))


def bounds_of(
    confinement: Confinement,
    environ: Mapping[str, str],
    cwd: str,
    temporary: Iterable[str] = (),
    copies: Iterable[str] = (),
) -> Bounds:
    """Find out what `confinement` comes to for a command in `cwd`, whose own folders are `temporary`.

    `environ` says where programs lie, so it is the session's and nothing that a command sets. `copies` are made for the
    command to read. What lies in the folders of `confinement` never makes the bounds wider. Raises ConfinementError if the
    bounds cannot be known.
    """
    places = Places()
    write = outermost(places.real(unmoved(confinement.write, confinement.read)))
    roots = session_folders(confinement, places)
    temporary = tuple(temporary)
    if moved := [path for path in temporary if led_out(path, roots)]:
        message = f"{moved[0]} lies in a folder that commands may write in, and a link leads out of it"
        raise ConfinementError(message)
    # a container brings its programs along
    needs = NO_NEEDS if confinement.container else needed_by_programs(environ, roots)
    places.links.update(needs.links)
    read = outermost([*roots, *needs.read])
    data = outermost([*needs.data, *places.real(git_folders(roots, cwd)), *places.real(copies)])
    tops = outermost([*read, *data])

    hidden = [*places.real(confinement.hidden), *_matching(confinement.hides, roots)]
    # somebody who works inside of such a place means to
    usual = places.real(place for place in secret_places(environ, roots) if os.path.lexists(place))
    hidden += [place for place in usual if not any(below(root, place) for root in roots)]
    hidden = [path for path in outermost(hidden) if exists(path)]

    protected = [path for path in places.real(confinement.protected) if _covered(path, write)]
    staged = bool(write) and confinement.protects is not None
    if staged:
        # what is there is refused as soon as it is tried, and the rest at the end
        protected = [path for path in protected if exists(path)]
    for path in (*hidden, *protected):
        _check_names(path, tops)
    for path in () if staged else confinement.protected:
        _check_way(path, write)
    return Bounds(
        read=tuple(path for path in read if not _covered(path, (*hidden, *write))),
        data=tuple(path for path in data if not _covered(path, (*hidden, *read))),
        write=tuple(path for path in write if not _covered(path, hidden)),
        temporary=tuple(places.real(temporary)),
        hidden=tuple(path for path in hidden if _covered(path, tops)),
        protected=outermost(protected),
        links=tuple(places.links.items()),
        staged=staged,
        unstaged=tuple(path for path in places.real(confinement.unstaged) if path in write) if staged else (),
        metadata=confinement.metadata,
        network="any" if confinement.any_host else "none" if confinement.hosts is None else "hosts",
    )


def _covered(path: str, folders: Iterable[str]) -> bool:
    return any(below(path, folder) for folder in folders)


def _matching(judge: Callable[[str], bool] | None, roots: Iterable[str]) -> list[str]:
    """Find what of all below `roots` the pattern names; nothing is looked for below that."""
    if judge is None:
        return []
    found = []
    # as far as folders are walked to find what a pattern names; 20,000 entries usually take 0.05 s
    left, deadline = MOST_ENTRIES, time.monotonic() + 0.25
    folders = list(roots)
    while folders:
        try:
            entries = list(os.scandir(folders.pop()))
        except OSError:  # gone, a file, or closed to us and so to the command
            continue
        left -= len(entries)
        if left < 0 or time.monotonic() > deadline:
            message = f"a pattern says which files are hidden, and there are more than {MOST_ENTRIES:,} to look at"
            raise ConfinementError(message)
        for entry in entries:
            if judge(entry.path):
                found.append(os.path.realpath(entry.path))
            elif entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
    return found


def _check_way(path: str, write: tuple[str, ...]) -> None:
    """Raise ConfinementError where the way to what is protected is a link that a command could replace."""
    way = Places()
    way.real([path])
    for link in way.links:
        if _covered(link, write):
            message = f"{link} is a symbolic link, which a command could replace by what is not to be written"
            raise ConfinementError(message)


def _check_names(path: str, tops: tuple[str, ...]) -> None:
    """Raise ConfinementError where the file at `path` has other names, which no rule about this one covers."""
    try:
        status = Path(path).lstat()
    except OSError:  # it does not exist yet
        return
    if status.st_nlink > 1 and stat.S_ISREG(status.st_mode) and _covered(path, tops):
        message = f"{path} has another name (a hard link), by which a command could get at it"
        raise ConfinementError(message)
