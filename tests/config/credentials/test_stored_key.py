"""The key that a helper of the settings prints: when it runs, and when it is not needed."""

from __future__ import annotations

import pytest

from cellwright.config.credentials.stored_key import with_helpers_key


def test_a_key_helper_runs_again_only_when_its_key_is_old(tmp_path):
    command = f"echo x >> {tmp_path}/runs; echo key-$(wc -l < {tmp_path}/runs)"
    environ = {"PATH": "/usr/bin:/bin"}
    keys = [with_helpers_key(environ, command)["ANTHROPIC_API_KEY"] for _ in range(3)]
    assert keys == ["key-1"] * 3
    old = {**environ, "CLAUDE_CODE_API_KEY_HELPER_TTL_MS": "0"}
    assert with_helpers_key(old, command)["ANTHROPIC_API_KEY"] == "key-2"


@pytest.mark.parametrize("name", ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"])
def test_a_key_that_is_there_needs_no_helper(name):
    environ = {name: "mine"}
    assert with_helpers_key(environ, "exit 1") is environ
    assert with_helpers_key({}, None) == {}
