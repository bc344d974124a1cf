"""Which model answers in a run: the agent's, plan mode's, the one that the user chooses meanwhile, a fallback."""

from pathlib import Path

import pytest

from cellwright.agent.agent_setup import ModelSettings
from cellwright.agent.run_model import RunModel
from cellwright.agent.spending import Spending
from cellwright.errors import ApiError, ErrorCode
from cellwright.events import Event, Notice
from cellwright.sessions.session import Session

OPUS, SONNET, HAIKU = "claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5"
OVERLOADED = ApiError(ErrorCode.API_OVERLOADED, "The API is overloaded.")


@pytest.fixture
def told() -> list[Event]:
    return []


@pytest.fixture
def model(tmp_path: Path, told: list[Event]) -> RunModel:
    session = Session.create(tmp_path, None)
    settings = ModelSettings(plan_model=SONNET, fallback_models=(OPUS, HAIKU, HAIKU), max_tokens=4_000)
    return RunModel(OPUS, settings, session, told.append, Spending(OPUS, session, None))


def test_plan_mode_has_its_own_model(model: RunModel) -> None:
    model.choose(None, "plan")
    assert (model.name, model.is_own) == (SONNET, False)
    model.choose(None, "default")
    assert (model.name, model.is_own) == (OPUS, True)


def test_the_users_choice_is_taken_once(model: RunModel) -> None:
    model.choose(SONNET, "default")
    assert model.name == SONNET
    assert model.next(OVERLOADED) == HAIKU
    model.choose(SONNET, "default")
    assert model.name == HAIKU, "the fallback has taken its place"


def test_a_fallback_takes_over_and_plan_mode_does_not_take_it_back(model: RunModel, told: list[Event]) -> None:
    assert model.fallbacks == [HAIKU], "neither the agent's own nor one twice"
    assert model.next(OVERLOADED) == HAIKU
    model.choose(None, "plan")
    assert model.name == HAIKU
    assert isinstance(told[0], Notice)
    assert model.next(OVERLOADED) is None, "there is no other"


def test_another_error_is_no_reason_for_another_model(model: RunModel) -> None:
    assert model.next(ApiError(ErrorCode.CONTEXT_TOO_LONG, "Too long.")) is None
    assert model.name == OPUS


def test_an_answer_that_was_cut_off_may_be_twice_as_long(model: RunModel) -> None:
    model.allow_longer_answers()
    assert model.max_tokens == 8_000
