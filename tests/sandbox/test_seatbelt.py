"""The profile for macOS's sandbox, which is text: it is played on macOS alone, by the canary of `find_sandbox`."""

from __future__ import annotations

from cellwright.sandbox.resolved_bounds import Bounds
from cellwright.sandbox.seatbelt import profile

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
