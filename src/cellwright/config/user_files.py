"""Files that users bring: searched for, and read as a JSON object or as Markdown with front matter.

Each prompt asks what settings, skills, agents and instructions there are, and hardly ever is there anything new: the
result of a search is kept while nothing that it looks at has changed.

A broken file is named with its place, and harms nothing. Files that work in Claude Code are read, also where YAML refuses
their front matter: most often a description that has a colon and no quotes. Then each line `key: value` counts as it
stands.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Generic, TypeVar

from msgspec import Struct

from cellwright.config.settings.option_table import BY_NAME
from cellwright.model.provider import ModelChoice
from cellwright.text import lazy_pattern

Asked = TypeVar("Asked")
Found = TypeVar("Found")

Facts = tuple[int | str, ...]
"""The first is the time of the last change, in nanoseconds; 0 where it does not matter."""

MAX_PLACES = 400
"""The most that is looked at to know that nothing has changed; with more, a search is no dearer."""

TIME_STEP_NS = 2_000_000_000
"""The coarsest step in which a file system in use counts time (FAT's), in nanoseconds."""

MAX_BYTES = 1_000_000


MAX_VALUES = 10_000
"""More values, those that aliases stand for counted each time, are none: written out they would fill the memory."""

_FENCE = lazy_pattern(r"---[ \t]*\n(?P<yaml>.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_PLAIN_LINE = lazy_pattern(r"(?P<key>[A-Za-z][\w-]*): (?P<value>[A-Za-z/$](?:[^\s:#]|:(?=\S)|(?<! )#| (?! |$))*)")
_QUOTED_LINE = lazy_pattern(r'(?P<key>[A-Za-z][\w-]*): "(?P<text>[ !#-\[\]-~]*)"', re.ASCII)
_NO_TEXTS = frozenset({"yes", "no", "on", "off", "null", "y", "n"})
_FLAGS = {"true": True, "True": True, "false": False, "False": False}
_LINE = lazy_pattern(r"(?P<key>[A-Za-z_][\w-]*)[ \t]*:[ \t]*(?P<value>.*)")
_REFUSED = lazy_pattern(r"^[\[{%@`,\]}*]|:\s|:$")
# one list or object in YAML's brackets, of plain elements
_BRACKETS = lazy_pattern(r"\[[^\[\]{}:]*\]|\{[^\[\]{}]*\}")


class KeptSearch(Generic[Asked, Found]):
    """A search, `search(asked)`, made anew only where something has changed that it looks at. From any thread.

    `places(asked)` are the files and folders that tell, by being there, by the time of their change, or by the names in
    them, whether the search would find something else. `keeps(found)` says whether they tell all of it. A file that has
    changed within `time_step_ns` before a search can change again and look the same, so that one is not relied on.
    """

    def __init__(
        self,
        search: Callable[[Asked], Found],
        places: Callable[[Asked], Iterator[str]],
        *,
        keeps: Callable[[Found], bool] = lambda _found: True,
        time_step_ns: int = TIME_STEP_NS,
    ) -> None:
        self._search, self._places, self._keeps = search, places, keeps
        self._time_step_ns = time_step_ns
        self._kept: tuple[Asked, Sequence[str], list[Facts | None], Found] | None = None

    def find(self, asked: Asked) -> Found:
        """The findings as they are now."""
        if (kept := self._kept) is not None:
            before, places, facts, found = kept
            if before == asked and [facts_of(place) for place in places] == facts:
                return found
        now = time.time_ns()
        places = [*islice(self._places(asked), MAX_PLACES + 1)]
        if len(places) > MAX_PLACES:
            self._kept = None
            return self._search(asked)
        facts = [facts_of(place) for place in places]  # before the search: what changes during it is seen next time
        found = self._search(asked)
        is_settled = all(fact is None or int(fact[0]) < now - self._time_step_ns for fact in facts)
        self._kept = (asked, places, facts, found) if is_settled and self._keeps(found) else None
        return found


def places_below(folder: str) -> Iterator[str]:
    """The places of a search that may find any file in `folder` or below."""
    yield folder
    # links are followed: what they lead to is read, too
    for parent, folders, files in os.walk(folder, followlinks=True):
        for name in (*folders, *files):
            yield f"{parent}/{name}"


class _Seen(threading.local):
    facts: dict[str, Facts | None] | None = None


_seen = _Seen()  # of a thread and no context: what is begun meanwhile and goes on looks for itself


@contextlib.contextmanager
def seen_once() -> Iterator[None]:
    """In the block, on this thread, `facts_of` tells of each path what it found first.

    For a moment in which several searches look at the same files: an answer from before a search is as good for it.
    """
    before, _seen.facts = _seen.facts, {}
    try:
        yield
    finally:
        _seen.facts = before


def facts_of(path: str) -> Facts | None:
    """The facts that tell one state of a file or folder from another; of the folder of git, that it is there."""
    if (seen := _seen.facts) is None:
        return _facts(path)
    if path not in seen:
        seen[path] = _facts(path)
    return seen[path]


def _facts(path: str) -> Facts | None:
    try:
        # of what a link leads to; a string, since paths are dear to make; the change time cannot be set back
        facts = os.stat(path)  # noqa: PTH116
        if not stat.S_ISDIR(facts.st_mode):
            return (facts.st_ctime_ns, facts.st_mtime_ns, facts.st_size, facts.st_ino, facts.st_mode)
        if path.endswith("/.git"):
            return (0, facts.st_ino)
        # the times of a folder tell nothing where it is kept by a web service
        return (0, facts.st_ino, facts.st_mode, *sorted(os.listdir(path)))  # noqa: PTH208
    except (OSError, ValueError):  # none is there, it may not be read, or none can be of that name
        return None


def crowded(folder: Path, there: int, most: int, what: str) -> list[str]:
    """Say that of the `what` in a folder only the first are taken, where there are more."""
    return [f"{folder}: of {there:,} {what} only the first {most:,} are taken."] if there > most else []


def files_in(folder: Path, pattern: str) -> list[Path]:
    """The files of `folder` that fit a pattern of `Path.glob`, sorted; none where it is missing or may not be read."""
    if not os.path.isdir(folder):  # noqa: PTH112  most are not there, and every prompt asks: a glob is dear
        return []
    try:
        return sorted(folder.glob(pattern))
    except OSError:
        return []


class SettingsProblem(Exception):
    """Raised for a file that is no settings file: `file:line:column: what is wrong`."""


def read_settings_file(file: Path) -> dict[str, Any] | None:
    """Read a settings file; None where there is none. Raises SettingsProblem."""
    try:
        facts = file.stat()
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > MAX_BYTES:
            # a link to /dev/zero, a pipe: reading it would never end
            raise SettingsProblem(f"{file}: is not a regular file of at most {MAX_BYTES:,} bytes")
        text = file.read_bytes().decode("utf-8-sig")
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise SettingsProblem(f"{file}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise SettingsProblem(f"{file}: is not UTF-8 (byte {error.start})") from error
    return parse_settings(text, file)


def parse_settings(text: str, file: Path) -> dict[str, Any]:
    """The object that `text`, the content of `file`, says in strict JSON. Raises SettingsProblem."""
    try:
        value = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_unique)
    except json.JSONDecodeError as error:
        raise SettingsProblem(f"{file}:{error.lineno}:{error.colno}: is not JSON: {error.msg}") from error
    except (ValueError, RecursionError) as error:
        raise SettingsProblem(f"{file}: is not strict JSON: {error}") from error
    if not isinstance(value, dict):
        raise SettingsProblem(f"{file}: is not a JSON object")
    return value


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not valid JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # of two `deny` lists in one object the first would be lost in silence
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key!r} occurs twice in one object")
        found[key] = value
    return found


class FrontMatter(Struct, frozen=True):
    """The values at the beginning of a file, and the text after them. `problem` says where YAML refused the values."""

    values: Mapping[str, Any]
    body: str
    problem: str = ""


def model_choice(values: Mapping[str, Any], problems: list[str]) -> dict[str, Any]:
    """The fields of `ModelChoice` as front matter says them; what is not understood is put to `problems`."""
    found = {name: plain_text(values.get(name)) for name in ModelChoice.__struct_fields__}
    if found["model"] == "inherit":
        found["model"] = None
    for name, value in found.items():
        if value is not None and (known := BY_NAME[name].kind.names) and value not in known:
            problems.append(f"{name} is {value!r}, not one of {', '.join(known)}")
            found[name] = None
    return found


def plain_text(value: Any) -> str | None:
    """The text of a value that is no list or object, without space around it; None for an empty one."""
    return None if value is None or isinstance(value, list | Mapping) else str(value).strip() or None


def read_front_matter(text: str) -> FrontMatter:
    """Take `text` apart; a file without front matter has no values. Line ends become line feeds.

    >>> read_front_matter("---\\ndescription: Use this: always\\n---\\nBody").values
    {'description': 'Use this: always'}
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    # a longer front matter is none
    found = _FENCE.match(text, 0, 20_000) if text.startswith("---") else None
    if found is None:
        return FrontMatter({}, text)
    body = text[found.end() :]
    if (plain := _plain(found["yaml"])) is not None:
        return FrontMatter(plain, body)
    values, problem = _yaml_values(found["yaml"])
    return FrontMatter(dict(values), body, problem)


@functools.lru_cache(maxsize=256)  # all files are read for each prompt, and YAML takes half a millisecond for each
def _yaml_values(text: str) -> tuple[Mapping[str, Any], str]:
    """The values of front matter, and what YAML has against it."""
    import yaml  # 16 ms; many sessions have no such file

    try:
        # not the loader in C: deep nesting overflows its stack, and a foreign file would end the kernel
        values = yaml.load(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"line {mark.line + 2}: " if mark is not None else ""
        if (quoted := _with_quotes(text)) is not None:
            return quoted, ""
        return _lines(text), f"{where}{getattr(error, 'problem', None) or error}"
    if values is None:
        return {}, ""
    if not isinstance(values, dict):
        return _lines(text), "the front matter is not a list of `key: value`"
    if not _can_be_written_out(values):
        return {}, f"the front matter comes to more than {MAX_VALUES:,} values"
    return {str(key): value for key, value in values.items()}, ""


def _with_quotes(text: str) -> dict[str, Any] | None:
    """The values where only texts without quotes are what YAML refuses (`[file] [lines]`, a colon); None for any other."""
    import yaml

    lines = [_quoted(line) for line in text.split("\n")]
    try:
        values = yaml.load("\n".join(lines), Loader=yaml.SafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    if not isinstance(values, dict) or not _can_be_written_out(values):
        return None
    return {str(key): value for key, value in values.items()}


def _quoted(line: str) -> str:
    """A line `key: text` whose text YAML would take for something else, with quotes; any other as it is."""
    found = _LINE.fullmatch(line)
    value = "" if found is None else found["value"].strip()
    if found is None or not value or value[0] in "\"'|>&!" or not _REFUSED.search(value) or _BRACKETS.fullmatch(value):
        return line
    return f"{found['key']}: '{value.replace(chr(39), chr(39) * 2)}'"


def _can_be_written_out(values: Any) -> bool:
    """Return whether `values` are few: aliases can stand for more than there is room for, and for themselves."""
    waiting, count = [values], 0
    while waiting:
        value = waiting.pop()
        count += 1
        if count + len(waiting) > MAX_VALUES:
            return False
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return True


def _plain(yaml: str) -> dict[str, Any] | None:
    """The values of front matter that is only lines `key: text` or `key: "text"`, which YAML would read the same.

    None for any other.
    """
    values: dict[str, Any] = {}
    for line in yaml.splitlines():
        if (quoted := _QUOTED_LINE.fullmatch(line)) is not None and quoted["key"] not in values:
            values[quoted["key"]] = quoted["text"]
            continue
        found = _PLAIN_LINE.fullmatch(line)
        if found is None or found["key"] in values or found["value"].lower() in _NO_TEXTS:
            return None
        values[found["key"]] = _FLAGS.get(found["value"], found["value"])
    return values


def texts(value: Any) -> tuple[str, ...]:
    """The texts of a list that may also be written as one text with commas, or be left empty.

    >>> texts("Read, Grep"), texts(["Read", "Grep"]), texts(None)
    (('Read', 'Grep'), ('Read', 'Grep'), ())
    """
    if value is None or isinstance(value, Mapping):
        return ()
    parts = value if isinstance(value, list | tuple) else _at_commas(str(value))
    return tuple(text for part in parts if part is not None and (text := str(part).strip().strip("\"'")))


def _at_commas(text: str) -> list[str]:
    """Split at commas that stand in no brackets: `src/*.{ts,tsx}` and `Bash(a, b)` are one element."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "({[") - (character in ")}]")
        if character == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def _lines(yaml: str) -> dict[str, Any]:
    """The values of lines `key: value`; lines that are indented, or begin with `-`, belong to the key before them."""
    values: dict[str, Any] = {}
    key = ""
    for line in yaml.split("\n"):
        if found := _LINE.fullmatch(line):
            key = found["key"]
            values[key] = found["value"].strip().strip("\"'").removeprefix("|").removeprefix(">")
        elif key and (element := line.strip()) and not element.startswith("#"):
            before = values[key]
            if element.startswith("- ") and (not before or isinstance(before, list)):
                values[key] = [*before, element[2:].strip()]
            elif isinstance(before, str):
                values[key] = f"{before}\n{element}".strip()
    return values
