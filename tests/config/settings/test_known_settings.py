"""Who may say what about inline completion and its cost, and about secrets that go to Claude."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from traitlets import TraitError

from cellwright.config.settings.settings import load_settings
from cellwright.kernel.magic.options import Claude


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


def test_completion_may_be_used_and_costs_a_dollar_a_day_at_most(said: Any) -> None:
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


def test_budgets_are_the_users_own_and_what_is_set_in_the_kernel_goes_before_the_file(said: Any) -> None:
    budgets = {"sessionBudget": 2, "notebookBudget": 5.5, "dailyBudget": 0}
    settings = said(user=budgets, folder={"dailyBudget": 500, "sessionBudget": 1_000})
    assert (settings.session_budget, settings.notebook_budget, settings.daily_budget) == (2, 5.5, 0)
    layer, values = Claude(daily_budget=4.0, session_budget=0).inline_settings()[0]
    assert layer.scope == "config"
    assert values == {"cellwright": {"dailyBudget": 4.0, "sessionBudget": 0.0}}
    with pytest.raises(TraitError, match="an amount in US dollars"):
        Claude(notebook_budget=-1)


def write(file: Path, redacts: bool | None) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({} if redacts is None else {"cellwright": {"redactSecrets": redacts}}), "utf-8")


@pytest.mark.parametrize(
    ("managed", "user", "local", "project", "redacts"),
    [
        (None, None, None, None, True),
        (None, False, None, None, False),
        (None, None, False, False, True),
        (True, False, False, False, True),
        (False, True, None, None, False),
    ],
)
def test_where_redaction_counts(
    tmp_path: Path, managed: bool | None, user: bool | None, local: bool | None, project: bool | None, redacts: bool
) -> None:
    home, folder = tmp_path / "home", tmp_path / "project"
    write(tmp_path / "managed" / "managed-settings.json", managed)
    write(home / ".claude" / "settings.json", user)
    write(folder / ".claude" / "settings.json", project)
    write(folder / ".claude" / "settings.local.json", local)
    environ = {"HOME": str(home), "CELLWRIGHT_HOME": str(home / "cellwright")}
    assert load_settings(folder, environ, managed=tmp_path / "managed").redact_secrets is redacts
