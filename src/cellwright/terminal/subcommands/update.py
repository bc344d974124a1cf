"""`cellwright update`: what `/upgrade` says, without a session."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from cellwright.commands.installation import upgrade_sections
from cellwright.terminal.exit_codes import ExitCode


def update(argv: Sequence[str]) -> int:
    """Say how this installation is upgraded; nothing is run, and nothing is sent."""
    parser = argparse.ArgumentParser(
        prog="cellwright update",
        description="The command that upgrades this installation, and what to restart after it. Nothing is run.",
        allow_abbrev=False,
    )
    parser.parse_args(argv)
    print(upgrade_sections().plain())
    return ExitCode.OK
