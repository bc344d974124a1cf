"""A session goes on as after an earlier event, and again as before that; its transcript only grows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cellwright.sessions.session import Session
from cellwright.sessions.transcripts.transcript import read_messages


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
