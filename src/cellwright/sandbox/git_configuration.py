"""Git's configuration of the user, as a copy without secrets: `GIT_CONFIG_GLOBAL` of a confined command names it.

Git reads `~/.gitconfig` and what it includes for every command, and so would a command that asks for the tokens in there.
The files themselves are hidden. What the copy lacks is decided by names and values; when in doubt, it is left out.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from cellwright.permissions.confined.git_data import read_briefly
from cellwright.redaction.redaction import is_secret
from cellwright.redaction.secret_names import is_secret_name
from cellwright.sandbox.paths import below, led_out, steered
from cellwright.text import lazy_pattern

VARIABLES = ("HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL")
LONGEST = 1_000_000

FOLDER = "git"
"""The folder, in the private one, that the copies lie in."""

_ALWAYS_LEFT_OUT = frozenset({"extraheader", "cookiefile"})
_NO_SECRET = frozenset(
    {
        "signingkey",
        "sslkey",
        "sslcertpasswordprotected",
        "proxysslcertpasswordprotected",
        "proxyauthmethod",
        "defaultkeycommand",
    }
)
"""Keys whose names only sound like one: the id of a key, paths, settings."""
_FILE_KEYS = frozenset({"excludesfile", "attributesfile", "hookspath", "templatedir", "template", "ignorerevsfile"})
"""Keys that name files and folders that git reads."""

_NAMED_AT_WILL = frozenset({"branch", "remote", "submodule"})

_PLAIN_HELPER = lazy_pattern(r"[\w-]+(?: --timeout[= ]\d+)?")
_ADDRESS_USER = lazy_pattern(r"\w[\w+.-]*://(?P<user>[^/\s@'\"]*)@")
_GIVES_SECRET = lazy_pattern(
    r"(?:^|[\s\"'=])[^\s:@/\"']+:[^\s@/\"']+@ | \bsshpass\b | (?:^|\s)(?:-u|--user)[ =]?[^\s:]+:\S", re.VERBOSE
)
"""`name:password@host` without a scheme, and what is given to `curl` and to a login by itself."""
_ASSIGNED = lazy_pattern(
    r"(?:^|[^\w%(-])(?:--?(?P<option>[A-Za-z][\w-]*)[= ]|(?P<name>[A-Za-z][\w.-]*)\s*[=:]\s*)(?=\S)"
)
"""A text that a command in a value is given under a name."""
_BETWEEN_WORDS = lazy_pattern(r"[\s\"'`=:;,()<>|&@]+|://")
_OPAQUE = lazy_pattern(r"(?=(?:\D*\d){3})(?=.*[A-Za-z])[A-Za-z0-9_+~-]{20,}")
"""A word that looks as made by chance: an unknown service's token."""

_MAILMAP = ("mailmap", "file")
_SYSTEM = ("/etc", "/usr", "/opt", "/nix/store", "/run/current-system")

_SECTION = lazy_pattern(r"\[(?P<name>[A-Za-z0-9.-]+)(?:[ \t]+\"(?P<sub>(?:[^\"\\\n]|\\[^\n])*)\")?[ \t]*\]")
_KEY = lazy_pattern(r"(?P<key>[A-Za-z][A-Za-z0-9-]*)[ \t]*(?P<assigned>=?)")
_SKIPPED = lazy_pattern(r"(?:[ \t\r\n\f\v]|[#;][^\n]*)+")
_ESCAPES = {"t": "\t", "b": "\b", "n": "\n", "\\": "\\", '"': '"'}


class Entry(Struct, frozen=True):
    """One setting: names in lower case but for the subsection; `value` is None for a key alone, which means true."""

    section: str
    subsection: str | None
    key: str
    value: str | None


class GitConfiguration(Struct, frozen=True):
    """The user's configuration of git as it is on this disk.

    `originals`: the files that git would read. `secret`: those of them, and of the files they include, that hold a secret.
    `named`: other files and folders that git reads because of it. `texts`: the copy; the first is the whole, the others are
    what it includes, by the number that is their name.
    """

    originals: tuple[str, ...] = ()
    secret: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()


_Stamp = tuple[int, int, int] | None
_cached: dict[tuple[str | None, ...], tuple[GitConfiguration, Mapping[str, _Stamp]]] = {}
_making = threading.Lock()

if hasattr(os, "register_at_fork"):
    # in a forked process the thread that held it is not there
    os.register_at_fork(after_in_child=_making._at_fork_reinit)  # type: ignore[attr-defined]


def git_configuration(environ: Mapping[str, str], home: str, roots: tuple[str, ...]) -> GitConfiguration:
    """Read the user's configuration of git, anew if a file has changed; what lies in `roots` names nothing outside."""
    key = (home, *(environ.get(name) for name in VARIABLES), *roots)
    found = _cached.get(key)
    if found is None or any(_stamp(path) != stamp for path, stamp in found[1].items()):
        reading = _Reading(home, roots)
        found = (reading.whole(_originals(environ, home)), reading.stamps)
        if len(_cached) > 16:
            _cached.clear()
        _cached[key] = found
    return found[0]


def write_copy(configuration: GitConfiguration, folder: str) -> str:
    """Write the copy below the private `folder`, unless it is there; its path, or "" if there is no configuration.

    A copy is never changed: a command that still runs goes on with its own.
    """
    if not configuration.originals:
        return ""
    place = Path(folder, FOLDER, f"{hash(configuration.texts) & 0xFFFFFFFFFFFFFFFF:016x}")
    whole = place / "config"
    with _making:
        if not whole.exists():
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            for number, text in reversed(list(enumerate(configuration.texts))):
                made = whole if number == 0 else place / str(number)
                being_made = place / f"{number}.new"
                opened = os.open(
                    being_made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0), 0o600
                )
                with os.fdopen(opened, "w", encoding="utf-8", errors="surrogateescape") as file:
                    file.write(text)
                being_made.replace(made)
    return str(whole)


def entries_of_text(text: str) -> Iterator[Entry]:
    """Parse git's configuration as far as git understands it."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    section, subsection, at = "", None, 0
    while True:
        if skipped := _SKIPPED.match(text, at):
            at = skipped.end()
        if at >= len(text):
            return
        if found := _SECTION.match(text, at):
            section, dotted, rest = found["name"].lower().partition(".")
            subsection = re.sub(r"\\(.)", r"\1", found["sub"]) if found["sub"] is not None else rest if dotted else None
            at = found.end()
            continue
        setting = _setting(text, at)
        if setting is None:
            return
        key, value, at = setting
        if section:  # git takes a setting before the first section, and has no use for it
            yield Entry(section, subsection, key, value)


def is_secret_setting(entry: Entry) -> bool:
    """Return whether a setting holds a secret, or may."""
    value, subsection = entry.value or "", entry.subsection or ""
    if _looks_secret(value) or _looks_secret(subsection):
        return True
    if entry.section not in _NAMED_AT_WILL and _has_opaque_word(subsection):
        return True
    if entry.section == "alias":  # its keys are the user's own words
        return _has_opaque_word(value)
    if entry.key in _ALWAYS_LEFT_OUT or (entry.section != "credential" and is_secret_name(entry.section)):
        return True
    if entry.section == "credential" and entry.key == "helper":
        return _PLAIN_HELPER.fullmatch(value) is None and value != ""
    if entry.key in _NO_SECRET:
        return False
    return is_secret_name(entry.key) or _has_opaque_word(value)


def _looks_secret(text: str) -> bool:
    if any(":" in found["user"] or len(found["user"]) >= 20 for found in _ADDRESS_USER.finditer(text)):
        return True
    if _GIVES_SECRET.search(text) or any(
        is_secret_name(found["option"] or found["name"]) for found in _ASSIGNED.finditer(text)
    ):
        return True
    return is_secret("", text) or any(is_secret("", word) for word in _BETWEEN_WORDS.split(text))


def _has_opaque_word(text: str) -> bool:
    return any(_OPAQUE.fullmatch(word) for word in _BETWEEN_WORDS.split(text))


def _setting(text: str, at: int) -> tuple[str, str | None, int] | None:
    """The key that begins at a place in `text`, its value, and the place behind them; None if git would not take it."""
    key = _KEY.match(text, at)
    if key is None:
        return None
    if key["assigned"]:
        value, at = _value(text, key.end())
        return None if value is None else (key["key"].lower(), value, at)
    at = key.end()
    return (key["key"].lower(), None, at) if at == len(text) or text[at] == "\n" else None


def _value(text: str, at: int) -> tuple[str | None, int]:
    """The value that begins at a place in `text`, and the place behind it; None if git would not take it."""
    made: list[str] = []
    spaces: list[str] = []  # those at the end do not count
    quoted = False
    while at < len(text):
        character = text[at]
        at += 1
        if character == "\n":
            return (None if quoted else "".join(made)), at
        if not quoted and character in " \t\f\v\r":
            if made:
                spaces.append(character)
            continue
        if not quoted and character in "#;":
            end = text.find("\n", at)
            return "".join(made), len(text) if end < 0 else end
        made += spaces
        spaces = []
        if character == '"':
            quoted = not quoted
        elif character == "\\":
            escaped = text[at : at + 1]
            at += 1
            if escaped == "\n":
                continue
            if escaped not in _ESCAPES:
                return None, at
            made.append(_ESCAPES[escaped])
        else:
            made.append(character)
    return (None if quoted else "".join(made)), at


def _originals(environ: Mapping[str, str], home: str) -> tuple[str, ...]:
    own = environ.get("GIT_CONFIG_GLOBAL")
    if own is not None:
        return (own,) if own.startswith("/") and own != os.devnull else ()
    folder = environ.get("XDG_CONFIG_HOME") or f"{home}/.config"
    return (f"{folder}/git/config", f"{home}/.gitconfig")


class _Reading:
    """Reads the files, each once for each place that includes it, and remembers how each of them was."""

    def __init__(self, home: str, roots: tuple[str, ...]) -> None:
        self.stamps: dict[str, _Stamp] = {}
        self._home = home
        self._roots = roots
        self._texts: list[str] = []
        self._secret: dict[str, None] = {}
        self._named: dict[str, None] = {}

    def whole(self, originals: tuple[str, ...]) -> GitConfiguration:
        """The configuration that git makes of `originals`, the later one over the earlier."""
        self._texts.append("")
        self._texts[0] = "".join(self._file(path, ()) for path in originals)
        there = tuple(path for path in originals if self.stamps[path] is not None)
        return GitConfiguration(there, tuple(self._secret), tuple(self._named), tuple(self._texts))

    def _file(self, path: str, above: tuple[str, ...]) -> str:
        self.stamps[path] = _stamp(path)
        if led_out(path, self._roots):
            return ""
        believed = not steered(path, self._roots)
        lines: list[str] = []
        text = read_briefly(path, LONGEST)
        if len(text) >= LONGEST:
            text = ""  # half of a secret does not look like one
        for entry in entries_of_text(text):
            if is_secret_setting(entry):
                self._secret[path] = None
            elif entry.section in ("include", "includeif") and entry.key == "path":
                lines += self._include(entry, path, above)
            else:
                lines.append(_written(entry))
                if entry.value and believed and (entry.key in _FILE_KEYS or (entry.section, entry.key) == _MAILMAP):
                    self._named[self._absolute(entry.value, path)] = None
        return "".join(lines)

    def _include(self, entry: Entry, path: str, above: tuple[str, ...]) -> Iterable[str]:
        included = self._absolute(entry.value or "", path)
        # included files that are looked at; git itself stops at ten levels
        if not included or included in (*above, path) or len(self._texts) >= 50:
            return
        condition = entry.subsection
        if condition is not None and (relative := re.fullmatch(r"(gitdir(?:/i)?:)\./(.*)", condition, re.DOTALL)):
            condition = f"{relative[1]}{os.path.realpath(Path(path).parent)}/{relative[2]}"
        inside = any(below(os.path.realpath(included), root) for root in self._roots)
        self.stamps[included] = _stamp(included)
        if led_out(included, self._roots) or (steered(path, self._roots) and not inside):
            if any(below(os.path.realpath(included), folder) for folder in _SYSTEM):
                yield _written(Entry(entry.section, condition, "path", included))
            return
        number = len(self._texts)
        self._texts.append("")
        self._texts[number] = self._file(included, (*above, path))
        yield _written(Entry(entry.section, condition, "path", str(number)))

    def _absolute(self, named: str, path: str) -> str:
        """The path that a value names, as git reads it in the file at `path`."""
        if named.startswith("~/"):
            named = f"{self._home}/{named[2:]}"
        elif named.startswith("~"):
            named = os.path.expanduser(named)  # noqa: PTH111 - of another user, as git says it
        if "\0" in named or named.startswith("%(prefix)") or not named:
            return ""
        return named if named.startswith("/") else f"{Path(path).parent}/{named}"


def _stamp(path: str) -> _Stamp:
    try:
        status = os.stat(path)  # noqa: PTH116 - for every command
    except (OSError, ValueError):
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _written(entry: Entry) -> str:
    escaped = (entry.subsection or "").replace("\\", "\\\\").replace('"', '\\"')
    section = entry.section if entry.subsection is None else f'{entry.section} "{escaped}"'
    if entry.value is None:
        return f"[{section}]\n\t{entry.key}\n"
    value = entry.value.replace("\\", "\\\\").replace('"', '\\"')
    value = value.replace("\n", "\\n").replace("\t", "\\t").replace("\b", "\\b")
    return f'[{section}]\n\t{entry.key} = "{value}"\n'
