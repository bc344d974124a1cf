"""What a run makes of the settings: model, effort, mode, and what the administrator locks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cellwright.config.settings.settings import load_settings
from cellwright.config.settings.settings_in_force import SettingsInForce
from cellwright.conversation.resolve_options import (
    DEFAULT_MODEL,
    effort_of,
    mode_of,
    model_of,
    policy_of,
    unasked_text,
)
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.errors import CellwrightError, ErrorCode
from row_tables import for_each_row


@pytest.fixture
def settled(own_place: Path, tmp_path: Path):
    """The settings of a user and an administrator."""

    def load(user=None, managed=None, **environ):
        (own_place / ".claude").mkdir(exist_ok=True)
        (own_place / ".claude" / "settings.json").write_text(json.dumps(user or {}), "utf-8")
        (tmp_path / "managed-settings.json").write_text(json.dumps(managed or {}), "utf-8")
        project = tmp_path / "project"
        project.mkdir(exist_ok=True)
        return load_settings(project, {"HOME": str(own_place), **environ}, managed=tmp_path)

    return load


@for_each_row(
    ("said", "model"),
    [
        (None, DEFAULT_MODEL),
        ("opus", DEFAULT_MODEL),
        ("Sonnet", "claude-sonnet-5-5"),
        ("haiku[1m]", "claude-haiku-5-5"),
        ("claude-x-9[1m]", "claude-x-9"),
        ("default", DEFAULT_MODEL),
        ("my-gateways/model", "my-gateways/model"),
    ],
)
def test_short_names_of_models(settled, said, model):
    settings = settled({} if said is None else {"model": said})
    assert model_of(RunOptions(), settings, {}) == model
    assert model_of(RunOptions(model=said), settled(), {}) == model


def test_a_short_name_means_what_the_environment_says(settled):
    environ = {"ANTHROPIC_DEFAULT_OPUS_MODEL": "claude-mine"}
    assert model_of(RunOptions(model="opus"), settled(), environ) == "claude-mine"


def test_the_environment_gives_the_model_where_no_file_does(settled):
    assert model_of(RunOptions(), settled(ANTHROPIC_MODEL="from-environment"), {}) == "from-environment"
    assert model_of(RunOptions(), settled({"model": "haiku"}, ANTHROPIC_MODEL="x"), {}) == "claude-haiku-5-5"


@for_each_row(
    ("settings", "model", "excluded"),
    [
        ({"deniedModels": ["opus"]}, "claude-opus-5", True),
        ({"deniedModels": ["claude-opus-5"]}, "claude-opus-5-5", False),
        ({"deniedModels": ["opus"]}, None, True),
        ({"deniedModels": ["opus"]}, "haiku", False),
        ({"availableModels": ["sonnet"]}, "haiku", True),
        ({"availableModels": ["sonnet"]}, "claude-sonnet-4", False),
        ({"availableModels": []}, "haiku", True),
        ({"availableModels": []}, None, False),
    ],
)
def test_models_that_may_not_be_used(settled, settings, model, excluded):
    if not excluded:
        assert model_of(RunOptions(model=model), settled(settings), {})
        return
    with pytest.raises(CellwrightError, match="may not be used") as caught:
        model_of(RunOptions(model=model), settled(settings), {})
    assert caught.value.code == ErrorCode.CONFIG_INVALID


def test_options_go_before_files_and_the_administrator_before_options(settled):
    options = RunOptions(model="haiku", effort="max", mode="acceptEdits")
    mine = {"model": "sonnet", "effortLevel": "low", "permissions": {"defaultMode": "plan"}}
    settings = settled(mine)
    assert (model_of(options, settings, {}), effort_of(options, settings)) == ("claude-haiku-5-5", "max")
    assert mode_of(options, settings, {}) == "acceptEdits"
    assert (effort_of(RunOptions(), settings), mode_of(RunOptions(), settings, {})) == ("low", "plan")
    settings = settled(mine, {"model": "opus", "effortLevel": "high", "permissions": {"defaultMode": "default"}})
    assert (model_of(options, settings, {}), effort_of(options, settings)) == (DEFAULT_MODEL, "high")
    assert (mode_of(options, settings, {}), mode_of(RunOptions(), settings, {})) == ("default", "plan")
    settings = settled(None, {"permissions": {"defaultMode": "default"}})
    assert mode_of(options, settings, {}) == "default"
    assert mode_of(RunOptions(mode="plan"), settings, {}) == "plan"


def test_bypassing_that_is_switched_off_is_refused(settled):
    settings = settled(None, {"permissions": {"disableBypassPermissionsMode": "disable"}})
    with pytest.raises(CellwrightError, match="switched off") as caught:
        mode_of(RunOptions(mode="bypassPermissions"), settings, {"IS_SANDBOX": "1"})
    assert caught.value.code == ErrorCode.PERMISSION_DENIED


def test_where_nobody_can_be_asked_the_question_is_told(tmp_path):
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".claude" / "settings.json").write_text('{"env": {"A": "1"}}', "utf-8")
    question = SettingsInForce(tmp_path, {"HOME": str(tmp_path / "home")}).question()
    told = unasked_text(question)
    assert "environment variable A" in told
    assert "It continues without." in told


@pytest.mark.parametrize(
    ("administrator", "loosest"),
    [
        ({"defaultMode": "default"}, "default"),
        ({"disableBypassPermissionsMode": "disable"}, "acceptEdits"),
        ({"defaultMode": "plan", "disableBypassPermissionsMode": "disable"}, "plan"),
        ({}, "bypassPermissions"),
    ],
)
def test_what_a_session_comes_to_goes_no_further_than_the_administrator(settled, tmp_path, administrator, loosest):
    policy = policy_of(RunOptions(), settled(None, {"permissions": administrator}), tmp_path, {})
    assert policy.in_mode("bypassPermissions").mode == loosest
