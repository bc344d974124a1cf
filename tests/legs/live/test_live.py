"""A few runs on the real API: `make test-live`, with a key in the environment. They cost a few cents."""

import os

import pytest

KEY = os.environ.get("ANTHROPIC_API_KEY", "")
MODEL = os.environ.get("CELLWRIGHT_LIVE_MODEL", "claude-haiku-5-5")

pytestmark = [
    pytest.mark.live,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not KEY, reason="NO KEY: set ANTHROPIC_API_KEY to run the tests on the real API"),
]


@pytest.fixture
def key(monkeypatch, tmp_path):
    # the fixture of every test takes credentials out of the environment
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.chdir(tmp_path)


def test_an_answer(key):
    import cellwright

    result = cellwright.ask("What is 6 times 7? Answer with the number alone.", model=MODEL, session=None, budget=0.05)
    assert "42" in result.text
    assert result.cost_usd is not None


def test_tools_over_two_turns_of_one_session(key, tmp_path):
    import cellwright

    (tmp_path / "secret.txt").write_text("the word is heron\n")
    session = cellwright.Session.create(tmp_path, tmp_path / "sessions")
    first = cellwright.ask("Which word does secret.txt name?", model=MODEL, session=session, budget=0.10)
    assert "heron" in first.text
    second = cellwright.ask(
        "Change that word in the file to egret.", model=MODEL, session=session, mode="acceptEdits", budget=0.10
    )
    assert second.stop_reason == "end_turn"
    assert "egret" in (tmp_path / "secret.txt").read_text()
