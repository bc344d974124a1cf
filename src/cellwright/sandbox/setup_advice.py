"""Advice on getting the means to confine commands that a machine lacks, for the doctor and `/sandbox`."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

_SYSCTL = Path("/proc/sys")
_CONTAINER_MARKS = ("/.dockerenv", "/run/.containerenv")
_INSTALLERS = {
    "apt-get": "apt install",
    "dnf": "dnf install",
    "zypper": "zypper install",
    "pacman": "pacman -S",
    "apk": "apk add",
}


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
