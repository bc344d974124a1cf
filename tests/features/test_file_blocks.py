"""Without tools an answer proposes files in blocks that name them: judged, shown and written as calls of Write are."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cellwright.agent.calls.approval import Deny
from cellwright.agent.calls.file_blocks import find_blocks
from cellwright.testing import MessagesServer, say, turn
from talk import Talk

ANSWER = "Here:\n\n```python:src/app.py\nprint(1)\n```\n\nand\n\n```\nno file\n```\n"


@pytest.fixture
def talk(messages_server: Callable[..., MessagesServer], tmp_path: Path) -> Iterator[Talk]:
    talk = Talk(messages_server([]), tmp_path)
    yield talk
    talk.close()


def test_blocks_are_found_by_what_stands_behind_their_language() -> None:
    wrong = [
        (markdown, found)
        for markdown, expected in (
            ("```python:src/app.py\nx\n```", [("src/app.py", "x\n")]),
            ("~~~c++:a b.cpp\nx\n~~~", [("a b.cpp", "x\n")]),
            ("````md:doc.md\n```py:in.py\nx\n```\n````", [("doc.md", "```py:in.py\nx\n```\n")]),
            ("```:plain.txt\nx\n```", [("plain.txt", "x\n")]),
            ("```python\nx\n```", []),
            ("```https://x.example\nx\n```", []),
            ("`python:a.py`", []),
            ("- list\n\n  ```py:a.py\n  x\n  ```", []),
            ("```py:a.py\nnot closed", [("a.py", "not closed")]),
        )
        if (found := [(block.path, block.content) for block in find_blocks(markdown)]) != expected
    ]
    assert wrong == []


def test_a_block_is_asked_about_as_a_write_is_and_written(talk: Talk) -> None:
    end = talk.say("make it", say(ANSWER), builtin_tools=False, proposes_files=True)
    assert end.error is None
    assert "tools" not in talk.body()
    assert "language and path" in json.dumps(talk.body()["messages"])
    assert [(ask.name, ask.input["file_path"]) for ask in talk.asked] == [("Write", "src/app.py")]
    assert "+print(1)" in talk.asked[0].preview.detail
    assert (talk.project / "src/app.py").read_text() == "print(1)\n"
    # the call stands in no message: the API has the answer alone
    assert [message["role"] for message in talk.conversation.sessions.current.messages] == ["user", "assistant"]
    talk.say("and now", say("Fine."), builtin_tools=False, proposes_files=True)
    told = json.dumps(talk.body()["messages"][-1])
    assert "app.py: written" in told
    assert "language and path" not in told
    assert "-print(1)" in talk.page("/diff").markdown() or "+print(1)" in talk.page("/diff").markdown()
    assert not talk.server.rejected


def test_an_existing_file_that_was_shown_is_offered_as_a_diff(talk: Talk) -> None:
    talk.write("project/src/app.py", "print(0)\n")
    talk.say("change @src/app.py", say(ANSWER), builtin_tools=False, proposes_files=True)
    assert "-print(0)\n+print(1)" in talk.asked[0].preview.detail
    assert (talk.project / "src/app.py").read_text() == "print(1)\n"


def test_what_may_not_be_written_is_not(talk: Talk) -> None:
    talk.write("project/seen.py", "old\n")
    talk.write("project/secret.py", "old\n")
    talk.settings(permissions={"deny": ["Edit(secret.py)"]})
    cases = [
        # (path, what the user says, options, the file afterwards)
        ("new.py", Deny("no", by="input"), {}, None),
        ("new.py", None, {"mode": "plan"}, None),
        ("secret.py", None, {"mode": "acceptEdits"}, "old\n"),
        # not shown to Claude: it would be overwritten blindly
        ("seen.py", None, {"mode": "acceptEdits"}, "old\n"),
        ("new.py", None, {"headless": True}, None),
        ("../outside.py", None, {"headless": True, "mode": "acceptEdits"}, None),
    ]
    wrong = []
    for path, answer, options, expected in cases:
        talk.answer = answer or talk.answer
        talk.say("x", say(f"```py:{path}\nx\n```"), builtin_tools=False, proposes_files=True, **options)
        file = talk.project / path
        content = file.read_text() if file.exists() else None
        if content != expected or [status for status, _ in talk.results] == ["success"]:
            wrong.append((path, options, content, talk.results))
    assert wrong == []


def test_headless_a_rule_or_a_mode_lets_it_be_written(talk: Talk) -> None:
    answer = "```py:a.py\nx = 1\n```"
    talk.say("x", say(answer), builtin_tools=False, proposes_files=True, headless=True, mode="acceptEdits")
    assert (talk.project / "a.py").read_text() == "x = 1\n"
    end = talk.say(
        "x", say("```py:b.py\nx = 1\n```"), builtin_tools=False, proposes_files=True, headless=True, on_denied="error"
    )
    assert end.error is not None
    assert not (talk.project / "b.py").exists()


def test_with_tools_a_block_is_only_shown(talk: Talk) -> None:
    talk.say("x", say(ANSWER))
    assert talk.asked == []
    assert not (talk.project / "src").exists()


def test_behind_a_summary_it_is_told_again_how_and_nothing_of_tools(talk: Talk) -> None:
    talk.say("one", say("Well. " * 1_000), builtin_tools=False, proposes_files=True)
    talk.server.add(
        turn(say("<summary>It went well.</summary>"), when="Everything above will be replaced by a summary")
    )
    talk.page("/compact")
    talk.say("two", say(ANSWER), builtin_tools=False, proposes_files=True)
    told = json.dumps(talk.body()["messages"])
    assert "It went well." in told
    assert "language and path" in told
    assert "the tool Agent" not in told
    assert "<tools-since" not in told
    assert (talk.project / "src/app.py").read_text() == "print(1)\n"
    assert not talk.server.rejected


def test_with_tools_again_it_is_told_that_blocks_write_nothing(talk: Talk) -> None:
    def told_now() -> str:
        return json.dumps(talk.body()["messages"][-1])

    talk.say("one", say("Well."), builtin_tools=False, proposes_files=True)
    talk.say("two", say(ANSWER))
    assert "have tools now" in told_now()
    assert not (talk.project / "src/app.py").exists()
    talk.say("three", say("Well."))
    assert "file-blocks" not in told_now()
    talk.say("four", say("Well."), builtin_tools=False, proposes_files=True)
    assert "language and path" in told_now()
    assert not talk.server.rejected
