"""Thinking blocks come back unchanged, complete, and in the conversation they were thought in, or they are refused."""

from __future__ import annotations

import copy

import pytest

from cellwright.testing import MessagesServer, say, think, turn, use

SUMMARIZED = {"type": "adaptive", "display": "summarized"}
READ = {"name": "Read", "input_schema": {"type": "object"}}
BOUND = "Invalid `signature` in `thinking` block. The block is bound to a different conversation."
OTHER_MESSAGE = "An earlier message differs from the one this block was created with."


def text(value, **extra):
    return {"type": "text", "text": value, **extra}


def result(call, **extra):
    return {"type": "tool_result", "tool_use_id": call["id"], "content": "alpha", **extra}


@pytest.fixture
def talk(client):
    """A conversation of two model turns, both with thinking and a call: what would be sent next."""
    api = client([*[turn(think(f"thought {n}"), say("So:"), use("Read", n=n)) for n in range(2)], *[say("end")] * 3])
    body = api.body(system="Be brief", tools=[READ], thinking=SUMMARIZED)
    for _ in range(2):
        answer = api.post(body).json()
        body["messages"] = [
            *body["messages"],
            {"role": "assistant", "content": answer["content"]},
            {"role": "user", "content": [result(answer["content"][-1])]},
        ]
    api.next_body = body
    return api


def test_an_unchanged_history_is_taken(talk):
    assert talk.post(talk.next_body).status_code == 200


@pytest.mark.parametrize("streamed", [True, False])
def test_what_was_streamed_can_be_sent_back(client, streamed):
    import anthropic

    api = client([turn(think("Hm"), use("Read", text="日本")), say("end")])
    with anthropic.Anthropic(base_url=api.server.url, api_key=api.server.api_key) as sdk:
        body = api.body(thinking=SUMMARIZED)
        if streamed:
            with sdk.messages.stream(**body) as stream:
                message = stream.get_final_message()
        else:
            message = sdk.messages.create(**body)
        body["messages"] += [message.to_param(), {"role": "user", "content": [result({"id": message.content[1].id})]}]
        assert sdk.messages.create(**body).content[0].text == "end"


def same_content(body):
    """The same conversation said otherwise: blocks for strings, breakpoints elsewhere, messages split, defaults named."""
    messages = body["messages"]
    messages[0] = {**messages[0], "content": [text("Hello", cache_control={"type": "ephemeral"})]}
    body["system"] = [text("Be brief", cache_control={"type": "ephemeral"})]
    answer = messages[1]["content"]
    messages[1:2] = [{"role": "assistant", "content": answer[:2]}, {"role": "assistant", "content": answer[2:]}]
    messages[3]["content"][0] |= {"is_error": False, "cache_control": {"type": "ephemeral"}}


def test_the_same_content_in_another_form_is_taken(talk):
    same_content(talk.next_body)
    assert talk.post(talk.next_body).status_code == 200, talk.server.requests[-1].error


def change_system(body):
    body["system"] = "Be long"


def change_tools(body):
    body["tools"][0]["description"] = "Reads"


def change_first_message(body):
    body["messages"][0] = {**body["messages"][0], "content": "Hallo"}


def add_message(body):
    body["messages"][0:0] = [{"role": "user", "content": "By the way"}]


def trim_a_result(body):
    body["messages"][2]["content"][0]["content"] = "[trimmed]"


def change_a_call(body):
    body["messages"][1]["content"][2]["input"] = {"n": 7}


def drop_the_first_exchange(body):
    del body["messages"][1:3]


REWRITES = {
    "system": (change_system, 1, "The `system` prompt differs from the one this block was created with."),
    "tools": (change_tools, 1, "The `tools` differ from the ones this block was created with."),
    "first message": (change_first_message, 1, OTHER_MESSAGE),
    "inserted message": (add_message, 2, OTHER_MESSAGE),
    "trimmed tool result": (trim_a_result, 3, OTHER_MESSAGE),
    "changed call": (change_a_call, 3, OTHER_MESSAGE),
    "dropped exchange": (
        drop_the_first_exchange,
        1,
        "The `thinking` block that preceded this one when it was created is missing from this request.",
    ),
}


@pytest.mark.parametrize(("rewrite", "message", "difference"), REWRITES.values(), ids=REWRITES.keys())
def test_a_rewritten_history_is_refused(talk, rewrite, message, difference):
    body = copy.deepcopy(talk.next_body)
    rewrite(body)
    error = talk.error(body)
    assert error.startswith(f"messages.{message}.content.0: {BOUND}")
    assert error.endswith(difference)
    assert talk.post(talk.next_body).status_code == 200, "the unchanged one still is taken"


@pytest.mark.parametrize("field", ["thinking", "signature"])
def test_a_changed_block_is_refused(talk, field):
    block = talk.next_body["messages"][1]["content"][0]
    block[field] = block[field][:-1] + ("A" if block[field][-1] != "A" else "B")
    assert talk.error(talk.next_body) == "messages.1.content.0: Invalid `signature` in `thinking` block"


def test_the_latest_thinking_must_not_be_left_out(talk):
    del talk.next_body["messages"][3]["content"][0]
    assert "messages.3.content.0: `thinking` or `redacted_thinking` blocks in the latest" in talk.error(talk.next_body)


def test_a_rewritten_history_without_thinking_is_taken(talk):
    """The way out: whoever rewrites drops the thinking of what is kept, and asks anew."""
    messages = talk.next_body["messages"]
    messages[0] = {**messages[0], "content": "Shortened"}
    for message in (messages[1], messages[3]):
        del message["content"][0]
    messages += [{"role": "assistant", "content": "Done."}, {"role": "user", "content": "And now?"}]
    assert talk.post(talk.next_body).status_code == 200, talk.server.requests[-1].error


def test_another_model_passes_over_the_blocks(talk):
    change_first_message(talk.next_body)
    assert talk.post({**talk.next_body, "model": "claude-sonnet-5-5"}).status_code == 200


@pytest.mark.parametrize("model", ["claude-opus-5", "claude-opus-4-6"])
def test_older_models_do_not_bind_to_the_conversation(client, model):
    api = client([turn(think("Hm"), use("Read")), say("end")])
    body = api.body(model=model, thinking=SUMMARIZED)
    content = api.post(body).json()["content"]
    body["messages"] = [
        {"role": "user", "content": "Something else"},
        {"role": "assistant", "content": content},
        {"role": "user", "content": [result(content[1])]},
    ]
    assert api.post(body).status_code == 200


def test_a_beta_lets_mismatching_blocks_be_dropped(talk):
    change_first_message(talk.next_body)
    talk.next_body["thinking"] = {**SUMMARIZED, "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    response = talk.post(talk.next_body, **{"anthropic-beta": "thinking-binding-controls-2026-08-01"})
    assert response.status_code == 200, response.text


def test_a_session_goes_on_with_another_server(talk):
    with MessagesServer([say("end")]) as other:
        talk.server = other
        assert talk.post(talk.next_body).status_code == 200
        change_system(talk.next_body)
        assert BOUND in talk.error(talk.next_body)


def test_a_redacted_block_is_bound_too(client):
    api = client([turn(think("secret", redacted=True), use("Read")), say("end")])
    body = api.body()
    content = api.post(body).json()["content"]
    body["messages"] = [
        *body["messages"],
        {"role": "assistant", "content": content},
        {"role": "user", "content": [result(content[1])]},
    ]
    assert BOUND in api.error({**body, "system": "changed"})
    assert api.post(body).status_code == 200


def test_a_paused_turn_may_stand_last_and_goes_on(client):
    api = client(
        [turn(think("a"), say("Searching"), stop_reason="pause_turn"), turn(think("b"), say("Found")), say("end")]
    )
    body = api.body()
    for _ in range(2):
        content = api.post(body).json()["content"]
        body["messages"] = [*body["messages"], {"role": "assistant", "content": content}]
    assert "does not support assistant message prefill" in api.error(body)
    body["messages"].append({"role": "user", "content": "Thanks"})
    assert api.post(body).status_code == 200, api.server.requests[-1].error


def test_manual_thinking_begins_its_tool_loop(client):
    """Only the first assistant message of a tool loop has thinking, and it must still be there."""
    manual = {"type": "enabled", "budget_tokens": 1024}
    api = client([turn(think("Hm"), use("Read")), use("Read"), say("end")])
    body = api.body(model="claude-haiku-4-5", max_tokens=2000, thinking=manual)
    for _ in range(2):
        content = api.post(body).json()["content"]
        body["messages"] = [
            *body["messages"],
            {"role": "assistant", "content": content},
            {"role": "user", "content": [result(content[-1])]},
        ]
    without = copy.deepcopy(body)
    del without["messages"][1]["content"][0]
    assert api.error(without).startswith("messages.1.content.0.type: Expected `thinking`")
    assert api.post(body).status_code == 200, api.server.requests[-1].error
