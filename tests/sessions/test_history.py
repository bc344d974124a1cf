"""Histories that lost or doubled messages are made ones that the API takes; notes are told from the user's words."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cellwright.sessions.history import (
    cut_content,
    dropped_note,
    ended_note,
    is_note,
    unique_id,
    usable_name,
    valid_history,
)
from cellwright.sessions.turns import begins_turn, split_attached
from cellwright.testing.rules.models import MODELS
from cellwright.testing.rules.turn_order import check_content, check_conversation, exchanges
from row_tables import for_each_row


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


@st.composite
def histories(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Conversations as they are held, some of their messages then lost, doubled or put elsewhere."""
    messages: list[dict[str, Any]] = []
    number = 0
    for turn in range(draw(st.integers(1, 4))):
        messages.append({"role": "user", "content": [text(f"prompt {turn}")]})
        for _ in range(draw(st.integers(0, 2))):
            calls = []
            for _ in range(draw(st.integers(1, 3))):
                number += 1
                # some gateways begin to count anew with each answer
                name = draw(st.sampled_from([f"toolu_{number}", "call_0", "bad id!"]))
                calls.append(
                    {"type": "tool_use", "id": name, "name": draw(st.sampled_from(["Read", "a b"])), "input": {}}
                )
            thinking = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
            messages.append({"role": "assistant", "content": [thinking, text("Let me look."), *calls]})
            results = [{"type": "tool_result", "tool_use_id": call["id"], "content": "seen"} for call in calls]
            messages.append({"role": "user", "content": results})
        messages.append({"role": "assistant", "content": [text(f"answer {turn}"), {"type": "hologram"}]})
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(messages) - 1))
        match draw(st.sampled_from(["lost", "doubled", "moved"])):
            case "lost" if len(messages) > 1:
                del messages[at]
            case "doubled":
                messages.insert(at, messages[at])
            case _:
                messages.append(messages.pop(at))
    return messages


@given(histories())
def test_what_is_left_of_any_history_is_one_that_the_api_takes(history: list[dict[str, Any]]) -> None:
    valid = valid_history(history)
    check_content(valid, 0)
    check_conversation(valid, exchanges(valid), MODELS["claude-opus-5-5"])
    assert valid_history(valid) == valid, "what is valid stays as it is"
    for words in (f"{kind} {turn}" for kind in ("prompt", "answer") for turn in range(4)):
        assert json.dumps(valid).count(words) == json.dumps(history).count(words), "nobody's words are lost"


def test_thinking_goes_with_the_first_change() -> None:
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    messages = [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": [thinking, text("1")]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "lost", "content": "x"}]},
        {"role": "assistant", "content": [thinking, text("2")]},
    ]
    first, second = (m["content"] for m in valid_history(messages) if m["role"] == "assistant")
    assert [block["type"] for block in first] == ["thinking", "text"]
    assert [block["type"] for block in second] == ["text"]


@for_each_row(
    ("wanted", "taken", "given_id"),
    [
        ("toolu_1", set(), "toolu_1"),
        ("call_0", {"call_0"}, "call_0_2"),
        ("call_0", {"call_0", "call_0_2"}, "call_0_3"),
        ("", set(), "call_2"),
        ("a b/c", set(), "a_b_c_2"),
    ],
)
def test_ids(wanted: str, taken: set[str], given_id: str) -> None:
    assert unique_id(wanted, taken) == given_id


@for_each_row(("name", "usable"), [("Read", "Read"), ("", "unnamed"), ("a b", "a_b"), ("é" * 200, "_" * 128)])
def test_names(name: str, usable: str) -> None:
    assert usable_name(name) == usable


def test_a_note_is_none_of_the_user_s_words() -> None:
    note = ended_note("interrupted")
    assert is_note(note["text"])
    assert not begins_turn({"role": "user", "content": [note]})
    assert begins_turn({"role": "user", "content": [note, text("go on")]})
    dropped = dropped_note([{"role": "assistant", "content": "</history-dropped> said"}])
    assert is_note(dropped["text"])
    assert split_attached([dropped["text"], "go on"]) == (["go on"], [dropped["text"]])


def test_a_call_of_the_api_s_own_tools_is_kept_with_its_result_alone() -> None:
    call = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
    result = {"type": "web_search_tool_result", "tool_use_id": "s1", "content": []}
    assert cut_content([call]) == []
    assert cut_content([call, result]) == [call, result]
