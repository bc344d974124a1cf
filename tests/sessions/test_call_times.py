"""How long calls take is known to later sessions of the project, within bounds, and whatever stands in the file."""

from __future__ import annotations

import json
from pathlib import Path

from cellwright.sessions.calls.call_times import KEPT, MAX_PROJECTS, MAX_TOOLS, CallTimes, call_times_file
from cellwright.sessions.session import Session
from cellwright.sessions.state_dir import sessions_folder


def test_a_later_session_of_the_project_knows_them_and_another_project_does_not(
    tmp_path: Path, own_place: Path
) -> None:
    session = Session.create(tmp_path, sessions_folder(tmp_path))
    for seconds in (11.0, 12.0, 40.0):
        session.call_times.add("Bash", seconds)
    session.call_times.save()
    assert Session.create(tmp_path, sessions_folder(tmp_path)).call_times.estimate(["Bash"]) == 12.0
    elsewhere = tmp_path / "elsewhere"
    assert Session.create(elsewhere, sessions_folder(elsewhere)).call_times.estimate(["Bash"]) is None
    kept_nowhere = Session.create(tmp_path, None)
    assert kept_nowhere.call_times.estimate(["Bash"]) is None
    assert call_times_file(tmp_path).stat().st_mode & 0o077 == 0


def test_sessions_at_the_same_time_lose_none_of_each_others(tmp_path: Path) -> None:
    file = tmp_path / "times.json"
    one, other = CallTimes(file), CallTimes(file)
    one.add("Bash", 1.0)
    other.add("Bash", 3.0)
    other.add("Read", 0.1)
    one.save()
    other.save()
    one.save()
    assert json.loads(file.read_bytes()) == {"Bash": [1.0, 3.0], "Read": [0.1]}


def test_a_file_stays_small_and_there_are_not_too_many(tmp_path: Path) -> None:
    times = CallTimes(tmp_path / "times.json")
    for number in range(MAX_TOOLS + 20):
        for seconds in range(KEPT + 5):
            times.add(f"tool_{number}", float(seconds))
    times.save()
    kept = json.loads((tmp_path / "times.json").read_bytes())
    assert len(kept) == MAX_TOOLS
    assert kept[f"tool_{MAX_TOOLS + 19}"] == [float(seconds) for seconds in range(5, KEPT + 5)]
    for number in range(MAX_PROJECTS + 5):
        project = CallTimes(tmp_path / f"project-{number}.json")
        project.add("Bash", 1.0)
        project.save()
    assert len(list(tmp_path.glob("*.json"))) == MAX_PROJECTS


def test_a_damaged_file_is_no_hindrance(tmp_path: Path) -> None:
    file = tmp_path / "times.json"
    for content in ("{", "[]", '{"Bash": "x", "Read": [null, -1, 1e99, "2", true], "Glob": [2.0]}'):
        file.write_text(content)
        times = CallTimes(file)
        assert times.estimate(["Bash"]) is None
        assert times.estimate(["Read"]) is None
    assert CallTimes(file).estimate(["Glob"]) == 2.0
    times.add("Bash", 5.0)
    times.save()
    assert CallTimes(file).estimate(["Bash"]) == 5.0


def test_where_nothing_can_be_written_nothing_is_kept(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    times = CallTimes(tmp_path / "file" / "times.json")
    times.add("Bash", 5.0)
    times.save()
    assert times.estimate(["Bash"]) == 5.0
