"""`cellwright setup`: `%%claude` in every kernel and console of an IPython profile, without `%load_ext`; and out again."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.terminal.exit_codes import ExitCode
from cellwright.terminal.views.choose_view import Streams, confirmed
from cellwright.terminal.views.printed_line import print_line
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
    file = _startup_folder(options.profile) / FILE
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


def _startup_folder(profile: str) -> Path:
    with importing:
        from IPython.paths import get_ipython_dir  # takes its time, and only this command needs it

    return Path(get_ipython_dir()) / f"profile_{profile}" / "startup"


def _content_of(file: Path) -> str | None:
    try:
        return file.read_text("utf-8")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _no_access(file, error) from None


def _no_access(file: Path, error: OSError) -> CellwrightError:
    return CellwrightError(ErrorCode.FILE_ACCESS_ERROR, f"{file}: {error.strerror}. Nothing was changed.")
