"""Drift: differences between a replay and its recorded turn, in what it read, left behind or came to.

They are put in words for the user, and bounded. Changed files are found by their states, kept from when the recorded
turn read or left them. A state is the SHA-256 of the file's content. Of a notebook it is that of its cells' types and
sources: to run it, or to save it again, changes the file and nothing that matters here. None: there is no file.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from cellwright.agent.calls.tool_results import without_edit_note
from cellwright.agent.calls.written_tools import access_of
from cellwright.agent.recording.recorded_edits import edits_of
from cellwright.agent.recording.recordings import FileState, RecordedCall, RecordedTurn, steady_text
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.events import ToolEnd
from cellwright.redaction.redaction import Redaction
from cellwright.text import lazy_pattern

DriftKind = Literal["context", "file", "search", "python", "cell"]

TITLES: Mapping[DriftKind, str] = {
    "context": "The context sent with the prompt differs from the recorded one",
    "file": "Files are not as they were when this was recorded",
    "search": "Searches and listings gave other results than when this was recorded",
    "python": "Python gave other results than when this was recorded",
    "cell": "Cells of the notebook are not as they were when this was recorded",
}
MAX_SHOWN = 5
"""Of each kind."""

DIFF_LINES = 6
LINE_CHARS = 160
_MARK = lazy_pattern(r"\[secret removed: [^\]\n]+\]")
"""The mark in a secret's place: what was there cannot be compared."""


class Drift(Struct, frozen=True):
    """One thing that differs; `text` says what, and what was done about it."""

    kind: DriftKind
    text: str


def describe_drift(drifts: Iterable[Drift]) -> list[str]:
    """A text for each kind of drift that there is."""
    by_kind: dict[DriftKind, list[str]] = {}
    for drift in drifts:
        texts = by_kind.setdefault(drift.kind, [])
        if drift.text not in texts:
            texts.append(drift.text)
    return [_listed(TITLES[kind], by_kind[kind]) for kind in TITLES if kind in by_kind]


def check_drift(drifts: Sequence[Drift]) -> None:
    """Raise CellwrightError where there is drift: replay is strict."""
    if drifts:
        drift_text = "\n".join(describe_drift(drifts))
        message = f"The recording no longer matches, and replay is strict.\n{drift_text}\nRecord it again."
        raise CellwrightError(ErrorCode.EXECUTION_ERROR, message)


def _listed(title: str, texts: Sequence[str]) -> str:
    shown = [f"- {text}" for text in texts[:MAX_SHOWN]]
    more = [f"- … and {len(texts) - MAX_SHOWN} more"] if len(texts) > MAX_SHOWN else []
    return "\n".join([f"{title}:", *shown, *more])


def recorded_id(tool_use_id: str) -> str:
    """The id that a played call has in its recording: in the session it has a suffix."""
    return tool_use_id.rpartition("_")[0]


def result_drift(
    then: RecordedCall, tool_input: Mapping[str, Any], now: ToolEnd, project: Path, redaction: Redaction
) -> Drift | None:
    """Compare the end of a call that was run again with the recorded one; None where they do not differ.

    Both are as the model got them: bounded, redacted, with what hooks made of them. Of `Python` the text counts, without
    times, ids, addresses in memory and pictures; of the others whether it could be done. What differs is shown, and kept
    in the notebook: without its secrets.
    """
    if then.name != "Python":
        if (now.status == "success") == (then.status == "success"):
            return None
        return Drift(
            "cell" if access_of(then.name).kind == "cells" else "python",
            f"{then.name}: {text_of(now.content)[:LINE_CHARS]}",
        )
    before = redaction.clean(text_of(without_edit_note(then.content, tool_input))).text
    after = redaction.clean(text_of(now.content)).text
    if _is_same(steady_text(before, project), steady_text(after, project)):
        return None
    lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm=""))
    changed = [line[:LINE_CHARS] for line in lines[2:] if not line.startswith("@@")]
    more = [f"… {len(changed) - DIFF_LINES} more lines"] if len(changed) > DIFF_LINES else []
    return Drift("python", "\n".join(["then (-) and now (+):", *changed[:DIFF_LINES], *more]))


def _is_same(before: str, after: str) -> bool:
    """Return whether two results are the same but for the secrets that were removed from the first."""
    first, *others = _MARK.split(before)
    if not others or not after.startswith(first):
        return before == after
    *others, last = others
    at = len(first)
    for piece in others:
        at = after.find(piece, at + 1)
        if at < 0:
            return False
        at += len(piece)
    return len(after) - len(last) > at and after.endswith(last)


def text_of(content: str | Sequence[Mapping[str, Any]]) -> str:
    """The text of a result, without its pictures."""
    if isinstance(content, str):
        return content
    return "\n".join(str(block["text"]) for block in content if block.get("type") == "text")


LARGEST_FILE = 64 * 2**20
"""Bytes: of a larger file only its size counts."""

States = frozenset[str | None]
CallKey = tuple[str, int, str]
"""A call of a recording: its turn's key and ordinal, and its id."""


def state_of(path: Path) -> str | None:
    """The file's state now. OSError when it cannot be read."""
    try:
        size = path.stat().st_size
        if size > LARGEST_FILE:
            return f"size:{size}"
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    if path.suffix == ".ipynb" and (cells := _cells(data)) is not None:
        return "cells:" + hashlib.sha256(json.dumps(cells).encode()).hexdigest()
    return hashlib.sha256(data).hexdigest()


def _cells(data: bytes) -> list[Any] | None:
    try:
        cells = json.loads(data)["cells"]
        return [[cell["cell_type"], "".join(cell["source"])] for cell in cells]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None  # no notebook of today's format: its bytes count


def states_after(
    name: str, tool_input: Mapping[str, Any], display: Mapping[str, Any] | None, project: Path
) -> list[FileState]:
    """The states, right after a call that succeeded, of the files that it read or edited; those that can be read."""
    paths = {edit.path for edit in edits_of(display, project)}
    access = access_of(name)
    if access.kind == "read" and isinstance(given := tool_input.get(access.field), str):
        paths.add((project / given).resolve())
    return states_of(paths)


def states_of(paths: Iterable[Path]) -> list[FileState]:
    """The states of those of `paths` that can be read."""
    states: list[FileState] = []
    for path in sorted(paths):
        # a folder, or a file that nobody may read: nothing to compare with later
        with contextlib.suppress(OSError):
            states.append((str(path), state_of(path)))
    return states


def later_states(turns: Iterable[RecordedTurn], project: Path) -> dict[CallKey, dict[Path, States]]:
    """For each call, the states that the recording knows of its files for any time after it."""
    later: dict[CallKey, dict[Path, States]] = {}
    states: dict[Path, States] = {}
    for turn in reversed(list(turns)):
        for name, state in turn.files:
            _add(states, real_path(name), state)
        for call in reversed(turn.calls):
            own = _states_of_call(call, project)
            later[turn.key, turn.ordinal, call.tool_use_id] = {path: states.get(path, frozenset()) for path, _ in own}
            for path, state in own:
                _add(states, path, state)
    return later


def _states_of_call(call: RecordedCall, project: Path) -> list[tuple[Path, str | None]]:
    edits = [(edit.path, edit.after) for edit in edits_of(call.display, project)]
    if (cell := cell_place(call.display, project)) is not None and call.display is not None:
        edits.append((cell, call.display["cell_sha256"].get("after")))  # None: deleted
    return [*edits, *((real_path(path), state) for path, state in call.files)]


def cell_place(display: Mapping[str, Any] | None, project: Path) -> Path | None:
    """Build a path that stands for the cell a call changed: its id, as if the notebook were a folder."""
    if display is None or not isinstance(display.get("cell_sha256"), Mapping):
        return None
    return (project / str(display["path"])).resolve() / str(display["cell_id"])


def real_path(path: str | None) -> Path:
    """The path of a `FileState`, links followed."""
    assert path is not None, "a state always has its path"
    return Path(path).resolve()


def _add(states: dict[Path, States], path: Path, state: str | None) -> None:
    states[path] = states.get(path, frozenset()) | {state}
