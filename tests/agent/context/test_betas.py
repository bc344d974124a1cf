"""The API's own compaction: a signed block that stands first, taken back as it is, and sent as text where it is not."""

import json
import os

import pytest
from msgspec.structs import replace
from tests.agent.context.test_compaction import SMALL, dig

from cellwright.events import ContextCompacted
from cellwright.model.anthropic import AnthropicProvider, connect
from cellwright.model.credentials import choose_transport
from cellwright.sessions.session import Session
from cellwright.testing import say, think, turn, use

OWN = replace(SMALL, own_api=True)


def digging(steps):
    left = iter(range(steps))

    def answer(body):
        if body.get("compaction"):
            return say("Brest: 42 years old.")
        return turn(think("Deeper."), use("dig", words=900)) if next(left, None) is not None else say("done")

    return answer


@pytest.fixture
def own_scene(scene):
    """A scene whose server is taken for Anthropic's own address."""

    def make(script, **options):
        played = scene(script, tools=[dig], **options)
        environ = {**os.environ, "ANTHROPIC_BASE_URL": played.server.url, "ANTHROPIC_API_KEY": played.server.api_key}
        object.__setattr__(played.agent, "provider", AnthropicProvider(choose_transport(environ), own_compaction=True))
        return played

    return make


def test_a_turn_goes_on_behind_the_apis_own_summary(own_scene):
    played = own_scene(digging(20), compaction=OWN)
    played.go_on("Dig at Brest.")
    assert played.end.ok, played.end.error
    assert played.server.rejected == []
    done = [event for event in played.of(ContextCompacted) if event.state == "done"]
    assert len(done) >= 2
    assert done[0].summary == "Brest: 42 years old."
    assert 0 < done[0].cost_usd < 0.1
    last = played.bodies[-1]
    assert last["messages"][0]["role"] == "assistant"
    [block] = last["messages"][0]["content"]
    assert (block["type"], bool(block["signature"])) == ("compaction", True)
    assert "compact-2026-09-04" in played.server.requests[-1].headers["anthropic-beta"]


def test_the_cache_is_read_by_the_request_for_a_summary(own_scene):
    played = own_scene(digging(20), compaction=OWN)
    played.go_on("Dig at Brest.")
    line = next(line for line in played.session.story_lines() if "compacted" in line.meta)
    usage = line.meta["not_kept"]["usage"]
    assert usage["cache_read_input_tokens"] > 5 * (usage["cache_creation_input_tokens"] + usage["input_tokens"])


def test_a_session_with_such_a_block_goes_on_where_the_api_does_not_know_it(own_scene):
    played = own_scene(digging(9), compaction=OWN)
    played.go_on("Dig.")
    assert played.session.encoded[0].startswith(b'{"role":"assistant"')
    sent = list(played.session.encoded)
    played.session.close()
    session = Session.load(played.session.path)
    assert session.encoded == sent
    assert not session.notices
    environ = {**os.environ, "ANTHROPIC_BASE_URL": played.server.url, "ANTHROPIC_API_KEY": played.server.api_key}
    object.__setattr__(played.agent, "provider", connect(environ))
    played.session = session
    played.server.add(say("done"))
    assert played.go_on("And now?").ok
    first = played.bodies[-1]["messages"][0]
    assert first["role"] == "user"
    assert "42 years old" in json.dumps(first)
    # what was thought behind the block is bound to it, so it is left out, as always where the API says so
    assert len(played.server.rejected) == 1


def test_a_block_of_another_account_is_sent_as_text(own_scene):
    played = own_scene(digging(9), compaction=OWN)
    played.go_on("Dig.")
    said = json.loads(played.session.encoded[0])
    said["content"][0]["signature"] = "of another account"
    copy = Session.create(played.session.cwd, None)
    copy.begin(
        model="claude-opus-5-5", system=json.loads(played.session.system), tools=json.loads(played.session.tools)
    )
    copy.append(said)
    copy.append(json.loads(played.session.encoded[1]))
    played.session = copy
    assert played.go_on("And now?").ok
    assert [request.error.split(":")[0] for request in played.server.rejected] == ["messages.0.content.0.compaction"]
    assert "42 years old" in json.dumps(played.bodies[-1]["messages"][0])


def test_a_model_that_has_none_is_asked_with_our_own_words(own_scene):
    left = iter(range(20))

    def answer(body):
        assert not body.get("compaction")
        if "Everything above will be replaced by a summary" in json.dumps(body["messages"][-1]):
            return say("<summary>The gauge.</summary>")
        return use("dig", words=900) if next(left, None) is not None else say("done")

    played = own_scene(answer, compaction=replace(OWN, window=10_000), model="claude-haiku-5-5")
    played.go_on("Dig.")
    assert played.end.ok, played.end.error
    assert next(event.summary for event in played.of(ContextCompacted) if event.state == "done") == "The gauge."
