"""`/upgrade`: the command that upgrades this installation, and what has to be started anew after it.

The program that installed the package upgrades it; the files it left behind name it.
"""

from __future__ import annotations

import importlib.metadata
import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from cellwright.commands.command import CommandCall, CommandPage, Section
from cellwright.version import VERSION

NAME = "cellwright"
RESTARTS = [
    ("what changed", "what to start anew"),
    ("the agent, the magics, the tools", "each kernel that has loaded Cellwright"),
    ("the panel, the cells' toolbar", "reload the page of JupyterLab"),
    ("the server's part", "Jupyter Server"),
    ("the command `cellwright`", "nothing: the next call is the new one"),
]


def upgrade_page(_call: CommandCall) -> CommandPage:
    """Say how to upgrade; nothing is run."""
    return upgrade_sections()


def upgrade_sections() -> CommandPage:
    """The page, which needs no conversation."""
    found = find_upgrade()
    head = f"Cellwright {VERSION}, installed by {found.installer}"
    restarts = Section("After that", RESTARTS, "Sessions are kept: /resume continues them.")
    return CommandPage([Section(head, text=found.note, code=found.command), restarts])


class Upgrade(Struct, frozen=True):
    """The program that installed us, and the command that upgrades; "" for a checkout, which its owner brings up to date."""

    installer: str
    command: str
    note: str = ""


def _metadata(name: str) -> str:
    """The text of one of the files that were installed beside the package; "" where there is none."""
    try:
        return importlib.metadata.distribution(NAME).read_text(name) or ""
    except (importlib.metadata.PackageNotFoundError, OSError, UnicodeDecodeError):
        return ""


def find_upgrade(
    prefix: Path | None = None, python: str | None = None, metadata: Callable[[str], str] = _metadata
) -> Upgrade:
    """Find out how the installation in `prefix`, whose interpreter is `python`, is upgraded (default: this one).

    `metadata` gives the texts of the files that were installed beside the package.
    """
    prefix, python = prefix or Path(sys.prefix), shlex.quote(python or sys.executable)
    if source := _checkout(metadata("direct_url.json")):
        return Upgrade("a checkout", "", f"It runs from {source}: bring that up to date, then `make build` there.")
    if (prefix / "pipx_metadata.json").exists():
        return Upgrade("pipx", f"pipx upgrade {NAME}")
    if (prefix / "uv-receipt.toml").exists():
        return Upgrade("uv tool", f"uv tool upgrade {NAME}")
    if any((prefix / "conda-meta").glob(f"{NAME}-[0-9]*.json")):
        return Upgrade("conda", f"conda update --prefix {shlex.quote(str(prefix))} {NAME}", "mamba takes the same.")
    if metadata("INSTALLER").strip().lower() == "uv":
        note = f"In a project of uv's: `uv lock --upgrade-package {NAME}`, then `uv sync`."
        return Upgrade("uv", f"uv pip install --python {python} --upgrade {NAME}", note)
    note = (
        "The environment is conda's, and this package pip's: pip upgrades it."
        if (prefix / "conda-meta").is_dir()
        else ""
    )
    return Upgrade("pip", f"{python} -m pip install --upgrade {NAME}", note)


def _checkout(direct_url: str) -> str:
    """The folder that an editable installation runs from; "" for any other."""
    try:
        said = json.loads(direct_url or "{}")
        editable = said.get("dir_info", {}).get("editable") is True
    except (ValueError, AttributeError):
        return ""
    return str(said.get("url", "")).removeprefix("file://") if editable else ""
