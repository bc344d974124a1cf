"""What the sandbox of a machine cannot enforce is asked: no call is allowed in bounds that nobody can keep it to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from cellwright.agent.calls.approval import Confinement, Decision
from cellwright.permissions.policy import PermissionPolicy
from cellwright.permissions.sandboxing import SandboxAbilities, SandboxRules
from cellwright.sandbox.resolved_bounds import MOST_ENTRIES
from confined import sandbox_by
from declared_tools import tool_named
from row_tables import for_each_row

PER_FOLDER = 2_000
SMALL = SandboxAbilities(name="small", hides=True, protects=True, hosts=True, why_not=lambda _: "it is too small")


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of more files than a pattern can be looked for in."""
    folder = tmp_path_factory.mktemp("large")
    (folder / "notes.txt").write_text("tide\n", "utf-8")
    for number in range(MOST_ENTRIES // PER_FOLDER + 1):
        (folder / f"data{number}").mkdir()
        for file in range(PER_FOLDER):
            (folder / f"data{number}" / str(file)).touch()
    return folder


@pytest.fixture(params=["Landlock", "bubblewrap"])
def abilities(request: pytest.FixtureRequest) -> SandboxAbilities:
    return sandbox_by(request.param).abilities


def decide(folder: Path, sandbox: SandboxRules, command: str, mode: str = "default", **rules: Any) -> Decision:
    policy = PermissionPolicy(mode=mode, roots=[folder], cwd=folder, sandbox=sandbox, **rules)
    return policy.decide(tool_named("Bash"), {"command": command})


@pytest.mark.parametrize("mode", ["default", "acceptEdits"])
@pytest.mark.parametrize("enabled", [False, True])
@pytest.mark.parametrize("allow", [(), ("Bash(make *)", "Bash(awk *)"), ("Bash",)])
def test_no_call_is_allowed_in_bounds_that_cannot_be_kept(large, tmp_path, abilities, mode, enabled, allow):
    sandbox = SandboxRules(means=abilities, enabled=enabled)
    (tmp_path / "key.pem").touch()
    for folder in (large, tmp_path):
        for command in ("ls", "awk 1 notes.txt", "make all", "touch new"):
            decision = decide(folder, sandbox, command, mode, deny=["Read(*.pem)"], allow=allow)
            if decision.confinement is not None:
                assert abilities.why_not(decision.confinement) == "", command


def test_what_would_run_unasked_asks_and_says_why(large, abilities):
    reads, runs = SandboxRules(means=abilities), SandboxRules(means=abilities, enabled=True)
    assert decide(large, reads, "awk '{print $(1)}' notes.txt").behavior == "allow"
    decision = decide(large, reads, "awk '{print $(1)}' notes.txt", deny=["Read(*.pem)"])
    assert (decision.behavior, decision.confinement) == ("ask", None)
    assert "cannot enforce that here" in decision.reason
    assert "20,000" in decision.reason
    # what is known to only look is decided as without a sandbox
    assert decide(large, reads, "ls", deny=["Read(*.pem)"]).behavior == "allow"
    decision = decide(large, runs, "make all", deny=["Read(*.pem)"])
    assert decision.behavior == "ask"
    assert decision.confinement is not None
    # who allows it is not refused what nobody can enforce
    allowed = decide(large, runs, "make all", deny=["Read(*.pem)"], allow=["Bash(make *)"])
    assert allowed.behavior == "allow"
    assert allowed.confinement is not None


@pytest.mark.parametrize(("tool", "given"), [("Bash", {"command": "make all"}), ("RunTests", {})])
def test_a_decision_asks_once_whether_bounds_can_be_kept_and_the_next_asks_anew(tmp_path, tool, given):
    asked: list[Confinement] = []

    def why_not(confinement: Confinement) -> str:
        asked.append(confinement)
        return "it is too small"

    means = structs.replace(SMALL, why_not=why_not)
    policy = PermissionPolicy(roots=[tmp_path], cwd=tmp_path, sandbox=SandboxRules(means=means, enabled=True))
    # the rules that are offered are judged, too
    first = policy.decide(tool_named(tool), given)
    at_first = [*asked]
    assert len(at_first) == len(set(at_first)) > 0
    assert policy.decide(tool_named(tool), given) == first
    assert asked == at_first * 2


def test_a_file_that_is_new_since_the_last_decision_is_protected(tmp_path, abilities):
    policy = PermissionPolicy(
        roots=[tmp_path], cwd=tmp_path, sandbox=SandboxRules(means=abilities, enabled=True), deny=["Edit(*.lock)"]
    )
    for name in ("first.lock", "second.lock"):
        (tmp_path / name).touch()
        decision = policy.decide(tool_named("Bash"), {"command": "make all"})
        bounds = decision.confinement
        if decision.behavior == "allow":
            assert bounds is not None
            assert bounds.protects is not None
            assert bounds.protects(str(tmp_path / name))
        else:
            assert (bounds is not None and str(tmp_path / name) in bounds.protected) == abilities.protects


@for_each_row(
    ("sandbox", "mode", "allow", "expected"),
    [
        ({}, "default", ["Bash(make *)"], "allow"),
        ({"enabled": True}, "default", ["Bash(make *)"], "ask"),
        ({"enabled": True}, "bypassPermissions", [], "ask"),
        ({"enabled": True}, "dontAsk", ["Bash(make *)"], "deny"),
        ({"enabled": True, "allow_unsandboxed": False}, "default", ["Bash(make *)"], "deny"),
        ({"enabled": True, "allow_unsandboxed": False}, "default", [], "deny"),
    ],
)
def test_where_nothing_at_all_can_be_enforced(tmp_path, sandbox, mode, allow, expected):
    decision = decide(tmp_path, SandboxRules(means=SMALL, **sandbox), "make all", mode, allow=allow)
    assert decision.behavior == expected
    assert decision.confinement is None
    assert ("it is too small" in decision.reason) == bool(sandbox)


@pytest.mark.parametrize(("tool", "given"), [("RunTests", {}), ("Git", {"subcommand": "log"}), ("Lint", {})])
def test_other_tools_that_start_programs(large, abilities, tool, given):
    for enabled in (False, True):
        policy = PermissionPolicy(
            mode="default",
            roots=[large],
            cwd=large,
            deny=["Read(*.pem)"],
            allow=[tool],
            sandbox=SandboxRules(means=abilities, enabled=enabled),
        )
        decision = policy.decide(tool_named(tool), given)
        assert decision.confinement is None or abilities.why_not(decision.confinement) == ""
        small = replace(policy, sandbox=SandboxRules(means=SMALL, enabled=enabled)).decide(tool_named(tool), given)
        assert small.behavior == ("ask" if enabled else "allow")
