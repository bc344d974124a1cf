"""Podman and Docker: which of them runs here, and their command lines, in the words that both of them read."""

from __future__ import annotations

import contextlib
import csv
import functools
import io
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from cellwright.agent.calls.confinement import Container
from cellwright.sandbox.resolved_bounds import ConfinementError
from cellwright.text import lazy_pattern

PROGRAMS = ("podman", "docker")
PLACES = ("/usr/bin", "/usr/local/bin", "/opt/homebrew/bin", "/run/current-system/sw/bin", "/snap/bin")
"""The folders that they are looked for in: not on PATH, on which a project may have put its own."""

TRY_SECONDS = 30.0
TRY_AGAIN_SECONDS = 10
LABEL = "cellwright"
_OWN_VARIABLES = ("CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF", "CONTAINERS_REGISTRIES_CONF", "CONTAINER_HOST")
_NEEDED = ("HOME", "PATH", "USER", "TMPDIR", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "LANG")
_DOCKERS = ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY")
_LOCAL = lazy_pattern(r"unix://|npipe://")

_STAYS = 'trap "exit 0" TERM INT; while :; do sleep 3600 & wait $!; done'
"""A container's first process: it does nothing, and takes leave of those whose parents are gone."""


class Engine(Struct, frozen=True):
    """A container program: "podman" or "docker", and its path."""

    kind: str
    path: str

    def environment(self) -> dict[str, str]:
        """The variables that the program itself needs; what runs in a container gets none of them."""
        names = (*_NEEDED, *_OWN_VARIABLES, *_DOCKERS)
        return {name: os.environ[name] for name in names if name in os.environ}

    def ask(self, *arguments: str, seconds: float = TRY_SECONDS) -> str:
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
    return _found(names, chosen, 1 + int(time.monotonic() // TRY_AGAIN_SECONDS)) if all(found.values()) else found


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
    rootless, ranges, cgroups = engine.ask("info", "--format", fields).split()
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
        built += ["--mount", _csv([*fields, *([] if mount.writable else ["readonly"])])]
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


def _csv(fields: Sequence[str]) -> str:
    """One value of `--mount`, whose fields may have a comma or a quote in them."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(fields)
    return line.getvalue()
