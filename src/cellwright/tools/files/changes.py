"""A change of one file: worked out without writing, shown to the user, then written as a whole or not at all.

It is shown as a `Diff`: a unified one for people, the new lines with their numbers for the model.
"""

from __future__ import annotations

import asyncio
import difflib
import os
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

from msgspec import Struct, field

from cellwright.agent.calls.tool_results import ToolOutput
from cellwright.agent.tool import CannotBeDone, ToolResult
from cellwright.errors import ErrorCode, ToolError
from cellwright.events import Preview
from cellwright.text import counted
from cellwright.tools.files.atomic_write import write_atomically
from cellwright.tools.files.encodings import Encoding
from cellwright.tools.files.file_state import FileState, UpcomingChange, kept_originals, sha256
from cellwright.tools.files.staged_file import FileChanged
from cellwright.tools.files.text import numbered
from cellwright.tools.paths import file_errors, real_path, resolve_path, shown_path

T = TypeVar("T")

CONTEXT = 3

LINE_CHARS = 500

Opcode = tuple[str, int, int, int, int]


class AffectedFile(Struct, kw_only=True, frozen=True):
    """A file that a call wrote; `added` and `removed` count lines."""

    path: str
    type: Literal["create", "update", "delete"]
    added: int
    removed: int


class FilesOutput(ToolOutput):
    """The work of a tool that writes files: each file, and all in words. No file: all were already as wanted.

    `replacements_made` counts the places where text was replaced, None if that was not the way. `edit_summary` says how much
    changed, `preview` is the new text around each change, with line numbers.
    """

    summary: str
    files: tuple[AffectedFile, ...]
    replacements_made: int | None = None
    edit_summary: str = ""
    preview: str = ""


class Change(Struct, frozen=True, kw_only=True):
    """The contents of a file, present and wanted. `before` and `replacing` are None where there is no file yet.

    `title` says in a few words what is done to what; `result` is what the model is told when it is done.
    """

    path: Path
    """The real file: symbolic links are followed."""
    display_path: str
    before: bytes | None
    replacing: os.stat_result | None
    after: bytes
    diff: Diff
    title: str
    result: str
    whole: bool
    """True when the model then knows all of the file."""
    parts: frozenset[str] = frozenset()
    """The parts of a notebook that the model then knows (see `Seen.parts`)."""
    cells: Mapping[str, str] = field(default_factory=dict)
    """The sources of notebook cells that the model then knows, by the cells' names."""
    moves_cells: bool = False
    """True when cells may have other places than before, and so other names."""
    encoding: Encoding | None = None
    """The encoding of `after`; None for what is not text."""
    replacements: int | None = None
    """The number of places where text is replaced; None for a change of another kind."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """More for the views, beside what `display` always has."""

    def display(self) -> dict[str, Any]:
        """Build what views, hooks and recordings get; `originals` says where what was there is kept."""
        before = None if self.before is None else sha256(self.before)
        return {
            "diff": self.diff.text,
            "structuredPatch": self.diff.structured_patch(),
            "path": self.path.as_posix(),
            "before_sha256": before,
            "after_sha256": sha256(self.after),
            "type": "create" if self.before is None else "update",
            **kept_originals({self.display_path: before}),
            **self.about,
        }

    def output(self) -> FilesOutput:
        """The change for programs."""
        if self.after == self.before:
            return FilesOutput(summary=self.title, files=(), replacements_made=self.replacements and 0)
        affected = AffectedFile(
            path=self.path.as_posix(),
            type="create" if self.before is None else "update",
            added=self.diff.added,
            removed=self.diff.removed,
        )
        made = "" if self.replacements is None else f"{counted(self.replacements, 'replacement')}, "
        return FilesOutput(
            summary=f"{self.title} ({self.diff.counts})",
            files=(affected,),
            replacements_made=self.replacements,
            edit_summary=f"{made}{self.diff.counts} lines",
            preview=self.diff.excerpt,
        )

    def commit(self, state: FileState, stopped: Callable[[], bool]) -> None:
        """Write it, unless `stopped()` or the file changed meanwhile."""
        if stopped():
            raise ToolError("Stopped before the file was written; it is unchanged.", code=ErrorCode.INTERRUPTED)
        if self.after == self.before:
            return
        if state.is_unsaved(self.path):
            way_out = "Ask the user to save it (then read it again) or to close it."
            if self.path.suffix.lower() == ".ipynb":
                way_out = "Change its cells with NotebookEdit, which edits the open document."
            raise ToolError(
                f"{self.display_path} "
                f"is open in the user's editor with unsaved changes, which would be lost; nothing was written. "
                f"{way_out}",
                code=ErrorCode.FILE_ACCESS_ERROR,
            )
        state.keeper.before_changes(
            [UpcomingChange(path=self.path, before=self.before, after=self.after, status=self.replacing)]
        )
        try:
            with file_errors(self.display_path):
                status = write_atomically(self.path, self.after, replacing=self.replacing)
        except FileChanged:
            raise ToolError(
                f"{self.display_path} was changed by someone else just now; nothing was written. Read it again.",
                code=ErrorCode.FILE_ACCESS_ERROR,
            ) from None
        state.keeper.after_changes([self.path])
        state.wrote(self.path, status, sha256(self.after), whole=self.whole, parts=self.parts, encoding=self.encoding)
        if self.moves_cells:
            state.cells.forget(self.path)
        state.cells.add(self.path, self.cells)


Plan = Callable[[Path, str], Change]
"""A function from a file at a path to what a tool would make of it, and how that is shown. Reads, never writes."""


async def make_change(plan: Plan, file_path: str, cwd: Path, state: FileState) -> ToolResult:
    """Plan the change of the file that `file_path` names, and write it, in a worker thread."""

    def work(stopped: Callable[[], bool]) -> ToolResult:
        change = _planned(plan, file_path, cwd)
        change.commit(state, stopped)
        return ToolResult(change.result + _partners(change), change.display(), structured=change.output())

    return await in_thread(work)


async def preview_change(plan: Plan, file_path: str, cwd: Path, title: str) -> Preview:
    """The planned change's title and diff.

    Raises CannotBeDone, under `title`, for a change that cannot be made: the reason may quote the file.
    """

    def work(_stopped: Callable[[], bool]) -> Preview:
        path = cwd / file_path
        link = f"Writes through a symbolic link to {real_path(path).as_posix()}." if path.is_symlink() else ""
        try:
            change = _planned(plan, file_path, cwd)
        except ToolError as error:
            preview = Preview(title, kind="diff", path=shown_path(cwd, path), warning=link)
            raise CannotBeDone(error, preview, [path]) from error
        counts = f"{change.title} ({change.diff.counts})"
        return Preview(counts, change.diff.text, "diff", path=change.display_path, warning=link)

    return await in_thread(work)


def previewed_and_made(
    plan: Callable[[Path, str, Any, FileState], Change], title: Callable[[Any], str], cwd: Path, state: FileState
) -> tuple[Callable[[Any], Awaitable[Preview]], Callable[[Any], Awaitable[ToolResult]]]:
    """The preview and the work of a tool whose input names a file in `file_path`, and of which `plan` makes a change."""

    def of_file(input: Any) -> Plan:
        return lambda path, display_path: plan(path, display_path, input, state)

    async def preview(input: Any) -> Preview:
        return await preview_change(of_file(input), input.file_path, cwd, title(input))

    async def make(input: Any) -> ToolResult:
        return await make_change(of_file(input), input.file_path, cwd, state)

    return preview, make


def _partners(change: Change) -> str:
    if change.after == change.before:
        return ""
    from cellwright.tools.notebook.jupytext_pair import pair_note  # with the first change

    return pair_note(change.path, change.display_path, changed=True)


def _planned(plan: Plan, file_path: str, cwd: Path) -> Change:
    path = resolve_path(cwd, file_path)
    display_path = shown_path(cwd, path)
    with file_errors(display_path):
        return plan(path, display_path)


async def in_thread(work: Callable[[Callable[[], bool]], T]) -> T:
    """Run `work(stopped)` in a worker thread; `stopped()` turns true when the caller is cancelled."""
    stop = threading.Event()
    try:
        return await asyncio.to_thread(work, stop.is_set)
    finally:
        stop.set()


class DiffHunk(Struct, frozen=True):
    """Lines with their marks, and where they stand in both texts, counted as a hunk's header does."""

    old_start: int
    old_lines: int
    new_start: int
    new_lines: int
    lines: Sequence[str]

    @property
    def header(self) -> str:
        return f"@@ -{_range(self.old_start, self.old_lines)} +{_range(self.new_start, self.new_lines)} @@"


class Diff(Struct, frozen=True):
    """The difference of two texts, line by line; line ends do not count."""

    header: Sequence[str]
    """The lines that name the file; none where nothing differs."""

    hunks: Sequence[DiffHunk]
    added: int
    removed: int
    excerpt: str
    """The new text around each change, its lines numbered; bounded."""

    @property
    def text(self) -> str:
        """The unified diff."""
        lines = [*self.header, *(line for hunk in self.hunks for line in (hunk.header, *hunk.lines))]
        return "".join(f"{line}\n" for line in lines)

    @property
    def counts(self) -> str:
        """`+3 −1`"""
        return f"+{self.added} −{self.removed}"

    def structured_patch(self) -> list[dict[str, Any]]:
        """The hunks as hooks know them from Claude Code."""
        return [
            {
                "oldStart": hunk.old_start,
                "oldLines": hunk.old_lines,
                "newStart": hunk.new_start,
                "newLines": hunk.new_lines,
                "lines": list(hunk.lines),
            }
            for hunk in self.hunks
        ]


def diff_texts(before: str | None, after: str | None, name: str) -> Diff:
    """The diff from `before` (None: there was no file) to `after` (None: there is none then), `name` in its header."""
    old_name, new_name = prefixed("a/", name), prefixed("b/", name)
    first, old, new = _differing(_flat(before), _flat(after))
    opcodes = _opcodes(old, new)
    groups = list(_grouped(opcodes))
    header = [
        f"--- {'/dev/null' if before is None else old_name}",
        f"+++ {'/dev/null' if after is None else new_name}",
    ]
    hunks = [_hunk(group, old, new, first) for group in groups]
    changes = [opcode for opcode in opcodes if opcode[0] != "equal"]
    return Diff(
        header=header if hunks else (),
        hunks=hunks,
        added=sum(opcode[4] - opcode[3] for opcode in changes),
        removed=sum(opcode[2] - opcode[1] for opcode in changes),
        excerpt=_excerpt(groups, new, first),
    )


def prefixed(prefix: str, name: str) -> str:
    """The name of a file as a diff's header has it; a whole path, of a file outside of the project, stays plain."""
    return name if name.startswith("/") else prefix + name


def _flat(text: str | None) -> str:
    return (text or "").replace("\r\n", "\n")


def _differing(old: str, new: str) -> tuple[int, list[str], list[str]]:
    """The lines of both texts without most of what is equal at both ends; and how many were left out before them.

    A text of millions of lines, as a list of lines, takes ten times its memory.
    """
    head = start = common_start(old, new)
    for _ in range(CONTEXT + 1):
        head = old.rfind("\n", 0, max(head, 0))
    head += 1
    most = min(len(old), len(new)) - start
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if old[len(old) - middle :] == new[len(new) - middle :] else (low, middle - 1)
    stop = len(old) - low
    for _ in range(CONTEXT + 1):
        line_feed = old.find("\n", stop)
        stop = line_feed + 1 if line_feed >= 0 else len(old)
    return old.count("\n", 0, head), _lines(old[head:stop]), _lines(new[head : len(new) - (len(old) - stop)])


def common_start(one: str, other: str) -> int:
    """Count the characters that two texts have in common at their start."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if one[low:middle] == other[low:middle] else (low, middle - 1)
    return low


def _lines(text: str) -> list[str]:
    """Lines with their LF, so that a missing last one is a difference."""
    *lines, last = text.split("\n")
    return [f"{line}\n" for line in lines] + ([last] if last else [])


def _opcodes(old: list[str], new: list[str]) -> list[Opcode]:
    """As difflib gives them, but equal lines at both ends are not compared, and the comparison is bounded."""
    shortest = min(len(old), len(new))
    head = next((number for number in range(shortest) if old[number] != new[number]), shortest)
    rest = shortest - head
    tail = next((number for number in range(rest) if old[-1 - number] != new[-1 - number]), rest)
    old_to, new_to = len(old) - tail, len(new) - tail
    middle: list[Opcode]
    # past so many differing lines, the whole stretch counts as replaced: finding the best diff is quadratic
    if max(old_to, new_to) - head > 4_000:
        middle = [("replace", head, old_to, head, new_to)]
    else:
        matcher = difflib.SequenceMatcher(None, old[head:old_to], new[head:new_to])
        middle = [(tag, a + head, b + head, c + head, d + head) for tag, a, b, c, d in matcher.get_opcodes()]
    start: list[Opcode] = [("equal", 0, head, 0, head)] if head else []
    end: list[Opcode] = [("equal", old_to, len(old), new_to, len(new))] if tail else []
    return start + middle + end


def _grouped(opcodes: list[Opcode]) -> list[list[Opcode]]:
    """The changes, those near one another together, with a few equal lines around."""
    groups: list[list[Opcode]] = [[]]
    for opcode in opcodes:
        tag, old_from, old_to, new_from, new_to = opcode
        if tag != "equal":
            groups[-1].append(opcode)
            continue
        length = old_to - old_from
        if groups[-1] and (length > 2 * CONTEXT or opcode is opcodes[-1]):
            keep = min(length, CONTEXT)
            groups[-1].append((tag, old_from, old_from + keep, new_from, new_from + keep))
            groups.append([])
        if groups[-1]:
            groups[-1].append(opcode)
        else:
            skip = max(length - CONTEXT, 0)
            groups[-1].append((tag, old_from + skip, old_to, new_from + skip, new_to))
    return [group for group in groups if any(opcode[0] != "equal" for opcode in group)]


def _hunk(group: list[Opcode], old: list[str], new: list[str], before: int) -> DiffHunk:
    """The hunk of one group; so many lines of the file are `before` those in the lists."""
    first, last = group[0], group[-1]
    lines: list[str] = []
    for tag, old_from, old_to, new_from, new_to in group:
        if tag == "equal":
            lines += _marked(" ", old[old_from:old_to])
            continue
        lines += _marked("-", old[old_from:old_to]) + _marked("+", new[new_from:new_to])
    return DiffHunk(*_hunk_range(before, first[1], last[2]), *_hunk_range(before, first[3], last[4]), lines)


def _hunk_range(before: int, start: int, stop: int) -> tuple[int, int]:
    """Find the start of a hunk and its number of lines; one without lines stands behind the line it names."""
    return before + start + (stop > start), stop - start


def _range(start: int, lines: int) -> str:
    return str(start) if lines == 1 else f"{start},{lines}"


def _marked(mark: str, lines: list[str]) -> list[str]:
    marked = [mark + line.removesuffix("\n") for line in lines]
    if lines and not lines[-1].endswith("\n"):
        marked.append("\\ No newline at end of file")
    return marked


def _excerpt(groups: list[list[Opcode]], new: list[str], before: int) -> str:
    parts: list[str] = []
    left = 40
    for group in groups:
        start, stop = group[0][3], group[-1][4]
        if left <= 0:
            parts.append("      …")
            break
        lines = new[start : min(stop, start + left)]
        left -= stop - start
        parts.append(numbered([line.rstrip("\n")[:LINE_CHARS] for line in lines], before + start + 1))
        if left < 0:
            parts.append("      …")
            break
    return "\n".join(part for part in parts if part)
