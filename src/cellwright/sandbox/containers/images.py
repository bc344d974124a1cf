"""Images: fetched or built for a container's first command, and unpacked where no container program runs.

To fetch or to build one can take minutes: that is shown, and can be stopped.

Unpacked files are shown by bubblewrap as the root. What `podman save`, `docker save` and `podman export` write is foreign
data. Nothing of it is made outside of the folder it is unpacked into, whatever its names and links say; no device is made,
no owner is given, and no program gets its owner's rights (setuid). What it may take is bounded.
"""

# Paths are strings here: an image has a hundred thousand files, and Path is several times slower.
# ruff: noqa: PTH101, PTH102, PTH103, PTH108, PTH112, PTH114, PTH115, PTH120, PTH211
from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import tarfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from msgspec import Struct

from cellwright.agent.calls.approval import Container
from cellwright.sandbox.containers.engine import Engine, build_arguments, inside_variables
from cellwright.sandbox.paths import below
from cellwright.sandbox.private_folder import PrivateFolder
from cellwright.sandbox.resolved_bounds import ConfinementError
from cellwright.sessions.state_dir import state_folder
from cellwright.text import lazy_pattern
from cellwright.this_process.files import new_folder

MAKE_SECONDS = 1_800.0

MOST_SHOWN = 200
_CONTROL = lazy_pattern(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")

MOST_BYTES = 40 * 2**30
MOST_FILES = 2_000_000
MOST_JSON = 4 * 2**20
_WHITEOUT = ".wh."
_OPAQUE = ".wh..wh..opq"
_INDEXES = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_OWN = ("proc", "dev", "sys", "tmp")
"""The folders of a root that are never the image's."""


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
                            if self._said is not None:
                                shown = line if len(line) <= MOST_SHOWN else f"{line[: MOST_SHOWN - 1]}…"
                                self._said(f"{engine.kind} {arguments[0]}: {shown}")
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


def _end(process: subprocess.Popen[bytes]) -> None:
    # at SIGTERM and SIGINT Podman ends and leaves the build's own processes running; at this one it ends them, too
    _signal(process, signal.SIGHUP)
    # the time that the program has to tidy up when it is stopped
    later = threading.Timer(10.0, _signal, (process, signal.SIGKILL))
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


class ImageFiles(Struct, frozen=True):
    """An image's files: the folder that they are in, and the variables that the image sets."""

    folder: str
    variables: tuple[tuple[str, str], ...] = ()


def unpack(source: Path, folder: Path) -> ImageFiles:
    """Unpack the image in `source`, an archive or an OCI layout's folder, into `folder`, which is made.

    Raises ConfinementError with what is wrong with it; nothing is left then.
    """
    files = folder / "files"
    try:
        files.mkdir(parents=True)
        with contextlib.ExitStack() as opened:
            image = _Folder(source) if source.is_dir() else opened.enter_context(_Archive.open(source))
            return ImageFiles(str(files), _unpack(image, files))
    except (OSError, ValueError, KeyError, TypeError, IndexError, tarfile.TarError, EOFError, RecursionError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        message = f"the image in {source} cannot be unpacked: {error}"
        raise ConfinementError(message) from error


class _Folder:
    """The files of an OCI layout."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()

    def has(self, name: str) -> bool:
        return (self._folder / name).is_file()

    @contextlib.contextmanager
    def reading(self, name: str) -> Iterator[IO[bytes]]:
        path = (self._folder / name).resolve()
        if not path.is_relative_to(self._folder):
            message = f"{name} leads out of it"
            raise ValueError(message)
        with path.open("rb") as file:
            yield file


class _Archive:
    """The members of an archive."""

    def __init__(self, tar: tarfile.TarFile, file: Path) -> None:
        self._tar, self.file = tar, file
        self._members: dict[str, tarfile.TarInfo] = {}
        for count, member in enumerate(tar):
            if count > MOST_FILES:
                message = f"it has more than {MOST_FILES:,} files"
                raise ValueError(message)
            self._members[member.name.removeprefix("./")] = member

    @classmethod
    @contextlib.contextmanager
    def open(cls, file: Path) -> Iterator[_Archive]:
        with tarfile.open(file, "r:*") as tar:
            yield cls(tar, file)

    def has(self, name: str) -> bool:
        return name in self._members

    @contextlib.contextmanager
    def reading(self, name: str) -> Iterator[IO[bytes]]:
        member = self._members[name]
        if member.issym():  # as `docker save` names a layer that it has already
            member = self._members[os.path.normpath(f"{os.path.dirname(name)}/{member.linkname}")]
        file = self._tar.extractfile(member) if member.isreg() else None
        if file is None:
            message = f"{name} is no file"
            raise ValueError(message)
        with file:
            yield file


def _unpack(image: Any, files: Path) -> tuple[tuple[str, str], ...]:
    room = _Room()
    if image.has("manifest.json"):
        manifest = _json(image, "manifest.json")[0]
        layers, configuration = manifest["Layers"], manifest["Config"]
    elif image.has("index.json"):
        manifest = _manifest(image, _json(image, "index.json"))
        layers = [_blob(layer["digest"]) for layer in manifest["layers"]]
        configuration = _blob(manifest["config"]["digest"])
    else:
        with tarfile.open(image.file, "r:*") as tar:
            _layer(tar, str(files), room)
        return ()
    for name in layers:
        _check_digest(image, str(name))
        with image.reading(str(name)) as packed:
            if packed.read(4) == b"\x28\xb5\x2f\xfd":
                message = "its layers are packed by zstd; save it with `--format docker-archive`"
                raise ValueError(message)
            packed.seek(0)
            with tarfile.open(fileobj=packed, mode="r:*") as tar:
                _layer(tar, str(files), room)
    said = _json(image, str(configuration)).get("config") or {}
    pairs = (str(each).partition("=") for each in said.get("Env") or ())
    return tuple((name, value) for name, _, value in pairs if name)


def _manifest(image: Any, index: Any) -> Any:
    machine = os.uname().machine
    here = ("linux", {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine))
    for _ in range(3):
        found = [
            each
            for each in index["manifests"]
            if not (platform := each.get("platform")) or (platform.get("os"), platform.get("architecture")) == here
        ]
        if not found:
            message = "it is for another system than this one"
            raise ValueError(message)
        read = _json(image, _blob(found[0]["digest"]))
        if "layers" in read and found[0].get("mediaType") not in _INDEXES:
            return read
        index = read
    message = "its index leads nowhere"
    raise ValueError(message)


def _blob(digest: str) -> str:
    kind, _, number = str(digest).partition(":")
    if kind != "sha256" or len(number) != 64 or not set(number) <= set("0123456789abcdef"):
        message = f"{digest!r} is no digest"
        raise ValueError(message)
    return f"blobs/sha256/{number}"


def _check_digest(image: Any, name: str) -> None:
    """Raise ValueError where the content is not what its name says, if the name is a digest."""
    if not name.startswith("blobs/sha256/"):
        return
    with image.reading(name) as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != name.rpartition("/")[2]:
            message = f"{name} is damaged: its content has another digest"
            raise ValueError(message)


def _json(image: Any, name: str) -> Any:
    _check_digest(image, name)
    with image.reading(name) as file:
        content = file.read(MOST_JSON + 1)
    if len(content) > MOST_JSON:
        message = f"{name} is too large"
        raise ValueError(message)
    return json.loads(content)


class _Room:
    """The room that is left for files and bytes."""

    def __init__(self) -> None:
        self.files, self.bytes = MOST_FILES, MOST_BYTES

    def take(self, size: int) -> None:
        self.files -= 1
        self.bytes -= size
        if self.files < 0 or self.bytes < 0:
            message = f"it takes more than {MOST_BYTES // 2**30} GiB or {MOST_FILES:,} files"
            raise ValueError(message)


def _layer(tar: tarfile.TarFile, root: str, room: _Room) -> None:
    """Lay the files of one layer over those that are there."""
    folders: list[tuple[str, int]] = []
    for member in tar:
        room.take(member.size)
        folder, name = os.path.split(os.path.normpath(f"/{member.name}"))
        if not name:
            continue
        place = _inside(root, folder)
        os.makedirs(place, exist_ok=True)
        path = f"{place}/{name}"
        if name == _OPAQUE:
            for entry in os.scandir(place):
                _remove(entry.path)
        elif name.startswith(_WHITEOUT):
            _remove(f"{place}/{name.removeprefix(_WHITEOUT)}")
        elif member.isdir():
            if not _is_folder(path):
                _remove(path)
                os.mkdir(path)
            folders.append((path, member.mode))
        else:
            _remove(path)
            _make(tar, member, root, path)
    for path, mode in folders:
        if _is_folder(path):
            os.chmod(path, mode & 0o777 | stat.S_IRWXU)


def _make(tar: tarfile.TarFile, member: tarfile.TarInfo, root: str, path: str) -> None:
    """Make a file or a link; a device is not made."""
    if member.issym():
        os.symlink(member.linkname, path)
    elif member.islnk():
        folder, name = os.path.split(os.path.normpath(f"/{member.linkname}"))
        source = f"{_inside(root, folder)}/{name}"
        if not stat.S_ISDIR(os.lstat(source).st_mode):
            os.link(source, path, follow_symlinks=False)
    elif member.isreg() and (content := tar.extractfile(member)) is not None:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with content, os.fdopen(descriptor, "wb") as made:
            shutil.copyfileobj(content, made)
            os.fchmod(descriptor, member.mode & 0o777 | stat.S_IRUSR | stat.S_IWUSR)


def _is_folder(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path)


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISDIR(os.lstat(path).st_mode):
            shutil.rmtree(path)
        else:
            os.unlink(path)


def _inside(root: str, path: str) -> str:
    """Return the file that `path` names with `root` as its top: links are followed as in the container, never out of it."""
    here, names, links = root, [name for name in path.split("/") if name], 0
    while names:
        name = names.pop(0)
        if name in (".", ""):
            continue
        if name == "..":
            here = root if here == root else os.path.dirname(here)
            continue
        there = f"{here}/{name}"
        if os.path.islink(there):
            links += 1
            # as many as Linux follows
            if links > 40:
                message = f"{path} leads in a circle"
                raise ValueError(message)
            target = os.readlink(there)
            here = root if target.startswith("/") else here
            names = [*target.split("/"), *names]
        elif os.path.lexists(there) and not os.path.isdir(there):
            message = f"{path} goes through a file"
            raise ValueError(message)
        else:
            here = there
    return here


def files_of(container: Container) -> ImageFiles:
    """The files of `container`: the folder itself, or what its archive holds, unpacked once. Raises ConfinementError."""
    source = Path(container.files)
    try:
        status = source.stat()
    except OSError as error:
        message = f"the container's files cannot be read: {error}"
        raise ConfinementError(message) from error
    if source.is_dir() and not (source / "oci-layout").exists():
        return ImageFiles(str(source.resolve()))
    return _unpacked(container, status.st_mtime_ns, status.st_size)


def keeps_changes(container: Container) -> bool:
    """Return whether its files are a copy of ours: a folder of the user's is shown and never changed."""
    return not os.path.isdir(container.files) or Path(container.files, "oci-layout").exists()


@functools.lru_cache(maxsize=8)
def _unpacked(container: Container, changed: int, size: int) -> ImageFiles:
    source = Path(container.files)
    if not container.keep:
        return unpack(source, new_folder("image") / "unpacked")
    named = hashlib.sha256(repr((container.files, container.project, changed, size)).encode()).hexdigest()[:16]
    place = state_folder() / "containers" / named
    if (place / "files").is_dir():
        return ImageFiles(str(place / "files"))
    made = unpack(source, place.with_name(f"{named}.{os.getpid()}"))
    Path(made.folder).parent.rename(place)
    return ImageFiles(str(place / "files"), made.variables)


def root_arguments(files: ImageFiles, container: Container, targets: Iterable[str], *, writable: bool) -> list[str]:
    """Build bubblewrap's arguments that show `files` as the root; `targets` are what is mounted over it later.

    A folder that a target lies in is made anew, so that nothing is made among the image's files for it.
    """
    tops = [*targets, *([container.workspace] if container.workspace else [])]
    built = ["--tmpfs", "/", "--dir", "/tmp"]
    built += _shown(files.folder, "", tops, "--bind" if writable else "--ro-bind")
    if container.workspace and container.workspace != container.project:
        built += ["--dir", str(Path(container.workspace).parent), "--symlink", container.project, container.workspace]
    return built


def _shown(folder: str, place: str, targets: list[str], bind: str) -> Iterator[str]:
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        here = f"{place}/{entry.name}"
        if (not place and entry.name in _OWN) or here in targets:
            continue
        if entry.is_symlink():
            yield from ("--symlink", os.readlink(entry.path), here)
        elif entry.is_dir(follow_symlinks=False) and any(below(target, here) for target in targets):
            yield from ("--dir", here)
            yield from _shown(entry.path, here, targets, bind)
        elif entry.is_dir(follow_symlinks=False) or entry.is_file(follow_symlinks=False):
            yield from (bind, entry.path, here)


def environment(
    files: ImageFiles,
    container: Container,
    environ: Mapping[str, str],
    own_variables: Mapping[str, str],
    private: PrivateFolder,
) -> dict[str, str]:
    """The environment of a command there: the image's, the container's, and what means the same on both sides."""
    return {
        "PATH": PATH,
        "HOME": private.temporary,
        **dict(files.variables),
        **dict.fromkeys(("TMPDIR", "TMP", "TEMP"), private.temporary),
        "XDG_CACHE_HOME": private.caches,
        **dict(container.variables),
        **inside_variables(container, environ),
        **own_variables,
    }
