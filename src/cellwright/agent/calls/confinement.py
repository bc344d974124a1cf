"""The bounds of a command: what it may read, write and reach. Part of the policy's decision, enforced by `sandbox/`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """The container that commands run in: whose files they see instead of this machine's, and its limits.

    One of `image` (a name that a container program knows), `dockerfile` (a file, built in the folder `context`) and
    `files` (a folder with an image's files, or an archive of one) says what it is made of. `program` is "podman", "docker",
    "bubblewrap", or "" for whichever is there. `project` is the folder that it belongs to, and `workspace` where that is
    shown besides ("": nowhere). `variables` are set in it, `user` is who commands run as ("": whoever owns the project's
    files), `after_making` are run in it once. `network`: it reaches every host; else none. `memory` is as `--memory` takes
    it, `cpus` a number of them ("": all), `processes` the most that there may be. `keep`: it outlives the session.
    `own_for_agents`: each subagent has one for itself, and `agent` is that ("": all share one).
    """

    image: str = ""
    dockerfile: str = ""
    context: str = ""
    build_arguments: tuple[tuple[str, str], ...] = ()
    files: str = ""
    program: str = ""
    project: str = ""
    workspace: str = ""
    variables: tuple[tuple[str, str], ...] = ()
    user: str = ""
    after_making: tuple[tuple[str, ...], ...] = ()
    network: bool = False
    memory: str = "4g"
    cpus: str = ""
    processes: int = 1024
    keep: bool = False
    own_for_agents: bool = False
    agent: str = ""

    @property
    def name(self) -> str:
        """Its name for people: the image's, or the file's that it is made of."""
        return self.image or self.dockerfile or self.files

    @property
    def memory_mb(self) -> int | None:
        """`memory` in MiB, at least 1; None if it is not set."""
        if not self.memory:
            return None
        number = self.memory.rstrip("bkmgBKMG")
        unit = self.memory[len(number) :].lower()
        return max(1, int(number) * {"": 1, "b": 1, "k": 2**10, "m": 2**20, "g": 2**30}[unit] // 2**20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """The bounds of a command, in absolute paths; the default is the system's programs and nothing else.

    What programs need to run (the system's folders, the environments that PATH and the interpreter lead to, a private
    temporary folder) is added by whoever enforces it. A folder stands for all below it.

    `read`: what it may read besides. `write`: what it may read, make, change and remove.
    `hidden`: what it may not read although it lies below one of these. `hides(path)` says the same of files that only a
    pattern names; None where no pattern does. `protected`: what it may not write although it lies below `write`, also
    where it does not exist yet; `protects(path)` says the same of what only a pattern names: so what the command changes
    is judged at its end, before it is made; `admits(path, file)` says what of that may be made after all, by the content
    of the file that is to stand there. `unstaged`: folders of `write` that the settings name, whose changes are made
    at once if they cannot be judged first. `metadata`: what it does to modes, owners and times is known, so it may, where
    the means cannot tell for which files.
    `hosts`: names, `*.name` or `name:port` that it may reach; None for no network at all. `any_host`: no bound on that.
    `denied_hosts`: what it may not reach although it falls under one of `hosts`; `asked_hosts`: what the user is asked about
    although it does. `asks_hosts`: the user is asked about those and about the others.
    `container`: it runs in there, where the system's programs are the container's own (None: in none). `keeps_installed`:
    what it changes of the container's own files is there for later commands; it may change none of them otherwise.
    """

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    hosts: tuple[str, ...] | None = None
    denied_hosts: tuple[str, ...] = ()
    asked_hosts: tuple[str, ...] = ()
    asks_hosts: bool = True
    any_host: bool = False
    metadata: bool = False
    hides: Callable[[str], bool] | None = field(default=None, compare=False)
    protects: Callable[[str], bool] | None = field(default=None, compare=False)
    admits: Callable[[str, str], bool] | None = field(default=None, compare=False)
    unstaged: tuple[str, ...] = ()
    container: Container | None = None
    keeps_installed: bool = False


def also_writing(confinement: Confinement | None, path: Path) -> Confinement | None:
    """The same bounds with a file or folder of ours to write to besides: for what a program is to hand over."""
    return None if confinement is None else replace(confinement, write=(*confinement.write, str(path)))


def without_hosts(confinement: Confinement | None) -> Confinement | None:
    """The same bounds without a way to named hosts: for programs that no proxy is started for."""
    return None if confinement is None else replace(confinement, hosts=None)


def in_engine(confinement: Confinement) -> bool:
    """Return whether it is Podman or Docker that enforces it, and not this machine's own sandbox."""
    return confinement.container is not None and confinement.container.program != "bubblewrap"
