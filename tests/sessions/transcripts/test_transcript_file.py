"""Transcripts as earlier versions wrote them are read as they are, and written anew, whole, by who goes on with them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from cellwright.sessions.session import Session
from cellwright.sessions.transcripts.transcript import FORMAT, FORMAT_KEY, read_messages, read_transcript

FILES = Path(__file__).parent / "older_formats"
"""Written by the code of their time; `format_2.jsonl` has the header of the second format, whose lines were the same.
`format_3.jsonl` is what the code of the third made of it."""

ID = "20261015-101500-7f3a9c"


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_session_of_an_older_format_goes_on_in_this_one(tmp_path: Path, own_place: Path, version: int) -> None:
    path = tmp_path / f"{ID}.jsonl"
    shutil.copy(FILES / f"format_{version}.jsonl", path)
    before = path.read_bytes()
    old = read_transcript(path)
    assert (old.format, old.faults) == (version, ())
    assert json.loads(before.split(b"\n")[0])[FORMAT_KEY] == version
    said = read_messages(path)
    assert path.read_bytes() == before, "who reads writes nothing"

    session = Session.load(path)
    sent = list(session.encoded)
    # each message goes out in the bytes that it was kept in, the prompt that was taken back does not
    assert [message for message in sent if message not in before] == sent[-1:]
    assert [json.loads(message) for message in sent[:-1]] == list(said)
    assert b"A prompt that was refused" not in b"".join(sent)
    assert b"toolu_02" in sent[-1]  # the call that was open is answered
    assert session.cost_usd == pytest.approx(0.0011 + 0.0007 + 0.0010 + 0.0012)
    session.append({"role": "assistant", "content": [{"type": "text", "text": "They cluster."}]})
    session.close()

    new = read_transcript(path)
    assert (new.format, new.faults, new.header.id) == (FORMAT, (), ID)
    assert (new.header.system, new.header.tools) == (old.header.system, old.header.tools)
    lines = path.read_bytes().splitlines()
    assert all(b'"after":' in line[:60] for line in lines[1:])
    again = Session.load(path)
    assert again.encoded[: len(sent)] == sent
    assert again.notices == []
    again.close()


def test_a_damaged_line_of_an_older_format_stays_as_it_is_and_is_told(tmp_path: Path, own_place: Path) -> None:
    path = tmp_path / f"{ID}.jsonl"
    lines = (FILES / "format_2.jsonl").read_bytes().splitlines(keepends=True)
    lines[3] = lines[3].replace(b"bees", b"wasp")
    path.write_bytes(b"".join(lines))
    session = Session.load(path)
    assert any("damaged" in notice for notice in session.notices)
    assert b"wasp" not in b"".join(session.encoded)
    session.close()
    assert lines[3] in path.read_bytes()


def test_a_line_that_is_missing_in_the_third_format_is_told_when_it_goes_on_in_this_one(
    tmp_path: Path, own_place: Path
) -> None:
    path = tmp_path / f"{ID}.jsonl"
    lines = (FILES / "format_3.jsonl").read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:3], *lines[4:]]))
    session = Session.load(path)
    assert any("before line 4" in notice for notice in session.notices)
    session.close()
    assert read_transcript(path).format == FORMAT
