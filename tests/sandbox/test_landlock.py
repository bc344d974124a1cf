"""Every way out that is known, by every mechanism: Landlock as each Linux has it, and bubblewrap, as root and as a user."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from cellwright.agent.calls.approval import Confinement
from cellwright.sandbox import landlock
from cellwright.sandbox.mechanisms import Sandbox, try_landlock
from cellwright.sandbox.private_folder import PrivateFolder
from cellwright.sandbox.resolved_bounds import ConfinementError
from confined import sandbox_by
from processes.escape_probes import PROBES, escapes, shut_anyway
from processes.user_process import as_user

VERSIONS = range(1, 8)
"""The versions of Landlock: a restriction is built as if the system had no newer one."""


@pytest.mark.parametrize("version", VERSIONS)
def test_no_probe_leads_out_of_landlock_of_any_version(version: int, tmp_path: Path) -> None:
    sandbox = Sandbox(landlock=_landlock(version))
    if version >= landlock.LEAST_ABI:
        assert try_landlock(version) == ""
        assert escapes(sandbox) == {}
        return
    # it cannot keep a command from emptying files, so it is no sandbox
    assert "too old" in try_landlock(version)
    private = PrivateFolder()
    with contextlib.closing(private), pytest.raises(ConfinementError, match="too old"):
        sandbox.start(_never, ["true"], Confinement(), cwd=tmp_path, environ=os.environ, private=private)


@pytest.mark.parametrize("version", [landlock.LEAST_ABI, VERSIONS[-1]])
def test_no_probe_leads_a_user_out_of_landlock(version: int) -> None:
    sandbox = Sandbox(landlock=_landlock(version))
    assert _as_user(sandbox) == {}


def test_no_probe_leads_out_of_bubblewrap() -> None:
    assert escapes(sandbox_by("bubblewrap")) == {}


def test_no_probe_leads_a_user_out_of_bubblewrap() -> None:
    sandbox = sandbox_by("bubblewrap")
    assert _as_user(sandbox) == {}


INSIDE = {"emptying", "emptying when opened", "opening once more to write"}
OUTSIDE = {"reading outside", "a link to outside", "opening once more", "the way up"}
OTHER_BOUNDS: dict[str, tuple[Callable[[str], Confinement], set[str], set[str]]] = {
    "any host": (
        lambda root: Confinement(read=(root,), any_host=True),
        {"a TCP connection", "UDP"},
        {"TCP fast open", "multipath TCP", "IPv6", "netlink"},
    ),
    "writing": (lambda root: Confinement(write=(root,)), INSIDE, {"modes of what may be read", "times"}),
    "reading all": (lambda _: Confinement(read=("/",)), OUTSIDE, set()),
    "reading all, writing": (
        lambda root: Confinement(read=("/",), write=(root,)),
        INSIDE | OUTSIDE,
        {"modes of what may be read", "times"},
    ),
}
"""Bounds that allow more, with the probes that get through then, and those that may."""


@pytest.mark.parametrize("mechanism", ["Landlock", "bubblewrap"])
@pytest.mark.parametrize("name", list(OTHER_BOUNDS))
def test_bounds_that_allow_more_open_that_and_nothing_else(mechanism: str, name: str) -> None:
    bounds, opened, may_open = OTHER_BOUNDS[name]
    got_through = {name for name, what in escapes(sandbox_by(mechanism), bounds).items() if what == "it got through"}
    assert got_through - may_open == opened


def test_no_two_probes_are_the_same() -> None:
    assert len({probe.code for probe in PROBES.values()}) == len(PROBES)


def _landlock(version: int) -> int:
    newest = sandbox_by("Landlock").landlock
    if version > newest:
        pytest.skip(f"this Linux has Landlock {newest}")
    return version


def _as_user(sandbox: Sandbox) -> object:
    def try_all() -> dict[str, str]:
        shut_anyway.cache_clear()  # of root
        return escapes(sandbox)

    return as_user(try_all)


def _never(*_: object) -> None:
    raise AssertionError("it was started")
