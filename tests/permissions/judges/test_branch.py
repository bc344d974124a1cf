"""May code run in a branch of the kernel: unasked if the system confines it, and no rule and no setting is against it?"""

from __future__ import annotations

from typing import Any

from cellwright.agent.calls.approval import Decision
from cellwright.permissions.policy import PermissionPolicy
from cellwright.permissions.sandboxing import SandboxAbilities, SandboxRules
from declared_tools import tool_named
from row_tables import for_each_row

ALL = SandboxAbilities(name="test", hides=True, protects=True, hosts=True, protects_patterns=True)
CONFINED = {"setting": "on", "unconfined": ""}
UNCONFINED = {"setting": "on", "unconfined": "No Landlock here."}
ASKS = {"setting": "ask", "unconfined": ""}
OFF = {"setting": "off", "unconfined": ""}


def decided(
    place: Any, facts: dict[str, str], mode: str = "default", code: str = "df.head()", **rules: Any
) -> Decision:
    policy = PermissionPolicy(
        mode=mode, roots=[place.project], cwd=place.project, sandbox=SandboxRules(means=ALL), **rules
    )
    return policy.decide(tool_named("Branch"), {"code": code, **facts})


@for_each_row(
    ("facts", "mode", "rules", "behavior"),
    [
        (CONFINED, "default", {}, "allow"),
        (CONFINED, "plan", {}, "allow"),
        (CONFINED, "dontAsk", {}, "allow"),
        (ASKS, "default", {}, "ask"),
        (ASKS, "plan", {}, "ask"),
        (ASKS, "dontAsk", {}, "deny"),
        (ASKS, "default", {"allow": ["Branch"]}, "allow"),
        (ASKS, "bypassPermissions", {}, "allow"),
        (OFF, "bypassPermissions", {"allow": ["Branch", "Python"]}, "deny"),
        (UNCONFINED, "default", {}, "ask"),
        (UNCONFINED, "default", {"allow": ["Branch"]}, "ask"),
        (UNCONFINED, "default", {"allow": ["Python"]}, "allow"),
        (UNCONFINED, "acceptEdits", {}, "ask"),
        (UNCONFINED, "plan", {"allow": ["Python"]}, "deny"),
        (UNCONFINED, "bypassPermissions", {}, "allow"),
        ({}, "default", {"allow": ["Branch"]}, "ask"),
        (CONFINED, "default", {"deny": ["Branch"]}, "deny"),
        (CONFINED, "default", {"ask": ["Branch"]}, "ask"),
        (CONFINED, "default", {"ask": ["Branch"], "allow": ["Python"]}, "ask"),
        (CONFINED, "bypassPermissions", {"deny": ["Python"]}, "deny"),
        (CONFINED, "default", {"ask": ["Python"]}, "ask"),
        (CONFINED, "default", {"ask": ["Python"], "allow": ["Branch"]}, "ask"),
        (CONFINED, "default", {"deny": ["Read(./secrets/**)"]}, "ask"),
        (CONFINED, "default", {"ask": ["Read(./secrets/**)"]}, "ask"),
        (CONFINED, "default", {"deny": ["Read(./secrets/**)"], "allow": ["Branch"]}, "allow"),
        (CONFINED, "default", {"deny": ["Edit(./secrets/**)"]}, "allow"),
    ],
)
def test_who_is_asked(place, facts, mode, rules, behavior):
    assert decided(place, facts, mode, **rules).behavior == behavior


@for_each_row(
    ("code", "rules", "behavior"),
    [
        ("!rm x", {}, "allow"),
        ("import os; os.system('curl example.com')", {}, "allow"),
        ("!rm x", {"deny": ["Bash(rm *)"]}, "deny"),
        ("!rm x", {"ask": ["Bash(rm *)"]}, "ask"),
        ("1", {"deny": ["Bash(rm *)"]}, "allow"),
    ],
)
def test_a_rule_about_commands_binds_those_that_the_code_names(place, code, rules, behavior):
    assert decided(place, CONFINED, code=code, **rules).behavior == behavior


def test_it_runs_within_the_bounds_of_a_command_that_only_reads_also_once_it_was_asked_about(place):
    for facts in (CONFINED, ASKS):
        bounds = decided(place, facts).confinement
        assert bounds is not None
        assert str(place.project) in bounds.read
        assert (bounds.write, bounds.hosts, bounds.any_host) == ((), None, False)
    kept = decided(place, CONFINED, deny=["Read(./secrets/**)"]).confinement
    assert kept is not None
    assert kept.hides is not None
    assert kept.hides(str(place.project / "secrets"))
    assert decided(place, UNCONFINED).confinement is None


def test_what_is_offered_is_a_rule_that_allows_it(place):
    assert {offer.rules for offer in decided(place, ASKS).suggestions} == {("Branch",)}
    assert {offer.rules for offer in decided(place, UNCONFINED).suggestions} == {("Python",)}


def test_what_cannot_be_hidden_is_not_run_unasked(place):
    weak = SandboxAbilities(name="weak", hides=False, protects=False, hosts=False)
    policy = PermissionPolicy(
        roots=[place.project], cwd=place.project, deny=["Read(./secrets/**)"], sandbox=SandboxRules(means=weak)
    )
    assert policy.decide(tool_named("Branch"), {"code": "1", **CONFINED}).behavior == "ask"
    without = PermissionPolicy(roots=[place.project], cwd=place.project)
    assert without.decide(tool_named("Branch"), {"code": "1", **CONFINED}).behavior == "ask"
