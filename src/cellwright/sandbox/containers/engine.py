"""Podman and Docker: which of them runs here, their command lines, and what a container gets of this machine.

The command lines are in the words that both programs read. A container gets the folders and variables that the bounds of
its command name, each folder at its own path; what is enforced of them is said here, too.
"""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import functools
import io
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from cellwright.agent.calls.approval import Confinement, Container
from cellwright.permissions.sandboxing import SandboxAbilities, SandboxRules
from cellwright.sandbox.paths import below, exists
from cellwright.sandbox.private_folder import PrivateFolder
from cellwright.sandbox.resolved_bounds import Bounds, ConfinementError, bounds_of
from cellwright.text import lazy_pattern

PROGRAMS = ("podman", "docker")
PLACES = ("/usr/bin", "/usr/local/bin", "/opt/homebrew/bin", "/run/current-system/sw/bin", "/snap/bin")
"""The folders that they are looked for in: not on PATH, on which a project may have put its own."""

LABEL = "cellwright"
_OWN_VARIABLES = ("CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF", "CONTAINERS_REGISTRIES_CONF", "CONTAINER_HOST")
_NEEDED = ("HOME", "PATH", "USER", "TMPDIR", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "LANG")
_DOCKERS = ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY")
_LOCAL = lazy_pattern(r"unix://|npipe://")

_STAYS = 'trap "exit 0" TERM INT; while :; do sleep 3600 & wait $!; done'
"""A container's first process: it does nothing, and takes leave of those whose parents are gone."""

MOST_MOUNTS = 200

_PASSED_ON = lazy_pattern(
    r"LANG|LANGUAGE|LC_[A-Z]+|TZ|TERM|NO_COLOR|COLUMNS|LINES|CI|CLAUDECODE|PAGER|GIT_PAGER|GIT_TERMINAL_PROMPT"
    r"|GIT_OPTIONAL_LOCKS"
)
"""The variables of ours that mean the same inside. All others are of this machine: its paths, its user, its secrets."""


class Engine(Struct, frozen=True):
    """A container program: "podman" or "docker", and its path."""

    kind: str
    path: str

    def environment(self) -> dict[str, str]:
        """The variables that the program itself needs; what runs in a container gets none of them."""
        names = (*_NEEDED, *_OWN_VARIABLES, *_DOCKERS)
        return {name: os.environ[name] for name in names if name in os.environ}

    def ask(self, *arguments: str, seconds: float = 30.0) -> str:
        """Run the program to its end; what it wrote. Raises ConfinementError with its own words."""
        try:
            done = subprocess.run(
                [self.path, *arguments],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=seconds,
                check=False,
                cwd="/",
                env=self.environment(),
            )
        except subprocess.TimeoutExpired:
            message = f"`{self.kind} {arguments[0]}` did not end within {seconds:.0f} s"
            raise ConfinementError(message) from None
        except OSError as error:
            message = f"{self.path} does not start: {error}"
            raise ConfinementError(message) from error
        if done.returncode:
            lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or [f"exit code {done.returncode}"]
            message = f"`{self.kind} {arguments[0]}`: {lines[-1]}"
            raise ConfinementError(message)
        return done.stdout.decode("utf-8", "replace")


class Mount(Struct, frozen=True):
    """A folder or file of this machine in a container; without `source` an empty folder in its memory."""

    source: str
    target: str
    writable: bool = False


def find_engine(wanted: str = "") -> Engine | None:
    """The container program that runs here: `wanted`, or the first that does; None where there is none."""
    return next((engine for engine, why in _tried(wanted).items() if not why), None)


def why_no_engine(wanted: str = "") -> str:
    """Say what keeps each container program from running here."""
    tried = {engine.kind: why for engine, why in _tried(wanted).items()}
    names = (wanted,) if wanted else PROGRAMS
    return "; ".join(f"{name}: {tried.get(name, 'it is not installed')}" for name in names)


def _tried(wanted: str) -> Mapping[Engine, str]:
    chosen = tuple(os.environ.get(name, "") for name in (*_OWN_VARIABLES, *_DOCKERS))
    names = (wanted,) if wanted else PROGRAMS
    found = _found(names, chosen, 0)
    # somebody may start one, or install it
    return _found(names, chosen, 1 + int(time.monotonic() // 10)) if all(found.values()) else found


@functools.lru_cache(maxsize=8)
def _found(names: tuple[str, ...], _chosen: tuple[str, ...], _when: int) -> Mapping[Engine, str]:
    """Try each program that is installed, up to the first that runs."""
    found: dict[Engine, str] = {}
    for name in names:
        path = next((file for place in PLACES if os.access(file := f"{place}/{name}", os.X_OK)), "")
        if path:
            engine = Engine(name, path)
            found[engine] = _why_not(engine)
            if not found[engine]:
                break
    return found


def _why_not(engine: Engine) -> str:
    host = os.environ.get("DOCKER_HOST" if engine.kind == "docker" else "CONTAINER_HOST", "")
    if engine.kind == "docker" and not host:
        with contextlib.suppress(ConfinementError):
            host = engine.ask("context", "inspect", "--format", "{{.Endpoints.docker.Host}}").strip()
    if host and not _LOCAL.match(host):
        return "it runs its containers on another machine, which has not the folders of this one"
    try:
        # each asks for what takes more than the client
        engine.ask(*(("info",) if engine.kind == "podman" else ("version", "--format", "{{.Server.Version}}")))
    except ConfinementError as error:
        return str(error)
    return ""


@functools.lru_cache(maxsize=8)
def podman_has(engine: Engine) -> tuple[bool, bool]:
    """Return whether Podman has subordinate ids for this user, and whether it holds limits; for root both are so.

    Without those ids (`/etc/subuid`) the user alone is mapped, to the container's root. With cgroups v1 Podman ignores the
    limits of who is not root, and succeeds.
    """
    fields = "{{.Host.Security.Rootless}} {{len .Host.IDMappings.UIDMap}} {{.Host.CgroupsVersion}}"
    said = engine.ask("info", "--format", fields).split()
    if len(said) != 3:
        return False, False  # an answer that is not understood promises nothing
    rootless, ranges, cgroups = said
    return rootless != "true" or int(ranges) > 1, rootless != "true" or cgroups != "v1"


def holds_limits(engine: Engine) -> bool:
    """Return whether the program holds a container's limits."""
    return engine.kind != "podman" or podman_has(engine)[1]


def run_arguments(
    engine: Engine,
    container: Container,
    image: str,
    *,
    name: str,
    mounts: Iterable[Mount],
    labels: Mapping[str, str],
    keeps_installed: bool,
    network: bool,
) -> list[str]:
    """Build the arguments that start a container of `image`, in which nothing runs yet."""
    built = ["run", "--detach", "--name", name, "--hostname", "container"]
    for label, value in {LABEL: "1", **labels}.items():
        built += ["--label", f"{LABEL}.{label}={value}" if label != LABEL else f"{LABEL}={value}"]
    built += ["--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
    built += [] if network else ["--network", "none"]
    built += ["--memory", container.memory] if container.memory else []
    built += ["--cpus", container.cpus] if container.cpus else []
    built += ["--pids-limit", str(container.processes)]
    built += ["--user", user] if (user := _user(engine, container)) else []
    if engine.kind == "podman" and not is_root() and not container.user:
        # the image's own user is no id where one alone is mapped
        built += ["--userns", "keep-id"] if podman_has(engine)[0] else ["--user", "0:0"]
    built += [] if keeps_installed else ["--read-only", "--tmpfs", "/tmp:exec,mode=1777"]
    for mount in mounts:
        if not mount.source:
            built += ["--tmpfs", f"{mount.target}:ro,mode=000,size=4k"]
            continue
        fields = ["type=bind", f"source={mount.source}", f"target={mount.target}"]
        # fields may have a comma or a quote in them
        line = io.StringIO()
        csv.writer(line, lineterminator="").writerow([*fields, *([] if mount.writable else ["readonly"])])
        built += ["--mount", line.getvalue()]
    for variable, value in container.variables:
        built += ["--env", f"{variable}={value}"]
    return [*built, "--stop-timeout", "1", "--entrypoint", "/bin/sh", image, "-c", _STAYS]


def exec_arguments(
    engine: Engine, name: str, command: Sequence[str], *, cwd: str, user: str = "", environ: Mapping[str, str]
) -> list[str]:
    """Build the whole command line that runs `command` in the container `name`, with its input and outputs ours."""
    built = [engine.path, "exec", "--interactive", "--workdir", cwd]
    built += ["--user", user] if user else []
    for variable, value in environ.items():
        built += ["--env", f"{variable}={value}"]
    return [*built, name, *command]


def build_arguments(container: Container, tag: str) -> list[str]:
    """Build the arguments that make the image `tag` of the container's Dockerfile."""
    built = ["build", "--tag", tag, "--file", container.dockerfile]
    for name, value in container.build_arguments:
        built += ["--build-arg", f"{name}={value}"]
    return [*built, "--label", f"{LABEL}=1", container.context or str(Path(container.dockerfile).parent)]


def _user(engine: Engine, container: Container) -> str:
    """The user that commands run as: what they make in the project is to be the user's."""
    if container.user:
        return container.user
    if sys.platform != "linux" or engine.kind != "docker" or os.geteuid() == 0:
        return ""
    return f"{os.geteuid()}:{os.getegid()}"


def is_root() -> bool:
    """Return whether commands of ours have all rights on this machine; on Windows nobody's have."""
    return sys.platform != "win32" and os.geteuid() == 0


def rules_in_container(rules: SandboxRules, container: Container) -> SandboxRules:
    """The `rules` as they hold in `container`: every command is confined there. Without `abilities` nothing can run it.

    That a command needs no question because it is confined holds there only where it holds on this machine as well.
    """
    rules = replace(rules, enabled=True, auto_allow=rules.enabled and rules.auto_allow, in_container=None)
    engine = None
    if container.program != "bubblewrap" and not is_folder_of_files(container):
        engine = find_engine(container.program)
    if engine is not None:
        found = dataclasses.replace(container, program=engine.kind)
        name = f"container {found.name} by {engine.kind.title()}"
        means = SandboxAbilities(name=name, hides=True, protects=True, hosts=False, why_not=why_not_by_mounts)
        return replace(rules, container=found, means=means)
    machine = rules.abilities
    if container.files and container.program in ("", "bubblewrap") and machine is not None and machine.protects:
        found = dataclasses.replace(container, program="bubblewrap")
        name = f"container {found.name} by bubblewrap"
        return replace(rules, container=found, means=replace(machine, name=name, hosts=False))
    return replace(rules, container=container, means=None)


def why_no_container(container: Container) -> str:
    """Say why nothing here can run `container`, and what to do."""
    if is_folder_of_files(container) and container.program not in ("", "bubblewrap"):
        return (
            f"{container.files} is a folder with files, and {container.program} takes an archive of an image. Leave "
            "`program` out, and bubblewrap shows the folder."
        )
    if container.files and container.program in ("", "bubblewrap"):
        return (
            f"the files in {container.files} need bubblewrap, which does not work here (`/sandbox` says why). Install it "
            "(`apt install bubblewrap`), or Podman or Docker and name an image."
        )
    return (
        f"no program runs containers here ({why_no_engine(container.program)}). Install Podman (`apt install podman`) or "
        "start Docker. Where neither can run, unpack the image and name its folder: "
        '`"container": {"files": "/path/to/rootfs"}`, which bubblewrap shows.'
    )


def is_folder_of_files(container: Container) -> bool:
    """Return whether it is a folder with an image's files as they are, which no container program takes."""
    return os.path.isdir(container.files) and not Path(container.files, "oci-layout").exists()  # noqa: PTH112


def why_not_by_mounts(confinement: Confinement) -> str:
    """Say why Podman or Docker cannot enforce `confinement`; "" where they can."""
    try:
        cwd = next(iter((*confinement.write, *confinement.read)), "/")
        return why_not_mounted(confinement, bounds_of(confinement, os.environ, cwd))
    except ConfinementError as error:
        return str(error)


class ContainerMounts(Struct, frozen=True):
    """The places of this machine that a container shows, outermost first; equal ones are the same container."""

    mounts: tuple[Mount, ...]

    def shows(self, path: str) -> bool:
        """Return whether the file or folder at `path` is there inside."""
        over = [mount for mount in self.mounts if below(path, mount.target)]
        return bool(over) and bool(over[-1].source)


def mounts_of(confinement: Confinement, bounds: Bounds, private: PrivateFolder, shared: str) -> ContainerMounts:
    """The mounts for `bounds`; `shared` is the folder by which we and what runs inside hand files to each other."""
    made = {path: Mount(path, path) for path in (*bounds.read, *bounds.data)}
    made |= {path: Mount(path, path, writable=True) for path in bounds.write}
    made |= {path: Mount(path, path) for path in bounds.protected}
    made = {path: mount for path, mount in made.items() if exists(path) and path != "/"}
    for path in bounds.hidden:
        if exists(path) and any(below(path, each) for each in made):
            made[path] = Mount("" if Path(path).is_dir() else private.unreadable(folder=False), path)
    made[shared] = Mount(shared, shared, writable=True)
    container = confinement.container
    if container is not None and container.workspace not in ("", container.project):
        inside = [mount for mount in made.values() if below(mount.target, container.project)]
        for mount in inside:
            target = container.workspace.rstrip("/") + mount.target.removeprefix(container.project)
            made[target] = Mount(mount.source, target, mount.writable)
    # what lies deeper is mounted later
    return ContainerMounts(tuple(made[path] for path in sorted(made, key=lambda path: path.rstrip("/").split("/"))))


def why_not_mounted(confinement: Confinement, bounds: Bounds) -> str:
    """Say why mounts cannot enforce `bounds`; "" where they can."""
    if bounds.staged:
        return "a container's changes reach the project at once, so that they cannot be judged before they are made"
    if bounds.network == "hosts":
        return "a container reaches every host or none"
    first = next(missing_mounts(bounds), "")
    if first and not confinement.keeps_installed:
        return f"{first} is protected and does not exist yet, which no mount of a container can protect"
    count = len(bounds.hidden) + len(bounds.protected)
    return f"{count:,} places are hidden or protected, and {MOST_MOUNTS} can be" if count > MOST_MOUNTS else ""


def check_mounts(confinement: Confinement, bounds: Bounds) -> None:
    """Raise ConfinementError where mounts cannot enforce `bounds`."""
    if why := why_not_mounted(confinement, bounds):
        raise ConfinementError(why)


def missing_mounts(bounds: Bounds) -> Iterator[str]:
    """Return the protected places of `bounds` that do not exist yet."""
    return (path for path in bounds.protected if not exists(path))


def inside_variables(container: Container, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that are passed on, and git's settings for a project whose files belong to another user."""
    kept = {name: value for name, value in environ.items() if _PASSED_ON.fullmatch(name)}
    return {
        **kept,
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "safe.directory",
        "GIT_CONFIG_VALUE_0": container.project,
        "GIT_DISCOVERY_ACROSS_FILESYSTEM": "1",
    }


def called_inside(arguments: Sequence[str], confinement: Confinement) -> list[str]:
    """The command line as it is there: a program that is not in the session's folders goes by its name alone.

    A Python of this machine's is the image's `python3`.
    """
    program = arguments[0]
    folders = [os.path.realpath(folder) for folder in (*confinement.read, *confinement.write)]
    # a virtual environment of the project is a link to an interpreter that is not there
    if os.sep in program and any(below(os.path.realpath(program), folder) for folder in folders):
        return list(arguments)
    name = Path(program).name
    return ["python3" if name.startswith("python") else name, *arguments[1:]]
