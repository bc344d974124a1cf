"""Sessions on disk: written before acted on, cut off anywhere, damaged, out of room, forked, found again."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
import zlib

import pytest

from cellwright.errors import CellwrightError, ErrorCode, ToolError
from cellwright.sessions.session import WINDOW_SECONDS, CallRate, Session
from cellwright.sessions.state_dir import find_sessions, sessions_folder
from cellwright.sessions.transcripts.transcript import encode_line, parse_lines, read_messages
from cellwright.sessions.transcripts.transcript_file import Line
from row_tables import for_each_row

SYSTEM = [{"type": "text", "text": "Sei höflich.", "cache_control": {"type": "ephemeral", "ttl": "1h"}}]
TOOLS = [
    {"name": "Read", "description": "Größe", "input_schema": {"type": "object", "properties": {"n": {"maximum": 1.0}}}}
]


def use(*ids):
    return [{"type": "tool_use", "id": id, "name": "Read", "input": {"file_path": "ä.py"}} for id in ids]


def results(*ids):
    return [{"type": "tool_result", "tool_use_id": id, "content": "1\tx = 'ö'"} for id in ids]


def begun(tmp_path):
    session = Session.create(tmp_path, tmp_path / "state" / "sessions")
    session.begin(model="claude-opus-5-5", system=SYSTEM, tools=TOOLS)
    return session


@pytest.fixture
def two_turns(tmp_path):
    """The path of a closed session: two turns, the first with two parallel calls, the second with one."""
    session = begun(tmp_path)
    usage = {
        "input_tokens": 3,
        "output_tokens": 5,
        "cache_creation": {"ephemeral_1h_input_tokens": 7},
        "speed": "standard",
    }
    facts = {"usage": usage, "model": "claude-opus-5-5", "cost_usd": 0.25}
    session.append({"role": "user", "content": "Wie groß ist ä.py? 你好"})
    session.append({"role": "assistant", "content": use("t1", "t2")}, **facts, context_tokens=100)
    session.append({"role": "user", "content": results("t1", "t2")})
    session.append(
        {"role": "assistant", "content": [{"type": "text", "text": "Eine Zeile."}]}, **facts, context_tokens=120
    )
    session.append({"role": "user", "content": "Noch einmal"})
    session.append({"role": "assistant", "content": use("t3")}, **facts, context_tokens=140)
    session.next_seq = 42
    session.append({"role": "user", "content": results("t3")})
    session.close()
    return session.path


def is_answered(messages):
    """Whether every call is answered exactly once, in the message behind it, and nothing else is."""
    for before, message in zip([{"role": "user", "content": ""}, *messages], [*messages, None], strict=False):
        asked = [b["id"] for b in before["content"] if before["role"] == "assistant" and b["type"] == "tool_use"]
        blocks = message["content"] if message and not isinstance(message["content"], str) else []
        if [b["tool_use_id"] for b in blocks if b["type"] == "tool_result"] != asked:
            return False
    return True


def test_a_message_is_on_disk_when_append_returns(tmp_path):
    session = begun(tmp_path)
    for number in range(3):
        session.append({"role": "user", "content": f"größer {number}"})
        assert [m["content"] for m in read_messages(session.path)] == [f"größer {n}" for n in range(number + 1)]
        assert session.encoded[-1] in session.path.read_bytes()
    assert session.messages == read_messages(session.path)


def test_a_changed_message_does_not_change_the_session(tmp_path):
    session = begun(tmp_path)
    message = {"role": "user", "content": [{"type": "text", "text": "as said"}]}
    session.append(message)
    message["content"][0]["text"] = "changed afterwards"
    assert session.messages[0]["content"][0]["text"] == "as said"


def test_resuming_brings_back_the_same_bytes_and_sums(two_turns):
    session = Session.load(two_turns)

    assert session.encoded == [
        json.dumps(m, ensure_ascii=False, separators=(",", ":")).encode() for m in session.messages
    ]
    assert len(session.encoded) == 7
    assert (json.loads(session.system), json.loads(session.tools)) == (SYSTEM, TOOLS)
    assert session.model == "claude-opus-5-5"
    assert session.usage == {
        "input_tokens": 9,
        "output_tokens": 15,
        "cache_creation": {"ephemeral_1h_input_tokens": 21},
    }
    assert session.cost_usd == 0.75
    assert session.context_tokens == 140
    assert session.next_seq > 42, "events after the last message had numbers too"
    assert session.id == two_turns.stem
    assert session.notices == []


def test_system_and_tools_are_those_of_the_beginning(two_turns):
    session = Session.load(two_turns)
    system, tools = session.system, session.tools
    session.begin(model="another", system=[], tools=[])
    assert (session.model, session.system, session.tools) == ("claude-opus-5-5", system, tools)
    session.close()
    again = Session.load(two_turns)
    assert (again.system, again.tools) == (system, tools)


def test_an_unknown_price_makes_the_sum_unknown(two_turns):
    session = Session.load(two_turns)
    session.append({"role": "assistant", "content": "x"}, usage={"input_tokens": 1}, model="unheard-of")
    assert session.cost_usd is None
    assert session.usage["input_tokens"] == 10


def test_nothing_is_written_before_the_session_begins(tmp_path):
    session = Session.create(tmp_path, tmp_path / "state" / "sessions")
    assert session.path.parent == tmp_path / "state" / "sessions"
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(RuntimeError, match="begin"):
        session.append({"role": "user", "content": "x"})


def test_a_session_in_memory_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("CELLWRIGHT_HOME", str(tmp_path))
    session = Session.create(tmp_path, None)
    session.begin(model="m", system=SYSTEM, tools=TOOLS)
    session.append({"role": "user", "content": "x"}, usage={"input_tokens": 1}, cost_usd=0.5)
    session.flush()
    fork = session.fork()
    fork.append({"role": "user", "content": "y"})
    session.close()

    assert session.path is None
    assert (len(session.messages), len(fork.messages), fork.cost_before_usd) == (1, 2, 0.5)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name == "nt", reason="POSIX permissions")
@pytest.mark.parametrize("umask", [0o000, 0o077])
def test_only_the_user_can_read_what_is_written(tmp_path, umask):
    before = os.umask(umask)
    try:
        session = begun(tmp_path)
        session.fork().close()
    finally:
        os.umask(before)
    files = list(session.path.parent.iterdir())
    assert {path.suffix for path in files} == {".jsonl", ".lease"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    for folder in (session.path.parent, session.path.parent.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_session_cut_off_at_any_byte_loads_and_goes_on(two_turns):
    data = two_turns.read_bytes()
    whole = read_messages(two_turns)
    header_end = data.index(b"\n") + 1

    for cut in range(header_end, len(data) + 1):
        two_turns.write_bytes(data[:cut])
        session = Session.load(two_turns)
        kept = data.count(b"\n", header_end, cut)
        repaired = 1 if kept in (2, 6) else 0
        assert session.messages[:kept] == whole[:kept]
        assert len(session.messages) == kept + repaired
        assert is_answered(session.messages)
        assert bool(session.notices) == bool(repaired or data[cut - 1 : cut] != b"\n")
        session.append({"role": "user", "content": "go on"})
        session.close()

        again = Session.load(two_turns)
        assert again.messages == session.messages
        assert again.notices == []
        again.close()


def test_a_session_cut_off_in_its_header_says_what_can_be_done(two_turns):
    data = two_turns.read_bytes()
    for cut in range(data.index(b"\n") + 1):
        two_turns.write_bytes(data[:cut])
        with pytest.raises(CellwrightError, match="restore the file from a copy, or start a new session") as caught:
            Session.load(two_turns)
        assert caught.value.code == ErrorCode.SESSION_CORRUPTED
        assert two_turns.read_bytes() == data[:cut]


def test_open_calls_are_answered_in_order_as_interrupted(two_turns):
    data = two_turns.read_bytes()
    two_turns.write_bytes(b"".join(data.splitlines(keepends=True)[:3]))

    session = Session.load(two_turns)

    answer = session.messages[-1]
    assert [block["tool_use_id"] for block in answer["content"]] == ["t1", "t2"]
    assert {block["is_error"] for block in answer["content"]} == {True}
    assert all(block["content"].startswith("interrupted") for block in answer["content"])
    assert read_messages(two_turns) == session.messages
    assert ["2 tool call(s)" in notice for notice in session.notices] == [True]


class TestFaults:
    """A line that was altered, left out or doubled is seen, told once, and the conversation goes on with the rest."""

    def lines_of(self, path):
        return path.read_bytes().splitlines(keepends=True)

    @for_each_row(
        ("fault", "told"),
        [
            (lambda lines: lines.__setitem__(3, lines[3].replace("ö".encode(), b"oe")), "line 4 is damaged"),
            (lambda lines: lines.pop(2), "before line 3 something is missing"),
            (lambda lines: lines.pop(3), "before line 4 something is missing"),
            (lambda lines: lines.pop(1), "before line 2 something is missing"),
            (lambda lines: lines.insert(3, lines[2]), "line 4 stands there twice"),
            (lambda lines: lines.extend(lines[3:5]), "line 9 stands there twice"),
            (lambda lines: lines.__setitem__(slice(2, 4), [lines[3], lines[2]]), "before line 3 something is missing"),
            (
                lambda lines: lines.append(encode_line(Line({"seq": 99, "at": 1.0, "epoch": 9}, b"[]"))),
                "another program",
            ),
            (lambda lines: lines.__setitem__(2, rewritten(lines[2])), "before line 4 something is missing"),
        ],
    )
    def test_it_is_told_once_and_what_is_left_is_valid(self, two_turns, fault, told):
        lines = whole = self.lines_of(two_turns)
        try:
            lines = list(whole)
            fault(lines)
            two_turns.write_bytes(b"".join(lines))
            session = Session.load(two_turns)
            assert told in session.notices[0]
            assert is_answered(session.messages)
            assert session.messages[0]["role"] == "user"
            assert "Noch einmal" in json.dumps(session.messages)
            assert two_turns.read_bytes().startswith(b"".join(lines)), "the file keeps everything"
            session.append({"role": "user", "content": "go on"})
            session.close()
            again = Session.load(two_turns)
            assert again.notices == []
            assert again.messages == session.messages
            again.close()
        finally:
            two_turns.write_bytes(b"".join(whole))

    def test_a_file_that_is_whole_is_left_alone(self, two_turns):
        before = two_turns.read_bytes()
        session = Session.load(two_turns)
        session.close()
        assert two_turns.read_bytes() == before
        assert session.notices == []

    def test_where_no_line_can_be_read_it_says_so(self, two_turns):
        header, *rest = self.lines_of(two_turns)
        two_turns.write_bytes(header + b"".join(b"#" + line for line in rest))
        with pytest.raises(CellwrightError, match="No line of the session") as caught:
            Session.load(two_turns)
        assert caught.value.code == ErrorCode.SESSION_CORRUPTED


def rewritten(line):
    """`line` as an editor that knows the format would alter it: its own checksum is right."""
    _, _, rest = line.partition(b',"crc32":')[2].partition(b",")
    rest = rest.rstrip(b"\n").replace(b"Read", b"Find")
    return b'%b,"crc32":%d,%b\n' % (line.partition(b",")[0], zlib.crc32(rest), rest)


class TestOlderAndNewerFormats:
    def older(self, path):
        """The file as format 1 had it: no checksums of the line before."""
        header, *lines = path.read_bytes().splitlines(keepends=True)
        header = header.replace(b'{"cellwright_transcript":4', b'{"cellwright_transcript":1')
        parsed = parse_lines([line.rstrip(b"\n") for line in lines]).lines
        path.write_bytes(header + b"".join(map(encode_line, parsed)))

    def test_an_older_one_is_written_anew(self, two_turns):
        whole, data = read_messages(two_turns), two_turns.read_bytes()
        self.older(two_turns)
        assert read_messages(two_turns) == whole
        assert two_turns.read_bytes() != data
        session = Session.load(two_turns)
        assert session.messages == whole
        assert session.notices == []
        session.close()
        assert two_turns.read_bytes() == data

    def test_what_is_damaged_in_it_stays_in_the_file(self, two_turns):
        self.older(two_turns)
        lines = two_turns.read_bytes().splitlines(keepends=True)
        lines[3] = lines[3].replace("ö".encode(), b"oe")
        two_turns.write_bytes(b"".join(lines))
        session = Session.load(two_turns)
        assert "line 4 is damaged" in session.notices[0]
        assert is_answered(session.messages)
        assert lines[3] in two_turns.read_bytes()

    def test_a_newer_one_asks_to_upgrade_and_stays_as_it_is(self, two_turns):
        data = two_turns.read_bytes().replace(b'{"cellwright_transcript":4', b'{"cellwright_transcript":5,"new":[]')
        two_turns.write_bytes(data)
        with pytest.raises(CellwrightError, match="pip install --upgrade cellwright") as caught:
            Session.load(two_turns)
        assert caught.value.code == ErrorCode.SESSION_CORRUPTED
        assert two_turns.read_bytes() == data


def test_a_missing_session_is_not_found_and_leaves_no_trace(tmp_path):
    with pytest.raises(CellwrightError) as caught:
        Session.load(tmp_path / "gone.jsonl")
    assert caught.value.code == ErrorCode.SESSION_NOT_FOUND
    assert list(tmp_path.iterdir()) == []


def test_forks_go_their_own_ways(two_turns):
    session = Session.load(two_turns)
    session.granted = ("Bash(ls)",)
    fork = session.fork()
    fork.append({"role": "user", "content": "in the fork"})
    session.append({"role": "user", "content": "in the original"})

    assert fork.id != session.id
    assert fork.encoded[:7] == session.encoded[:7]
    assert (fork.system, fork.tools, fork.cost_before_usd) == (session.system, session.tools, session.cost_usd)
    assert fork.granted == ("Bash(ls)",)
    fork.close()
    assert Session.load(fork.path).messages[-1]["content"] == "in the fork"
    assert read_messages(two_turns)[-1]["content"] == "in the original"


def test_a_fork_with_other_tools_keeps_the_place_and_the_cost_of_what_was_only_thought(tmp_path):
    session = begun(tmp_path)
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "s"}
    session.append({"role": "user", "content": "one"})
    session.append({"role": "assistant", "content": [thinking]}, usage={"output_tokens": 5}, model="m", cost_usd=0.5)
    session.take_back()
    session.append({"role": "assistant", "content": [thinking]}, usage={"output_tokens": 5}, model="m", cost_usd=0.5)
    session.append({"role": "user", "content": "two"})
    session.append({"role": "assistant", "content": [thinking, {"type": "text", "text": "Yes."}]})
    fork = session.fork(tools=[])
    assert [message["role"] for message in fork.messages] == [message["role"] for message in session.messages]
    assert [message["content"] for message in fork.messages if message["role"] == "user"] == ["one", "two"]
    texts = [block for message in fork.messages[1::2] for block in message["content"]]
    assert [block["type"] for block in texts] == ["text", "text"]
    assert texts[0]["text"].strip()
    assert (fork.cost_before_usd, fork.cost_usd, fork.usage) == (session.cost_usd, 0, {})


def test_what_was_paid_behind_the_last_message_is_known_after_a_resume(two_turns):
    session = Session.load(two_turns)
    before, tokens = list(session.messages), session.context_tokens
    cost = session.cost_usd
    session.settle()
    size = two_turns.stat().st_size
    session.spend({"output_tokens": 7}, 0.25)
    session.settle()
    session.settle()
    assert session.cost_usd == cost + 0.25
    session.close()
    assert two_turns.stat().st_size > size
    again = Session.load(two_turns)
    assert (again.cost_usd, again.messages, again.context_tokens) == (cost + 0.25, before, tokens)
    again.append({"role": "user", "content": "and then"})
    assert again.messages == [*before, {"role": "user", "content": "and then"}]
    again.take_back()
    assert again.messages == before


def test_a_fork_in_the_middle_of_a_call_is_valid_by_itself(tmp_path):
    session = begun(tmp_path)
    session.append({"role": "user", "content": "x"})
    session.append({"role": "assistant", "content": use("t1")})
    fork = session.fork()
    session.append({"role": "user", "content": results("t1")})
    assert is_answered(fork.messages)
    assert is_answered(session.messages)
    assert not session.messages[-1]["content"][0].get("is_error")


def test_a_session_that_was_killed_while_writing_keeps_all_it_said(tmp_path):
    code = """
import sys
from pathlib import Path
from cellwright.sessions.session import Session
session = Session.create(Path.cwd(), Path(sys.argv[1]))
session.begin(model="m", system=[], tools=[])
print(session.path, flush=True)
for number in range(10**9):
    session.append({"role": "user", "content": f"{number} " + "x" * 5000})
    print(number, flush=True)
"""
    process = subprocess.Popen([sys.executable, "-c", code, tmp_path], stdout=subprocess.PIPE, text=True)
    try:
        path = type(tmp_path)(process.stdout.readline().strip())
        while (said := int(process.stdout.readline())) < 50:
            pass
    finally:
        process.kill()
    rest, _ = process.communicate()
    said = max([said, *(int(line) for line in rest.splitlines() if rest.endswith("\n"))])

    session = Session.load(path)

    numbers = [int(message["content"].split()[0]) for message in session.messages]
    assert numbers == list(range(len(numbers)))
    assert len(numbers) >= said + 1


@pytest.mark.skipif(not hasattr(signal, "SIGXFSZ"), reason="needs a limit on the size of files")
def test_a_full_disk_is_said_and_loses_nothing(tmp_path):
    code = """
import resource, sys
from pathlib import Path
from cellwright.sessions.session import Session
from cellwright.sessions.transcripts.transcript import read_messages
from cellwright.errors import CellwrightError
session = Session.create(Path.cwd(), Path(sys.argv[1]))
session.begin(model="m", system=[], tools=[])
session.append({"role": "user", "content": "before"})
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
whole = session.path.read_bytes()
for room in (0, 1, 50, 4000):
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) + room, hard))
    try:
        session.append({"role": "user", "content": "x" * 9000})
    except CellwrightError as error:
        assert error.code == "FILE_ACCESS_ERROR" and str(session.path) in error.message, error
    else:
        raise AssertionError("written to a full disk")
    assert session.path.read_bytes() == whole
    assert [m["content"] for m in session.messages] == ["before"]
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
session.append({"role": "user", "content": "after"})
assert read_messages(session.path) == session.messages
print(len(session.messages))
"""
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("2\n", "")


@pytest.mark.skipif(os.name == "nt", reason="Windows keeps open files")
def test_a_transcript_deleted_under_way_is_said_and_can_be_forked(two_turns):
    session = Session.load(two_turns)
    two_turns.unlink()
    with pytest.raises(CellwrightError, match="deleted while the session was open; fork"):
        session.append({"role": "user", "content": "x"})
    fork = session.fork()
    assert read_messages(fork.path) == session.messages


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "state").write_text("a file where the folder should be")
    session = Session.create(tmp_path, tmp_path / "state")
    with pytest.raises(CellwrightError, match="CELLWRIGHT_HOME") as caught:
        session.begin(model="m", system=[], tools=[])
    assert caught.value.code == ErrorCode.FILE_ACCESS_ERROR
    assert str(session.path) in caught.value.message


def test_a_closed_session_is_not_written_to(two_turns):
    session = Session.load(two_turns)
    session.close()
    with pytest.raises(CellwrightError, match="closed"):
        session.append({"role": "user", "content": "x"})
    assert len(session.messages) == 7


def test_sessions_of_a_project_are_found_newest_first(tmp_path, monkeypatch):
    monkeypatch.setenv("CELLWRIGHT_HOME", str(tmp_path / "home"))
    project = tmp_path / "my project"
    project.mkdir()
    (tmp_path / "link").symlink_to(project)
    assert find_sessions(project) == []

    paths = []
    for number in range(3):
        session = Session.create(project, sessions_folder(project))
        session.begin(model="m", system=[], tools=[])
        session.close()
        os.utime(session.path, (number, number))
        paths.append(session.path)
    os.utime(paths[0], (9, 9))
    (sessions_folder(project) / "empty.jsonl").touch()

    assert find_sessions(project) == [paths[0], paths[2], paths[1]]
    assert find_sessions(tmp_path / "link") == find_sessions(project)
    assert find_sessions(tmp_path) == []
    assert sessions_folder(project).is_relative_to(tmp_path / "home")


@pytest.mark.skipif(sys.platform != "linux", reason="where Linux keeps such things")
def test_without_a_home_of_its_own_the_state_is_where_the_platform_keeps_data(tmp_path, monkeypatch):
    monkeypatch.delenv("CELLWRIGHT_HOME", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert sessions_folder(tmp_path).is_relative_to(tmp_path / "data" / "cellwright" / "sessions")
    assert list(tmp_path.iterdir()) == []


def test_resuming_costs_less_than_decoding_the_file(tmp_path, capsys):
    session = begun(tmp_path)
    usage = {"input_tokens": 12, "cache_read_input_tokens": 90_000, "output_tokens": 300}
    session.append({"role": "user", "content": "go"})
    appending = time.perf_counter()
    for turn in range(500):
        facts = {"usage": usage, "model": "claude-opus-5-5", "cost_usd": 0.01, "context_tokens": 90_000}
        session.append(
            {"role": "assistant", "content": [{"type": "text", "text": "y" * 200}, *use(f"t{turn}")]}, **facts
        )
        result = {"type": "tool_result", "tool_use_id": f"t{turn}", "content": '  "name": "wert",\n' * 110}
        session.append({"role": "user", "content": [result]})
    appending = time.perf_counter() - appending
    session.close()
    loads, decodes = [], []
    for _ in range(7):
        started = time.process_time()
        again = Session.load(session.path)
        loads.append(time.process_time() - started)
        again.close()
        started = time.process_time()
        decoded = [json.loads(line) for line in session.path.read_bytes().split(b"\n") if line]
        decodes.append(time.process_time() - started)

    with capsys.disabled():
        print(
            f"\nresume of 500 turns ({session.path.stat().st_size / 1e6:.1f} MB): {min(loads) * 1e3:.1f} ms; "
            f"decoding it all: {min(decodes) * 1e3:.1f} ms; append: {appending / 1000 * 1e6:.0f} µs"
        )
    assert again.encoded == session.encoded
    assert len(decoded) == 1002
    assert min(loads) < 1.3 * min(decodes)


def test_each_tool_has_its_own_limit_and_a_refused_call_does_not_count() -> None:
    rate = CallRate()
    rate.count("Bash", 2)
    rate.count("Bash", 2)
    for _ in range(2):
        with pytest.raises(ToolError) as refused:
            rate.count("Bash", 2)
        assert refused.value.code == ErrorCode.RATE_LIMIT_EXCEEDED
        assert refused.value.details is not None
        assert 0 < refused.value.details["retry_after_seconds"] <= WINDOW_SECONDS
    rate.count("Bash", 3)
    rate.count("Read", 1)
