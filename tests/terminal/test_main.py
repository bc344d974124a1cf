"""`cellwright` in pipes and scripts: what goes where, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cellwright
from cellwright.testing import Gate, MessagesServer, fault, hold, say, turn, use

Server = Callable[..., MessagesServer]
For = Callable[[MessagesServer | None], Any]

EDIT = use("Edit", file_path="notes.txt", old_string="alpha", new_string="beta")


def lines_of(output: str) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in output.splitlines()]
    assert all(list(line) == ["type", "timestamp", "data"] for line in lines)
    return lines


def test_stdout_is_the_answer_and_stderr_the_rest(messages_server: Server, command_for: For) -> None:
    command = command_for(messages_server([turn(say("I look."), use("Read", file_path="a.txt")), say("It says hi.")]))
    (command.folder / "a.txt").write_text("hi\n", encoding="utf-8")
    done = command.run("what does a.txt say?")
    assert done.returncode == 0
    assert done.stdout == "It says hi.\n"
    assert done.stderr.splitlines()[0].startswith("* Read a.txt: 1 line")
    assert done.stderr.splitlines()[-1].startswith("Done · ")
    assert "\x1b" not in done.stdout + done.stderr


def test_quiet_leaves_nothing_but_the_answer(messages_server: Server, command_for: For) -> None:
    command = command_for(messages_server([use("LS", path="."), say("Nothing there.")]))
    done = command.run("--quiet", "what is here?")
    assert (done.returncode, done.stdout, done.stderr) == (0, "Nothing there.\n", "")


def test_a_tool_really_works_when_the_mode_allows_it(messages_server: Server, command_for: For) -> None:
    server = messages_server([use("Read", file_path="notes.txt"), EDIT, say("Done.")])
    command = command_for(server)
    notes = command.folder / "notes.txt"
    notes.write_text("alpha\n", encoding="utf-8")
    done = command.run("--permission-mode", "acceptEdits", "replace it")
    assert done.returncode == 0
    assert notes.read_text(encoding="utf-8") == "beta\n"
    assert [line.strip() for line in done.stderr.splitlines() if line.strip()[:1] in "+-"][2:] == ["-alpha", "+beta"]
    assert server.rejected == []


def test_what_would_ask_is_denied_with_the_rule_that_would_allow_it(messages_server: Server, command_for: For) -> None:
    server = messages_server([use("Bash", command="touch made"), say("I may not.")])
    command = command_for(server)
    done = command.run("make a file")
    assert done.returncode == 0
    assert not (command.folder / "made").exists()
    assert "* Run" in done.stderr
    assert "denied" in done.stderr
    assert "Bash(touch made)" in done.stderr
    assert "Bash(touch made)" in json.dumps(server.requests[1].body["messages"][-1])


@pytest.mark.parametrize("rules", [["Bash(touch made)"], ["Read", "LS,Bash(touch made), Edit"]])
def test_rules_allow_and_deny(messages_server: Server, command_for: For, rules: list[str]) -> None:
    script = [use("Bash", command="touch made"), say("Done.")]
    command = command_for(messages_server(script))
    options = [option for rule in rules for option in ("--allowed-tools", rule)]
    assert command.run(*options, "make a file").returncode == 0
    assert (command.folder / "made").exists()
    denied = command_for(messages_server(script))
    (command.folder / "made").unlink()
    denied.run(*options, "--disallowed-tools", "Bash", "make a file")
    assert not (command.folder / "made").exists()


def test_words_and_pipe_make_one_prompt(messages_server: Server, command_for: For) -> None:
    server = messages_server([say("a"), say("b"), say("c")])
    command = command_for(server)
    command.run("-p", "review", "this", piped="diff --git a b\n")
    assert server.requests[-1].last_user_text.endswith("review this\n\ndiff --git a b\n")
    command.run(piped="only piped\n")
    assert server.requests[-1].last_user_text.endswith("only piped\n")
    command.run("only words")
    assert server.requests[-1].last_user_text.endswith("only words")


@pytest.mark.parametrize("piped", [b"", b"  \n", b"\x89PNG\x00\x01"], ids=["nothing", "blank", "binary"])
def test_without_a_prompt_nothing_is_sent(messages_server: Server, command_for: For, piped: bytes) -> None:
    server = messages_server([])
    done = command_for(server).run("-p", piped=piped)
    assert done.returncode == 2
    assert done.stderr.startswith("INVALID_PARAMETERS: ")
    assert server.requests == []


def test_an_idle_pipe_is_not_waited_for_long(messages_server: Server, command_for: For) -> None:
    command = command_for(messages_server([say("Hello.")]))
    read_end, write_end = os.pipe()
    with os.fdopen(read_end), os.fdopen(write_end, "w"):
        running = subprocess.Popen(
            [*command.argv, "--quiet", "hi"], stdin=read_end, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            cwd=command.folder, env=command.environ,
        )  # fmt: skip
        out, err = running.communicate(timeout=60)
    assert (running.returncode, out) == (0, "Hello.\n")
    assert "Nothing came through stdin" in err


ENDINGS: dict[str, tuple[list[Any], list[str], int, str]] = {
    "refused": ([turn(say("No."), stop_reason="refusal")], [], 5, "REFUSED"),
    "max turns": ([use("LS", path="."), say("never")], ["--max-turns", "1"], 6, "MAX_TURNS_REACHED"),
    "budget": ([], ["--budget", "0.0001"], 7, "BUDGET_EXCEEDED"),
    "bad request": ([fault("status", status=400)], [], 4, "API_REQUEST_INVALID"),
    "overloaded": ([fault("status", retry_after_ms=1)] * 2, [], 4, "API_OVERLOADED"),
    "key not accepted": ([fault("status", status=401)], [], 3, "API_KEY_INVALID"),
    "no such session": ([], ["--resume", "20200101"], 8, "SESSION_NOT_FOUND"),
    "malformed rule": ([], ["--allowed-tools", "Bash(("], 9, "CONFIG_INVALID"),
}


@pytest.mark.parametrize(("script", "options", "code", "name"), ENDINGS.values(), ids=list(ENDINGS))
def test_each_ending_has_its_exit_code(
    messages_server: Server, command_for: For, script: list[Any], options: list[str], code: int, name: str
) -> None:
    done = command_for(messages_server(script)).run(*options, "--output-format", "json-lines", "go")
    assert done.returncode == code, done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith(f"{name}: ")]
    assert len(said) == 1
    assert "Traceback" not in done.stderr
    *_, error, complete = lines_of(done.stdout)
    assert (error["type"], error["data"]["error_code"]) == ("error", name)
    assert said[0].startswith(f"{name}: {error['data']['error_message'].splitlines()[0]}")
    assert complete["type"] == "session_complete"
    assert complete["data"]["metadata"]["stop_reason"] != "end_turn"


def test_without_a_key_the_ways_to_give_one_are_told(command_for: For) -> None:
    done = command_for(None).run("hi")
    assert done.returncode == 3
    assert done.stdout == ""
    assert done.stderr.startswith("API_KEY_MISSING: ")
    assert "ANTHROPIC_API_KEY" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["--no-such-option", "x"],
        ["--max-turns", "0", "x"],
        ["--max-turns", "many", "x"],
        ["--budget", "-1", "x"],
        ["--permission-mode", "yolo", "x"],
        ["--continue", "--no-session", "x"],
        ["--record", "a", "--replay", "b", "x"],
        ["--dry-run", "--replay", "b", "x"],
    ],
)
def test_wrong_arguments_are_explained(command_for: For, arguments: list[str]) -> None:
    done = command_for(None).run(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith("usage: cellwright")
    assert "error: " in done.stderr


def test_version_and_help(command_for: For) -> None:
    command = command_for(None)
    assert command.run("--version").stdout == f"cellwright {cellwright.__version__}\n"
    shown = command.run("--help").stdout
    for word in ("--output-format", "json-lines", "exit codes:", "130", "cellwright demo"):
        assert word in shown


def test_json_lines_are_the_run_as_it_goes(messages_server: Server, command_for: For) -> None:
    gate = Gate()
    script = [turn(say("First."), use("LS", path=".")), turn(say("Sec"), hold(gate), say("ond."))]
    running = command_for(messages_server(script)).start("--output-format", "json-lines", "go")
    read: list[dict[str, Any]] = []
    while not (read and read[-1]["data"].get("chunk") == "Sec"):
        read += lines_of(running.stdout.readline())
    gate.open()
    rest, _ = running.communicate(timeout=60)
    read += lines_of(rest)
    assert running.returncode == 0
    assert [line["type"] for line in read] == [
        *("context_told", "claude_response_chunk", "claude_response_chunk"),
        *("tool_execution_start", "permission_decision", "tool_completion"),
        *("claude_response_chunk", "claude_response_chunk", "claude_response_chunk", "session_complete"),
    ]
    assert read[-1]["data"]["final_response"] == "Second."
    metadata = read[-1]["data"]["metadata"]
    assert (metadata["tools_executed"], metadata["total_api_calls"], metadata["stop_reason"]) == (1, 2, "end_turn")


def test_json_is_one_object(messages_server: Server, command_for: For) -> None:
    done = command_for(messages_server([say("Hello.")])).run("--output-format", "json", "hi")
    whole = json.loads(done.stdout)
    assert list(whole) == ["events", "final_response", "metadata"]
    assert whole["final_response"] == "Hello."
    assert whole["events"][-1]["type"] == "session_complete"
    assert done.stderr == ""


def test_a_conversation_goes_on(messages_server: Server, command_for: For) -> None:
    server = messages_server([say("One."), say("Two."), say("Three.")])
    command = command_for(server)
    first = command.run("--continue", "first")
    assert "started a new one" in first.stderr
    command.run("--continue", "second")
    whole = json.loads(command.run("--output-format", "json", "other session").stdout)
    assert len(server.requests[1].body["messages"]) == 3
    assert len(server.requests[2].body["messages"]) == 1
    server.add(say("Four."))
    command.run("--resume", whole["metadata"]["session_id"][:-2], "third")
    assert server.requests[3].last_user_text.endswith("third")
    assert len(server.requests[3].body["messages"]) == 3
    assert server.rejected == []


@pytest.mark.parametrize("session_id", ["", "elsewhere"])
def test_a_session_that_is_not_there_is_not_guessed(messages_server: Server, command_for: For, session_id: str) -> None:
    server = messages_server([say("One.")])
    command = command_for(server)
    command.run("first")
    done = command.run("--resume", session_id, "second")
    assert (done.returncode, len(server.requests)) == (8, 1)
    assert done.stderr.startswith("SESSION_NOT_FOUND: ")


def test_a_rule_that_allows_nothing_is_told(messages_server: Server, command_for: For) -> None:
    done = command_for(messages_server([say("Hello.")])).run("--allowed-tools", "Bash(make; ls),Python(x)", "hi")
    assert "warning: The allow rule `Bash(make; ls)` is not used: " in done.stderr
    assert "warning: The allow rule `Python(x)` is not used: " in done.stderr


def test_no_session_keeps_nothing(messages_server: Server, command_for: For, own_place: Path) -> None:
    command = command_for(messages_server([use("LS", path="."), say("Hello.")]))
    assert command.run("--no-session", "hi").returncode == 0
    assert list(own_place.rglob("*.jsonl")) == []


def test_a_dry_run_sends_and_keeps_nothing(messages_server: Server, command_for: For, own_place: Path) -> None:
    server = messages_server([])
    command = command_for(server)
    done = command.run("--dry-run", "--model", "claude-sonnet-5-5", "what would you do?")
    assert done.returncode == 0
    for words in ("Nothing was sent", "claude-sonnet-5-5", "what would you do?", "Read"):
        assert words in done.stdout
    summary = json.loads(command.run("--dry-run", "--output-format", "json", "and now?").stdout)
    assert summary["messages"][-1]["content"][-1]["text"] == "and now?"
    assert 500 < summary["about_input_tokens"] < 20_000
    assert command_for(None).run("--dry-run", "without a key").returncode == 0
    assert server.all_requests == []
    assert list(own_place.rglob("*.jsonl")) == []


def test_a_schema_makes_the_answer_json_that_fits(messages_server: Server, command_for: For) -> None:
    server = messages_server([say("[1, 2]"), say('{"tide_m": 3.5}'), say("no"), say("still no")])
    command = command_for(server)
    tide = {"type": "object", "properties": {"tide_m": {"type": "number", "minimum": 0}}, "required": ["tide_m"]}
    (command.folder / "tide.json").write_text(json.dumps(tide))
    done = command.run("--quiet", "--schema", "tide.json", "how high?")
    assert (done.returncode, json.loads(done.stdout)) == (0, {"tide_m": 3.5})
    assert server.requests[-1].body["output_config"]["format"]["schema"]["additionalProperties"] is False
    done = command.run("--schema", "tide.json", "how high?")
    assert done.returncode == 1
    assert "not a valid tide.json" in done.stderr
    assert "tide_m" in command.run("--schema", "tide.json", "--dry-run", "how high?").stdout


@pytest.mark.parametrize(
    ("content", "told", "code"),
    [
        ("{", "cannot be read as JSON", 2),
        ("[]", "holds no JSON schema", 2),
        ('{"type": "object"}', "Nothing was sent", 2),
    ],
)
def test_a_schema_that_cannot_be_used_is_refused(
    messages_server: Server, command_for: For, content: str, told: str, code: int
) -> None:
    server = messages_server([])
    command = command_for(server)
    (command.folder / "schema.json").write_text(content)
    done = command.run("--schema", "schema.json", "hi")
    assert done.returncode == code
    assert told in done.stderr
    assert server.requests == []


def test_a_dry_run_knows_the_conversation(messages_server: Server, command_for: For) -> None:
    command = command_for(messages_server([say("One.")]))
    command.run("first")
    done = command.run("--continue", "--dry-run", "second")
    for words in ("first", "One.", "second"):
        assert words in done.stdout


def test_a_recording_plays_without_a_key(messages_server: Server, command_for: For) -> None:
    script = [use("Read", file_path="notes.txt"), EDIT, say("Changed.")]
    command = command_for(messages_server(script))
    notes = command.folder / "notes.txt"
    notes.write_text("alpha\n", encoding="utf-8")
    recording = str(command.folder / "run.jsonl")
    options = ("--permission-mode", "acceptEdits")
    assert command.run(*options, "--record", recording, "change it").returncode == 0
    notes.write_text("alpha\n", encoding="utf-8")
    played = command_for(None).run(*options, "--replay", recording, "change it")
    assert (played.returncode, played.stdout) == (0, "Changed.\n"), played.stderr
    assert notes.read_text(encoding="utf-8") == "beta\n"
    other = command_for(None).run("--replay", recording, "change something else")
    assert other.returncode == 2
    assert "nearest" in other.stderr


def test_what_is_recorded_in_a_file_is_played_from_it_where_the_process_says_so(
    messages_server: Server, command_for: For
) -> None:
    command = command_for(messages_server([use("Read", file_path="notes.txt"), say("Read."), say("New.")]))
    notes = command.folder / "notes.txt"
    notes.write_text("alpha\n", encoding="utf-8")
    recorded = ("--record", "run.jsonl", "look")
    assert command.run(*recorded).stdout == "Read.\n"
    kept = (command.folder / "run.jsonl").read_bytes()
    without_key = command_for(None)
    for way in ("strict", "auto"):
        played = without_key.run(*recorded, CELLWRIGHT_REPLAY=way)
        assert (played.returncode, played.stdout) == (0, "Read.\n"), played.stderr
    named = without_key.run("look", CELLWRIGHT_REPLAY="strict", CELLWRIGHT_RECORDING="run.jsonl")
    assert named.stdout == "Read.\n", named.stderr
    assert (command.folder / "run.jsonl").read_bytes() == kept
    notes.write_text("beta\n", encoding="utf-8")
    drifted = without_key.run(*recorded, CELLWRIGHT_REPLAY="strict")
    assert drifted.returncode == 1
    assert "has changed since" in drifted.stderr
    assert "has changed since" in without_key.run(*recorded, CELLWRIGHT_REPLAY="auto").stderr
    missing = without_key.run("--record", "run.jsonl", "something else", CELLWRIGHT_REPLAY="strict")
    assert "This prompt is not in the recording" in missing.stderr
    live = command.run("--record", "run.jsonl", "something else", CELLWRIGHT_REPLAY="auto")
    assert live.stdout == "New.\n"
    assert len((command.folder / "run.jsonl").read_text(encoding="utf-8").splitlines()) == 3
    assert "CELLWRIGHT_REPLAY is 'never'" in command.run(*recorded, CELLWRIGHT_REPLAY="never").stderr


def test_a_foreign_recording_is_not_played_unasked(messages_server: Server, command_for: For, own_place: Path) -> None:
    command = command_for(messages_server([say("Hello.")]))
    recording = command.folder / "run.jsonl"
    command.run("--record", str(recording), "hi")
    recording.write_text(recording.read_text(encoding="utf-8").replace("Hello.", "Changed."), encoding="utf-8")
    done = command.run("--replay", str(recording), "hi")
    assert done.returncode == 10
    assert done.stderr.startswith("PERMISSION_DENIED: ")
    assert "1 turn, trusted" in command.run("trust-recording", str(recording)).stdout
    assert command.run("--replay", str(recording), "hi").stdout.strip() == "Changed."
    assert command.run("trust-recording", str(command.folder / "none")).stderr.startswith("FILE_NOT_FOUND: ")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_in_good_order(messages_server: Server, command_for: For, number: int) -> None:
    server = messages_server([turn(say("I begin"), hold(Gate())), say("I am here again.")])
    command = command_for(server)
    running = command.start("--output-format", "json-lines", "go")
    assert lines_of(running.stdout.readline())[0]["type"] == "context_told"
    assert lines_of(running.stdout.readline())[0]["data"]["chunk"] == "I begin"
    running.send_signal(number)
    rest, errors = running.communicate(timeout=60)
    assert running.returncode == 128 + number
    assert errors.startswith("Interrupted.")
    assert lines_of(rest)[-1]["data"]["metadata"]["stop_reason"] == "interrupted"
    assert command.run("--continue", "go on").stdout == "I am here again.\n"
    assert server.rejected == []


def test_a_run_under_nohup_survives_the_terminal(messages_server: Server, command_for: For) -> None:
    gate = Gate()
    command = command_for(messages_server([turn(say("I begin"), hold(gate), say(" and end."))]))
    running = subprocess.Popen(
        ["/bin/sh", "-c", 'trap "" HUP; exec "$@"', "sh", *command.argv, "--output-format", "json-lines", "go"],
        cwd=command.folder, env=command.environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert running.stdout is not None
    running.stdout.readline()
    running.send_signal(signal.SIGHUP)
    gate.open()
    out, _ = running.communicate(timeout=60)
    assert running.returncode == 0
    assert lines_of(out)[-1]["data"]["final_response"] == "I begin and end."


def test_an_interrupt_ends_a_command_that_runs(messages_server: Server, command_for: For) -> None:
    server = messages_server([use("Bash", command="echo started; sleep 300"), say("Here again.")])
    command = command_for(server)
    running = command.start(
        "--output-format", "json-lines", "--permission-mode", "bypassPermissions", "go", IS_SANDBOX="1"
    )
    while "started" not in (line := running.stdout.readline()):
        assert line
    running.send_signal(signal.SIGINT)
    rest, _ = running.communicate(timeout=60)
    assert running.returncode == 130
    [end] = [line["data"] for line in lines_of(rest) if line["type"] == "tool_completion"]
    assert end["status"] == "interrupted"
    assert command.run("--continue", "go on").returncode == 0
    assert server.rejected == []


def test_a_reader_that_goes_away_ends_the_run_quietly(messages_server: Server, command_for: For) -> None:
    gate = Gate()
    server = messages_server([turn(say("one "), hold(gate), say("two " * 50_000))])
    running = command_for(server).start("--output-format", "json-lines", "go")
    running.stdout.readline()
    running.stdout.close()
    gate.open()
    assert running.wait(timeout=60) == 141
    assert running.stderr.read() == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
@pytest.mark.parametrize("output_format", ["text", "json", "json-lines"])
def test_an_output_that_cannot_be_written_is_said(
    messages_server: Server, command_for: For, output_format: str
) -> None:
    command = command_for(messages_server([say("Hello.")]))
    argv = [*command.argv, "--output-format", output_format, "hi"]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            argv, cwd=command.folder, env=command.environ, stdin=subprocess.DEVNULL, stdout=full,
            stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert "FILE_ACCESS_ERROR: The output could not be written" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="needs a shell that closes streams")
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
def test_a_closed_stream_is_no_error(messages_server: Server, command_for: For, closed: str) -> None:
    server = messages_server([say("Hello.")])
    command = command_for(server)
    done = subprocess.run(
        ["/bin/sh", "-c", f'exec "$@" {closed}', "sh", *command.argv, "hi"], cwd=command.folder, env=command.environ,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    assert len(server.requests) == 1


def test_verbose_logs_without_the_key(messages_server: Server, command_for: For) -> None:
    server = messages_server([say("Hello.")])
    command = command_for(server)
    done = command.run("--verbose", "hi", MY_PASSWORD="hunter2-hunter2")
    assert done.stdout == "Hello.\n"
    assert "DEBUG" in done.stderr
    assert server.api_key not in done.stderr
    assert "hunter2" not in done.stderr


def test_a_terminal_that_knows_only_ascii_gets_the_answer(messages_server: Server, command_for: For) -> None:
    done = command_for(messages_server([say("naïve → 🙂")])).run("--quiet", "hi", PYTHONIOENCODING="ascii")
    assert (done.returncode, done.stdout) == (0, "na\\xefve \\u2192 \\U0001f642\n")


def test_broken_settings_are_told(messages_server: Server, command_for: For) -> None:
    command = command_for(messages_server([say("Hello.")]))
    (command.folder / ".claude").mkdir()
    (command.folder / ".claude" / "settings.json").write_text("{nonsense", encoding="utf-8")
    assert "settings.json" in command.run("hi").stderr


def test_the_sessions_of_others_stay_theirs(messages_server: Server, command_for: For, own_place: Path) -> None:
    command = command_for(messages_server([say("Hello.")]))
    command.run("hi")
    kept = list(own_place.rglob("*.jsonl"))
    assert kept
    assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in kept)


def test_start_imports_no_heavy_library(messages_server: Server, command_for: For) -> None:
    command = command_for(messages_server([say("Hello.")]))
    program = (
        "import sys\nfrom cellwright.terminal.main import main\ncode = main(['--quiet', 'hi'])\n"
        "heavy = ['anthropic', 'rich', 'IPython', 'nbformat', 'jsonschema', 'sqlite3', 'yaml']\n"
        "heavy += ['cellwright.commands.registry', 'cellwright.commands.usage', 'cellwright.tools.mcp.connection']\n"
        "heavy += ['cellwright.sessions.claude_code']\n"
        "print([name for name in heavy if name in sys.modules])"
    )
    done = subprocess.run(
        [command.argv[0], "-c", program], cwd=command.folder, env=command.environ, stdin=subprocess.DEVNULL,
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "Hello.\n[]\n"


def test_an_empty_value_is_never_the_default(capsys: pytest.CaptureFixture[str]) -> None:
    from cellwright.terminal.arguments import parse, parser

    means_none = {"--tools", "--setting-sources", "--system-prompt", "--append-system-prompt", "-r", "--resume"}
    for action in parser()._actions:
        for flag in set(action.option_strings) - means_none if action.nargs is None else ():
            with pytest.raises(SystemExit):
                parse(["-p", flag, "", "hi"])
            assert f"{flag}: " in (told := capsys.readouterr().err), told
