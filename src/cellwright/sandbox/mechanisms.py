"""The means by which this machine can confine a command, found out by trying, and the start of a confined command.

Nothing is tried when this is imported; the first question finds out, and the answer holds for the process.

Commands that have no use for processes are confined without any view of them, and so by the faster mechanism. This is
about speed and about what works, and nothing rests on it: a command that is taken for plain cannot look at processes,
whatever its text hides. So the text is read roughly, and what is not understood is not plain.
"""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import shlex
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath

from msgspec import Struct, structs

from cellwright.agent.calls.approval import Confinement
from cellwright.permissions.paths import leads_astray
from cellwright.permissions.sandboxing import SandboxAbilities
from cellwright.sandbox import bubblewrap, git_configuration, landlock, seccomp, staging
from cellwright.sandbox.confined_process import ConfinedProcess, marking
from cellwright.sandbox.paths import KNOB, PLAIN, Places, below
from cellwright.sandbox.private_folder import PrivateFolder
from cellwright.sandbox.profile import confined_environment, home_folder
from cellwright.sandbox.resolved_bounds import Bounds, ConfinementError, bounds_of, session_folders
from cellwright.text import lazy_pattern
from cellwright.this_process.files import scratch_folder

TRY_SECONDS = 30.0
"""A busy machine must not lose what a free one has."""


KERNEL_IS_OPEN = "it lets a command change the settings of the kernel"
PROCESSES_ARE_SHOWN = "it shows a command the processes of others"
_FAILURES = {3: KERNEL_IS_OPEN, 4: PROCESSES_ARE_SHOWN}
_CANARIES = """
cat seen && ! cat hidden || exit 1
! test -e "$1" || ! (: >> "$1") 2> /dev/null || exit 3
! test -e /proc/self/stat || { read -r number _ < /proc/self/stat && test "$number" = "$$"; } || exit 4
"""
"""One file is read and another is not; a setting of the kernel is not opened for writing (nothing is written); and `/proc`
is that of the sandbox, in which processes have other numbers."""

Start = Callable[[Sequence[str], Mapping[str, str], Sequence[int]], "subprocess.Popen[bytes]"]
"""Starts a program: its arguments, its environment, and descriptors that it gets besides its own."""

_SHELLS = frozenset({"bash", "sh", "dash"})
_PLAIN_PROGRAMS = frozenset(
    (
        *(
            ":",
            "[",
            "[[",
            "test",
            "true",
            "false",
            "echo",
            "printf",
            "cd",
            "pwd",
            "read",
            "set",
            "export",
            "local",
            "unset",
        ),
        *(
            "shift",
            "exit",
            "return",
            "break",
            "continue",
            "trap",
            "wait",
            "type",
            "which",
            "whoami",
            "id",
            "uname",
            "date",
        ),
        *("ls", "cat", "head", "tail", "tac", "wc", "sort", "uniq", "cut", "tr", "sed", "awk", "gawk", "mawk", "grep"),
        *("egrep", "fgrep", "zgrep", "rg", "find", "fd", "stat", "file", "du", "tree", "diff", "cmp", "comm", "join"),
        *("paste", "column", "nl", "rev", "fold", "fmt", "expand", "unexpand", "od", "xxd", "hexdump", "strings", "jq"),
        *(
            "basename",
            "dirname",
            "realpath",
            "readlink",
            "md5sum",
            "sha1sum",
            "sha256sum",
            "sha512sum",
            "b2sum",
            "cksum",
        ),
        *("base64", "seq", "sleep", "nproc", "tar", "gzip", "gunzip", "zcat", "bzip2", "bzcat", "xz", "xzcat", "zstd"),
        *("zip", "unzip", "zipinfo", "git", "touch", "mkdir", "mktemp", "rm", "cp", "mv", "ln", "tee", "dd", "expr"),
        *("numfmt", "shuf", "split", "tsort", "getconf", "locale", "iconv", "nm", "objdump", "readelf", "size"),
    )
)
_INTRODUCING = frozenset({"if", "then", "else", "elif", "while", "until", "do", "!", "{", "time"})
_ALONE = frozenset({"fi", "done", "}"})

_QUOTED = lazy_pattern(r"""\\.|'[^']*'|"(?:[^"\\$`]|\\.|\$(?!\())*\"""")
_BETWEEN_COMMANDS = lazy_pattern(r"[;&|()\n`]")
_REDIRECT = lazy_pattern(r"&?\d*[<>]+(?:&(?:\d+|-)|\s*[^\s<>()&;|]+)")
_RUNS_OTHERS = lazy_pattern(
    rf"/proc(?!/(?:{'|'.join(PLAIN)})(?![\w-]))|\bsystem\b|\s-(?:exec|execdir|ok|okdir)\b|\s-x\b|--exec|getline|--to-command"
)

_EVALUATES = lazy_pattern(r"""\beval (?P<word>(?:'[^']*'|"'"|[\w@%+=:,./-])+) \d+>&-\Z""")

_SYSCTL = Path("/proc/sys")
_CONTAINER_MARKS = ("/.dockerenv", "/run/.containerenv")
_INSTALLERS = {
    "apt-get": "apt install",
    "dnf": "dnf install",
    "zypper": "zypper install",
    "pacman": "pacman -S",
    "apk": "apk add",
}


class Sandbox(Struct, frozen=True):
    """The means of this machine: Landlock by its version (0: not), bubblewrap by its path ("": not), macOS's own.

    `stages`: what a command changes can be looked at before it is done, with bubblewrap.
    """

    landlock: int = 0
    bubblewrap: str = ""
    seatbelt: bool = False
    stages: bool = False

    @property
    def abilities(self) -> SandboxAbilities:
        """The powers that the policy may count on."""
        if self.seatbelt:
            return SandboxAbilities(
                name="sandbox-exec", hides=True, protects=True, hosts=True, why_not=self.can_enforce
            )
        names = [*(["bubblewrap"] if self.bubblewrap else []), *(["Landlock"] if self.landlock else [])]
        mounts = bool(self.bubblewrap)
        # with Landlock, what is hidden is left out of rules: `can_enforce` says where that would take too many
        return SandboxAbilities(
            name=" and ".join(names),
            hides=True,
            protects=mounts,
            hosts=mounts,
            protects_patterns=mounts and self.stages,
            why_not=self.can_enforce,
        )

    def can_enforce(self, confinement: Confinement) -> str:
        """Say why `confinement` cannot be enforced here; "" where it can. The answer may be some seconds old."""
        # a call is judged several times, and each time may take looking through a folder for what a pattern hides
        when = int(time.monotonic() // 5)
        # a confinement is compared without its patterns
        return _why_not(self, confinement, confinement.hides, confinement.protects, when)

    def start(
        self,
        start: Start,
        arguments: Sequence[str],
        confinement: Confinement,
        *,
        cwd: Path,
        environ: Mapping[str, str],
        private: PrivateFolder,
        proxy_port: int | None = None,
        own_variables: Mapping[str, str] | None = None,
        processes: bool = True,
        mark: int | None = None,
    ) -> ConfinedProcess:
        """Have `start` start `arguments` so that they keep within `confinement`.

        `environ` is the session's, and says where the programs lie that may be read; `own_variables` are the command's, and
        say nothing about that. `proxy_port` is where the proxy listens that decides which hosts are reached. `processes`:
        the command may have a use for processes, so it gets the mechanism that hides those of others, if there is one.
        `mark` is carried by all that it starts, where nothing else holds them together. Raises ConfinementError if all that
        cannot be enforced, and what `start` raises.
        """
        if confinement.container is not None:
            return self._start_in_files(
                start, arguments, confinement, cwd=cwd, environ=environ, private=private, own_variables=own_variables
            )
        steering = confined_environment(environ, private.temporary, private.caches)
        copied = copied_configuration(confinement, steering, private)
        copies = (f"{private.path}/{git_configuration.FOLDER}",) if copied else ()
        bounds = bounds_of(confinement, steering, str(cwd), private.writable, copies)
        variables = {**environ, **copied, **(own_variables or {})}
        own = confined_environment(variables, private.temporary, private.caches)
        if not confinement.write:
            # coverage's data belong to the project, where they can be written
            own["COVERAGE_FILE"] = f"{private.caches}/coverage"
        stageable = self._check_staged(bounds)
        if bounds.network == "hosts" and proxy_port is None:
            message = "it may reach some hosts only, and the proxy that decides about them does not run"
            raise ConfinementError(message)
        if bounds.network == "hosts" and proxy_port is not None:
            # the address that the command was given has its secret in it
            from cellwright.sandbox import network  # few commands may reach hosts

            own = {**network.proxy_environment(proxy_port), **own}
        if self.seatbelt:
            from cellwright.sandbox import seatbelt  # for macOS alone

            return ConfinedProcess(start([*seatbelt.arguments(bounds, proxy_port), *arguments], own, ()))
        if not self._mounts(bounds, processes=processes):
            landlock.check(bounds)
            with contextlib.nullcontext() if mark is None else marking(mark):
                process = landlock.start_confined(
                    bounds, lambda: start(arguments, own, ()), self.landlock, processes=processes
                )
            return ConfinedProcess(process)
        bubblewrap.check(bounds)
        with contextlib.ExitStack() as held, contextlib.ExitStack() as meanwhile:
            staged = None
            if bounds.staged:
                staged = staging.Staging(stageable, private.new_folder())
                held.callback(private.remove_meanwhile, staged.close)
            else:
                bounds = bubblewrap.with_placeholders(bounds, held)
            command, inherited = list(arguments), []
            if bounds.network == "hosts" and proxy_port is not None:
                way_out = held.enter_context(contextlib.closing(network.WayOut(proxy_port)))
                meanwhile.callback(way_out.started)
                inherited.append(way_out.theirs.fileno())
                command = network.proxied(command, way_out.theirs.fileno(), proxy_port)
            return self._start_mounted(
                start,
                command,
                own,
                confinement,
                bounds,
                private,
                held,
                meanwhile,
                cwd=cwd,
                staged=staged,
                inherited=inherited,
            )

    def _start_in_files(
        self,
        start: Start,
        arguments: Sequence[str],
        confinement: Confinement,
        *,
        cwd: Path,
        environ: Mapping[str, str],
        private: PrivateFolder,
        own_variables: Mapping[str, str] | None,
    ) -> ConfinedProcess:
        """The same with an image's files as the root, by bubblewrap alone."""
        from cellwright.sandbox.containers import images  # few sessions have a container

        container = confinement.container
        if container is None or not self.bubblewrap:
            message = "the container's files are shown by bubblewrap, which does not work here"
            raise ConfinementError(message)
        files = images.files_of(container)
        bounds = bounds_of(confinement, environ, str(cwd), private.writable)
        stageable = self._check_staged(bounds)
        bubblewrap.check(bounds)
        own = images.environment(files, container, environ, own_variables or {}, private)
        shown = (*bounds.read, *bounds.data, *bounds.write, *bounds.temporary)
        root = images.root_arguments(
            files, container, shown, writable=confinement.keeps_installed and images.keeps_changes(container)
        )
        with contextlib.ExitStack() as held, contextlib.ExitStack() as meanwhile:
            staged = None
            if bounds.staged:
                staged = staging.Staging(stageable, private.new_folder())
                held.callback(private.remove_meanwhile, staged.close)
            else:
                bounds = bubblewrap.with_placeholders(bounds, held)
            return self._start_mounted(
                start, arguments, own, confinement, bounds, private, held, meanwhile, cwd=cwd, staged=staged, root=root
            )

    def _start_mounted(
        self,
        start: Start,
        command: Sequence[str],
        own: Mapping[str, str],
        confinement: Confinement,
        bounds: Bounds,
        private: PrivateFolder,
        held: contextlib.ExitStack,
        meanwhile: contextlib.ExitStack,
        *,
        cwd: Path,
        staged: staging.Staging | None,
        root: Sequence[str] = (),
        inherited: Sequence[int] = (),
    ) -> ConfinedProcess:
        """Start `command` by bubblewrap; what is `held` goes with the process, `meanwhile` with the start."""
        # in a container its parts speak with each other, as a kernel does with who starts it: its network is its own
        filter_fd = bubblewrap.open_filter(structs.replace(bounds, network="any") if root else bounds)
        meanwhile.callback(os.close, filter_fd)
        status, told = bubblewrap.open_status()
        meanwhile.callback(os.close, told)
        before = bubblewrap.arguments(
            self.bubblewrap,
            bounds,
            private,
            cwd=str(cwd),
            filter_fd=filter_fd,
            status_fd=told,
            staged=staged,
            root=root,
        )
        whole = [*before, *command]
        try:
            process = start(whole if staged is None else staged.wrapped(whole), own, (*inherited, filter_fd, told))
        except BaseException:
            os.close(status)
            raise
        finish = None if staged is None else functools.partial(staged.finish, _against(confinement))
        return ConfinedProcess(process, held.pop_all(), status, finish)

    def check(self, confinement: Confinement) -> None:
        """Raise ConfinementError where a command with our environment could not be started within `confinement`."""
        cwd = next(iter((*confinement.write, *confinement.read)), "/")
        bounds = bounds_of(confinement, os.environ, cwd)
        self._check_staged(bounds)
        if not self.seatbelt:
            (bubblewrap if self._mounts(bounds) else landlock).check(bounds)

    def _check_staged(self, bounds: Bounds) -> tuple[str, ...]:
        """Return the folders whose changes are staged. Raises ConfinementError if one that must be cannot."""
        if not bounds.staged:
            return ()
        if not (self.bubblewrap and self.stages):
            message = "a pattern says which files may not be written, and files that do not exist yet could match it"
            raise ConfinementError(message)
        staging.check_staged([folder for folder in bounds.write if folder not in bounds.unstaged])
        return tuple(each for each in bounds.write if each not in bounds.unstaged or not staging.why_unstaged(each))

    def _mounts(self, bounds: Bounds, *, processes: bool = False) -> bool:
        """Return whether bubblewrap is to enforce `bounds`, and not Landlock, which is faster and shows all `processes`."""
        needed = bounds.hidden or bounds.write or bounds.network == "hosts" or processes
        if self.bubblewrap and (needed or not self.landlock):
            return True
        if bounds.network == "hosts":
            message = "Landlock bounds the network by port and not by host; that needs bubblewrap"
            raise ConfinementError(message)
        inside = [path for path in (*bounds.protected, *bounds.hidden) if any(below(path, top) for top in bounds.write)]
        if inside:
            message = f"Landlock cannot take {inside[0]} out of a folder that may be written; that needs bubblewrap"
            raise ConfinementError(message)
        return False


def copied_configuration(
    confinement: Confinement, environ: Mapping[str, str], private: PrivateFolder
) -> Mapping[str, str]:
    """The variable that has git read a copy of the user's configuration without secrets; {} if there is none."""
    home = home_folder(environ)
    found = git_configuration.git_configuration(environ, home, session_folders(confinement))
    copy = git_configuration.write_copy(found, private.path)
    return {"GIT_CONFIG_GLOBAL": copy} if copy else {}


def _against(confinement: Confinement) -> Callable[[str, str], str]:
    """Return what says why a path may not be changed to what stands at another one ("": nothing); "" if it may be."""
    protects, admits = confinement.protects, confinement.admits
    protected = Places().real(confinement.protected)

    def against(path: str, made: str) -> str:
        if any(below(path, place) for place in protected):
            return "is protected"
        # of what goes it is asked what it was
        if protects is not None and protects(path) and not (admits is not None and admits(path, made or path)):
            return "is protected"
        if made and os.path.islink(made) and leads_astray(path):  # noqa: PTH114
            return "would be a link that gives protected names to what it leads to"
        return ""

    return against


@functools.lru_cache(maxsize=32)
def _why_not(sandbox: Sandbox, confinement: Confinement, *_compared: Hashable) -> str:
    try:
        sandbox.check(confinement)
    except ConfinementError as error:
        return str(error)
    return ""


def find_sandbox() -> Sandbox | None:
    """The sandbox of this machine; None where it has none."""
    return _found()[0]


def missing_means() -> Mapping[str, str]:
    """The means that this machine does not have, each with the reason; "staging" where bubblewrap is there without it."""
    return _found()[1]


@functools.cache
def _found() -> tuple[Sandbox | None, Mapping[str, str]]:
    if sys.platform == "darwin":
        reason = try_hiding(Sandbox(seatbelt=True))
        return (None, {"sandbox-exec": reason}) if reason else (Sandbox(seatbelt=True), {})
    if sys.platform != "linux":
        return None, {"sandbox": f"there is none for {platform.system()}"}
    if not seccomp.machine():
        return None, {"seccomp": f"there is no filter for {os.uname().machine}"}
    version = landlock.abi()
    tried = {"Landlock": try_landlock(version), "bubblewrap": try_bubblewrap(bubblewrap.find_program())}
    missing = {name: reason for name, reason in tried.items() if reason}
    if len(missing) == len(tried):
        return None, missing
    mounts = "bubblewrap" not in missing
    unstaged = staging.why_not_staged() if mounts else ""
    if unstaged:
        missing["staging"] = unstaged
    sandbox = Sandbox(
        landlock=0 if "Landlock" in missing else version,
        bubblewrap=bubblewrap.find_program() if mounts else "",
        stages=mounts and not unstaged,
    )
    return sandbox, missing


def try_landlock(version: int) -> str:
    """Restrict a thread as Landlock of `version` can (0: there is none) and see whether it is; "" or what is wrong."""
    if not version:
        return "this Linux has no Landlock, or has it switched off"
    if version < landlock.LEAST_ABI:
        return landlock.too_old(version)
    try:
        return landlock.start_confined(Bounds(read=("/usr",), data=("/proc",)), _leak, version)
    except OSError as error:
        return str(error)


def _leak() -> str:
    """Do what is forbidden to a thread that may read `/usr` and `/proc` only; "" where it was refused."""
    with contextlib.suppress(PermissionError):
        os.close(os.open("/", os.O_RDONLY | os.O_DIRECTORY))
        return "Landlock does not refuse what it should"
    with contextlib.suppress(OSError):  # a container may have mounted it read-only
        os.close(os.open(KNOB, os.O_WRONLY))
        return KERNEL_IS_OPEN
    with contextlib.suppress(PermissionError):
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close()
        return "seccomp does not refuse what it should"
    os.close(os.open("/usr", os.O_RDONLY | os.O_DIRECTORY))
    return ""


def try_bubblewrap(bwrap: str) -> str:
    """Return what is wrong with the program at `bwrap`; "" where nothing is."""
    if not bwrap:
        return "bwrap is not installed (Debian, Ubuntu, Fedora: the package bubblewrap)"
    return try_hiding(Sandbox(bubblewrap=bwrap))


def try_hiding(sandbox: Sandbox) -> str:
    """Have `sandbox` hide one file of two and see whether it does; "" or what is wrong."""
    try:
        # a process may end meanwhile, and clears the folder away on another thread
        with scratch_folder("canaries") as made, contextlib.closing(PrivateFolder()) as private:
            return _hides(sandbox, made, private)
    except subprocess.TimeoutExpired:
        return f"it did not end within {TRY_SECONDS:.0f} s"
    except OSError as error:
        return str(error)


def _hides(sandbox: Sandbox, folder: Path, private: PrivateFolder) -> str:
    seen, hidden = folder / "seen", folder / "hidden"
    for canary in (seen, hidden):
        canary.write_text("canary", "utf-8")

    def start(
        arguments: Sequence[str], environ: Mapping[str, str], inherited: Sequence[int]
    ) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            arguments,
            cwd=folder,
            env=environ,
            pass_fds=inherited,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    confined = sandbox.start(
        start,
        ["/bin/sh", "-c", _CANARIES, "sh", KNOB],
        Confinement(read=(str(folder),), hidden=(str(hidden),)),
        cwd=folder,
        environ={"PATH": os.defpath, "HOME": str(folder)},
        private=private,
    )
    with contextlib.closing(confined), confined.process as process:
        try:
            output, errors = process.communicate(timeout=TRY_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        code = confined.wait()
    if code in _FAILURES:
        return _FAILURES[code]
    if code or output != b"canary":
        return f"it does not do its work here: {errors.decode('utf-8', 'replace').strip() or f'exit code {code}'}"
    return ""


def may_look_at_processes(arguments: Sequence[str]) -> bool:
    """Return whether a program, or a script in its arguments, may have a use for what `/proc` shows of processes."""
    program = PurePath(arguments[0]).name
    if program not in _SHELLS:
        return program not in _PLAIN_PROGRAMS or bool(_RUNS_OTHERS.search(" ".join(arguments)))
    if "-c" not in arguments[:-1]:
        return True
    script = arguments[list(arguments).index("-c") + 1]
    # what it evaluates at its end, in place of the quoted word: the tool Bash starts each command so
    if (found := _EVALUATES.search(script)) is not None:
        script = script[: found.start()] + "".join(shlex.split(found["word"]))
    return bool(_RUNS_OTHERS.search(script)) or not all(name in _PLAIN_PROGRAMS for name in _programs(script))


def _programs(script: str) -> Iterator[str]:
    """The first words of what may be commands; what stands in quotes is no command, unless it runs one."""
    for text in _BETWEEN_COMMANDS.split(_REDIRECT.sub(" ", _QUOTED.sub("x", script))):
        words = text.replace('"', " ").split()
        while words and (words[0] in _INTRODUCING or (words[0].partition("=")[0].isidentifier() and "=" in words[0])):
            words.pop(0)
        if words and words[0] not in ("for", "in", "$", "<", ">") and not (words[0] in _ALONE and len(words) == 1):
            yield words[0]


def advice_on(means: str, *, sysctl: Path = _SYSCTL, container: bool | None = None) -> str:
    """Say what can be done to have `means`, as `missing_means` calls it; `sysctl` holds the kernel's settings."""
    container = in_container() if container is None else container
    if means == "bubblewrap":
        return _on_bubblewrap(sysctl, container=container)
    if means == "Landlock":
        if container:
            return "The host's Linux decides (6.2 or newer); Docker lets Landlock through from 23 on, gVisor does not."
        return "It takes Linux 6.2 or newer that was started with it (`landlock` in /sys/kernel/security/lsm)."
    if means == "staging":
        return "It takes Linux 5.11, unshare and mount (util-linux), and temporary files on a disk that takes overlays."
    if sys.platform == "win32":
        return "Run Jupyter in WSL2 or in a container."
    return ""


def in_container() -> bool:
    """Return whether this process seems to run in a container."""
    return "KUBERNETES_SERVICE_HOST" in os.environ or any(Path(mark).exists() for mark in _CONTAINER_MARKS)


def _on_bubblewrap(sysctl: Path, *, container: bool) -> str:
    if shutil.which("bwrap") is None:
        installer = next((command for name, command in _INSTALLERS.items() if shutil.which(name)), None)
        return f"{installer} bubblewrap" if installer else "Install your system's package bubblewrap."
    if _number(sysctl / "kernel" / "apparmor_restrict_unprivileged_userns") == 1:
        return (
            "AppArmor keeps user namespaces from programs without a profile (Ubuntu 24.04): give bwrap one "
            "(apt install apparmor-profiles, and load bwrap-userns-restrict of its extra profiles)."
        )
    switches = {"user/max_user_namespaces": "user.max_user_namespaces=15000"}
    switches["kernel/unprivileged_userns_clone"] = "kernel.unprivileged_userns_clone=1"
    if off := [setting for file, setting in switches.items() if _number(sysctl / file) == 0]:
        return f"User namespaces are switched off: sysctl -w {' '.join(off)}"
    if container:
        return "Most containers may make no user namespaces; Landlock needs none."
    return "It needs user namespaces; its own words say what keeps it from them."


def _number(file: Path) -> int | None:
    try:
        return int(file.read_text("ascii"))
    except (OSError, ValueError):
        return None
