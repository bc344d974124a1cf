"""The containers of this process: each made with the first command that needs it, used again, and removed with us.

A command that only reads runs in a container whose own files nothing can change, one for each set of bounds. All that
somebody has allowed share another, in which what they install stays. Its mounts cannot be changed: where the bounds are
others by now (a file that is hidden has appeared), its files become an image, and the next one is made of that.

Containers and images of ours whose process is gone are found by their labels, and removed unless they are to be kept.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import shlex
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from cellwright.agent.calls.approval import Confinement, Container
from cellwright.sandbox.confined_process import ConfinedProcess
from cellwright.sandbox.containers.engine import (
    LABEL,
    PROGRAMS,
    ContainerMounts,
    Engine,
    check_mounts,
    exec_arguments,
    find_engine,
    inside_variables,
    is_root,
    missing_mounts,
    mounts_of,
    run_arguments,
    why_no_engine,
)
from cellwright.sandbox.containers.images import Making, image_of
from cellwright.sandbox.paths import exists
from cellwright.sandbox.private_folder import PrivateFolder
from cellwright.sandbox.resolved_bounds import ConfinementError, bounds_of
from cellwright.this_process.files import runs, shared_folder

# $1 is what the environment of all that is to end has in it; whoever asks has it among its arguments only
END = """
sign=TERM
for again in 1 2 3 4 5 6 7 8; do
  left=
  for file in $(grep -laF "$1" /proc/[0-9]*/environ 2>/dev/null); do
    pid=${file#/proc/}
    kill -s $sign "${pid%/environ}" 2>/dev/null && left=1
  done
  [ -n "$left" ] || exit 0
  sleep 0.1
  sign=KILL
done
exit 1
"""


# $1 is where the exit code goes, $2 the memory in KiB; a shell that became the command could not say how it ended
_RUN = """
report=$1
[ "$2" = 0 ] || ulimit -d "$2" 2>/dev/null
shift 2
command -v "$1" >/dev/null 2>&1 || { echo "The container has no program $1." >&2; echo 127 > "$report"; exit 127; }
"$@"
code=$?
echo $code > "$report"
exit $code
"""

Start = Callable[[Sequence[str], Mapping[str, str], Sequence[int]], "subprocess.Popen[bytes]"]


class LeftOver(Struct, frozen=True):
    """A container of ours: the program that has it, its name, its project, and whether it is to be kept."""

    program: str
    name: str
    project: str
    keep: bool
    owned: bool


def owner() -> str:
    """This process in a label: its number, and when it began, since numbers are given again."""
    return _owner(os.getpid())


def is_alive(owned_by: str) -> bool:
    """Return whether the process that a label names still runs."""
    number = owned_by.partition(".")[0]
    return number.isdecimal() and _owner(int(number)) == owned_by


def our_containers(engine: Engine) -> Iterator[LeftOver]:
    """Find all containers of ours. Raises ConfinementError if the program does not say."""
    listed = engine.ask("ps", "--all", "--filter", f"label={LABEL}=1", "--format", "{{.Names}}")
    for name in listed.split():
        labels = labels_of(engine, name)
        yield LeftOver(
            program=engine.kind,
            name=name,
            project=labels.get(f"{LABEL}.project", ""),
            keep=labels.get(f"{LABEL}.keep") == "yes",
            owned=is_alive(labels.get(f"{LABEL}.owner", "")),
        )


def labels_of(engine: Engine, name: str) -> dict[str, str]:
    """The labels of a container; {} where it is gone."""
    with contextlib.suppress(ConfinementError, ValueError):
        found = json.loads(engine.ask("container", "inspect", "--format", "{{json .Config.Labels}}", name))
        return found if isinstance(found, dict) else {}
    return {}


def remove_left_over(engine: Engine) -> list[str]:
    """Remove what processes that are gone have left and nobody wants kept; the names."""
    removed = []
    with contextlib.suppress(ConfinementError):
        for each in our_containers(engine):
            if not each.owned and not each.keep:
                engine.ask("rm", "--force", each.name)
                removed.append(each.name)
    with contextlib.suppress(ConfinementError):
        listed = engine.ask("images", "--filter", f"label={LABEL}.owner", "--format", "{{.ID}}")
        for image in dict.fromkeys(listed.split()):
            label = f'{{{{index .Config.Labels "{LABEL}.owner"}}}}'
            if not is_alive(engine.ask("image", "inspect", "--format", label, image).strip()):
                engine.ask("rmi", image)
    return removed


def all_left_over() -> list[LeftOver]:
    """The containers of ours that no running process owns, of every container program that runs here."""
    found = []
    for program in PROGRAMS:
        engine = find_engine(program)
        if engine is not None:
            with contextlib.suppress(ConfinementError):
                found += [each for each in our_containers(engine) if not each.owned]
    return found


def _owner(pid: int) -> str:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return "" if Path("/proc/self").exists() or not runs(pid) else str(pid)
    return f"{pid}.{fields[19]}"


class ContainedProcess(ConfinedProcess):
    """The client of a command that runs in a container. `report` is where the command's shell writes its exit code.

    `end_inside` ends what runs there; `handed` are files that the command writes, each with the descriptor of ours that is
    to get what is in it. `missing` is what is protected and was not there at its start: no mount covers that.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        report: Path,
        end_inside: Callable[[], None],
        handed: Mapping[Path, int],
        missing: Sequence[str] = (),
    ) -> None:
        super().__init__(process)
        self._report = report
        self._end_inside = end_inside
        self._handed = dict(handed)
        self._missing = tuple(missing)

    def wait(self) -> int:
        """Wait for the command's end, and end it where its client is gone first; its exit code."""
        code = self.process.wait()
        try:
            code = int(_written(self._report))
        except (OSError, ValueError):  # it has not ended by itself
            self._end_inside()
        for file, descriptor in self._handed.items():
            with contextlib.suppress(OSError):
                os.write(descriptor, _written(file))
            file.unlink(missing_ok=True)
        self.made_protected = tuple(path for path in self._missing if exists(path))
        self._give_back()
        self._report.unlink(missing_ok=True)
        return code

    def close(self) -> None:
        """Give back what it held."""
        self._give_back()
        super().close()

    def _give_back(self) -> None:
        while self._handed:
            os.close(self._handed.popitem()[1])


def _written(file: Path) -> bytes:
    """Return what the command has written to a file of its own; b"" of anything else in its place. Raises OSError."""
    descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as opened:
        return opened.read(64 * 1024) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b""


class Running(Struct):
    """A container that runs, the mounts that it was made with, and when it was last seen."""

    engine: Engine
    name: str
    container: Container
    mounts: ContainerMounts
    seen: float
    image: str = ""


class ContainerPool:
    """The containers that this process has made. `removing` is told, before each is made, how to get rid of it.

    From any thread.
    """

    def __init__(self, removing: Callable[[str], None]) -> None:
        self._removing = removing
        self._lock = threading.RLock()
        self._working: dict[tuple[Container, tuple[str, ...]], Running] = {}
        self._reading: dict[tuple[Container, ContainerMounts, bool], Running] = {}
        self._made: dict[Container, str] = {}
        self._looked = False

    def start(
        self,
        start: Start,
        arguments: Sequence[str],
        confinement: Confinement,
        *,
        cwd: Path,
        environ: Mapping[str, str],
        own_variables: Mapping[str, str],
        private: PrivateFolder,
        memory_mb: int | None,
        mark: str,
        inherited: Sequence[int] = (),
        making: Making | None = None,
    ) -> ContainedProcess:
        """Have `start` start the client that runs `arguments` in the container of `confinement`.

        `mark` is a variable, with its value, by which all that it starts is found; `making` is told of an image that has to
        be fetched or built first, and stops that. Raises ConfinementError if there is no
        such container or it cannot enforce `confinement`, and what `start` raises.
        """
        if sys.platform == "win32":
            message = "`sandbox.container` does not work on Windows. Run Jupyter in WSL2, or take that setting out"
            raise ConfinementError(message)
        container = confinement.container
        if container is None:
            message = "it has no container"
            raise ConfinementError(message)
        shared = str(shared_folder())
        bounds = bounds_of(confinement, environ, str(cwd))
        check_mounts(confinement, bounds)
        mounts = mounts_of(confinement, bounds, private, shared)
        if not mounts.shows(str(cwd)):
            message = f"the folder {cwd} is not shown in the container"
            raise ConfinementError(message)
        with self._held(making := Making() if making is None else making):
            running = self._running(container, mounts, confinement, making, network=bounds.network == "any")
        report = Path(shared, f"exit-{secrets.token_hex(6)}")
        handed = {Path(f"{report}.{number}"): os.dup(number) for number in inherited}
        try:
            command = list(arguments)
            for file, number in zip(handed, inherited, strict=True):
                command = ["bash", "-c", f'exec {number}>"$0"; exec "$@"', str(file), *command]
            memory = 0 if memory_mb is None else memory_mb * 1024
            home = {} if running.container.user or is_root() else {"HOME": "/tmp"}
            variables = {**home, **inside_variables(running.container, environ), **own_variables}
            whole = exec_arguments(
                running.engine,
                running.name,
                ["/bin/sh", "-c", _RUN, "cellwright", str(report), str(memory), *command],
                cwd=str(cwd),
                environ={**variables, **dict([mark.split("=", 1)])},
            )
            missing = tuple(missing_mounts(bounds))
            process = start(whole, running.engine.environment(), ())
        except BaseException:
            for descriptor in handed.values():
                os.close(descriptor)
            raise
        return ContainedProcess(process, report, lambda: self._end(running, mark), handed, missing)

    def close(self) -> None:
        """Remove the containers, or stop those that are kept."""
        with self._lock:
            found = [*self._working.values(), *self._reading.values()]
            images = [(running.engine, running.image) for running in found if running.image]
            images += [(running.engine, made) for running in found[:1] for made in self._made.values()]
            self._working, self._reading, self._made = {}, {}, {}
        for running in found:
            with contextlib.suppress(ConfinementError):
                if running.container.keep and running.name == kept_name(running.container):
                    running.engine.ask("stop", "--time", "1", running.name)
                else:
                    running.engine.ask("rm", "--force", running.name)
        for engine, image in images:
            with contextlib.suppress(ConfinementError):
                engine.ask("rmi", image)

    @contextlib.contextmanager
    def _held(self, making: Making) -> Iterator[None]:
        """Hold the lock; who waits for another's image can be stopped."""
        while not self._lock.acquire(timeout=0.1):
            making.check()
        try:
            yield
        finally:
            self._lock.release()

    def _running(
        self, container: Container, mounts: ContainerMounts, confinement: Confinement, making: Making, *, network: bool
    ) -> Running:
        if not confinement.keeps_installed:
            return self._for_reading(container, mounts, making, network=network)
        key = (container, tuple(mount.target for mount in mounts.mounts if mount.writable))
        known = self._working.get(key)
        if known is not None and known.mounts == mounts and self._is_there(known):
            return known
        image = ""
        if known is not None:
            del self._working[key]
            image = self._replaced(known)
        made = self._make(container, mounts, making, image=image, keeps_installed=True, network=network)
        self._working[key] = made
        return made

    def _for_reading(self, container: Container, mounts: ContainerMounts, making: Making, *, network: bool) -> Running:
        key = (container, mounts, network)
        known = self._reading.pop(key, None)
        if known is None or not self._is_there(known):
            known = self._make(container, mounts, making, keeps_installed=False, network=network)
        self._reading[key] = known
        # containers for reading that are kept; the one that was not used for the longest time is removed
        while len(self._reading) > 3:
            oldest = self._reading.pop(next(iter(self._reading)))
            with contextlib.suppress(ConfinementError):
                oldest.engine.ask("rm", "--force", oldest.name)
        return known

    def _is_there(self, running: Running) -> bool:
        # for so long a container that was there is taken to be there
        if time.monotonic() - running.seen < 10.0:
            return True
        running.seen = time.monotonic()
        return self._runs(running.engine, running.name)

    def _runs(self, engine: Engine, name: str) -> bool:
        try:
            state = engine.ask("container", "inspect", "--format", "{{.State.Running}}", name)
        except ConfinementError:  # somebody has removed it
            return False
        return state.strip() == "true"

    def _replaced(self, running: Running) -> str:
        """Remove a container, and return the image that its files have become; "" where it is gone already."""
        image = f"localhost/cellwright:{secrets.token_hex(8)}"
        try:
            running.engine.ask("commit", running.name, image, seconds=300)
        except ConfinementError:
            image = ""
        with contextlib.suppress(ConfinementError):
            running.engine.ask("rm", "--force", running.name)
        return image

    def _make(
        self,
        container: Container,
        mounts: ContainerMounts,
        making: Making,
        *,
        image: str = "",
        keeps_installed: bool,
        network: bool,
    ) -> Running:
        engine = find_engine(container.program)
        if engine is None:
            message = f"no container program runs here ({why_no_engine(container.program)})"
            raise ConfinementError(message)
        if not self._looked:
            self._looked = True
            remove_left_over(engine)
        name = f"cellwright-{secrets.token_hex(6)}"
        labels = {"project": container.project, "owner": owner(), "keep": "no"}
        if keeps_installed and container.keep and not image:
            kept = kept_name(container)
            found = labels_of(engine, kept)
            # of two sessions at a time, the second has one that goes with it
            if not (is_alive(found.get(f"{LABEL}.owner", "")) and self._runs(engine, kept)):
                name = kept
                labels["keep"] = "yes"
                image = self._of_kept(engine, kept, found)
        ours = image
        if not image:
            image = self._image(engine, container, mounts, making, network=network)
        self._removing(_removal(engine, name, keep=labels["keep"] == "yes"))
        arguments = run_arguments(
            engine,
            container,
            image,
            name=name,
            mounts=mounts.mounts,
            labels=labels,
            keeps_installed=keeps_installed,
            network=network,
        )
        try:
            engine.ask(*arguments, seconds=300)
        except ConfinementError:
            with contextlib.suppress(ConfinementError):
                engine.ask("rm", "--force", name)
            raise
        return Running(engine, name, container, mounts, time.monotonic(), ours)

    def _of_kept(self, engine: Engine, name: str, labels: Mapping[str, str]) -> str:
        """Take the files of a container that an earlier session has kept as an image; "" where there is none.

        The folder by which files are handed over is another one in each session, so the container itself will not do.
        """
        if not labels:
            return ""
        image = f"localhost/cellwright:{secrets.token_hex(8)}"
        engine.ask("commit", name, image, seconds=300)
        engine.ask("rm", "--force", name)
        return image

    def _image(
        self, engine: Engine, container: Container, mounts: ContainerMounts, making: Making, *, network: bool
    ) -> str:
        """The image of `container`, with what its commands have made of it when they ran once."""
        image = image_of(engine, container, making)
        if not container.after_making:
            return image
        if known := self._made.get(container, ""):
            return known
        name = f"cellwright-{secrets.token_hex(6)}"
        self._removing(_removal(engine, name, keep=False))
        labels = {"project": container.project, "owner": owner(), "keep": "no"}
        engine.ask(
            *run_arguments(
                engine,
                container,
                image,
                name=name,
                mounts=mounts.mounts,
                labels=labels,
                keeps_installed=True,
                network=network,
            ),
            seconds=300,
        )
        try:
            for command in container.after_making:
                making.run(engine, "exec", "--workdir", container.workspace or container.project, name, *command)
            made = f"localhost/cellwright:{secrets.token_hex(8)}"
            engine.ask("commit", name, made, seconds=300)
        finally:
            with contextlib.suppress(ConfinementError):
                engine.ask("rm", "--force", name)
        self._made[container] = made
        return made

    def _end(self, running: Running, mark: str) -> None:
        """End all inside that carries `mark`; where the image has not the programs for it, all that runs there."""
        try:
            running.engine.ask("exec", running.name, "/bin/sh", "-c", END, "cellwright", mark)
        except ConfinementError:
            with contextlib.suppress(ConfinementError):
                running.engine.ask("restart", "--time", "0", running.name)


def kept_name(container: Container) -> str:
    """The name of the container that a project keeps."""
    return f"cellwright-kept-{hashlib.sha256(repr(container).encode()).hexdigest()[:12]}"


def _removal(engine: Engine, name: str, *, keep: bool) -> str:
    """The shell's command by which the watchdog gets rid of a container when we are gone."""
    words = ["stop", "--time", "0", name] if keep else ["rm", "--force", name]
    variables = [f"{variable}={value}" for variable, value in engine.environment().items()]
    return shlex.join(["/usr/bin/env", "-i", *variables, engine.path, *words])
