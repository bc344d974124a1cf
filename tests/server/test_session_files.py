"""Which of the user's sessions a server shows."""

from __future__ import annotations

from pathlib import Path

from cellwright.agent.session import Session
from cellwright.agent.session_folder import sessions_folder
from cellwright.server.session_files import SessionFiles


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
