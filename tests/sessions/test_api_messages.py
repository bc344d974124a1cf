"""Histories that lost or doubled messages are made ones that the API takes; notes are told from the user's words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cellwright.sessions.api_messages import (
    begins_turn,
    cut_content,
    dropped_note,
    ended_note,
    is_note,
    split_attached,
    unique_id,
    usable_name,
    valid_history,
)
from cellwright.sessions.session import Session
from cellwright.sessions.transcripts.transcript import read_messages
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


def said(text: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": text}]}


def begun(folder: Path) -> Session:
    session = Session.create(folder, folder / "sessions")
    session.begin(model="m", system=[], tools=[])
    return session


def texts(session: Session) -> list[str]:
    return [message["content"][0]["text"] for message in session.messages]


def say(session: Session, text: str, **facts: Any) -> None:
    session.next_seq += 2  # events
    session.append(said(text), **facts)


def test_what_was_said_since_is_out_of_the_conversation_and_comes_back(tmp_path):
    session = begun(tmp_path)
    say(session, "one", context_tokens=10)
    place = session.next_seq
    say(session, "two", context_tokens=25)
    say(session, "three")
    end = session.next_seq
    before = session.path.read_bytes()
    assert texts(session) == ["one", "two", "three"]
    session.return_to(place)
    assert texts(session) == ["one"]
    assert session.context_tokens == 10
    assert session.uncounted_bytes == 0
    session.return_to(end)
    assert texts(session) == ["one", "two", "three"]
    assert session.context_tokens == 25
    session.return_to(place)
    say(session, "other")
    assert session.path.read_bytes().startswith(before)
    assert [message["content"][0]["text"] for message in read_messages(session.path)] == ["one", "other"]
    session.close()


def test_a_fork_has_what_is_in_effect(tmp_path):
    session = begun(tmp_path)
    say(session, "one")
    place = session.next_seq
    say(session, "two")
    session.return_to(place)
    fork = session.fork()
    assert texts(fork) == ["one"]
    say(fork, "three")
    path = fork.path
    fork.close()
    session.close()
    again = Session.load(path)
    assert texts(again) == ["one", "three"]
    again.close()


def test_what_was_paid_for_stays_paid(tmp_path):
    session = begun(tmp_path)
    place = session.next_seq
    say(session, "one", usage={"output_tokens": 7}, cost_usd=0.5)
    session.return_to(place)
    assert session.usage == {"output_tokens": 7}
    assert session.cost_usd == 0.5
    session.close()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60)
@given(steps=st.lists(st.one_of(st.just("say"), st.just("take back"), st.integers(0, 30)), max_size=25))
def test_it_is_what_it_was_at_each_place_also_after_a_load(tmp_path, steps):
    session = begun(tmp_path)
    was: list[tuple[int, list[str]]] = [(session.next_seq, [])]
    for number, step in enumerate(steps):
        if step == "say":
            say(session, str(number))
        elif step == "take back":
            if session.encoded:
                session.next_seq += 1
                session.take_back()
        else:
            place, expected = was[step % len(was)]
            session.return_to(place)
            assert texts(session) == expected
        was.append((session.next_seq, texts(session).copy()))
    path = session.path
    session.close()
    loaded = Session.load(path)
    assert texts(loaded) == was[-1][1]
    loaded.close()
