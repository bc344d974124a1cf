"""`cellwright plugin`: the same as `/plugin`, without a conversation."""

from __future__ import annotations

import argparse
import asyncio
import getpass
import os
import sys
from collections.abc import Sequence
from typing import Literal

from cellwright.commands.extensions.plugins import PluginCommands
from cellwright.config.plugins.options import PluginOption
from cellwright.config.settings.settings_files import start_folder
from cellwright.config.settings.settings_in_force import SettingsInForce, TrustQuestion
from cellwright.terminal.exit_codes import ExitCode
from cellwright.text import visible


def plugin(argv: Sequence[str]) -> int:
    """Do one plugin command; FAILED where the user was asked and did not say yes. Raises `CellwrightError`."""
    parser = argparse.ArgumentParser(
        prog="cellwright plugin",
        description="Plugins: list, show NAME, install WHAT (NAME@MARKETPLACE, a folder, a repository), enable NAME, "
        "disable NAME, configure NAME [OPTION[=VALUE]], update [NAME], remove NAME, marketplace list, add PLACE, "
        "update [NAME], remove NAME.",
        allow_abbrev=False,
    )
    parser.add_argument("words", metavar="COMMAND", nargs="*", help="default: list")
    parser.add_argument("-y", "--yes", action="store_true", help="accept what is shown without being asked")
    options = parser.parse_intermixed_args(argv)
    refused = False

    async def accept(question: TrustQuestion) -> Literal["yes", "no", "nobody"]:
        nonlocal refused
        print(f"{question.title}?\n{visible(question.detail)}\n{question.reason}", file=sys.stderr)
        if options.yes:
            return "yes"
        answer: Literal["yes", "no", "nobody"] = "nobody"
        if sys.stdin.isatty():
            print(f"{question.yes}? [y/N] ", end="", file=sys.stderr, flush=True)
            answer = "yes" if sys.stdin.readline().strip().lower() in ("y", "yes") else "no"
        refused = refused or answer != "yes"
        return answer

    def ask(option: PluginOption) -> str:
        default = f" [{option.default}]" if option.default is not None else ""
        words = f"{visible(option.words)}{default}: "
        if option.sensitive:
            return getpass.getpass(words, stream=sys.stderr)
        print(words, end="", file=sys.stderr, flush=True)
        return sys.stdin.readline().strip()

    in_force = SettingsInForce(start_folder(os.environ), os.environ)
    can_ask = sys.stdin.isatty()
    page = asyncio.run(PluginCommands(in_force, accept, ask if can_ask else None).do(options.words))
    print(page.plain())
    return ExitCode.FAILED if refused else ExitCode.OK
