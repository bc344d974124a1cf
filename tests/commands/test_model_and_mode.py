"""/model, /mode, /effort and /output-style: what is listed, what is chosen, what that costs, what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cellwright.errors import CellwrightError
from cellwright.testing import MessagesServer, say, use
from talk import Talk


@pytest.fixture
def talk(messages_server: Callable[..., MessagesServer], tmp_path: Path) -> Iterator[Talk]:
    talk = Talk(messages_server([]), tmp_path)
    yield talk
    talk.close()


def test_models_are_listed_with_prices_and_what_is_in_force(talk: Talk) -> None:
    talk.settings(deniedModels=["haiku"])
    (section,) = talk.page("/model").sections
    rows = {row[0]: row for row in section.rows[1:]}
    assert rows["claude-opus-5-5"][3:5] == ("$4.00", "$20.00")
    assert [name for name, row in rows.items() if row[1] == "current"] == ["claude-opus-5-5"]
    assert "claude-haiku-5-5" not in rows
    assert rows["claude-sonnet-5-5"][2] == "sonnet"
    assert rows["claude-sonnet-5-5"][-1] == "1M", "short enough for a narrow panel"


def test_another_model_answers_and_what_that_costs_is_said(talk: Talk) -> None:
    talk.say("hi")
    assert talk.body()["model"] == "claude-opus-5-5"
    text = talk.page("/model sonnet").plain()
    tokens = talk.conversation.sessions.current.context_tokens
    assert f"{tokens:,} tokens" in text
    assert "about $" in text
    talk.say("and now")
    assert talk.body()["model"] == "claude-sonnet-5-5"
    # an option of the prompt itself goes before
    talk.say("once", model="haiku")
    assert talk.body()["model"] == "claude-haiku-5-5"
    assert "/model" in next(row[2] for row in talk.page("/config").sections[0].rows if row[0] == "model")
    talk.page("/model default")
    talk.say("back")
    assert talk.body()["model"] == "claude-opus-5-5"
    assert not talk.server.rejected


def test_what_cannot_be_chosen_is_refused(talk: Talk) -> None:
    talk.settings(
        deniedModels=["opus"],
        model="sonnet",
        maxEffortLevel="high",
        permissions={"disableBypassPermissionsMode": "disable"},
    )
    for command, why in (
        ("/model opus", "`deniedModels` excludes it"),
        ("/model opusplan", "`deniedModels` excludes it"),
        ("/mode bypassPermissions", "switched off"),
        ("/mode wild", "Unknown permission mode"),
        ("/effort enormous", "Unknown effort"),
        ("/output-style rude", "Output style 'rude' was not found"),
    ):
        with pytest.raises(CellwrightError) as refused:
            talk.page(command)
        assert why in refused.value.message, command
    assert talk.conversation.choices.layers() == ()


def test_a_word_that_is_no_model_is_refused_at_anthropics_own_address(talk: Talk) -> None:
    del talk.environ["ANTHROPIC_BASE_URL"]
    with pytest.raises(CellwrightError, match="Model 'sonet' was not found"):
        talk.page("/model sonet")


def test_a_mode_holds_until_another_is_chosen(talk: Talk) -> None:
    talk.page("/mode acceptedits")
    talk.say("write", use("Write", file_path="a.txt", content="a\n"), say("done"))
    assert (talk.project / "a.txt").read_text() == "a\n"
    assert talk.asked == []
    talk.page("/mode default")
    talk.say("write", use("Write", file_path="b.txt", content="b\n"), say("done"))
    assert [ask.name for ask in talk.asked] == ["Write"]
    (section,) = talk.page("/mode").sections
    assert [row[0] for row in section.rows if row[1] == "current"] == ["Ask (default)"]
    for typed in ("accept edits", "Accept edits (acceptEdits)"):
        assert talk.page(f"/mode {typed}").sections[0].title == "Mode: Accept edits"


def test_an_effort_is_sent(talk: Talk) -> None:
    talk.page("/effort low")
    talk.say("hi")
    assert talk.body()["output_config"]["effort"] == "low"
    talk.page("/effort default")
    talk.say("hi")
    assert "effort" not in talk.body().get("output_config", {})


def test_a_style_is_chosen_for_sessions_that_begin_then(talk: Talk) -> None:
    talk.write(".claude/output-styles/pirate.md", "---\nname: Pirate\ndescription: Arr\n---\nTalk as a pirate.")
    assert "first prompt on" in talk.page("/output-style pirate").plain()
    talk.say("hi")
    assert "style: Pirate\nTalk" in talk.system
    assert "# How to work" not in talk.system
    began = talk.body()["system"]
    assert "/clear begins one" in talk.page("/output-style learning").plain()
    talk.say("and now")
    assert talk.body()["system"] == began
    talk.page("/clear")
    talk.say("anew")
    assert "# Output style: Learning" in talk.system
    assert "# How to work" in talk.system


def test_a_projects_style_waits_for_trust(talk: Talk) -> None:
    talk.write("project/.claude/output-styles/loud.md", "SHOUT.")
    assert "loud" not in talk.conversation.features.styles.all()
    assert "until you trust" in talk.page("/output-style").plain()
    talk.trust()
    assert talk.conversation.features.styles.all()["loud"].text == "SHOUT."


def test_a_style_that_is_not_there_is_said_once(talk: Talk) -> None:
    talk.settings(outputStyle="rude")
    talk.say("hi")
    assert [notice for notice in talk.notices if "Output style 'rude'" in notice]
    assert "# How to answer" in talk.system
    talk.say("again")
    assert not [notice for notice in talk.notices if "utput style" in notice]


def test_hooks_are_listed_by_event_with_origin_and_trust(talk: Talk) -> None:
    hook = {"hooks": [{"type": "command", "command": "true"}]}
    talk.settings(hooks={"Stop": [hook], "PreToolUse": [{"matcher": "Bash", **hook}], "NoSuchEvent": [hook]})
    talk.write("project/.claude/settings.json", json.dumps({"hooks": {"Stop": [hook]}}))
    sections = {section.title: section for section in talk.page("/hooks").sections}
    rows = sections["Hooks"].rows[1:]
    assert [(row[0], row[1], row[2]) for row in rows] == [
        ("PreToolUse", "Bash", "command: true"),
        ("Stop", "all", "command: true"),
    ]
    assert all("settings.json" in row[3] and "not trusted" in row[4] for row in rows)
    assert "hook Stop" in sections["Not in force yet"].rows[1][0]
    assert "NoSuchEvent" in sections["Not understood"].rows[1][0]
    talk.trust()
    after = talk.page("/hooks").sections[0].rows[1:]
    assert [(row[0], row[4]) for row in after] == [
        ("PreToolUse", "in force"),
        ("Stop", "in force"),
        ("Stop", "in force"),
    ]


def test_a_diff_shows_what_the_session_and_what_a_turn_changed(talk: Talk) -> None:
    talk.write("project/a.txt", "one\ntwo\n")
    talk.page("/mode acceptEdits")
    talk.say(
        "change it",
        use("Read", file_path="a.txt"),
        use("Edit", file_path="a.txt", old_string="one", new_string="ONE"),
        say("done"),
    )
    talk.say("a new one", use("Write", file_path="b.txt", content="new\n"), say("done"))
    whole = talk.page("/diff")
    assert "-one\n+ONE" in whole.markdown()
    assert "```diff" in whole.markdown()
    assert [row[:2] for row in whole.sections[0].rows[1:]] == [("a.txt", "+1 −1"), ("b.txt", "+1 −0")]
    assert [row[0] for row in talk.page("/diff last").sections[0].rows[1:]] == ["b.txt"]
    assert [row[0] for row in talk.page("/diff 1").sections[0].rows[1:]] == ["a.txt"]
    # what somebody else has changed since is said
    talk.write("project/b.txt", "other\n")
    assert "changed again since" in talk.page("/diff last").plain()
    with pytest.raises(CellwrightError, match="is not a turn of this session"):
        talk.page("/diff 77")


def test_without_changes_a_diff_says_so(talk: Talk) -> None:
    assert "no cell differs" in talk.page("/diff").plain()
