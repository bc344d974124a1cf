"""The minutes before a container's first command, when an image is fetched or built: shown, and they can be stopped."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from cellwright.agent.calls.confinement import Container
from cellwright.sandbox.containers.engine import Engine, build_arguments
from cellwright.sandbox.resolved_bounds import ConfinementError
from cellwright.text import lazy_pattern

MAKE_SECONDS = 1_800.0
KILL_SECONDS = 10.0
"""The time that the program has to tidy up when it is stopped."""

MOST_SHOWN = 200
_CONTROL = lazy_pattern(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")


class Making:
    """The making of one command's container. `said` gets each line of the program, on the thread that makes it.

    `stop` ends it, from any thread; whoever waits for it then gets a ConfinementError.
    """

    def __init__(self, said: Callable[[str], object] | None = None) -> None:
        self._said = said
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = threading.Event()

    def check(self) -> None:
        """Raise ConfinementError if it has been stopped."""
        if self._stopped.is_set():
            message = "the container was not made: it was stopped"
            raise ConfinementError(message)

    def stop(self) -> None:
        """End what runs, and let nothing begin."""
        with self._lock:
            self._stopped.set()
            process = self._process
        if process is not None:
            _end(process)

    def run(self, engine: Engine, *arguments: str) -> str:
        """Run the program to its end; what it wrote. Raises ConfinementError with its last line, and when it is stopped."""
        with self._lock:
            self.check()
            try:
                process = self._process = subprocess.Popen(
                    [engine.path, *arguments],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    cwd="/",
                    env=engine.environment(),
                    start_new_session=True,
                )
            except OSError as error:
                message = f"{engine.path} does not start: {error}"
                raise ConfinementError(message) from error
        began = time.monotonic()
        too_late = threading.Timer(MAKE_SECONDS, _end, (process,))
        too_late.daemon = True
        too_late.start()
        lines: deque[str] = deque(maxlen=2_000)
        assert process.stdout is not None
        try:
            with process.stdout as output:
                # a line without an end is no line yet; what counts up in place ends its lines by a carriage return
                for raw in output:
                    for part in raw.decode("utf-8", "replace").replace("\r", "\n").split("\n"):
                        if line := _CONTROL.sub("", part).strip():
                            lines.append(line)
                            self._say(engine, arguments[0], line)
            code = process.wait()
        finally:
            too_late.cancel()
            with self._lock:
                self._process = None
        self.check()
        if code and time.monotonic() - began >= MAKE_SECONDS:
            message = f"`{engine.kind} {arguments[0]}` did not end within {MAKE_SECONDS:.0f} s"
            raise ConfinementError(message)
        if code:
            message = f"`{engine.kind} {arguments[0]}`: {lines[-1] if lines else f'exit code {code}'}"
            raise ConfinementError(message)
        return "\n".join(lines)

    def _say(self, engine: Engine, what: str, line: str) -> None:
        if self._said is not None:
            shown = line if len(line) <= MOST_SHOWN else f"{line[: MOST_SHOWN - 1]}…"
            self._said(f"{engine.kind} {what}: {shown}")


def _end(process: subprocess.Popen[bytes]) -> None:
    # at SIGTERM and SIGINT Podman ends and leaves the build's own processes running; at this one it ends them, too
    _signal(process, signal.SIGHUP)
    later = threading.Timer(KILL_SECONDS, _signal, (process, signal.SIGKILL))
    later.daemon = True
    later.start()


def _signal(process: subprocess.Popen[bytes], sign: int) -> None:
    if process.poll() is None:
        with contextlib.suppress(OSError):
            os.killpg(process.pid, sign)


def image_of(engine: Engine, container: Container, making: Making) -> str:
    """The image of `container`, made or fetched if it is not here. Raises ConfinementError, ValueError."""
    if container.image:
        check_name(container.image)
        with contextlib.suppress(ConfinementError):
            engine.ask("image", "inspect", "--format", "{{.Id}}", container.image)
            return container.image
        try:
            making.run(engine, "pull", container.image)
        except ConfinementError as error:
            making.check()  # it was stopped
            message = (
                f"the image {container.image} of `sandbox.container` is not here and could not be fetched ({error}). "
                f"Check its name, in full as docker.io/library/python:3.12, and the network; or bring it along as a file: "
                f"`{engine.kind} load --input FILE`"
            )
            raise ConfinementError(message) from error
        return container.image
    if container.dockerfile:
        try:
            content = Path(container.dockerfile).read_bytes()
        except OSError as error:
            message = f"the Dockerfile cannot be read: {error}"
            raise ConfinementError(message) from error
        made_of = repr((container.dockerfile, container.context, container.build_arguments)).encode() + content
        tag = f"localhost/cellwright:{hashlib.sha256(made_of).hexdigest()[:16]}"
        # its layers are kept by the program: what has not changed costs a moment
        making.run(engine, *build_arguments(container, tag))
        return tag
    return _loaded(engine, container.files, making)


def _loaded(engine: Engine, file: str, making: Making) -> str:
    """Have the program take an archive of an image, or of its files; its name or number."""
    path = Path(file)
    if path.is_dir() and not (path / "oci-layout").exists():
        message = (
            f"{file} is a folder with files, which bubblewrap shows; {engine.kind} takes an archive (`podman save`)"
        )
        raise ConfinementError(message)
    said = making.run(engine, "load", "--input", file)
    found = re.findall(r"Loaded image(?:\(s\)| ID)?: *(\S+)", said)
    if not found:
        message = f"`{engine.kind} load` did not say which image {file} holds"
        raise ConfinementError(message)
    return str(found[-1])


def check_name(image: str) -> None:
    """Raise ConfinementError for the name of an image that a program would take for an option, or cannot take."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.:/@+-]{0,254}", image):
        message = f"{image!r} is not the name of an image"
        raise ConfinementError(message)
