"""Which credential is found, in the order that users of the SDK and of Claude Code know."""

import json
from pathlib import Path

import pytest

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.model.anthropic import connect
from cellwright.model.credentials import choose_transport
from row_tables import for_each_row

PLATFORMS = {
    "CLAUDE_CODE_USE_BEDROCK": "bedrock",
    "CLAUDE_CODE_USE_MANTLE": "mantle",
    "CLAUDE_CODE_USE_VERTEX": "vertex",
    "CLAUDE_CODE_USE_FOUNDRY": "foundry",
    "CLAUDE_CODE_USE_ANTHROPIC_AWS": "aws",
    "CLAUDE_CODE_USE_ANTHROPIC_GOOGLE_CLOUD": "google_cloud",
}
IDENTITY = {
    "ANTHROPIC_IDENTITY_TOKEN_FILE": "/token",
    "ANTHROPIC_FEDERATION_RULE_ID": "rule",
    "ANTHROPIC_ORGANIZATION_ID": "org",
}


def chosen(tmp_path: Path, **environ: str) -> str:
    return repr(choose_transport({"HOME": str(tmp_path), **environ}))


def test_the_key_has_three_names(tmp_path):
    from cellwright.model.credentials import key_in, leads_to_a_model

    names = ("ANTHROPIC_API_KEY", "CLAUDE_API_KEY", "ANTHROPIC_AUTH_TOKEN")
    for number, name in enumerate(names):
        assert chosen(tmp_path, **{name: "k"}) == "KeyTransport('https://api.anthropic.com')"
        assert leads_to_a_model(name), "no folder may set it"
        assert key_in({each: each for each in names[number:]}) == name


def test_a_key_goes_straight_to_the_api(tmp_path):
    assert chosen(tmp_path, ANTHROPIC_API_KEY="k") == "KeyTransport('https://api.anthropic.com')"
    assert (
        chosen(tmp_path, ANTHROPIC_AUTH_TOKEN="t", ANTHROPIC_BASE_URL="http://gw/x/") == "KeyTransport('http://gw/x')"
    )
    assert chosen(tmp_path, ANTHROPIC_CUSTOM_HEADERS="X-Api-Key: k").startswith("KeyTransport")


@for_each_row(("switch", "platform"), PLATFORMS.items())
@for_each_row("value", ["1", "true", " Yes "])
def test_a_platform_comes_before_a_key(tmp_path, switch, platform, value):
    assert chosen(tmp_path, **{switch: value}, ANTHROPIC_API_KEY="k") == f"SdkTransport('{platform}')"


@pytest.mark.parametrize("value", ["", "0", "false", "no"])
def test_a_switch_can_be_off(tmp_path, value):
    assert chosen(tmp_path, CLAUDE_CODE_USE_BEDROCK=value, ANTHROPIC_API_KEY="k").startswith("KeyTransport")


def test_a_key_comes_before_what_the_sdk_finds(tmp_path):
    assert chosen(tmp_path, ANTHROPIC_API_KEY="k", ANTHROPIC_PROFILE="p", **IDENTITY).startswith("KeyTransport")


def test_what_the_sdk_finds(tmp_path):
    assert chosen(tmp_path, ANTHROPIC_PROFILE="work") == "SdkTransport('anthropic')"
    assert chosen(tmp_path, **IDENTITY) == "SdkTransport('anthropic')"
    profile = tmp_path / ".config" / "anthropic" / "configs" / "default.json"
    profile.parent.mkdir(parents=True)
    profile.write_text(json.dumps({}))
    assert chosen(tmp_path) == "SdkTransport('anthropic')"


def test_profiles_in_a_folder_of_their_own(tmp_path):
    (tmp_path / "active_config").write_text("work")
    assert chosen(tmp_path, ANTHROPIC_CONFIG_DIR=str(tmp_path)) == "SdkTransport('anthropic')"


@pytest.mark.parametrize("environ", [{}, {"ANTHROPIC_API_KEY": " "}, {"ANTHROPIC_FEDERATION_RULE_ID": "rule"}])
def test_without_a_credential_the_three_ways_are_said(tmp_path, environ):
    with pytest.raises(CellwrightError) as caught:
        connect({"HOME": str(tmp_path), **environ})
    assert caught.value.code == ErrorCode.API_KEY_MISSING
    for way in ("ANTHROPIC_API_KEY", "ant auth login", "CLAUDE_CODE_USE_BEDROCK", "ANTHROPIC_BASE_URL"):
        assert way in caught.value.message


def test_a_setting_that_makes_no_sense_is_said_at_once():
    with pytest.raises(CellwrightError, match="CELLWRIGHT_MAX_RETRIES"):
        connect({"ANTHROPIC_API_KEY": "k", "CELLWRIGHT_MAX_RETRIES": "x"})
