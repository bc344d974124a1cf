"""`cellwright doctor`, `setup`, `update`: what keeps this installation from working, IPython that loads it, its upgrade."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from cellwright.commands.installation import page_of, upgrade_sections
from cellwright.config.settings.settings_files import start_folder
from cellwright.doctor.examination import ExaminedEnvironment, examine
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.terminal.exit_codes import ExitCode
from cellwright.terminal.views.streams import Streams, confirmed, print_line
from cellwright.this_process.late_imports import importing

FILE = "05-cellwright.py"
CONTENT = """\
# Written by `cellwright setup`: %%claude works without %load_ext. `cellwright setup --remove` takes this file away.
try:
    get_ipython().extension_manager.load_extension("cellwright")
except ModuleNotFoundError:
    pass  # this environment has no Cellwright
"""
"""A file of our own among those that IPython runs when it starts: no configuration of the user's is edited."""


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


def setup(argv: Sequence[str]) -> int:
    """Do what `argv` says. Raises `CellwrightError` FILE_ACCESS_ERROR where the profile cannot be written."""
    parser = argparse.ArgumentParser(
        prog="cellwright setup",
        description="Have IPython load Cellwright whenever it starts, so that %%claude works in every kernel and console of "
        "the profile. JupyterLab and Jupyter Notebook 7 do not need this: there %%claude loads the package by itself.",
        allow_abbrev=False,
    )
    parser.add_argument("--remove", action="store_true", help="take it out again")
    parser.add_argument("--yes", action="store_true", help="do it without asking")
    parser.add_argument("--profile", default="default", metavar="NAME", help="the IPython profile (default)")
    options = parser.parse_args(argv)
    with importing:
        from IPython.paths import get_ipython_dir  # takes its time, and only this command needs it

    file = Path(get_ipython_dir()) / f"profile_{options.profile}" / "startup" / FILE
    if options.remove:
        return _remove(file)
    if _content_of(file) == CONTENT:
        print(f"It is set up already: {file}")
        return ExitCode.OK
    streams = Streams(stdin=sys.stdin, stdout=sys.stdout, stderr=sys.stderr, environ=os.environ)
    if not options.yes and not confirmed(streams, f"Write {file}, which loads Cellwright whenever IPython starts?"):
        print_line("Nothing was changed. `--yes` does it without a question.", sys.stdout)
        return ExitCode.OK
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(CONTENT, "utf-8")
    except OSError as error:
        raise _no_access(file, error) from None
    print(f"Written: {file}")
    said = "%%claude works in kernels and consoles that start from now on. `cellwright setup --remove` takes it out."
    print_line(said, sys.stdout)
    return ExitCode.OK


def _remove(file: Path) -> int:
    if _content_of(file) is None:
        print("Nothing to take out: it was not set up.")
        return ExitCode.OK
    try:
        file.unlink()
    except OSError as error:
        raise _no_access(file, error) from None
    print(f"Taken out: {file}")
    return ExitCode.OK


def _content_of(file: Path) -> str | None:
    try:
        return file.read_text("utf-8")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _no_access(file, error) from None


def _no_access(file: Path, error: OSError) -> CellwrightError:
    return CellwrightError(ErrorCode.FILE_ACCESS_ERROR, f"{file}: {error.strerror}. Nothing was changed.")


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
