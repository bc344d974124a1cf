"""What a conversation makes of the settings and the options: the policy of its runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cellwright.agent.calls.tool_results import output_folder
from cellwright.conversation.core import Host
from cellwright.conversation.resolve_options import policy_of
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.features.conversation import Conversation
from cellwright.permissions.modes import host_facts
from cellwright.permissions.policy import PermissionPolicy
from declared_tools import tool_named


@pytest.fixture
def conversation(tmp_path: Path, own_place: Path) -> Conversation:
    (own_place / ".claude").mkdir()
    (own_place / ".claude" / "settings.json").write_text(
        json.dumps({"permissions": {"deny": ["Bash(rm *)"], "allow": ["Bash(make *)"]}}), "utf-8"
    )
    return Conversation(Host(cwd=tmp_path, interface="a test", environ={"HOME": str(own_place)}))


def policy(conversation: Conversation, **options: Any) -> PermissionPolicy:
    in_force = conversation.in_force
    return policy_of(RunOptions(**options), in_force.settings, conversation.cwd, in_force.environ)


def test_rules_of_settings_and_options_hold_together(conversation):
    rules = policy(conversation, allow=("Bash(ls *)", "Bash(rm *)"), deny=("Bash(make clean)",))
    decided = {
        command: rules.decide(tool_named("Bash"), {"command": command}).behavior
        for command in ("make all", "make clean", "rm x", "ls src", "touch x")
    }
    assert decided == {"make all": "allow", "make clean": "deny", "rm x": "deny", "ls src": "allow", "touch x": "ask"}


def test_claude_may_read_the_long_outputs_it_is_referred_to(conversation):
    rules = policy(conversation, mode="dontAsk")
    inside, beside = output_folder() / "x.txt", output_folder().parent / "x.txt"
    assert rules.decide(tool_named("Read"), {"file_path": str(inside)}).behavior == "allow"
    assert rules.decide(tool_named("Read"), {"file_path": str(beside)}).behavior == "deny"
    assert rules.decide(tool_named("Write"), {"file_path": str(inside)}).behavior == "deny"


def test_bypassing_as_root_is_refused_where_the_machine_may_not_be_lost(conversation):
    facts = host_facts(conversation.in_force.environ)
    if facts.is_root and not facts.in_container:
        with pytest.raises(CellwrightError) as caught:
            policy(conversation, mode="bypassPermissions")
        assert caught.value.code == ErrorCode.PERMISSION_DENIED
    else:
        assert policy(conversation, mode="bypassPermissions").mode == "bypassPermissions"


def test_a_malformed_rule_of_the_options_is_an_error(conversation):
    with pytest.raises(CellwrightError) as caught:
        policy(conversation, allow=("Bash(",))
    assert caught.value.code == ErrorCode.CONFIG_INVALID
