"""A conversation that the API refuses goes on: by what it took before, whatever words it refuses it with."""

from __future__ import annotations

import base64
import io
import json
import re
from typing import Any

import pytest
from PIL import Image
from tests.agent.plain_tools import look

from cellwright.agent.tool import ToolResult, tool
from cellwright.events import Notice
from cellwright.sessions.session import Session
from cellwright.testing import fault, say, searched, think, turn, use
from row_tables import for_each_row

WORDS = ("bad", "Ungültige Anfrage", '{"code": 7}', "Input validation error")
"""Nothing of what the API itself would say."""


def refusing(what: str, words: str = "bad", status: int = 400) -> Any:
    """A model that refuses every conversation that `what` (a pattern) is in, and answers all others."""

    def answer(body: dict[str, Any]) -> Any:
        if re.search(what, json.dumps(body["messages"])):
            return fault("status", status=status, message=words)
        return say("fine")

    return answer


def told(played: Any) -> str:
    return " ".join(notice.message for notice in played.of(Notice))


def begun(tmp_path: Any, *messages: dict[str, Any], usage: bool = False) -> Session:
    """A session in memory in which these messages were said; `usage`: the API took them."""
    session = Session.create(tmp_path, None)
    session.begin(model="claude-opus-5-5", system=[], tools=[])
    for message in messages:
        answered = usage and message["role"] == "assistant"
        session.append(message, **({"usage": {"output_tokens": 1}, "model": "claude-opus-5-5"} if answered else {}))
    return session


def user(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks)}


def assistant(*blocks: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks)}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def picture(width: int = 9) -> dict[str, Any]:
    data = io.BytesIO()
    Image.new("RGB", (width, 9)).save(data, "PNG")
    source = {"type": "base64", "media_type": "image/png", "data": base64.b64encode(data.getvalue()).decode()}
    return {"type": "image", "source": source}


@for_each_row("words", WORDS)
@for_each_row("status", [400, 422])
def test_the_last_answer_is_left_out_if_it_is_at_fault(scene, tmp_path, words, status):
    session = begun(tmp_path, user(text("one")), assistant(text("a POISONED answer")), usage=True)
    played = scene(refusing(r'"assistant"[^]]*POISONED', words, status), session=session)
    assert played.go_on("two").text == "fine"
    assert "last accepted message: 1" in told(played)
    assert words in told(played)
    sent = played.bodies[-1]["messages"]
    assert [message["role"] for message in sent] == ["user", "user"]
    assert ": a POISONED answer" in sent[1]["content"][0]["text"]
    assert sent[1]["content"][1]["text"] == "two"
    assert played.go_on("three").text == "fine"
    assert len(played.bodies) == 3, "once is enough"


def test_thinking_is_left_out_before_anything_else(scene, tmp_path):
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    session = begun(tmp_path, user(text("one")), assistant(thought, text("an answer")), usage=True)
    played = scene(refusing('"thinking"', "bad"), session=session, model="claude-opus-5")
    assert played.go_on("two").text == "fine"
    assert "thinking" in told(played)
    assert "an answer" in json.dumps(played.bodies[-1]["messages"][1])


@for_each_row("words", WORDS)
def test_a_picture_that_is_refused_is_put_in_words(scene, tmp_path, words):
    played = scene(refusing('"image"', words), session=begun(tmp_path))
    played.session = Session.create(tmp_path, None)
    assert played.go_on([text("look"), picture()]).text == "fine"
    assert "without the picture" in told(played)
    [message] = played.bodies[-1]["messages"]
    assert [block["type"] for block in message["content"]] == ["text", "text"]
    assert played.go_on("more").text == "fine"


def test_a_picture_in_a_result_that_is_refused_is_put_in_words(scene):
    @tool(read_only=True)
    async def shot() -> ToolResult:
        """Take a picture."""
        return ToolResult([picture()])

    def answer(body):
        last = body["messages"][-1]["content"]
        if last == "go" or last[-1].get("text") == "go":
            return use("shot")
        return refusing('"image"')(body)

    played = scene(answer, tools=[shot])
    assert played.go_on("go").text == "fine"
    [result] = played.results()
    assert ["image" in block["text"] for block in result["content"]] == [True]
    assert played.go_on("more").text == "fine"


def test_of_a_conversation_that_was_never_accepted_the_user_s_words_are_kept(scene, tmp_path):
    """One of another program's, which has no answer of the API's to go back to."""
    session = begun(tmp_path, user(text("one")), assistant(text("a POISONED answer")), user(text("and")))
    played = scene(refusing(r'"assistant"'), session=session)
    assert played.go_on("two").text == "fine"
    assert "your message alone: 3" in told(played)
    [message] = played.bodies[-1]["messages"]
    assert "said: one" in message["content"][0]["text"]
    assert message["content"][-1]["text"] == "two"
    assert played.go_on("three").text == "fine"


def test_a_beginning_that_is_refused_twice_is_left_out_too(scene, tmp_path):
    """Another account, or another platform, may not take what the first one took. The first time nothing is lost."""
    session = begun(tmp_path, user(text("a POISONED one")), assistant(text("yes")), usage=True)
    played = scene(refusing(r"^.{0,60}POISONED"), session=session)
    assert played.go_on("two").error["code"] == "API_REQUEST_INVALID"
    assert [message["role"] for message in played.session.messages] == ["user", "assistant"]
    assert played.go_on("three").text == "fine"
    assert "begins anew" in told(played)
    assert ": 2" in told(played)
    assert played.go_on("four").text == "fine"


def test_an_error_about_something_else_changes_nothing(scene, tmp_path):
    session = begun(tmp_path, user(text("one")), assistant(text("yes")), usage=True)
    played = scene(refusing("", "max_tokens: 5 > 4, which is the maximum"), session=session)
    assert played.go_on("two").error["code"] == "API_REQUEST_INVALID"
    assert len(played.bodies) == 1
    assert [message["role"] for message in played.session.messages] == ["user", "assistant"]


def test_where_nothing_helps_the_first_words_of_the_api_are_told_and_nothing_is_lost(scene, tmp_path):
    session = begun(tmp_path, user(text("one")), assistant(text("yes")), usage=True)
    tries = iter(["first", "second", "third"])

    def answer(body):
        return fault("status", status=400, message=next(tries))

    played = scene(answer, session=session)
    assert "(first)" in played.go_on("two").error["message"]
    assert [message["content"][0]["text"] for message in played.session.messages] == ["one", "yes"]
    assert "message(s) are" not in told(played)


class TestServerCalls:
    """Searches of the API's own that some gateways send without their results."""

    @pytest.mark.parametrize("stop_reason", ["end_turn", "max_tokens", "stop_sequence"])
    def test_without_its_result_one_does_not_become_history(self, scene, stop_reason):
        lone = turn(searched("bees", answered=False, text="They hum."), stop_reason=stop_reason)
        played = scene([lone, say("fine"), say("fine")])
        assert played.go_on("one").text.startswith("They hum.")
        assert played.go_on("two").text == "fine"
        assert played.server.rejected == []

    def test_beside_a_call_of_ours_neither(self, scene):
        played = scene([turn(searched("bees", answered=False), use("look", name="x")), say("fine")], tools=[look])
        assert played.go_on("one").text == "fine"
        assert played.server.rejected == []

    def test_with_its_result_it_is_kept(self, scene):
        played = scene([turn(searched("bees", text="They hum.")), say("fine")])
        played.go_on("one")
        assert played.go_on("two").text == "fine"
        kept = [block["type"] for block in played.bodies[-1]["messages"][1]["content"]]
        assert kept == ["server_tool_use", "web_search_tool_result", "text"]

    @pytest.mark.parametrize("ends", [fault("status", status=401), turn(say("Half"), fault("cut")), say("Done.")])
    def test_of_a_paused_answer_that_goes_on_without_it_it_is_left_out(self, scene, monkeypatch, ends):
        monkeypatch.setenv("CELLWRIGHT_MAX_RETRIES", "0")
        paused = turn(say("I search."), searched("bees", answered=False), stop_reason="pause_turn")
        played = scene([paused, ends, say("fine")])
        played.go_on("one")
        assert played.go_on("two").text == "fine"
        assert "I search." in json.dumps(played.bodies[-1]["messages"])
        assert "server_tool_use" not in json.dumps(played.bodies[-1]["messages"])
        assert played.server.rejected == []

    def test_after_a_kill_in_the_pause_it_is_left_out(self, scene, tmp_path):
        paused = turn(think("Hm."), say("I search."), searched("bees", answered=False), stop_reason="pause_turn")
        copies = []

        def answer(body):
            if len(body["messages"]) == 1:
                return paused
            if not copies:
                copies.append(played.session.path.read_bytes())
            return say("fine")

        played = scene(answer)
        assert played.go_on("one").ok
        copy = tmp_path / "sessions" / "copy.jsonl"
        copy.write_bytes(copies[0])
        played.session = Session.load(copy)
        assert played.go_on("two").text == "fine"
        assert "server_tool_use" not in json.dumps(played.bodies[-1]["messages"])
        assert played.server.rejected == []
