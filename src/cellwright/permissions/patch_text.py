"""A unified diff as text, read into files and hunks: the one reader for what judges a patch and what applies it.

Format: https://git-scm.com/docs/diff-format, with git's extended headers or without. Text around the diffs (a mail, a
commit message) is passed over. Names in headers are unquoted and lose what stands before them (`a/`, `b/`, or what
`strip` takes off). Two readers that disagreed about which files a patch names would be a hole.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from cellwright.text import lazy_pattern

_PREFIXES = (("a/", "b/"), ("b/", "a/"), ("i/", "w/"), ("c/", "i/"), ("c/", "w/"), ("o/", "w/"))
"""The prefixes git may put before the old and the new name (`diff.mnemonicPrefix`), and the first pair reversed."""
_ESCAPES = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, '"': 34, "\\": 92}
_ESCAPED = lazy_pattern(r"\\([abtnvfr\"\\]|[0-3][0-7]{2})")
_QUOTED = lazy_pattern(r'"((?:[^"\\]|\\.)*)"')


class PatchProblem(Exception):
    """A text that cannot be understood as a patch; the message is a sentence that says why."""


def without_prefix(old: str | None, new: str | None) -> tuple[str | None, str | None]:
    for first, second in _PREFIXES:
        # a whole path has no prefix, whatever the other side has
        if (old is None or old.startswith(("/", first))) and (new is None or new.startswith(("/", second))):
            return old and old.removeprefix(first), new and new.removeprefix(second)
    return old, new


def name_in_git_line(rest: str, strip: int | None, at: int) -> str:
    """The name in `a/NAME b/NAME`: both are the same there, or other lines would give them."""
    if rest.startswith('"') and (quoted := _QUOTED.match(rest)):
        sides = quoted[0], rest[quoted.end() + 1 :]
    else:
        middle = len(rest) // 2
        sides = rest[:middle], rest[middle + 1 :]
    old, new = (unquoted(side) for side in sides)
    names = without_prefix(old, new) if strip is None else (stripped(old, strip, at), stripped(new, strip, at))
    if names[0] is None or names[0] != names[1]:
        raise PatchProblem(f"Line {at}: it is not clear which file `diff --git {rest}` means.")
    return names[0]


def stripped(name: str, parts: int, at: int) -> str:
    left = name.split("/", parts)
    if len(left) <= parts:
        raise PatchProblem(f"Line {at}: {name!r} has not {parts} leading parts to take off. Set `strip` lower.")
    return left[-1]


def unquoted(name: str) -> str:
    """A name as git writes it: plain, or quoted as in C where it holds characters that are not plain."""
    if not (len(name) >= 2 and name[0] == name[-1] == '"'):
        return name
    data = bytearray()
    done = 1
    for found in _ESCAPED.finditer(name, 1, len(name) - 1):
        data += name[done : found.start()].encode("utf-8", "surrogatepass")
        data.append(_ESCAPES[found[1]] if found[1] in _ESCAPES else int(found[1], 8))
        done = found.end()
    data += name[done:-1].encode("utf-8", "surrogatepass")
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise PatchProblem(f"The name {name} is not UTF-8.") from None


Action = Literal["edit", "create", "delete", "rename", "copy"]
Mark = Literal[" ", "-", "+"]

_HUNK = lazy_pattern(r"@@ -([0-9]{1,9})(?:,([0-9]{1,9}))? \+([0-9]{1,9})(?:,([0-9]{1,9}))? @@")
_EXTENDED = lazy_pattern(
    r"(old mode|new mode|deleted file mode|new file mode|copy from|copy to|rename from|rename to"
    r"|similarity index|dissimilarity index|index) (.+)"
)


class Hunk(Struct, frozen=True):
    """One change: `lines` are marks and lines, each with its LF unless the file ends without one there.

    `at` is the line of the patch; `old_start` and `new_start` count from 1, as in the header. `recounted`: the header's
    counts were wrong, and what follows it was taken instead.
    """

    at: int
    old_start: int
    new_start: int
    lines: tuple[tuple[Mark, str], ...]
    recounted: bool = False

    @property
    def old(self) -> list[str]:
        """The lines that must be there."""
        return [line for mark, line in self.lines if mark != "+"]

    @property
    def new(self) -> list[str]:
        """The lines that shall be there."""
        return [line for mark, line in self.lines if mark != "-"]


class FilePatch(Struct, frozen=True):
    """The patch of one file. `old` is None for `create`, `new` for `delete`; both are names as a tool takes them.

    `old_mode` and `new_mode` are git's file modes ("100755") where the patch gives them.
    """

    at: int
    action: Action
    old: str | None
    new: str | None
    hunks: tuple[Hunk, ...]
    old_mode: str | None = None
    new_mode: str | None = None


class _Headers(Struct):
    """The contents of the lines before a file's hunks."""

    at: int
    git: str | None = None
    old: str | None = None
    new: str | None = None
    extended: dict[str, str] | None = None


def read_patch(patch: str, strip: int | None = None) -> tuple[FilePatch, ...]:
    """The files of a unified diff, in its order; a file may come more than once. Raises PatchProblem.

    `strip` is how many leading parts are taken off the names, as by `patch -p`. None: `a/` and `b/` (or another pair
    that git uses) go if they are there.
    """
    lines = _lines(patch)
    files: list[FilePatch] = []
    at = 0
    while at < len(lines):
        if lines[at].startswith("diff --git "):
            headers, at = _git_headers(lines, at)
        elif _plain_header(lines, at):
            headers = _Headers(at + 1, None, lines[at][4:], lines[at + 1][4:])
            at += 2
        elif lines[at].startswith("@@ "):
            raise PatchProblem(f"Line {at + 1} begins a hunk, but no `--- ` and `+++ ` lines name its file.")
        else:
            at += 1
            continue
        hunks: list[Hunk] = []
        while at < len(lines) and lines[at].startswith("@@"):
            hunk, at = _hunk(lines, at)
            hunks.append(hunk)
        files.append(_file_patch(headers, tuple(hunks), strip))
    if not files:
        raise PatchProblem(
            "There is no file in this patch. It must be a unified diff: `--- a/NAME`, `+++ b/NAME`, `@@ -1,3 +1,4 @@`."
        )
    return tuple(files)


def changed_lines(patch: str) -> tuple[int, int]:
    """Count the lines that the hunks of a unified diff add and remove; what else there is in it is passed over."""
    lines = _lines(patch)
    added = removed = at = 0
    while at < len(lines):
        if not _HUNK.match(lines[at]):
            at += 1
            continue
        start, at = at + 1, _end_of_hunk(lines, at)[0]
        added += sum(line.startswith("+") for line in lines[start:at])
        removed += sum(line.startswith("-") for line in lines[start:at])
    return added, removed


def _lines(patch: str) -> list[str]:
    *lines, last = patch.split("\n")
    if last:
        lines.append(last)
    if any(line.endswith("\r") and _HUNK.match(line) for line in lines):
        # the patch itself was sent with CRLF; a patch of a CRLF file has it in the file's lines only
        return [line.removesuffix("\r") for line in lines]
    return lines


def _plain_header(lines: list[str], at: int) -> bool:
    return lines[at].startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ ")


def _git_headers(lines: list[str], at: int) -> tuple[_Headers, int]:
    headers = _Headers(at + 1, lines[at].removeprefix("diff --git "), extended={})
    extended: dict[str, str] = {}
    at += 1
    while at < len(lines) and (found := _EXTENDED.fullmatch(lines[at])):
        if found[1] in extended:
            raise PatchProblem(f"Line {at + 1} says `{found[1]}` a second time for the same file.")
        extended[found[1]] = found[2]
        at += 1
    headers.extended = extended
    if at < len(lines) and lines[at].startswith(("GIT binary patch", "Binary files ")):
        raise PatchProblem(f"Line {at + 1}: changes of binary files cannot be applied.")
    if at < len(lines) and _plain_header(lines, at):
        headers.old, headers.new = lines[at][4:], lines[at + 1][4:]
        at += 2
    return headers, at


def _hunk(lines: list[str], at: int) -> tuple[Hunk, int]:
    found = _HUNK.match(lines[at])
    if found is None:
        raise PatchProblem(f"Line {at + 1} is no hunk header: {lines[at][:80]!r}. It must be `@@ -1,3 +1,4 @@`.")
    end, recounted = _end_of_hunk(lines, at)
    body = _body(lines, at + 1, end)
    if not any(mark != " " for mark, _ in body):
        raise PatchProblem(f"The hunk at line {at + 1} changes nothing: no line of it begins with `+` or `-`.")
    return Hunk(at + 1, int(found[1]), int(found[3]), body, recounted), end


def _end_of_hunk(lines: list[str], at: int) -> tuple[int, bool]:
    """Find the end of the hunk whose header is at `at`, and whether the header's counts were wrong."""
    found = _HUNK.match(lines[at])
    assert found is not None  # who asks has seen the header
    old_count, new_count = (int(count) if count else 1 for count in found.group(2, 4))
    end = _counted(lines, at + 1, old_count, new_count)
    return (_uncounted(lines, at + 1), True) if end is None else (end, False)


def _counted(lines: list[str], at: int, old_left: int, new_left: int) -> int | None:
    """Find where a hunk ends by its header's counts; None if they cannot be right."""
    while old_left or new_left:
        mark = lines[at][:1] if at < len(lines) else "?"
        # an empty line is one of context whose blank was lost on the way
        if mark in ("", " "):
            old_left, new_left = old_left - 1, new_left - 1
        elif mark == "-":
            old_left -= 1
        elif mark == "+":
            new_left -= 1
        elif mark != "\\":
            return None
        if old_left < 0 or new_left < 0:
            return None
        at += 1
    if at < len(lines) and lines[at].startswith("\\"):
        at += 1
    goes_on = at < len(lines) and lines[at][:1] in (" ", "+", "-")
    if goes_on and lines[at] != "-- " and not _plain_header(lines, at):
        return None
    return at


def _uncounted(lines: list[str], at: int) -> int:
    """Find where a hunk ends by what follows it."""
    end = at
    while at < len(lines) and lines[at][:1] in ("", " ", "+", "-", "\\"):
        if lines[at] == "-- " or (
            _plain_header(lines, at) and at + 2 < len(lines) and lines[at + 2].startswith("@@ -")
        ):
            break
        at += 1
        # empty lines at the end stand between this hunk and what follows
        end = at if lines[at - 1] else end
    return end


def _body(lines: list[str], start: int, end: int) -> tuple[tuple[Mark, str], ...]:
    body: list[tuple[Mark, str]] = []
    for line in lines[start:end]:
        if line.startswith("\\"):
            if not body or not body[-1][1].endswith("\n"):
                raise PatchProblem(f"The hunk at line {start}: a `\\` line must follow a line of the file.")
            body[-1] = (body[-1][0], body[-1][1].removesuffix("\n"))
        else:
            mark: Mark = "-" if line[:1] == "-" else "+" if line[:1] == "+" else " "
            body.append((mark, line[1:] + "\n"))
    for side in ("+", "-"):
        ends = [line.endswith("\n") for mark, line in body if mark != side]
        if not all(ends[:-1]):
            raise PatchProblem(
                f"The hunk at line {start}: lines follow the one that has no newline at the end of file."
            )
    return tuple(body)


def _file_patch(headers: _Headers, hunks: tuple[Hunk, ...], strip: int | None) -> FilePatch:
    extended = headers.extended or {}
    old, new = _names(headers, strip)
    action: Action = "edit"
    if "rename from" in extended or "copy from" in extended:
        action = "rename" if "rename from" in extended else "copy"
        old, new = _moved(headers.at, extended, action, strip, (old, new))
    elif "new file mode" in extended or (headers.old is not None and old is None):
        action, old = "create", None
    elif "deleted file mode" in extended or (headers.new is not None and new is None):
        action, new = "delete", None
    elif old != new:
        raise PatchProblem(
            f"Line {headers.at}: the old name is {old!r} and the new one {new!r}. To rename, use git's headers "
            "`rename from` and `rename to`; if both begin with folders that are not there, set `strip`."
        )
    if "" in (old, new) or (old is None and new is None):
        raise PatchProblem(f"Line {headers.at}: no name is given for the file.")
    if not hunks and not extended:
        raise PatchProblem(f"Line {headers.at}: no hunk follows the names.")
    # `index 1234..5678 120000`: the mode is the same on both sides, and says when the file is none
    same = extended.get("index", "").partition(" ")[2] or None
    old_mode = extended.get("old mode") or extended.get("deleted file mode") or same
    new_mode = extended.get("new mode") or extended.get("new file mode") or same
    return FilePatch(headers.at, action, old, new, hunks, old_mode, new_mode)


def _moved(
    at: int, extended: dict[str, str], action: str, strip: int | None, named: tuple[str | None, str | None]
) -> tuple[str, str]:
    """The names of a rename or copy, which stand without prefix; they must be those of the other lines."""
    if f"{action} to" not in extended:
        raise PatchProblem(f"Line {at}: `{action} from` without `{action} to`.")
    # these lines have one part less than the names with `a/` and `b/`, as git reads them
    parts = max((strip or 0) - 1, 0)
    names = (
        stripped(unquoted(extended[f"{action} from"]), parts, at),
        stripped(unquoted(extended[f"{action} to"]), parts, at),
    )
    if any(name is not None and name != moved for name, moved in zip(named, names, strict=True)):
        raise PatchProblem(f"Line {at}: the names after `{action} from` and `{action} to` are not those of the file.")
    return names


def _names(headers: _Headers, strip: int | None) -> tuple[str | None, str | None]:
    """The old and the new name, their prefix taken off; None for /dev/null, or where none is given."""
    if headers.old is None or headers.new is None:
        extended = headers.extended or {}
        if "rename from" in extended or "copy from" in extended:
            return None, None
        name = name_in_git_line(headers.git or "", strip, headers.at)
        return name, name
    old, new = (unquoted(raw.partition("\t")[0]) for raw in (headers.old, headers.new))
    named = tuple(None if name == "/dev/null" else name for name in (old, new))
    if strip is None:
        return without_prefix(named[0], named[1])
    taken = (None if name is None else stripped(name, strip, headers.at) for name in named)
    return next(taken), next(taken)
