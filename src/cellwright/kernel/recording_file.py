"""Where a notebook's recording is: named, else beside the notebook as NAME.cellwright.jsonl."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from cellwright.errors import CellwrightError, ErrorCode

SUFFIX = ".cellwright.jsonl"

Holds = Callable[[Path], bool]


def beside(notebook: Path) -> Path:
    """The recording that is kept beside `notebook`."""
    return notebook.with_name(notebook.stem + SUFFIX)


def found_in(folder: Path, holds: Holds) -> Path | None:
    """The recording of the notebook that runs in `folder`, where nothing tells its name (nbclient): the one that `holds`
    the prompt, or the only one there is; None where no recording fits.

    Raises CellwrightError CONFIG_INVALID where several do.
    """
    there = sorted(folder.glob(f"*{SUFFIX}"))
    fitting = [path for path in there if holds(path)] if len(there) > 1 else there
    if len(fitting) < 2:
        return fitting[0] if fitting else None
    raise CellwrightError(
        ErrorCode.CONFIG_INVALID,
        f"Which recording in {folder} is this notebook's cannot be known: several of them hold this prompt "
        f"({', '.join(path.name for path in fitting)}). {HOW_TO_NAME}",
        details={"folder": str(folder)},
    )


HOW_TO_NAME = (
    "Name it: `%config Claude.recording = 'FILE'`, the variable CELLWRIGHT_RECORDING, or `--replay FILE` in the cell."
)


def unknown(folder: Path) -> CellwrightError:
    """What the user is told where there is no notebook to keep a recording beside."""
    message = f"Nothing here tells which notebook this is, and no recording in {folder} (*{SUFFIX}) holds this prompt. "
    message += HOW_TO_NAME
    return CellwrightError(ErrorCode.CONFIG_INVALID, message, details={"folder": str(folder)})
