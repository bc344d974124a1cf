"""The answers that a notebook's cells held already when this kernel came: told by their provenance, never by time.

A front end clears a cell's outputs when it runs it, and may save the notebook after that. So the file is read as soon as
the extension is loaded, and what it held then stays known; Jupyter's checkpoint tells of what was cleared before that.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple

from cellwright.kernel.run.notebook_trust import LARGEST_NOTEBOOK, join_output
from cellwright.sessions.provenance import PROMPT, provenance_of

_WORD = b'"prompt_sha256"'
"""A file without it holds no answer of ours, and need not be decoded."""


class EarlierAnswer(NamedTuple):
    """What a cell holds: the session that answered, the key of the prompt, and the outputs as the file has them."""

    cell_id: str
    session: str
    prompt: str
    outputs: tuple[Mapping[str, Any], ...]


class EarlierAnswers:
    """Reads `notebook` in the background, and again when it has changed. Called from one thread."""

    def __init__(self, notebook: Path | None) -> None:
        self._answers: dict[str, EarlierAnswer] = {}
        self._read: tuple[Path, int, int] | None = None
        self._first: Future[None] = Future()
        if notebook is None:
            self._first.set_result(None)
        else:
            threading.Thread(target=self._look, args=(notebook,), name="cellwright-answers", daemon=True).start()

    def of(self, prompt: str, cell_id: str | None, notebook: Path | None) -> EarlierAnswer | None:
        """The answer to the prompt with this key in the cell that runs, in the file `notebook` as it is known by now."""
        if notebook is None:
            return None
        self._first.result()
        self._read_again(notebook)
        if cell_id is not None and (own := self._answers.get(cell_id)) is not None:
            return own if own.prompt == prompt else None
        return next((answer for answer in self._answers.values() if answer.prompt == prompt), None)

    def _look(self, notebook: Path) -> None:
        try:
            self._read_again(notebook)
        finally:
            self._first.set_result(None)

    def _read_again(self, notebook: Path) -> None:
        try:
            status = notebook.stat()
        except OSError:
            return  # not saved yet, or gone
        state = (notebook, status.st_mtime_ns, status.st_size)
        if state == self._read or status.st_size > LARGEST_NOTEBOOK:
            return
        if self._read is None:
            checkpoint = notebook.parent / ".ipynb_checkpoints" / f"{notebook.stem}-checkpoint.ipynb"
            self._answers |= answers_in(checkpoint)
        elif self._read[0] != notebook:
            self._answers.clear()
        self._read = state
        self._answers |= answers_in(notebook)


def answers_in(notebook: Path) -> dict[str, EarlierAnswer]:
    """The answers in a notebook file, by their cells' ids; nothing where it cannot be read."""
    try:
        data = notebook.read_bytes()
        cells = json.loads(data)["cells"] if _WORD in data else []
        return {answer.cell_id: answer for answer in _answers(cells)}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}


def _answers(cells: Sequence[Mapping[str, Any]]) -> Iterable[EarlierAnswer]:
    for position, cell in enumerate(cells):
        outputs = tuple(join_output(output) for output in cell.get("outputs", ()))
        said = next((said for output in outputs if (said := provenance_of(output)) is not None), None)
        if said is not None:
            yield EarlierAnswer(str(cell.get("id", f"cell-{position}")), said["session"], said[PROMPT], outputs)
