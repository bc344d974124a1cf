"""The kernel's end of the template: the process is started once, kept over turns, and its branches are given variables."""

from __future__ import annotations

import asyncio
import contextlib
import json
import mmap
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from cellwright.kernel.branches import given_values
from cellwright.kernel.branches.bounds import branch_bounds
from cellwright.kernel.branches.branch import Branch, BranchResult
from cellwright.kernel.branches.forked import TemplateOrder, run_template
from cellwright.kernel.branches.given_values import CannotGive, Given, given, names_in
from cellwright.kernel.branches.messages import send
from cellwright.kernel.branches.resets import LEAST_BYTES
from cellwright.kernel.branches.snapshot import NoBranch, Snapshot, Taken
from cellwright.sandbox.private_folder import PrivateFolder
from cellwright.sandbox.profile import confined_environment
from cellwright.tools.process.child_processes import MARK_NAME, child_processes
from cellwright.tools.process.runner import child_environment

if TYPE_CHECKING:
    from cellwright.agent.calls.approval import Confinement

_COMMON = ("numpy", "pandas", "pyarrow", "polars", "matplotlib.pyplot")
"""Modules that read what a branch is given and draw what it shows; of these, the ones that the kernel has."""

_NOT_WARMED = frozenset({"__main__", "builtins", "cellwright", "IPython", "ipykernel"})


class Template(Snapshot):
    """The process, for branches within the same bounds. `folder` holds what it and its branches may write."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        control: socket.socket,
        modules: Sequence[str],
        folder: PrivateFolder,
    ) -> None:
        super().__init__(process.pid, control, Taken(time.time(), ""), 0.0)
        self._modules = frozenset(modules)
        self.folder = folder
        self._process = process  # reaped by its pid

    def end(self) -> None:
        super().end()
        self._process.returncode = 0
        self.folder.close()

    def serves(self, modules: Sequence[str]) -> bool:
        """Return whether it lives and has imported `modules`."""
        return self._modules.issuperset(modules) and self.is_alive()


def modules_of(namespace: Mapping[str, Any]) -> list[str]:
    """The modules that a template imports: those whose contents the variables of `namespace` name, and common ones."""
    found = [name for name in _COMMON if name in sys.modules]
    for value in list(namespace.values()):
        defines = isinstance(value, (type, FunctionType, BuiltinFunctionType))
        name = value.__name__ if isinstance(value, ModuleType) else (value if defines else type(value)).__module__
        if isinstance(name, str) and name.partition(".")[0] not in _NOT_WARMED:
            found.append(name)
    return sorted({name for name in found if name in sys.modules})


def start_template(
    confinement: Confinement | None,
    modules: Sequence[str],
    submit: Callable[[Callable[[], Any]], Future[Any]],
) -> Template:
    """Start it and wait until it is ready. `submit` runs a function on a thread that lives as long as the kernel.

    Raises `NoBranch` and ConfinementError.
    """
    folder = PrivateFolder()
    with contextlib.ExitStack() as stack:
        stack.callback(folder.close)
        environ = confined_environment(child_environment(os.environ), folder.temporary, folder.caches)
        cwd = os.getcwd()  # noqa: PTH109
        bounds = None if confinement is None else branch_bounds(confinement, folder, cwd=cwd)
        mark = {MARK_NAME: child_processes().mark_for_others()}
        if backend := os.environ.get("MPLBACKEND"):
            mark["MPLBACKEND"] = backend
        if bounds is not None:
            # copies of configuration for its branches are made there
            readable = replace(bounds.bounds, data=(*bounds.bounds.data, folder.path))
            bounds = replace(bounds, bounds=readable, environ={**bounds.environ, **mark})
        environ |= mark
        ours, theirs = socket.socketpair()
        stack.callback(theirs.close)
        stack.callback(ours.close)
        process = submit(lambda: _started(theirs, environ, cwd)).result()
        template = Template(process, ours, modules, folder)
        stack.pop_all()
    theirs.close()
    inline = "matplotlib_inline.backend_inline" in sys.modules
    order = TemplateOrder(
        bounds, environ, os.getpid(), cwd, f"{folder.temporary}/ipython", [*map(str, sys.path)], modules, inline
    )
    try:
        send(ours, order)
        # imports of large libraries on a machine that does much else
        problem = template.handshake(60.0)
    except (OSError, ValueError) as error:
        template.end()
        message = f"The process for branches did not start ({error})."
        raise NoBranch(message) from error
    if problem is not None:
        template.end()
        message = f"The process for branches could not be made safe ({problem})."
        raise NoBranch(message)
    return template


def _started(theirs: socket.socket, environ: Mapping[str, str], cwd: str) -> subprocess.Popen[bytes]:
    """Start Python so that nothing of the folder in which the user works is imported before it is confined."""
    files = [str(sys.modules[name].__file__) for name in ("cellwright", "msgspec", "IPython", "traitlets")]
    packages = [*dict.fromkeys(str(Path(file).parents[1]) for file in files)]
    run = f"from {run_template.__module__} import run_template; run_template({theirs.fileno()})"
    code = f"import sys; sys.path += {packages!r}; {run}"
    return subprocess.Popen(
        [sys.executable, "-I", "-c", code],
        env=dict(environ),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        pass_fds=(theirs.fileno(),),
        process_group=0,
    )


class ValueBranch(Branch):
    """A branch of the template: before each call it is given the variables that the code names and it does not have."""

    def with_values_of(
        self,
        namespace: Mapping[str, Any],
        on_main: Callable[[Callable[[], None]], Any],
        taken: Taken,
        secrets: Callable[[], Sequence[bytes]],
    ) -> ValueBranch:
        """This, with the kernel's variables. `on_main` reaches the main thread between two cells.

        No value goes that holds one of `secrets`, as none is left in the memory of a forked copy. They are asked for with
        each value: a cell of the user's may have set another.
        """
        self._namespace, self._on_main, self._taken_of_kernel = namespace, on_main, taken
        self._secrets = secrets
        return self

    @property
    def taken(self) -> Taken:
        return self._taken_of_kernel

    def interrupt(self) -> None:
        """As of a branch; what is still being given is given first, and then nothing runs."""
        self._interrupted = True
        super().interrupt()

    async def run(
        self, code: str, *, timeout: float, on_output: Callable[[dict[str, Any]], None] | None = None
    ) -> BranchResult:
        """Run `code` as a branch of a snapshot does; the variables that could not be given are named in the text."""
        began = time.monotonic()
        self._interrupted = False
        refused = await self._give(names_in(code, self._namespace), set())
        if self._interrupted:
            return BranchResult([], "interrupted", "It was interrupted.", time.monotonic() - began)
        result = await super().run(code, timeout=timeout, on_output=on_output)
        text = " ".join([result.text, *refused]).strip()
        return replace(result, text=text)

    async def _give(self, names: Sequence[str], asked: set[str]) -> list[str]:
        """Give the branch those of `names` that it has not; sentences about those that do not go by value."""
        new = [name for name in names if name not in asked]
        asked.update(new)
        said: list[str] = []
        wanted = await self._ask("missing", new) if new else ()
        for name in new:
            if name not in wanted:
                continue
            with _unnamed_file() as file:
                try:
                    gift, needed = await self._read(name, file)
                except (CannotGive, OSError) as why:
                    said.append(f"`{name}` is {why}: it is not here; use Python.")
                    continue
                said += await self._give(needed, asked)  # a decorator is there before what it decorates
                if problem := await self._ask("bind", msgspec.to_builtins(gift), (file,)):
                    said.append(f"`{name}` is not here ({str(problem)[:300]}); use Python.")
        return said

    async def _ask(self, function: str, arguments: object, descriptors: Sequence[int] = ()) -> Any:
        return await self.ask(f"{given_values.__name__}:{function}", arguments, descriptors, timeout=60.0)

    async def _read(self, name: str, file: int) -> tuple[Given, list[str]]:
        found: list[tuple[Given, list[str]] | Exception] = []
        begun, done = threading.Lock(), threading.Event()
        own = os.dup(file)  # cancelled, a thread may still write when `file` is closed and its number another's

        def write() -> None:
            if not begun.acquire(blocking=False):
                done.wait()
                return
            try:
                with open(own, "wb", buffering=0) as data:  # noqa: PTH123 - a descriptor
                    gift, needed = given(name, self._namespace[name], self._namespace, data)
                    _refuse_secrets(gift, own, self._secrets())
                found.append((gift, needed))
            except Exception as error:  # noqa: BLE001 - a value that changes meanwhile makes libraries raise anything
                found.append(error)
            finally:
                done.set()

        try:
            # variables are read between two cells if that moment comes so soon; else beside the cell that runs
            await asyncio.wait_for(self._on_main(write), 0.3)
        except (TimeoutError, NoBranch):
            await asyncio.to_thread(write)  # a cell runs; what has begun after all is waited for
        finally:
            if begun.acquire(blocking=False):
                os.close(own)
                done.set()  # the thread that comes too late waits for nothing
        if not isinstance(read := found[0], Exception):
            return read
        if isinstance(read, (CannotGive, OSError)):
            raise read
        message = f"not to be read, or changes meanwhile ({type(read).__name__})"
        raise CannotGive(message) from read


def _refuse_secrets(gift: Given, file: int, secrets: Sequence[bytes]) -> None:
    """Raise CannotGive if what goes to the branch holds one of `secrets`, in the words of its description or its data."""
    secrets = [each for each in secrets if len(each) >= LEAST_BYTES]
    described = msgspec.json.encode(gift)  # with the labels and attrs of a frame
    kind = "" if gift.offered is None else gift.offered.kind
    as_json = [form for secret in secrets for form in _forms_in_json(secret)]
    holds = any(form in described for form in as_json)
    if not holds and secrets and (size := os.fstat(file).st_size):
        sought = as_json if kind in ("", "plain") else secrets
        if kind in ("array", "scalar"):  # numpy's texts have four bytes for each character
            sought = [*sought, *(each.decode("utf-8", "replace").encode("utf-32-le") for each in secrets)]
        with mmap.mmap(file, size, access=mmap.ACCESS_READ) as data:
            holds = any(data.find(form) >= 0 for form in sought)
    if holds:
        raise CannotGive("a value that holds a key or token")


def _forms_in_json(secret: bytes) -> set[bytes]:
    """The forms in which a secret stands in what is written as JSON: of a text, and of bytes.

    >>> sorted(_forms_in_json(b'a"b'))
    [b'612262', b'a"b', b'a\\\\"b']
    """
    text = secret.decode("utf-8", "replace")
    return {secret, secret.hex().encode(), json.dumps(text)[1:-1].encode(), msgspec.json.encode(text)[1:-1]}


@contextlib.contextmanager
def _unnamed_file() -> Iterator[int]:
    if sys.platform != "linux":
        raise NotImplementedError
    file = os.memfd_create("cellwright-given", os.MFD_CLOEXEC)
    try:
        yield file
    finally:
        os.close(file)
