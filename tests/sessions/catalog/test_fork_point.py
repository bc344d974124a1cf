"""A fork holds what was said in it, and points at what was said before: nothing is copied, and nothing counted twice."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.sessions.catalog.conftest import Held, begun, say

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.sessions.catalog.catalog import Catalog, CatalogEntry, fork_at, tree_of
from cellwright.sessions.session import Session
from cellwright.sessions.transcripts.transcript import (
    encode_header,
    encode_line,
    read_file,
    read_messages,
    read_transcript,
)
from cellwright.sessions.transcripts.transcript_file import Line


def in_file(path: Path) -> list[str]:
    """What was said in the transcript itself."""
    return [line.message.decode() for line in read_file(path).lines]


def path_of(session: Session) -> Path:
    assert session.path is not None
    return session.path


def test_a_fork_holds_what_was_said_since(project: Path) -> None:
    session = begun(project)
    say(session, "How many bees?")
    fork = session.fork(tools=[])
    say(fork, "And hives?")
    say(session, "Something else")  # the session goes its own way
    fork.close()
    assert "How many bees?" not in "".join(in_file(path_of(fork)))
    again = Session.load(path_of(fork))
    assert again.encoded == fork.encoded
    assert "How many bees?" in str(again.messages)
    assert "Something else" not in str(again.messages)
    assert "thoughtword" not in str(again.messages[:4]), "bound to the tools that it was thought with"
    assert again.tools == b"[]"


def test_random_trees_of_forks_hold_what_their_sessions_held(project: Path) -> None:
    """Forks of forks, at turns and of other tools, with turns taken back: what is loaded is what was there."""
    wrong = []
    for seed in range(20):
        chance = random.Random(seed)
        sessions = [begun(project)]
        say(sessions[0], "first")
        for step in range(12):
            session = chance.choice(sessions)
            kind = chance.choice(["say", "say", "fork", "tools", "turn", "back"])
            if kind == "say":
                say(session, f"prompt {step}")
            elif kind == "back":
                lines = session.in_effect()
                session.return_to(chance.choice(lines[3::4]).meta["seq"])
            elif kind == "turn":
                sessions.append(fork_at(path_of(session), 1))
            else:
                sessions.append(session.fork(tools=[{"name": f"T{step}"}] if kind == "tools" else None))
        for number, session in enumerate(sessions):
            session.close()
            loaded = Session.load(path_of(session))
            same = (loaded.encoded, loaded.cost_usd, loaded.cost_before_usd) == (
                session.encoded,
                session.cost_usd,
                session.cost_before_usd,
            )
            if not same or read_messages(path_of(session)) != session.messages:
                wrong.append((seed, number))
            loaded.close()
    assert not wrong


def test_what_was_paid_before_a_fork_is_counted_once(project: Path, catalog: Catalog) -> None:
    session = begun(project)
    say(session, "one", cost=1.0)
    fork = session.fork()
    say(fork, "two", cost=10.0)
    second = fork_at(path_of(fork), 1)
    say(second, "three", cost=100.0)
    for each in (session, fork, second):
        each.close()
    costs = {entry.id: entry.cost_usd for entry in catalog.entries()}
    assert costs == {session.id: 2.0, fork.id: 20.0, second.id: 200.0}
    assert [each.cost_before_usd for each in (session, fork, second)] == [0.0, 2.0, 2.0]
    loaded = Session.load(path_of(second))
    assert (loaded.cost_usd, loaded.cost_before_usd) == (200.0, 2.0)


def test_a_fork_of_an_earlier_version_holds_copies_that_are_not_counted_again(project: Path, catalog: Catalog) -> None:
    session = begun(project)
    say(session, "one", cost=1.0)
    content = read_file(path_of(session))
    header = replace(
        content.header, id="20261101-000000-aaaaaa", forked_from=session.id, created=content.lines[-1].meta["at"]
    )
    later = Line({**content.lines[-1].meta, "at": header.created + 1, "cost_usd": 5.0}, content.lines[-1].message)
    copied = path_of(session).with_name(f"{header.id}.jsonl")
    copied.write_bytes(b"".join([encode_header(header), *map(encode_line, [*content.lines, later])]))
    assert {entry.id: entry.cost_usd for entry in catalog.entries()} == {session.id: 2.0, header.id: 5.0}
    loaded = Session.load(copied)
    assert (loaded.cost_usd, loaded.cost_before_usd) == (5.0, 2.0)
    assert loaded.encoded[:4] == session.encoded


def test_a_fork_whose_session_is_gone_says_so(project: Path, catalog: Catalog) -> None:
    session = begun(project)
    say(session, "How many bees?")
    fork = session.fork()
    say(fork, "And hives?", cost=3.0)
    session.close()
    fork.close()
    catalog.entries()
    path_of(session).unlink()
    with pytest.raises(CellwrightError, match=f"continues the session {session.id}, which is gone") as caught:
        Session.load(path_of(fork))
    assert caught.value.code == ErrorCode.SESSION_CORRUPTED
    assert str(path_of(session)) in caught.value.message
    (entry,) = catalog.entries()
    assert (entry.id, entry.is_beginning_gone, entry.cost_usd) == (fork.id, True, 6.0)
    # a catalog that is made anew reads what is there
    assert catalog.rebuild() == 1
    (entry,) = catalog.entries()
    assert (entry.title, entry.is_beginning_gone, entry.cost_usd) == ("And hives?", True, 6.0)


def test_a_session_that_is_not_what_it_was_is_no_beginning(project: Path) -> None:
    session = begun(project)
    say(session, "one")
    fork = session.fork()
    say(fork, "two")
    fork.close()
    session.close()
    lines = path_of(session).read_bytes().split(b"\n")
    path_of(session).write_bytes(b"\n".join([*lines[:3], b""]))
    with pytest.raises(CellwrightError, match="does not hold the place any more"):
        Session.load(path_of(fork))


def test_forks_in_a_circle_are_no_endless_reading(project: Path) -> None:
    session = begun(project)
    say(session, "one")
    fork = session.fork()
    say(fork, "two")
    for each in (session, fork):
        each.close()
    content = read_file(path_of(session))
    point = read_file(path_of(fork)).header.parent
    assert point is not None
    header = replace(content.header, parent=replace(point, session=fork.id))
    path_of(session).write_bytes(b"".join([encode_header(header), *map(encode_line, content.lines)]))
    with pytest.raises(CellwrightError, match="continues the session"):
        read_transcript(path_of(fork))


def test_a_deleted_session_stays_for_its_forks_alone(project: Path, catalog: Catalog) -> None:
    session = begun(project)
    say(session, "How many bees?", cost=1.0)
    fork = session.fork()
    say(fork, "And hives?", cost=3.0)
    fork_of_fork = fork.fork()
    say(fork_of_fork, "And wax?", cost=5.0)
    other = begun(project)
    say(other, "Something else", cost=0.0)
    folder = path_of(session).parent
    session.close()
    other.close()
    catalog.delete(session.id)  # also while a fork is in use
    fork.close()
    catalog.delete(fork.id)
    fork_of_fork.close()
    assert [entry.id for entry in catalog.search("bees hives wax")] == [fork_of_fork.id]
    assert not catalog.entry(fork_of_fork.id).is_beginning_gone
    loaded = Session.load(path_of(fork_of_fork))
    assert (loaded.encoded, loaded.cost_usd, loaded.cost_before_usd) == (fork_of_fork.encoded, 10.0, 8.0)
    loaded.close()
    assert {entry.id: entry.cost_usd for entry in catalog.entries()} == {fork_of_fork.id: 10.0, other.id: 0.0}
    # with the last fork all of it goes
    catalog.delete(fork_of_fork.id)
    assert "How many bees" not in "".join(path.read_text("utf-8") for path in folder.iterdir())
    assert [path.name for path in folder.glob("*.jsonl")] == [f"{other.id}.jsonl"]
    assert not list(folder.glob("*.kept"))


def test_the_list_is_a_tree(held: Held, project: Path, catalog: Catalog) -> None:
    alone = held("Something else")
    session = begun(project)
    say(session, "bees")
    first, second = session.fork(), session.fork()
    say(second, "hives")
    below = second.fork()
    say(below, "wax")
    say(first, "honey")
    shown = [(entry.depth, entry.title) for entry in tree_of(catalog.entries())]
    assert shown == [(0, "bees"), (1, "honey"), (1, "hives"), (2, "wax"), (0, "Something else")]
    assert tree_of(catalog.entries())[1].to_json()["forked_from"] == session.id
    assert catalog.entries()[-1].path == alone
    # on a page without its session a fork stands by itself
    assert [(entry.depth, entry.title) for entry in tree_of(catalog.entries(limit=2))] == [(0, "honey"), (0, "wax")]


def test_a_tree_that_bites_its_tail_is_a_list(held: Held, catalog: Catalog) -> None:
    held("one")
    held("two")
    one, two = catalog.entries()
    circle: list[CatalogEntry] = [replace(one, forked_from=two.id), replace(two, forked_from=one.id)]
    assert {entry.id for entry in tree_of(circle)} == {one.id, two.id}
