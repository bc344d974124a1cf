"""`cellwright verify`: the numbers of notebooks' texts held against their outputs, saved ones or those of a fresh run."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, to_builtins

from cellwright.agent.calls.approval import Confinement
from cellwright.config.settings.settings_files import start_folder
from cellwright.config.settings.settings_in_force import SettingsInForce
from cellwright.conversation.runs.in_force import look_for_sandbox
from cellwright.errors import ErrorCode, ToolError
from cellwright.features.numbers.in_notebook import NotebookNumbers, finding_line, notebook_numbers
from cellwright.kernel.cells.fresh_kernel import own_confinement
from cellwright.kernel.cells.notebook_verify import CELL_SECONDS, SECONDS, Verification, named_kernel, run_and_compare
from cellwright.terminal.exit_codes import ExitCode
from cellwright.text import lazy_pattern
from cellwright.tools.notebook.file_notebook import FileNotebook
from cellwright.tools.paths import nearest_names, real_path

_ASKS_CLAUDE = lazy_pattern(
    r"^(?:\s*(?:#[^\n]*)?\n)*\s*%%claude(?=\s|$)|^\s*(?:[\w.]+\s*=\s*)?%claude(?=\s|$)", 8
)  # MULTILINE
DESCRIPTION = """\
Check the numbers that Markdown cells and saved answers of Claude's state against the outputs saved in the same notebook, \
and against small text files that its code reads. Nothing is sent, and without --run nothing is run. \
Exit code 0: nothing to report; 1: a number is stale or not found, or the run with --run ended in a new error; \
2: a notebook cannot be read or run, or wrong arguments."""


class _Verified(Struct, frozen=True):
    path: Path
    numbers: NotebookNumbers
    run: Verification | None = None

    @property
    def fails(self) -> bool:
        return bool(self.numbers.findings) or self.ended_early

    @property
    def ended_early(self) -> bool:
        """Return whether the run has an end that the notebook does not show: a new error, a limit, a dead kernel."""
        if self.run is None:
            return False
        failed = {self.run.cells[index].id for index in self.run.result.failed}
        new_error = any(each.cell.id in failed for each in self.run.differences)
        return new_error or self.run.result.stopped is not None or bool(self.run.not_run)


def verify(argv: Sequence[str]) -> int:
    """Check the notebooks and print what was found; OK, FAILED if a number is stale or not found, USAGE for bad input."""
    parser = argparse.ArgumentParser(prog="cellwright verify", description=DESCRIPTION, allow_abbrev=False)
    parser.add_argument("notebooks", metavar="NOTEBOOK", nargs="+", type=Path)
    parser.add_argument(
        "--run",
        action="store_true",
        help="run a copy from the top in a fresh kernel (in `sandbox.container`, if set), and compare with its outputs",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object a notebook and line, for programs")
    parser.add_argument(
        "--timeout", metavar="SECONDS", type=_seconds, default=SECONDS, help=f"of a whole run (default: {SECONDS})"
    )
    parser.add_argument(
        "--cell-timeout",
        metavar="SECONDS",
        type=_seconds,
        default=CELL_SECONDS,
        help=f"of one cell (default: {CELL_SECONDS})",
    )
    options = parser.parse_args(argv)
    codes = set()
    for path in options.notebooks:
        try:
            found = asyncio.run(_verified(path, options))
        except ToolError as error:
            codes.add(ExitCode.USAGE)
            print(
                json.dumps({"notebook": str(path), "error": str(error)}) if options.json else f"{path}: {error}",
                file=sys.stderr,
            )
            continue
        codes.add(ExitCode.FAILED if found.fails else ExitCode.OK)
        if options.json:
            print(json.dumps(_as_json(found)))
            continue
        run = [] if found.run is None else [found.run.text()]
        findings = (f"- {finding_line(each)}" for each in found.numbers.findings)
        print("\n".join([f"{found.path}: {found.numbers.summary}", *run, *findings]))
    return max(codes)


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds <= 86_400:
        raise argparse.ArgumentTypeError("must be above 0 and at most 86400")
    return seconds


async def _verified(path: Path, options: argparse.Namespace) -> _Verified:
    real = real_path(path)
    if not real.is_file():
        names = nearest_names(path.parent, path.name)
        hint = f" Did you mean {' or '.join(names)} (same folder)?" if names else ""
        raise ToolError(f"There is no such file.{hint}", code=ErrorCode.FILE_NOT_FOUND)
    if real.suffix.lower() != ".ipynb":
        raise ToolError("It is not a notebook (.ipynb).", code=ErrorCode.FILE_PATH_INVALID)
    cells = await FileNotebook(real).cells()
    if not options.run:
        return _Verified(path, notebook_numbers(cells, folder=real.parent))
    code = [cell for cell in cells if cell.cell_type == "code" and cell.source.strip()]
    confinement = _confinement(real)
    in_terminal = sys.stderr.isatty()

    def begins(index: int) -> None:
        if in_terminal:
            print(f"cell {index + 1} of {len(code)}", file=sys.stderr)

    run = await run_and_compare(
        str(path),
        [cell for cell in code if not _ASKS_CLAUDE.search(cell.source)],
        left_out=[cell for cell in code if _ASKS_CLAUDE.search(cell.source)],
        kernel=named_kernel(real),
        cwd=real.parent,
        environ=os.environ,
        cell_seconds=options.cell_timeout,
        seconds=options.timeout,
        begins=begins,
        confinement=confinement,
    )
    return _Verified(path, notebook_numbers(cells, folder=real.parent, fresh=run.fresh), run)


def _confinement(notebook: Path) -> Confinement | None:
    """The bounds of the run, by the settings of the folder that we are in, or of the notebook's if it lies elsewhere.

    Raises ToolError if they name a container that cannot be used.
    """
    here = start_folder(os.environ).resolve()
    in_force = SettingsInForce(here if notebook.is_relative_to(here) else notebook.parent, os.environ)
    if in_force.question() is not None:
        text = f"You have not trusted what {in_force.cwd} brings along yet, so its settings (a container, too) are not used."
        print(text, file=sys.stderr)
    return own_confinement(in_force, lambda: look_for_sandbox().abilities)


def _as_json(found: _Verified) -> dict[str, Any]:
    run = None
    if found.run is not None:
        output = found.run.output()
        run = {
            "reproduces": output.reproduces,
            "ran": output.ran,
            "seconds": output.seconds,
            "first_difference": output.first_difference,
            "ended_early": found.ended_early,
        }
    numbers = to_builtins(found.numbers)
    return {"notebook": str(found.path), **numbers, "run": run}
