"""What keeps this machine from confining commands, and what to do about it: for people, not for choosing a means."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

LANDLOCK_CREATE_RULESET = 444
LANDLOCK_CREATE_RULESET_VERSION = 1
TRIAL_SECONDS = 3.0

_RESTRICTED_BY_APPARMOR = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
_USER_NAMESPACES = Path("/proc/sys/user/max_user_namespaces")
_CLONING = Path("/proc/sys/kernel/unprivileged_userns_clone")


@dataclass(frozen=True, slots=True)
class Means:
    """One way to confine commands: `found` is what there is of it, `lacking` why it does not work ("": it does)."""

    name: str
    found: str
    lacking: str = ""
    advice: str = ""


def all_means(environ: Mapping[str, str], platform: str = sys.platform) -> tuple[Means, ...]:
    """The means that this system could have, each tried or looked at."""
    if platform.startswith("linux"):
        return (landlock(landlock_version()), bubblewrap(environ))
    if platform == "darwin":
        return (sandbox_exec(environ),)
    return (
        Means("a sandbox", "", "there is none for this system", "Run Jupyter in WSL2, in a container, or on Linux."),
    )


def why_unconfined(environ: Mapping[str, str]) -> str:
    """The reasons why no means works here, in one line."""
    reasons = [f"{means.name}: {means.lacking}" for means in all_means(environ) if means.lacking]
    return "; ".join(reasons) or "what this system has for it does not work"


def landlock_version() -> int:
    """The version of Landlock that the kernel has; 0 for none, or where it is not let through."""
    libc = ctypes.CDLL(None, use_errno=True)
    found = libc.syscall(LANDLOCK_CREATE_RULESET, None, ctypes.c_size_t(0), LANDLOCK_CREATE_RULESET_VERSION)
    return max(int(found), 0)


def landlock(version: int) -> Means:
    """Judge what the kernel's version of Landlock is good for."""
    if version == 0:
        where = " or this container's filter of system calls does not let it through" if in_container() else ""
        advice = "A kernel from 5.13 on with Landlock among its security modules (`lsm=landlock,…` at boot)."
        if in_container():
            advice = "Docker from 23 on lets it through, gVisor does not. Or bubblewrap, where namespaces are allowed."
        return Means("Landlock", "", f"the kernel has none{where}", advice)
    found = f"version {version}"
    open_ends = {4: "TCP connections", 6: "signals to other processes"}
    left = [what for least, what in open_ends.items() if version < least]
    advice = f"A newer kernel bounds {' and '.join(left)} as well." if left else ""
    return Means("Landlock", found, "", advice)


def bubblewrap(environ: Mapping[str, str]) -> Means:
    """bubblewrap, tried with the namespaces that confining a command takes."""
    program = _program("bwrap", environ)
    if program is None:
        return Means("bubblewrap", "", "it is not installed", f"Install it: {_install('bubblewrap')}")
    said = _try_bubblewrap(program)
    if not said:
        return Means("bubblewrap", str(program))
    return Means("bubblewrap", str(program), f"it does not work: {said}", _advice_on_namespaces())


def sandbox_exec(environ: Mapping[str, str]) -> Means:
    """macOS's own; every one has it."""
    program = _program("sandbox-exec", environ)
    if program is None:
        return Means("sandbox-exec", "", "it is not on PATH", "It is in /usr/bin: have that on PATH.")
    return Means("sandbox-exec", str(program))


def in_container() -> bool:
    """Return whether this process seems to run in a container."""
    return any(Path(each).exists() for each in ("/.dockerenv", "/run/.containerenv")) or (
        "KUBERNETES_SERVICE_HOST" in os.environ
    )


def _program(name: str, environ: Mapping[str, str]) -> Path | None:
    # what is relative on PATH may come with the project
    folders = [folder for folder in environ.get("PATH", os.defpath).split(os.pathsep) if Path(folder).is_absolute()]
    found = shutil.which(name, path=os.pathsep.join(folders))
    return None if found is None else Path(found)


def _try_bubblewrap(program: Path) -> str:
    """What bubblewrap says when it cannot; "" when it can."""
    flags = [
        "--unshare-user",
        "--unshare-net",
        "--unshare-pid",
        "--ro-bind",
        "/",
        "/",
        "--dev",
        "/dev",
        "--proc",
        "/proc",
    ]
    try:
        tried = subprocess.run(
            [program, *flags, "--", "/bin/true"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TRIAL_SECONDS,
            check=False,
            env={"PATH": os.defpath},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    lines = tried.stderr.decode("utf-8", "replace").strip().splitlines()
    return (lines[-1] if lines else f"exit code {tried.returncode}") if tried.returncode else ""


def _advice_on_namespaces() -> str:
    if _number(_RESTRICTED_BY_APPARMOR) == 1:
        return (
            "AppArmor keeps user namespaces from programs without a profile (Ubuntu from 23.10 on): install one for bwrap "
            "(apt install apparmor-profiles, then the profile bwrap-userns-restrict)."
        )
    if _number(_USER_NAMESPACES) == 0 or _number(_CLONING) == 0:
        return "User namespaces are off: sysctl -w user.max_user_namespaces=15000 (and kernel.unprivileged_userns_clone=1)."
    if in_container():
        return "This container may make no namespaces, or its /proc is masked: Landlock is what works here, if it is there."
    return "It needs user namespaces; its own words say what is missing."


def _number(file: Path) -> int | None:
    try:
        return int(file.read_text("ascii"))
    except (OSError, ValueError):
        return None


def _install(package: str) -> str:
    return " or ".join(_commands(package)) or f"your system's package {package}"


def _commands(package: str) -> Iterator[str]:
    for program, command in (
        ("apt-get", "apt install"),
        ("dnf", "dnf install"),
        ("pacman", "pacman -S"),
        ("apk", "apk add"),
    ):
        if shutil.which(program):
            yield f"{command} {package}"
