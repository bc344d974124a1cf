"""What runs in a container needs the questions that it needed before, and is bound to it once it is allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cellwright.agent.calls.approval import Confinement, Container
from cellwright.permissions.policy import PermissionPolicy
from cellwright.permissions.sandboxing import SandboxAbilities, SandboxRules


def policy(root: Path, why_not: str = "", **more: Any) -> PermissionPolicy:
    def enforces(_confinement: Confinement) -> str:
        return why_not

    means = SandboxAbilities(name="container x", hides=True, protects=True, hosts=False, why_not=enforces)
    inside = SandboxRules(
        means=means, enabled=True, auto_allow=False, container=Container(image="python:3.12", project=str(root))
    )
    return PermissionPolicy(roots=[root], cwd=root, sandbox=SandboxRules(in_container=inside), **more)


def test_a_command_that_changes_asks_and_says_where_it_runs(tmp_path: Path) -> None:
    decision = policy(tmp_path).decide("Bash", {"command": "make"})
    assert decision.behavior == "ask"
    assert decision.reason.endswith("It runs in the container python:3.12.")
    assert decision.confinement is not None
    assert decision.confinement.keeps_installed
    assert decision.confinement.read == (str(tmp_path),)


def test_what_only_reads_runs_in_the_container_too(tmp_path: Path) -> None:
    decision = policy(tmp_path).decide("Bash", {"command": "cat a.txt"})
    assert decision.behavior == "allow"
    assert decision.confinement is not None
    assert decision.confinement.container is not None
    assert decision.confinement.write == ()


def test_tests_and_fresh_kernels_ask_and_are_bound_to_it(tmp_path: Path) -> None:
    for name in ("RunTests", "NotebookVerify"):
        decision = policy(tmp_path, allow=[name]).decide(name, {"codes": ["1"]})
        assert decision.behavior == "allow", name
        assert decision.confinement is not None, name
        assert decision.confinement.container is not None, name
        asked = policy(tmp_path).decide(name, {"codes": ["1"]})
        assert asked.behavior == "ask", name
        assert "no sandbox" not in asked.reason, name


def test_rules_hold_as_they_do_without_it(tmp_path: Path) -> None:
    assert policy(tmp_path, deny=["Bash(make *)"]).decide("Bash", {"command": "make x"}).behavior == "deny"
    allowed = policy(tmp_path, allow=["Bash(make *)"]).decide("Bash", {"command": "make x"})
    assert allowed.behavior == "allow"
    assert allowed.confinement is not None
    assert policy(tmp_path, mode="bypassPermissions").decide("Bash", {"command": "make"}).confinement is not None


def test_what_it_cannot_enforce_never_runs_unasked_beside_it(tmp_path: Path) -> None:
    for mode in ("default", "acceptEdits", "bypassPermissions"):
        for command in ("make", "cat a.txt", "touch b"):
            decision = policy(tmp_path, why_not="no room", mode=mode).decide("Bash", {"command": command})
            assert decision.behavior == "ask", (mode, command)
            assert "outside the sandbox" in decision.reason, (mode, command)


def test_other_programs_run_on_this_machine(tmp_path: Path) -> None:
    for name in ("GitDiff", "Lint", "Python"):
        assert policy(tmp_path).decide(name, {}).confinement is None, name
