"""Who may say what of inline completion: anybody that it is off, its user alone what it may cost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cellwright.config.settings.settings import load_settings


@pytest.fixture
def said(tmp_path: Path) -> Any:
    """What the settings come to when the user and a folder that nobody trusts say something."""

    def settings(*, user: dict[str, Any] | None = None, folder: dict[str, Any] | None = None) -> Any:
        home, project = tmp_path / "home", tmp_path / "project"
        for place, values in ((home, user), (project, folder)):
            (place / ".claude").mkdir(parents=True)
            if values is not None:
                (place / ".claude" / "settings.json").write_text(json.dumps({"cellwright": values}))
        return load_settings(project, {"HOME": str(home)}, managed=tmp_path / "none")

    return settings


def test_it_may_be_used_and_costs_a_dollar_a_day_at_most(said: Any) -> None:
    settings = said()
    assert settings.inline_completion
    assert settings.inline_completion_budget == 1.0


def test_a_folder_can_switch_it_off_and_not_make_it_dearer(said: Any) -> None:
    settings = said(folder={"inlineCompletion": False, "inlineCompletionBudget": 500})
    assert not settings.inline_completion
    assert settings.inline_completion_budget == 1.0


def test_a_folder_cannot_switch_on_what_its_user_has_switched_off(said: Any) -> None:
    settings = said(user={"inlineCompletion": False, "inlineCompletionBudget": 0.25}, folder={"inlineCompletion": True})
    assert not settings.inline_completion
    assert settings.inline_completion_budget == 0.25


@pytest.mark.parametrize("amount", [-1, True, "1", 10_001])
def test_an_amount_that_is_none_is_left_out_and_named(said: Any, amount: object) -> None:
    settings = said(user={"inlineCompletionBudget": amount})
    assert settings.inline_completion_budget == 1.0
    assert "inlineCompletionBudget" in "".join(settings.notices)
