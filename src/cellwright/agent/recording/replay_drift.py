"""Drift: differences between a replay and its recorded turn, in what it was told, read, left behind or came to.

They are put in words for the user, and bounded. Changed files are found by their states, kept from when the recorded
turn read or left them. A state is the SHA-256 of the file's content. Of a notebook it is that of its cells' types and
sources: to run it, or to save it again, changes the file and nothing that matters here. None: there is no file.

A recording keeps a digest of each block of context that can be told again anywhere. On replay the blocks are built anew,
and searches, listings and looks at variables are made again; whatever differs is drift. What later steps of the recording
change themselves cannot be compared, nor can commands, pages and the like: the user is told so.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from cellwright.agent.calls.tool_names import access_of
from cellwright.agent.calls.tool_results import without_edit_note
from cellwright.agent.recording.recordings import FileState, RecordedCall, RecordedTurn, edits_of, steady_text
from cellwright.agent.tool import Tool
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.events import AttachedContext, ToolEnd
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
MAX_UNCHECKED = 4
UNCHECKED_CHARS = 160

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
    listed = []
    for kind in TITLES:
        if found := by_kind.get(kind):
            shown = [f"- {text}" for text in found[:MAX_SHOWN]]
            more = [f"- … and {len(found) - MAX_SHOWN} more"] if len(found) > MAX_SHOWN else []
            listed.append("\n".join([f"{TITLES[kind]}:", *shown, *more]))
    return listed


def check_drift(drifts: Sequence[Drift]) -> None:
    """Raise CellwrightError where there is drift: replay is strict."""
    if drifts:
        drift_text = "\n".join(describe_drift(drifts))
        message = f"The recording no longer matches, and replay is strict.\n{drift_text}\nRecord it again."
        raise CellwrightError(ErrorCode.EXECUTION_ERROR, message)


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


States = frozenset[str | None]
CallKey = tuple[str, int, str]
"""A call of a recording: its turn's key and ordinal, and its id."""


def state_of(path: Path) -> str | None:
    """The file's state now. OSError when it cannot be read."""
    try:
        size = path.stat().st_size
        # bytes: of a larger file only its size counts
        if size > 64 * 2**20:
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
            own = [(edit.path, edit.after) for edit in edits_of(call.display, project)]
            if (cell := cell_place(call.display, project)) is not None and call.display is not None:
                own.append((cell, call.display["cell_sha256"].get("after")))  # None: deleted
            own += [(real_path(path), state) for path, state in call.files]
            later[turn.key, turn.ordinal, call.tool_use_id] = {path: states.get(path, frozenset()) for path, _ in own}
            for path, state in own:
                _add(states, path, state)
    return later


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
    shown = [f"{sign} {line[:LINE_CHARS]}" for sign, line in unexplained[:MAX_UNCHECKED]]
    more = [f"… {len(unexplained) - MAX_SHOWN} more lines"] if len(unexplained) > MAX_UNCHECKED else []
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
    lines = (_LISTED.sub(_listing, line) for line in text.splitlines())
    return Counter(steady for line in lines if (steady := steady_text(line, project)))


def _listing(match: re.Match[str]) -> str:
    kind, size, name = match.groups()
    return f"{name} {size}" if kind == "-" else name
