"""`/upgrade`: the command that upgrades this installation, and what has to be started anew after it."""

from __future__ import annotations

from cellwright.commands.command import CommandCall, CommandPage, Section
from cellwright.doctor.upgrading import find_upgrade
from cellwright.version import VERSION

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
