"""The checks of a replay besides those of files: what Claude was told, and what searches and listings gave.

A recording keeps a digest of each block of context that can be told again anywhere. On replay the blocks are built anew,
and searches, listings and looks at variables are made again; whatever differs is drift. What later steps of the recording
change themselves cannot be compared, nor can commands, pages and the like: the user is told so.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from cellwright.agent.calls.written_tools import access_of
from cellwright.agent.recording.recorded_edits import edits_of
from cellwright.agent.recording.recordings import RecordedCall, RecordedTurn, steady_text
from cellwright.agent.recording.replay_drift import CallKey, Drift, text_of
from cellwright.agent.tool import Tool
from cellwright.events import AttachedContext
from cellwright.text import lazy_pattern

COMPARED = frozenset({"file", "folder", "cell", "variable", "memory"})
"""The kinds of context that are the same wherever the project is; of the others only the notebook's news."""

NEWS_OF_NOTEBOOK = "The notebook"
CHECKED_ACCESS = frozenset({"find", "search", "variables"})
_LISTINGS = frozenset({"LS", "FileTree"})
_IN_WORDS: Mapping[str, tuple[str, str]] = {
    "shell": ("command", "commands"),
    "fetch": ("web page", "web pages"),
    "web_search": ("web search", "web searches"),
    "agent": ("agent", "agents"),
    "tests": ("test run", "test runs"),
    "lint": ("lint run", "lint runs"),
}
"""One and several of the calls that nothing holds against now, by what their tools declare to touch."""
_FILE_NAME = lazy_pattern(r"[\w-][\w.-]*\.\w+")
_RUNS_CODE = frozenset({"python", "cells", "fresh_kernel", "shell", "tests", "lint"})
MAX_SHOWN = 4
LINE_CHARS = 160

_OWN_FILES = lazy_pattern(r"\.ipynb\b|\.cellwright\.jsonl\b|\.ipynb_checkpoints\b|__pycache__")
"""Files that a replay itself changes, or the front end that shows it."""
_OPENING = lazy_pattern(r"\A<[^>\n]*>\n|\n</[a-z_]+>\Z")
_PLACE = lazy_pattern(
    r"^This prompt (?:is|stands) in the cell .*$|^State of the notebook:\n(?:.+\n?)*"
    r"|^(?:The cell )?In\[[\d ]*\](?: \([\w-]+\))?"
    r"|, run \d+ times$|, \d+ s$|^(?:Variables|Cells)[^\n]*:$",
    re.MULTILINE,
)
"""Parts of the notebook's news that differ from front end to front end."""
_CELLS = lazy_pattern(r"^Cells (?:that were run|the user has run since), the newest first:$", re.MULTILINE)
_LISTED = lazy_pattern(r"^([-dlbcps])[-rwxsStT]{9} +([\d,]+) \d{4}-\d\d-\d\d \d\d:\d\d  (.*)$")
_COUNTS = lazy_pattern(r"\b[\d,]+ (?:files?|entr(?:y|ies)|match(?:es)?|lines?|folders?|more)\b")


def context_digests(parts: Iterable[AttachedContext], project: Path) -> list[dict[str, str]]:
    """The digests of the blocks of context that can be compared later: `kind`, `title` and `sha256`."""
    found = []
    for part in parts:
        is_news = part.kind == "context" and part.title.startswith((NEWS_OF_NOTEBOOK, "The whole notebook"))
        if is_news or part.kind in COMPARED:
            title = NEWS_OF_NOTEBOOK if is_news else part.title
            # an absolute path is another machine's, as the user's own instructions are
            if not (part.kind == "memory" and (title.startswith(("/", "~")) or title.startswith("Notes"))):
                text = _OPENING.sub("", part.text)
                if is_news:  # which cells were run to come there matters less than what is there
                    text = _PLACE.sub("", _CELLS.split(text, maxsplit=1)[0])
                    if not text.strip():
                        continue
                steady = steady_text(text, project).encode("utf-8", "surrogatepass")
                found.append({"kind": part.kind, "title": title, "sha256": hashlib.sha256(steady).hexdigest()})
    return found


def context_drift(
    then: Sequence[Mapping[str, str]], now: Sequence[Mapping[str, str]], changed_later: frozenset[Path], project: Path
) -> list[Drift]:
    """Compare what was told with a prompt with what would be told now."""
    before = {(each["kind"], each["title"]): each["sha256"] for each in then}
    after = {(each["kind"], each["title"]): each["sha256"] for each in now}
    drifts = []
    for kind, title in dict.fromkeys([*before, *after]):
        if before.get((kind, title)) == after.get((kind, title)):
            continue
        if (project / title.partition(",")[0]).resolve() in changed_later or _OWN_FILES.search(title):
            continue
        what = (
            "was sent then and is missing now"
            if (kind, title) not in after
            else "is sent now and was not sent then"
            if (kind, title) not in before
            else "says something else now"
        )
        drifts.append(Drift("context", f"{title} {what}."))
    return drifts


def is_checked(tool: Tool) -> bool:
    """Return whether a call of the tool is cheap and harmless, and gives the same wherever the project is."""
    return tool.read_only and (tool.access.kind in CHECKED_ACCESS or tool.name in _LISTINGS)


def listing_drift(
    then: RecordedCall, now: str, later: LaterChanges, project: Path
) -> Drift | Literal["unknown"] | None:
    """Compare what a search or a listing gave with what it gives now; None where it is the same.

    "unknown": only what the recording itself changes later is otherwise.
    """
    before, after = _lines(text_of(then.content), project), _lines(now, project)
    gone, new = before - after, after - before
    changed = [*(("-", line) for line in gone), *(("+", line) for line in new)]
    unexplained = [(sign, line) for sign, line in changed if not later.explain(sign, line)]
    if len(unexplained) < len(changed):  # counts follow from what is explained
        unexplained = [(sign, line) for sign, line in unexplained if not _COUNTS.search(line)]
    if not unexplained:
        return "unknown" if changed else None
    shown = [f"{sign} {line[:LINE_CHARS]}" for sign, line in unexplained[:MAX_SHOWN]]
    more = [f"… {len(unexplained) - MAX_SHOWN} more lines"] if len(unexplained) > MAX_SHOWN else []
    return Drift("search", "\n".join([f"{then.name}, then (-) and now (+):", *shown, *more]))


class LaterChanges:
    """The changes that a recording makes from a call on: files by their paths, and the `code` that it runs."""

    def __init__(self, paths: frozenset[Path], code: Sequence[str]) -> None:
        self.paths = paths
        self.names = frozenset(path.name for path in paths)
        self._code = code

    def explain(self, sign: str, line: str) -> bool:
        """Return whether a line that is gone (-) or new (+) follows from what the recording does, or a front end."""
        if _OWN_FILES.search(line) is not None or any(name in line for name in self.names):
            return True
        # a second run finds what the first has made
        return sign == "+" and any(name in code for name in _FILE_NAME.findall(line) for code in self._code)


def later_changes(turns: Iterable[RecordedTurn], project: Path, recording: Path) -> dict[CallKey, LaterChanges]:
    """For each call of a recording, and for each turn under the name "", what it and those after it change.

    The `recording` itself was written when its turns were over.
    """
    found: dict[CallKey, LaterChanges] = {}
    paths = frozenset((recording.resolve(),))
    code: tuple[str, ...] = ()
    for turn in reversed(list(turns)):
        inputs = {
            block["id"]: json.dumps(block["input"], ensure_ascii=False)
            for recorded in turn.messages
            for block in recorded.message["content"]
            if block["type"] == "tool_use"
        }
        for call in reversed(turn.calls):
            paths |= {edit.path for edit in edits_of(call.display, project)}
            if access_of(call.name).kind in _RUNS_CODE:
                code = (*code, inputs.get(call.tool_use_id, ""))
            found[turn.key, turn.ordinal, call.tool_use_id] = LaterChanges(paths, code)
        found[turn.key, turn.ordinal, ""] = LaterChanges(paths, code)
    return found


Unchecked = tuple[str, str]
"""The names of one and of several calls that nothing holds against now."""


def unchecked_name(tool: Tool) -> Unchecked:
    """The names under which a call of the tool is counted that nothing holds against now."""
    return _IN_WORDS.get(tool.access.kind, (f"call of {tool.name}", f"calls of {tool.name}"))


def describe_unchecked(counts: Mapping[Unchecked, int]) -> str:
    """Say what a replay could not compare, as `1 command, 2 web pages not checked.`; "" where there is nothing."""
    listed = [f"{number:,} {one if number == 1 else several}" for (one, several), number in counts.items()]
    return f"{', '.join(listed)} not checked." if listed else ""


def _lines(text: str, project: Path) -> Counter[str]:
    # the order of files is by their times, and these by who has copied them
    lines = (_LISTED.sub(_listed, line) for line in text.splitlines())
    return Counter(steady for line in lines if (steady := steady_text(line, project)))


def _listed(match: re.Match[str]) -> str:
    kind, size, name = match.groups()
    return f"{name} {size}" if kind == "-" else name
