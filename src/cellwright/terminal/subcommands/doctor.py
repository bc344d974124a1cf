"""`cellwright doctor`: what keeps Cellwright from working here."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence

from cellwright.commands.installation import page_of
from cellwright.config.settings.settings_files import start_folder
from cellwright.doctor.examination import ExaminedEnvironment, examine
from cellwright.terminal.exit_codes import ExitCode


def doctor(argv: Sequence[str]) -> int:
    """Examine this environment and print what was found; FAILED where something does not work."""
    parser = argparse.ArgumentParser(
        prog="cellwright doctor",
        description="Look at what Cellwright needs here: packages, the key (whether the API takes it; no tokens are spent), "
        "programs, folders, settings. The exit code is 1 when something does not work.",
        allow_abbrev=False,
    )
    parser.add_argument("--json", action="store_true", help="one JSON object, for programs")
    parser.add_argument("--offline", action="store_true", help="do not use the network")
    server = parser.add_argument_group("a server that speaks the Messages API")
    server.add_argument("--server", metavar="URL", help="try what this server can do, with small requests")
    server.add_argument("--model", default="", metavar="NAME", help="the model that is tried (the first it lists)")
    options = parser.parse_args(argv)
    if options.server is not None:
        from cellwright.doctor.messages_api_checks import examine_server  # few have a server of their own

        examination = examine_server(options.server, os.environ, options.model)
    else:
        examination = examine(ExaminedEnvironment(start_folder(os.environ)), offline=options.offline)
    print(json.dumps(examination.to_json()) if options.json else page_of(examination).plain())
    return ExitCode.FAILED if examination.problems else ExitCode.OK
