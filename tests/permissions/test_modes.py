"""The names of the modes, and when the loosest is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.permissions.modes import (
    MODE_LABELS,
    MODES,
    HostFacts,
    check_bypass_allowed,
    host_facts,
    in_container,
    parse_mode,
    stricter,
)
from row_tables import for_each_row


@pytest.mark.parametrize("mode", MODES)
def test_every_mode_is_known_by_its_name(mode):
    assert parse_mode(mode) == (mode, "")


def test_the_browser_calls_modes_by_the_names_of_the_menu():
    names = json.loads((Path(__file__).parents[2] / "docs/protocol/mode-names.json").read_text("utf-8"))
    assert names == {mode: name for mode, (name, _) in MODE_LABELS.items()}


def test_auto_is_taken_as_default_with_a_notice():
    mode, notice = parse_mode("auto")
    assert mode == "default"
    assert "auto" in notice
    assert parse_mode("manual") == ("default", "")


@pytest.mark.parametrize("name", ["", "Default", "bypass", "yolo"])
def test_an_unknown_mode_is_an_error_that_lists_the_modes(name):
    with pytest.raises(CellwrightError) as caught:
        parse_mode(name)
    assert caught.value.code == ErrorCode.CONFIG_INVALID
    assert "acceptEdits" in caught.value.message


def test_the_stricter_of_two():
    assert stricter("plan", "bypassPermissions") == "plan"
    assert stricter("default", "dontAsk") == "dontAsk"
    assert stricter("acceptEdits", "default") == "default"


@pytest.mark.parametrize(
    ("facts", "allowed"),
    [
        (HostFacts(is_root=False), True),
        (HostFacts(is_root=True), False),
        (HostFacts(is_root=True, is_sandbox=True), True),
        (HostFacts(is_root=True, in_container=True), True),
    ],
)
def test_root_may_bypass_permissions_only_where_the_machine_may_be_lost(facts, allowed):
    if allowed:
        check_bypass_allowed(facts)
        return
    with pytest.raises(CellwrightError, match="IS_SANDBOX=1") as caught:
        check_bypass_allowed(facts)
    assert caught.value.code == ErrorCode.PERMISSION_DENIED


@for_each_row(
    ("file", "content", "environ", "expected"),
    [
        (None, "", {}, False),
        (None, "", {"container": "podman"}, True),
        (None, "", {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, True),
        (".dockerenv", "", {}, True),
        ("run/.containerenv", "", {}, True),
        ("proc/1/cgroup", "0::/\n", {}, False),
        ("proc/1/cgroup", "12:pids:/kubepods/burstable/x\n", {}, True),
        ("proc/1/cgroup", "12:pids:/docker/abc\n", {}, True),
    ],
)
def test_containers_are_recognised(tmp_path: Path, file, content, environ, expected):
    if file:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(content, "utf-8")
    assert in_container(environ, tmp_path) is expected


def test_the_facts_of_this_machine():
    assert host_facts({"IS_SANDBOX": "1"}).is_sandbox
    assert not host_facts({"IS_SANDBOX": "0"}).is_sandbox
