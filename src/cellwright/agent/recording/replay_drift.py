"""Drift: what a recorded turn worked from, or came to, is not what it was then. In words for the user, and bounded."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from cellwright.agent.calls.redaction import Redaction
from cellwright.agent.recording.recordings import RecordedCall, steady_text

DriftKind = Literal["file", "python", "cell"]

TITLES: Mapping[DriftKind, str] = {
    "file": "Files are not as they were when this was recorded",
    "python": "Python gave other results than when this was recorded",
    "cell": "Cells of the notebook are not as they were when this was recorded",
}
MOST_SHOWN = 5
"""Of each kind."""

DIFF_LINES = 6
LINE_CHARS = 160
_REMOVED = re.compile(r"\[(?!secret removed: )[^\]\n]+ removed\]")
"""What stands for a secret in a recording (`secret_scan`): what was there cannot be compared."""


@dataclass(frozen=True, slots=True)
class Drift:
    """One thing that differs; `text` says what, and what was done about it."""

    kind: DriftKind
    text: str


def drift_in_words(drifts: Iterable[Drift]) -> list[str]:
    """A text for each kind of drift that there is."""
    by_kind: dict[DriftKind, list[str]] = {}
    for drift in drifts:
        texts = by_kind.setdefault(drift.kind, [])
        if drift.text not in texts:
            texts.append(drift.text)
    return [_listed(TITLES[kind], by_kind[kind]) for kind in TITLES if kind in by_kind]


def _listed(title: str, texts: Sequence[str]) -> str:
    shown = [f"- {text}" for text in texts[:MOST_SHOWN]]
    more = [f"- … and {len(texts) - MOST_SHOWN} more"] if len(texts) > MOST_SHOWN else []
    return "\n".join([f"{title}:", *shown, *more])


def result_drift(
    then: RecordedCall, content: str | Sequence[Mapping[str, Any]], project: Path, redaction: Redaction
) -> Drift | None:
    """How the result `content` of code that was run again differs from the recorded one; None where it does not.

    Times, ids, addresses in memory and pictures are not compared. What differs is shown, and kept in the notebook: without
    its secrets.
    """
    before, after = _text(then.content), redaction.clean(_text(content)).text
    if _REMOVED.search(before) or steady_text(before, project) == steady_text(after, project):
        return None
    lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm=""))
    changed = [line[:LINE_CHARS] for line in lines[2:] if not line.startswith("@@")]
    more = [f"… {len(changed) - DIFF_LINES} more lines"] if len(changed) > DIFF_LINES else []
    return Drift("python", "\n".join(["then (-) and now (+):", *changed[:DIFF_LINES], *more]))


def _text(content: str | Sequence[Mapping[str, Any]]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(str(block["text"]) for block in content if block.get("type") == "text")
