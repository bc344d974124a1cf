"""`cellwright auth`: which credential is in force, and where it comes from; never the credential."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence

from cellwright.commands.status import NO_KEY, key_source
from cellwright.config.settings.read import start_folder
from cellwright.config.settings.settings_in_force import SettingsInForce
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.terminal.exit_codes import ExitCode


def auth(argv: Sequence[str]) -> int:
    """Say what gives the key and where requests go; CREDENTIAL where nothing gives one."""
    parser = argparse.ArgumentParser(
        prog="cellwright auth",
        description="Say which key or platform is in force here and where it comes from; the key itself is not shown, and "
        "nothing is sent. `cellwright doctor` asks whether the API takes it. The exit code is 3 when there is none.",
        allow_abbrev=False,
    )
    parser.add_argument("command", nargs="?", choices=("status", "login", "logout"), default="status")
    parser.add_argument("--json", action="store_true", help="one JSON object, for programs")
    options = parser.parse_args(argv)
    if options.command != "status":
        message = (
            f"`cellwright auth {options.command}` is not there yet: a key is given by ANTHROPIC_API_KEY, by `apiKeyHelper` "
            "in ~/.claude/settings.json, or by signing in with `ant auth login`."
        )
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    in_force = SettingsInForce(start_folder(os.environ), os.environ)
    settings, environment = in_force.settings, in_force.environment
    source = key_source(settings, environment)
    address = environment.get("ANTHROPIC_BASE_URL") or None
    if options.json:
        print(json.dumps({"source": None if source == NO_KEY else source, "base_url": address}))
    else:
        print(f"key      {source}\nsent to  {address or 'the address of the API or platform'}")
    return ExitCode.CREDENTIAL if source == NO_KEY else ExitCode.OK
