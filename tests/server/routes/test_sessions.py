"""Which of the user's sessions a server shows, and what it gives of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from cellwright.server.routes.sessions import SessionFiles
from cellwright.sessions.session import Session
from cellwright.sessions.state_dir import sessions_folder
from cellwright.sessions.transcripts.transcript import encode_line
from cellwright.sessions.transcripts.transcript_file import Line


def _session_of(cwd: Path) -> str:
    cwd.mkdir()
    session = Session.create(cwd, sessions_folder(cwd))
    session.begin(model="claude-opus-5-5", system=[], tools=[])
    session.next_seq += 1
    session.append({"role": "user", "content": [{"type": "text", "text": f"of {cwd.name}"}]})
    session.close()
    return session.id


def test_a_session_whose_folder_became_a_circle_of_links_hides_no_other(tmp_path: Path) -> None:
    here, circle = tmp_path / "root" / "here", tmp_path / "circle"
    here.parent.mkdir()
    shown, hidden = _session_of(here), _session_of(circle)
    circle.rmdir()
    circle.symlink_to(circle)
    found, _ = SessionFiles(here.parent).found("", None, 50, 0)
    assert [entry.id for entry in found] == [shown]
    everything, _ = SessionFiles(here.parent, everywhere=True).found("", None, 50, 0)
    assert {entry.id for entry in everything} == {shown, hidden}


@pytest.mark.parametrize(
    "strange",
    [
        b"no json",
        b"[]",
        b'{"role":"user"}',
        b'{"role":"user","content":[{"type":"text"}]}',
        b'{"role":"user","content":[{"type":"image","source":"nowhere"}]}',
        b'{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"Bash","input":[1]}]}',
        b'{"role":"assistant","content":[{"type":"web_search_tool_result","tool_use_id":"nobodys","content":[]}]}',
    ],
)
@pytest.mark.parametrize("form", ["markdown", "notebook", "json"])
def test_of_a_transcript_that_another_program_wrote_into_the_rest_is_exported(
    tmp_path: Path, strange: bytes, form: str
) -> None:
    session = _session_of(tmp_path / "bees")
    (path,) = sessions_folder(tmp_path / "bees").glob("*.jsonl")
    path.write_bytes(path.read_bytes() + encode_line(Line({"seq": 9, "at": 9.0, "epoch": 1}, strange)))
    assert "of bees" in SessionFiles(tmp_path, everywhere=True).export(session, form).text
