"""The profile for macOS's sandbox, which is text: it is played on macOS alone, by the canary of `find_sandbox`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from cellwright.sandbox.resolved_bounds import Bounds
from cellwright.sandbox.seatbelt import profile

PATHS = {"literal", "subpath"}
KNOWN: dict[str, set[str]] = {
    "process-fork": set(),
    "process-exec": PATHS,
    "process-info*": {"target"},
    "signal": {"target"},
    "sysctl-read": {"sysctl-name"},
    "sysctl-write": {"sysctl-name"},
    "ipc-posix-sem": {"ipc-posix-name"},
    "ipc-posix-shm": {"ipc-posix-name"},
    "mach-lookup": {"global-name"},
    "file-ioctl": PATHS,
    "file-map-executable": PATHS,
    "file-read*": PATHS,
    "file-read-data": PATHS,
    "file-read-metadata": PATHS,
    "file-write*": PATHS,
    "file-write-data": PATHS,
    "file-write-unlink": PATHS,
    "network-outbound": {"remote", "literal"},
    "system-socket": {"socket-domain"},
}
"""Operations and the filters they take, as macOS's own profiles and published ones have them; no others are used."""

ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}
"""A backslash before any other character is that character; `\\x41` and octal numbers are not written by us."""

BOUNDS = Bounds(
    read=("/usr", '/Users/u/a "quoted" name'),
    write=("/Users/u/project",),
    temporary=("/tmp/own",),
    hidden=("/Users/u/project/.env",),
    protected=("/Users/u/project/.git/hooks",),
)


def test_denials_come_after_what_they_take_back() -> None:
    text = profile(BOUNDS, None)
    assert text.startswith("(version 1)\n(deny default)\n")
    rules = [
        '(allow file-read* file-map-executable (subpath "/usr") (subpath "/Users/u/a \\"quoted\\" name")',
        '(allow file-write* (subpath "/Users/u/project") (subpath "/tmp/own"))',
        '(deny file-read* file-write* (subpath "/Users/u/project/.env"))',
        '(deny file-write* (subpath "/Users/u/project/.git/hooks"))',
        '(deny file-write-unlink (literal "/Users/u/project/.env") (literal "/Users/u/project/.git") ',
    ]
    places = [text.index(rule) for rule in rules]
    assert places == sorted(places)
    assert text.count("(") == text.count(")")


def test_the_network_is_what_is_said() -> None:
    ports = [profile(Bounds(network=network), 4711) for network in ("none", "hosts", "any")]  # type: ignore[arg-type]
    assert ["network-outbound" in text for text in ports] == [False, True, True]
    assert 'remote ip "localhost:4711"' in ports[1]
    assert "(remote ip))" in ports[2]


def read(text: str) -> list[Any]:
    """The forms of a profile as the Scheme of macOS reads them: lists, symbols, integers, and `("text",)` for a string."""

    def forms(tokens: Iterator[tuple[str, str]]) -> list[Any]:
        found: list[Any] = []
        for kind, word in tokens:
            match kind:
                case "open":
                    found.append(forms(tokens))
                case "close":
                    return found
                case "string":
                    found.append((re.sub(r"(?s)\\(.)", lambda each: ESCAPES.get(each[1], each[1]), word[1:-1]),))
                case "symbol":
                    found.append(int(word) if word.isdecimal() else word)
        return found

    def tokens() -> Iterator[tuple[str, str]]:
        grammar = r'(?s)(?P<space>\s+)|(?P<open>\()|(?P<close>\))|(?P<string>"(?:[^"\\]|\\.)*")|(?P<symbol>[\w*-]+)'
        place = 0
        while place < len(text):
            found = re.compile(grammar).match(text, place)
            assert found, text[place:][:80]
            place = found.end()
            yield str(found.lastgroup), found[0]

    assert text.count("(") >= 1
    return forms(tokens())


HOSTILE = (
    "/a b",
    '/q"uote',
    "/back\\slash",
    "/new\nline",
    "/bell\x07",
    "/ø/日本",
    "/(allow default)",
    "/semi;colon",
    "/#",
)


@pytest.mark.parametrize("network", ["none", "hosts", "any"])
def test_the_profile_keeps_the_grammar_with_any_path(network: Any) -> None:
    bounds = Bounds(read=HOSTILE, write=("/w",), hidden=tuple(f"/w{each}" for each in HOSTILE), network=network)
    (version, default, *rules) = read(profile(bounds, 4711))
    assert (version, default) == (["version", 1], ["deny", "default"])
    read_paths: set[str] = set()
    for action, *rest in rules:
        assert action in ("allow", "deny")
        operations = [each for each in rest if isinstance(each, str)]
        filters = [each for each in rest if isinstance(each, list)]
        assert operations
        assert [*operations, *filters] == rest, "operations stand before filters"
        for operation in operations:
            assert operation in KNOWN
            assert {each[0] for each in filters} <= KNOWN[operation], operation
        for name, *values in filters:
            match name:
                case "target":
                    assert values in (["self"], ["same-sandbox"], ["others"])
                case "remote":
                    assert values in (["ip"], ["ip", ("localhost:4711",)])
                case _:
                    assert [type(value) for value in values] == [tuple]
            if name == "subpath" and action == "allow" and "file-read*" in operations:
                read_paths.add(values[0][0])
    assert set(HOSTILE) <= read_paths
