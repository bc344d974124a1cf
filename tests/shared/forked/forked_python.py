"""Processes of Python that are forked with their libraries imported: to import these costs more than most tests do.

`forked_python(folder)` makes a program there that is called as `python` is. What it is to run runs in a process that was
forked from one of its kind, which has imported `LIBRARIES`; it has the program's arguments, environment, folder, files and
signals, a session of its own if the program has one, and its end is the program's. Where that cannot be (a system without
`pidfd_open`, coverage, which begins with the interpreter, anything but a module or a script) the program is Python itself.
Servers that tests start run so, kernels, and our command where it has no terminal; on a terminal, and where a test
asks how a kernel begins, they begin as they do for users, with nothing imported.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import marshal
import os
import resource
import runpy
import selectors
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

COMMAND = (
    *("cellwright.terminal.terminal_conversation", "cellwright.terminal.views.plain_view", "cellwright.terminal.run"),
    *("cellwright.terminal.subcommands.mcp_serve", "cellwright.terminal.subcommands.sessions", "mcp.server.mcpserver"),
    *("cellwright.features.conversation", "cellwright.agent.agent_setup", "cellwright.agent.loop"),
    *("cellwright.model.transports.transport", "httpcore2._sync.connection", "httpx2", "jsonschema", "truststore"),
)
# not `ipykernel.kernelapp`, which reads on import who its parent is; neither ipywidgets nor what imports it: it looks for
# the kernel when it is imported
KERNEL = (
    *("ipykernel.ipkernel", "ipykernel.zmqshell", "ipykernel.heartbeat", "IPython.core.application"),
    *("IPython.extensions.storemagic", "psygnal", "anyio._backends._asyncio"),
    *("cellwright.kernel.extension", "cellwright.kernel.conversation", "cellwright.kernel.magic.magics"),
    *("cellwright.features.conversation", "cellwright.agent.agent_setup", "cellwright.agent.loop"),
    *(
        "cellwright.model.anthropic",
        "cellwright.model.transports.transport",
        "httpcore2._sync.connection",
        "httpx2",
        "truststore",
    ),
    *("cellwright.sandbox.confined_process", "cellwright.tools.shell.bash", "cellwright.tools.files.read"),
)
SERVER = ("jupyter_server.serverapp", "jupyter_server_terminals", "cellwright.server.server_extension")
LIBRARIES = {
    "": ("mcp.server.mcpserver",),
    "cellwright.terminal.main": COMMAND,
    "claude": COMMAND,
    "ipykernel_launcher": KERNEL,
    "jupyter_server": SERVER,
}
"""By the module that is run with `-m`, or the script's name; "" are other scripts."""

KINDS = tuple(dict.fromkeys(LIBRARIES.values()))

VARIABLE = "FORKED_PYTHON"
"""What names the program in the environment of the tests."""

PROVISIONER = "kernels_with_socket_files"
"""The package of `jupyter_packages`, and the name by which a kernelspec asks for what is in it."""

SPENT = "spent"
"""The file of a folder that says what its processes have computed: seconds, a line each."""

# imports next to nothing, since it is started for each process
PROGRAM = """#!{python} -IS
import _socket, marshal, os, signal, sys
FOLDER, PYTHON, KINDS = {folder!r}, {python!r}, {kinds!r}
arguments = sys.argv[1:]
if arguments[:1] == ["-m"]:
    kind = KINDS.get(arguments[1])
elif arguments and not arguments[0].startswith("-"):
    kind = KINDS.get(os.path.basename(arguments[0]), KINDS[""])
else:
    kind = None
if None in (sys.stdin, sys.stdout, sys.stderr):
    kind = None  # it begins with a closed stream
try:
    here = os.getcwd()
except OSError:
    kind = None  # it begins in a folder that is gone
child, early = 0, []
def forward(number, _frame):
    if not child:
        early.append(number)
    else:
        try:
            (os.killpg if leads else os.kill)(child, number)
        except ProcessLookupError:
            pass
if kind is not None and not any(name.startswith("COV_CORE") or name.startswith("COVERAGE_") for name in os.environ):
    link = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        link.connect(os.path.join(FOLDER, str(kind)))
    except OSError:
        kind = None
else:
    kind = None
if kind is None:
    os.execv(PYTHON, [PYTHON, *arguments])
leads = os.getsid(0) == os.getpid()
may_ignore = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
ignored = [int(number) for number in may_ignore if signal.getsignal(number) == signal.SIG_IGN]
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
    if number not in ignored:
        signal.signal(number, forward)
mask = os.umask(0)
said = marshal.dumps((arguments, dict(os.environ), here, leads, os.getpgid(0), ignored, mask))
files = b"".join(each.to_bytes(4, sys.byteorder) for each in (0, 1, 2))
link.sendmsg([len(said).to_bytes(4, "big")], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, files)])
link.sendall(said)
for each in (0, 1, 2):
    os.close(each)
came = link.recv(4)
child = int.from_bytes(came, "big")
for number in early:
    forward(number, None)
parent = os.getppid()
if "JPY_PARENT_PID" in os.environ:
    link.settimeout(1.0)
status = None
while status is None:
    try:
        status = link.recv(4)
    except TimeoutError:
        if os.getppid() != parent:
            os._exit(1)  # a kernel ends with its parent, for which it looks as often
code = int.from_bytes(status, "big", signed=True) if status else 1
if code < 0:
    if -code not in (signal.SIGKILL, signal.SIGSTOP):
        signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
os._exit(code)
"""


@contextlib.contextmanager
def forked_python(folder: Path) -> Iterator[Path]:
    """A program that is called as Python is, for as long as the block lasts."""
    program = folder / "python"
    if not hasattr(os, "pidfd_open"):
        program.symlink_to(sys.executable)
        yield program
        return
    kinds = {name: KINDS.index(libraries) for name, libraries in LIBRARIES.items()}
    program.write_text(PROGRAM.format(python=sys.executable, folder=str(folder), kinds=kinds), "utf-8")
    program.chmod(0o755)
    with subprocess.Popen(
        [sys.executable, __file__, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as base:
        assert base.stdin is not None
        assert base.stdout is not None
        base.stdout.readline()  # it listens
        yield program
        base.stdin.close()


def program_in(environ: Mapping[str, str]) -> str:
    """The program of the tests that run, or Python itself."""
    return environ.get(VARIABLE, sys.executable)


def jupyter_place(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment in which Jupyter's own kernel, python3, runs the program of the tests; other kernels stay.

    Its sockets are files, by what `jupyter_packages` has.
    """
    program = Path(program_in(environ))
    there = program.parent / "jupyter"
    spec = there / "kernels" / "python3" / "kernel.json"
    if VARIABLE in environ and not spec.exists():
        from jupyter_client.kernelspec import KernelSpecManager

        own = KernelSpecManager().get_kernel_spec("python3")
        shutil.copytree(own.resource_dir, spec.parent)
        own.argv[0] = str(program)
        own.metadata["kernel_provisioner"] = {"provisioner_name": PROVISIONER}
        spec.write_text(own.to_json(), "utf-8")
    if VARIABLE not in environ:
        return {}
    return {"JUPYTER_PATH": os.pathsep.join([str(there), *filter(None, [environ.get("JUPYTER_PATH")])])}


def jupyter_packages(folder: Path) -> Path:
    """Make a folder with the package that `jupyter_place` needs on the path of whatever starts kernels."""
    facts = folder / "packages" / f"{PROVISIONER}-1.dist-info"
    facts.mkdir(parents=True)
    shutil.copy(Path(__file__).with_name("kernel_sockets.py"), facts.parent / f"{PROVISIONER}.py")
    (facts / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {PROVISIONER}\nVersion: 1\n", "utf-8")
    points = f"[jupyter_client.kernel_provisioners]\n{PROVISIONER} = {PROVISIONER}:SocketFiles\n"
    (facts / "entry_points.txt").write_text(points, "utf-8")
    return facts.parent


def spent_in(folder: Path) -> float:
    """Seconds of the processor that what was forked has computed, as far as it has ended."""
    file = folder / SPENT
    return sum(map(float, file.read_text("ascii").split())) if file.exists() else 0.0


class Task:
    """What a process is to run, as its program has said it."""

    def __init__(self, link: socket.socket) -> None:
        head, files, _, _ = socket.recv_fds(link, 4, 3)
        left, said = int.from_bytes(head, "big"), b""
        while len(said) < left:
            if not (more := link.recv(left - len(said))):
                raise EOFError("the program ended before it had said what it is to run")
            said += more
        self.files = files
        self.arguments, self.environ, self.folder, self.leads, self.group, self.ignored, self.umask = marshal.loads(
            said
        )

    def become(self) -> None:
        """Make this process what the program is."""
        with contextlib.suppress(OSError):
            if self.leads:
                os.setsid()
            else:
                os.setpgid(0, self.group)
        for number, file in enumerate(self.files):
            os.dup2(file, number)
            os.close(file)
        os.umask(self.umask)
        os.chdir(self.folder)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number in self.ignored:
            signal.signal(number, signal.SIG_IGN)
        os.environ.clear()
        os.environ.update(self.environ)
        if "JPY_PARENT_PID" in os.environ:
            os.environ["JPY_PARENT_PID"] = str(os.getppid())  # for the program's own parent the program looks
        _open_streams()

    def run(self) -> None:
        paths = [path for path in self.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
        # the first is the folder of this file
        rest = [path for path in sys.path[1:] if path not in (*BEGUN_WITH, *paths)]
        first = self.folder if self.arguments[0] == "-m" else str(Path(self.arguments[0]).absolute().parent)
        sys.path[:] = [first, *paths, *rest]
        if self.arguments[0] == "-m":
            sys.argv[:] = self.arguments[1:]
            runpy.run_module(self.arguments[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv[:] = self.arguments
            runpy.run_path(self.arguments[0], run_name="__main__")


BEGUN_WITH = os.environ.get("PYTHONPATH", "").split(os.pathsep)


def _open_streams() -> None:
    """Make the standard streams anew: whether they are terminals, how they are buffered and encoded may be another now."""
    unbuffered = bool(os.environ.get("PYTHONUNBUFFERED"))
    encoding, _, errors = os.environ.get("PYTHONIOENCODING", "").partition(":")
    for name, number, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        stream: Any = open(  # noqa: SIM115
            number,
            mode,
            encoding=encoding or "utf-8",
            errors=errors or ("backslashreplace" if name == "stderr" else "strict"),
            closefd=False,
        )
        if mode == "w":
            stream.reconfigure(line_buffering=name == "stderr" or os.isatty(number), write_through=unbuffered)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


class Nursery:
    """Forks a process for each task, and tells its program how it ended."""

    def __init__(self, listening: socket.socket, folder: Path) -> None:
        self.listening = listening
        self.folder = folder
        self.selector = selectors.DefaultSelector()
        self.selector.register(listening, selectors.EVENT_READ)
        self.selector.register(0, selectors.EVENT_READ)
        self.children: dict[int, tuple[int, socket.socket, int]] = {}
        """By the file of a process: its id, the program's link, and what a signal goes to."""

    def next_task(self) -> Task | None:
        """Return in each process that is forked; None at the end of all."""
        while True:
            for key, _ in self.selector.select():
                if key.fileobj is self.listening:
                    if (task := self._fork()) is not None:
                        return task
                elif key.fileobj == 0:
                    self._end()
                    return None
                elif isinstance(key.data, int):
                    self._gone(key.data)
                elif key.fd in self.children:
                    self._ended(key.fd)

    def _fork(self) -> Task | None:
        link, _ = self.listening.accept()
        try:
            task = Task(link)
        except (EOFError, OSError):  # it was killed: others wait for us
            link.close()
            return None
        if (child := os.fork()) == 0:
            self.selector.close()
            self.listening.close()
            link.close()
            for file, (_, other, _) in self.children.items():
                os.close(file)
                other.close()
            task.become()
            return task
        for file in task.files:
            os.close(file)
        with contextlib.suppress(OSError):
            link.sendall(child.to_bytes(4, "big"))
        process = os.pidfd_open(child)
        self.children[process] = (child, link, -child if task.leads else child)
        self.selector.register(process, selectors.EVENT_READ)
        self.selector.register(link, selectors.EVENT_READ, process)
        return None

    def _ended(self, process: int) -> None:
        child, link, _ = self.children.pop(process)
        _, status, used = os.wait4(child, 0)
        with (self.folder / SPENT).open("a", encoding="ascii") as file:
            file.write(f"{used.ru_utime + used.ru_stime}\n")
        with contextlib.suppress(OSError):
            link.sendall(os.waitstatus_to_exitcode(status).to_bytes(4, "big", signed=True))
        with contextlib.suppress(KeyError):
            self.selector.unregister(link)
        self.selector.unregister(process)
        link.close()
        os.close(process)

    def _gone(self, process: int) -> None:
        """The program was killed: so is what it runs."""
        if process not in self.children:
            return
        _, link, target = self.children[process]
        self.selector.unregister(link)
        with contextlib.suppress(ProcessLookupError):
            os.kill(target, signal.SIGKILL)

    def _end(self) -> None:
        for child, _, target in self.children.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(target, signal.SIGKILL)
            os.waitpid(child, 0)


def kind_asked_for(listening: list[socket.socket]) -> int | None:
    """Become, in a process of its own, the one of a kind that is asked for; None at the end of all."""
    selector = selectors.DefaultSelector()
    selector.register(0, selectors.EVENT_READ)
    for number, each in enumerate(listening):
        selector.register(each, selectors.EVENT_READ, number)
    kinds: list[int] = []
    while True:
        for key, _ in selector.select():
            if key.fileobj == 0:
                for kind in kinds:
                    os.waitpid(kind, 0)
                return None
            if (kind := os.fork()) == 0:
                selector.close()
                for number, each in enumerate(listening):
                    if number != key.data:
                        each.close()
                return int(key.data)
            kinds.append(kind)
            selector.unregister(key.fileobj)
            key.fileobj.close()


def main(folder: Path) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    listening = []
    for number in range(len(KINDS)):
        listening.append(socket.socket(socket.AF_UNIX))
        listening[-1].bind(str(folder / str(number)))
        listening[-1].listen(64)
    print("listening", flush=True)
    if (kind := kind_asked_for(listening)) is None:
        return
    for library in KINDS[kind]:
        with contextlib.suppress(ImportError):  # a hosted notebook has not all of them
            importlib.import_module(library)
    gc.collect()
    gc.freeze()
    used = resource.getrusage(resource.RUSAGE_SELF)
    with (folder / SPENT).open("a", encoding="ascii") as file:
        file.write(f"{used.ru_utime + used.ru_stime}\n")
    if (task := Nursery(listening[kind], folder).next_task()) is not None:
        task.run()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
