"""What is recorded, what is kept out of it, and how a prompt is known again."""

import asyncio
import json
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from cellwright.agent.loop import run_agent
from cellwright.agent.recording.recorder import Recorder
from cellwright.agent.recording.recordings import is_trusted, parse_recording, prompt_key, prompt_text, trust
from cellwright.agent.tool import tool
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.testing import fault, say, turn, use
from row_tables import for_each_row

AWS = "AKIA" + "IOSFODNN7EXAMPLE"
GITHUB = "ghp_" + "a1B2" * 9


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("CELLWRIGHT_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@tool
async def show(name: str) -> str:
    """Show a file."""
    return Path(name).read_text()


@pytest.fixture
def run(scene, tmp_path):
    """`run(recorder, script, prompt)` runs the prompt for real; gives what `save` says."""

    def run(recorder, script, prompt):
        played = scene(script, tools=[show])
        turn = recorder.listen(prompt)
        asyncio.run(run_agent(played.agent, prompt, played.session, turn.on_event))
        return recorder.save(turn)

    return run


def turns(path):
    return parse_recording(path.read_bytes(), path)


def test_a_recording_is_private_signed_and_one_line_a_turn(run, tmp_path):
    recorder = Recorder(tmp_path / "demo.jsonl", tmp_path, {})
    assert run(recorder, [say("Grüße.")], "Hallo") == []
    assert run(recorder, [say("Wieder.")], "Nochmal") == []

    data = recorder.path.read_bytes()
    assert stat.S_IMODE(recorder.path.stat().st_mode) == 0o600
    assert is_trusted(data)
    assert [json.loads(line).get("prompt") for line in data.splitlines()] == [None, "Hallo", "Nochmal"]
    assert "Grüße.".encode() in data
    assert list(tmp_path.glob(".cellwright*")) == []


def test_recording_again_from_the_top_replaces_the_turns(run, tmp_path):
    path = tmp_path / "demo.jsonl"
    first = Recorder(path, tmp_path, {})
    for answer, prompt in (("a1", "A"), ("b1", "B"), ("a2", "A")):
        run(first, [say(answer)], prompt)
    again = Recorder(path, tmp_path, {})
    run(again, [say("b new")], " B\n")
    run(again, [say("a new")], "A")

    kept = {(t.prompt.strip(), t.ordinal): t.messages[0].message["content"][0]["text"] for t in turns(path)}
    assert kept == {("A", 1): "a new", ("B", 1): "b new", ("A", 2): "a2"}


def test_a_turn_that_did_not_end_by_itself_is_not_recorded(run, tmp_path):
    recorder = Recorder(tmp_path / "demo.jsonl", tmp_path, {})
    notices = run(recorder, [turn(say("I cannot."), stop_reason="refusal")], "Do it")
    assert "not recorded" in notices[0]
    assert not recorder.path.exists()
    run(recorder, [fault("status", status=500), say("Now.")], "Do it")
    assert [t.ordinal for t in turns(recorder.path)] == [1]


def test_secrets_do_not_reach_the_file_and_the_user_is_told(run, tmp_path):
    env_file = tmp_path / ".env"
    env_file.write_text(f"DB_PASSWORD=correct-horse-battery\nREGION=eu\naws = {AWS}\n")
    recorder = Recorder(
        tmp_path / "demo.jsonl", tmp_path, {"MY_API_TOKEN": "plain words 123", "HOME": "/home/ada-home"}
    )
    script = [
        turn(say(f"Token plain words 123, {GITHUB}!"), use("show", name=str(env_file))),
        say('Use password = "hunter2-hunter2" at /home/ada-home.'),
    ]
    notices = run(recorder, script, f"What is {AWS}?")

    data = recorder.path.read_text()
    for secret in ("correct-horse-battery", AWS, "plain words 123", GITHUB, GITHUB[4:], "hunter2-hunter2"):
        assert secret not in data
    assert ": AWS access key]" in data
    assert "REGION=eu" in data
    assert "/home/ada-home" in data
    assert "2 AWS access keys" in notices[0]
    assert "1 GitHub token" in notices[0]
    assert "Look through it" in notices[0]
    assert turns(recorder.path)[0].key == prompt_key(f"What is {AWS}?", tmp_path)


def test_the_place_where_it_was_made_is_not_told(run, tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    (project / "a.txt").write_text("x")
    recorder = Recorder(project / "demo.jsonl", project, {})
    run(recorder, [use("show", name=f"{project}/a.txt"), say(f"I looked into {project}/a.txt.")], f"Look at {project}")
    assert str(project) not in recorder.path.read_text()


def test_an_error_comes_before_anything_is_spent(tmp_path):
    other = tmp_path / "notes.txt"
    other.write_text("my notes\n")
    with pytest.raises(CellwrightError) as caught:
        Recorder(other, tmp_path, {})
    assert caught.value.code == ErrorCode.CONFIG_PARSE_ERROR
    assert other.read_text() == "my notes\n"

    with pytest.raises(CellwrightError, match="no such folder") as caught:
        Recorder(tmp_path / "gone" / "demo.jsonl", tmp_path, {})
    assert caught.value.code == ErrorCode.FILE_ACCESS_ERROR


def test_a_foreign_recording_is_not_added_to(run, tmp_path, monkeypatch):
    path = tmp_path / "demo.jsonl"
    run(Recorder(path, tmp_path, {}), [say("x")], "X")
    monkeypatch.setenv("CELLWRIGHT_HOME", str(tmp_path / "somebody else"))
    with pytest.raises(CellwrightError, match="someone else") as caught:
        Recorder(path, tmp_path, {})
    assert caught.value.code == ErrorCode.PERMISSION_DENIED


@for_each_row(
    ("one", "other", "same"),
    [
        ("Plot  it\n", "Plot it", True),
        ("Plot\r\nit", "Plot\n  it", True),
        ("Plot it", "Plot It", False),
        ("At 2026-11-03T10:00:00Z do", "At 2027-01-01 23:59:59 do", True),
        ("Sales of 2026-11-03", "Sales of 2026-11-04", False),
        ("Job 12345678-1234-1234-1234-123456789abc", "Job 00000000-0000-0000-0000-000000000000", True),
        ("Read {tmp}/abc/x.csv now", "Read {tmp}/def/y.csv now", True),
        ("Read {here}/x.csv", "Read {there}/x.csv", True),
        ("Read {here}/x.csv", "Read {here}/y.csv", False),
        ("Read {here}x/a.csv", "Read {there}x/a.csv", False),
    ],
)
def test_when_two_prompts_are_the_same(one, other, same, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", "/var/tmp/user")
    here, there = Path("/home/ada/bees"), Path("/home/bob/wasps")
    names = {"tmp": "/var/tmp/user", "here": here, "there": there}
    keys = (
        prompt_key(one.format(**names), here),
        prompt_key(other.format(**names), there if "{there}" in other else here),
    )
    assert (keys[0] == keys[1]) is same


def test_a_prompt_of_blocks_is_known_by_its_text_and_images():
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    other = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "BBBB"}}
    text = {"type": "text", "text": "What is this?"}
    assert prompt_text([text]) == prompt_text("What is this?")
    assert len({prompt_text([text]), prompt_text([text, image]), prompt_text([text, other])}) == 3


@pytest.mark.skipif(os.name == "nt", reason="POSIX permissions")
def test_the_key_is_the_users_alone_and_made_once(home):
    assert not is_trusted(b"a recording")
    assert not home.exists()
    trust(b"a recording")
    key = home / "recordings" / "key"
    secret = key.read_bytes()
    trust(b"another")

    assert (len(secret), key.read_bytes()) == (32, secret)
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert stat.S_IMODE(key.parent.stat().st_mode) == 0o700
    assert {path.name for path in key.parent.iterdir()} == {"key", "trusted"}
    assert is_trusted(b"a recording")
    assert not is_trusted(b"a recordinG")


def test_processes_that_make_the_key_at_the_same_time_get_the_same(home):
    code = "import sys; from cellwright.agent.recording.recordings import trust; trust(sys.argv[1].encode())"
    makers = [subprocess.Popen([sys.executable, "-c", code, str(number)]) for number in range(4)]
    assert [maker.wait() for maker in makers] == [0] * 4
    assert all(is_trusted(str(number).encode()) for number in range(4))


def test_a_damaged_key_is_named(home):
    trust(b"x")
    (home / "recordings" / "key").write_bytes(b"short")
    with pytest.raises(CellwrightError, match="Delete it") as caught:
        is_trusted(b"x")
    assert caught.value.code == ErrorCode.CONFIG_INVALID
