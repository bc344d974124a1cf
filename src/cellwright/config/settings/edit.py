"""A setting that a user enters: its value checked, and the file changed so that nothing else in it changes.

Layout, order and all that the file says stay. The folder is locked for that moment, so that of two kernels that write
there at once none loses what it wrote.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from cellwright.config.settings.known_settings import KEYS, MODE_NAMES, Key, near_key
from cellwright.config.user_files import SettingsProblem, parse_settings
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.permissions.rules.rule import grant_problem, parse_rule
from cellwright.sessions.project_writes import check_way, make_folders
from cellwright.sessions.state_dir import PRIVATE_FILE, make_private_folder, state_folder
from cellwright.this_process.files import POLL_SECONDS, FileLocks, system_locks
from cellwright.tools.files.atomic_write import write_atomically
from cellwright.tools.files.staged_file import FileChanged
from cellwright.version import documented

_RULES = ("permissions.allow", "permissions.ask", "permissions.deny")


@contextlib.contextmanager
def locked(
    folder: Path, locks: FileLocks | None = None, *, opens_folders: bool = sys.platform != "win32"
) -> Iterator[None]:
    """Hold the lock of `folder`; where a system `opens_folders` not, that of a file in our state. Raises OSError.

    Without locks (NFS) it holds nothing: writers then compare before they rename.
    """
    locks = locks or system_locks()
    handle = os.open(folder, os.O_RDONLY) if opens_folders else _open_lock_file(folder)
    try:
        with contextlib.suppress(OSError):
            while not locks.try_lock(handle):
                time.sleep(POLL_SECONDS)
        yield
    finally:
        locks.close(handle)


def _open_lock_file(folder: Path) -> int:
    name = os.path.normcase(os.path.realpath(folder))
    place = state_folder() / "locks" / f"{hashlib.sha256(os.fsencode(name)).hexdigest()[:32]}.lock"
    make_private_folder(place.parent)
    return os.open(place, os.O_RDWR | os.O_CREAT, PRIVATE_FILE)


_BLANK = " \t\r\n"
_DECODER = json.JSONDecoder()


def set_value(file: Path, path: Sequence[str], value: Any, *, project: Path | None = None) -> None:
    """Have the settings in `file` say `value` at `path`; None takes out what they say there.

    The user's own file may lie behind links; below `project` none is followed. Raises SettingsProblem, OSError.
    """
    real = file.resolve() if project is None else check_way(project, file)
    _change_file(real, lambda text: with_value(text, path, value))


def add_allow_rules(file: Path, rules: Sequence[str], project: Path) -> None:
    """Put `rules`, all of them or none, at the end of `permissions.allow` in `file`, which is made if need be.

    No link below `project` is followed. Raises SettingsProblem, OSError.
    """
    make_folders(project, file.parent)
    _change_file(check_way(project, file), lambda text: _with_allow_rules(text, rules, file))


def change_rules(
    file: Path, behavior: str, *, add: Sequence[str] = (), remove: Sequence[str] = (), project: Path | None = None
) -> None:
    """Put rules at the end of `permissions.BEHAVIOR` in `file`, or take them out. Raises SettingsProblem, OSError.

    The user's own file may lie behind links; below `project` none is followed.
    """

    def changed(text: str) -> str:
        rules = parse_settings(text, file).get("permissions", {})
        listed = rules.get(behavior, []) if isinstance(rules, dict) else None
        if not isinstance(listed, list):
            raise SettingsProblem(f"{file}: `permissions` is not an object with a list `{behavior}`")
        for rule in remove:
            text = _without_elements(text, ("permissions", behavior), rule)
        for rule in add:
            text = text if rule in listed else with_rule(text, behavior, rule)
        return text

    if project is not None:
        make_folders(project, file.parent)
    _change_file(file.resolve() if project is None else check_way(project, file), changed)


def _without_elements(text: str, path: Sequence[str], element: str) -> str:
    """`text`, a JSON object, without the elements of the list at `path` that are `element`; the rest keeps its layout."""
    start: int | None = _skip_blank(text, 0)
    for name in path:
        start = None if start is None else _member(text, start, name)
    if start is None:
        return text
    at, before = _skip_blank(text, start + 1), start + 1
    while text[at] != "]":
        value, end = _DECODER.raw_decode(text, at)
        after = _skip_blank(text, end)
        if value == element:
            if text[after] == ",":  # with the comma behind it, and up to the next one
                text = text[:at] + text[_skip_blank(text, after + 1) :]
            else:  # the last: with the comma before it
                text = text[:before] + text[end:]
                at = _skip_blank(text, before)
            continue
        before = end
        at = _skip_blank(text, after + 1) if text[after] == "," else after
    return text


def _change_file(file: Path, change: Callable[[str], str]) -> None:
    file.parent.mkdir(exist_ok=True)
    with locked(file.parent):
        # the number of times the file may change under us (Claude Code saves rules there too) before we give up
        for _ in range(3):
            with contextlib.suppress(FileChanged):
                _change(file, change)
                return
    raise SettingsProblem(f"{file}: another program keeps changing it")


def _change(file: Path, change: Callable[[str], str]) -> None:
    status = file.stat() if file.exists() else None
    if status is not None and not stat.S_ISREG(status.st_mode):
        raise SettingsProblem(f"{file}: is not a file")
    try:
        text = file.read_bytes().decode("utf-8-sig") if status else ""
    except UnicodeDecodeError as error:
        raise SettingsProblem(f"{file}: is not UTF-8") from error
    text = text if text.strip() else "{}\n"
    parse_settings(text, file)
    if (changed := change(text)) != text:
        # a real path: a link that was put in it since raises FileChanged
        write_atomically(file, changed.encode(), replacing=status)


def with_value(text: str, path: Sequence[str], value: Any) -> str:
    """`text`, a JSON object, with `value` at `path`, or without what is there for None; nothing else of it changes."""
    start = _skip_blank(text, 0)
    for depth, name in enumerate(path):
        found = _member(text, start, name)
        last = depth == len(path) - 1
        if found is None:
            if value is None:
                return text
            for outer in reversed(path[depth + 1 :]):
                value = {outer: value}
            return _with_element(text, start, f"{_quoted(name)}: {json.dumps(value, ensure_ascii=False)}")
        if last:
            _, end = _DECODER.raw_decode(text, found)
            if value is None:
                return _without_member(text, start, name, end)
            return f"{text[:found]}{json.dumps(value, ensure_ascii=False)}{text[end:]}"
        if text[found] != "{":
            raise SettingsProblem(f"`{'.'.join(path[: depth + 1])}` is not an object there")
        start = found
    return text


def _without_member(text: str, start: int, name: str, end: int) -> str:
    """`text` without the member `name`, whose value ends at `end`, of the object that begins at `start`."""
    at = _skip_blank(text, start + 1)
    begin, first = start + 1, True
    while True:
        key, after = _DECODER.raw_decode(text, at)
        if key == name:
            break
        _, after = _DECODER.raw_decode(text, _skip_blank(text, _skip_blank(text, after) + 1))
        begin, first = after, False  # with the comma before it
        at = _skip_blank(text, _skip_blank(text, after) + 1)
    rest = _skip_blank(text, end)
    if first and text[rest] == ",":
        return text[:begin] + text[rest + 1 :]
    return text[:begin] + (text[rest:] if first else text[end:])


def _with_allow_rules(text: str, rules: Sequence[str], file: Path) -> str:
    expected = parse_settings(text, file)
    permissions = expected.setdefault("permissions", {})
    if not isinstance(permissions, dict) or not isinstance(permissions.setdefault("allow", []), list):
        raise SettingsProblem(f"{file}: `permissions` is not an object with a list `allow`")
    changed = text
    for rule in rules:
        if rule not in permissions["allow"]:
            permissions["allow"].append(rule)
            changed = with_allow_rule(changed, rule)
    if json.loads(changed) != expected:
        raise SettingsProblem(f"{file}: is laid out in a way that a rule cannot be added to")
    return changed


def with_allow_rule(text: str, rule: str) -> str:
    """`text`, a JSON object, with `rule` at the end of its `permissions.allow`; nothing else of it changes."""
    return with_rule(text, "allow", rule)


def with_rule(text: str, behavior: str, rule: str) -> str:
    """`text`, a JSON object, with `rule` at the end of its `permissions.BEHAVIOR`; nothing else of it changes."""
    start = _skip_blank(text, 0)
    permissions = _member(text, start, "permissions")
    if permissions is None:
        return _with_element(text, start, f'"permissions": {{"{behavior}": [{_quoted(rule)}]}}')
    rules = _member(text, permissions, behavior)
    if rules is None:
        return _with_element(text, permissions, f'"{behavior}": [{_quoted(rule)}]')
    return _with_element(text, rules, _quoted(rule))


def _quoted(rule: str) -> str:
    try:
        rule.encode()
    except UnicodeEncodeError:  # a file's name that is no UTF-8: only JSON's own escapes can write it
        return json.dumps(rule)
    return json.dumps(rule, ensure_ascii=False)


def _skip_blank(text: str, at: int) -> int:
    while at < len(text) and text[at] in _BLANK:
        at += 1
    return at


def _member(text: str, start: int, key: str) -> int | None:
    """Find the beginning of the value of `key` in the object that begins at `start`."""
    at = _skip_blank(text, start + 1)
    while text[at] != "}":
        name, at = _DECODER.raw_decode(text, at)
        at = _skip_blank(text, _skip_blank(text, at) + 1)
        if name == key:
            return at
        _, at = _DECODER.raw_decode(text, at)
        at = _skip_blank(text, at)
        if text[at] == ",":
            at = _skip_blank(text, at + 1)
    return None


def _with_element(text: str, start: int, element: str) -> str:
    """`text` with `element` added at the end of the array or object that begins at `start`, laid out like the others."""
    _, end = _DECODER.raw_decode(text, start)
    first = _skip_blank(text, start + 1)
    if first == end - 1:
        line = text[text.rfind("\n", 0, start) + 1 : start]
        indent = line[: len(line) - len(line.lstrip())]
        return f"{text[: start + 1]}\n{indent}  {element}\n{indent}{text[end - 1 :]}"
    last = end - 1
    while text[last - 1] in _BLANK:
        last -= 1
    between = text[start + 1 : first] or " "
    return f"{text[:last]},{between}{element}{text[last:]}"


def parsed_value(text: str) -> Any:
    """Read JSON, or take the text as it is."""
    try:
        value = json.loads(text)
    except ValueError:
        return text
    return text if value is None else value


def checked_value(key: str, value: Any) -> Any:
    """The value, if the key may have it in the user's own file. Raises CellwrightError CONFIG_INVALID."""
    path = tuple(key.split("."))
    known = KEYS.get(path) or KEYS.get(path[:-1])
    if known is None:
        near = near_key(key)
        hint = f" Did you mean `{near}`?" if near else f" {documented('settings')} lists them."
        raise CellwrightError(ErrorCode.CONFIG_INVALID, f"There is no setting `{key}`.{hint} Nothing was changed.")
    if problem := _problem(known, path, value):
        raise CellwrightError(ErrorCode.CONFIG_INVALID, f"{problem} Nothing was changed.")
    return value


def _problem(known: Key, path: tuple[str, ...], value: Any) -> str:
    if known.folder == "managed":
        return f"`{known.name}` counts in the administrator's settings only."
    if known.name == "permissions.defaultMode" and value not in MODE_NAMES:
        return f"`{known.name}` is one of {', '.join(MODE_NAMES)}."
    is_member = path != known.path
    if known.shape in ("members", "lists") and not is_member:
        return f"`{known.name}` is set member by member: `{known.name}.NAME`."
    listed = known.shape == "list" or (known.shape == "lists" and is_member)
    if listed and not isinstance(value, list):
        return f'`{".".join(path)}` is a list: \'["…", "…"]\'.'
    values = value if listed else [value]
    wrong = next((expected for each in values if (expected := known.check(each))), "")
    if wrong:
        return f"`{'.'.join(path)}` is {wrong}."
    if known.name not in _RULES:
        return ""
    return next((problem for value in values if (problem := rule_problem(known.path[-1], value))), "")


def rule_problem(behavior: str, value: object) -> str:
    """Say what is wrong with a rule of `permissions.BEHAVIOR`; "" for nothing."""
    if not isinstance(value, str):
        return f"{value!r} is not a rule."
    try:
        rule = parse_rule(value)
    except CellwrightError as error:
        return error.message
    return (grant_problem(rule) or "") if behavior == "allow" else ""
