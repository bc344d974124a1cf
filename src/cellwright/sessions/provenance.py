"""The origin of an answer in a notebook: the metadata of its output, written and read again.

    {"cellwright": {"version": "0.1.0", "session": ID, "turn": 3, "model": …, "prompt_sha256": …, "recording": FILE,
                    "undo": 3, "numbers": {…}}}

`undo` is the number by which the turn can be taken back, if it changed files or cells; `undo_variables` if it only ran
code: variables come back while the kernel has a copy of them. `numbers` is the record by which stale numbers of the
answer are found (`features/numbers/stale.py`), if any came from a cell or a file.

Nothing private: no path but the recording's from the notebook's folder, no key, no name of a user.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cellwright.version import VERSION

FIELD = "cellwright"
NUMBERS = "numbers"
PROMPT = "prompt_sha256"
"""The hash that a turn is found by in a recording (`recordings.prompt_key`)."""


def provenance(
    *,
    session: str,
    turn: int | None,
    model: str,
    prompt_sha256: str,
    recording: str | None,
    undo: int | None = None,
    undo_variables: int | None = None,
) -> dict[str, Any]:
    """The metadata of an output; `recording` is the file that holds the turn, None where none does."""
    known = {
        "session": session,
        "turn": turn,
        "model": model,
        PROMPT: prompt_sha256,
        "recording": recording,
        "undo": undo,
        "undo_variables": undo_variables,
    }
    return {FIELD: {"version": VERSION, **{name: value for name, value in known.items() if value is not None}}}


def provenance_of(output: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return what an output of a notebook file says of where it came from; None for what is no answer of ours."""
    metadata = output.get("metadata")
    found = metadata.get(FIELD) if isinstance(metadata, Mapping) else None
    whole = isinstance(found, Mapping) and isinstance(found.get("session"), str) and isinstance(found.get(PROMPT), str)
    return found if whole else None
