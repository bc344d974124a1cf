"""`cellwright sessions`, and the slash commands of sessions in the terminal: real processes, real transcripts."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pexpect
import pytest

from cellwright.conversation.core import Host
from cellwright.conversation.runs.kinds import RunRequest
from cellwright.conversation.runs.run import RunSurface
from cellwright.features.conversation import Conversation
from cellwright.sessions.state_dir import state_folder
from cellwright.testing import Gate, MessagesServer, hold, say, think, turn, use

Server = Callable[..., MessagesServer]
For = Callable[[MessagesServer | None], Any]

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
TOLD = "tide gauge"


@pytest.fixture
def command(messages_server: Server, command_for: For) -> Any:
    """The command, where two sessions have been: of three turns and of one."""
    script = [say("The tide gauge stands in Brest."), say("In 1846."), say("By a float."), say("Bees dance.")]
    made = command_for(messages_server([*script, *[say("On it goes.")] * 5]))
    conversation = Conversation(Host(cwd=made.folder, interface="a terminal", environ=made.environ))
    for prompt in ("where is it?", "since when?", "and how?", "What of bees?"):
        if prompt == "What of bees?":
            conversation.sessions.start_new()
        task = conversation.start(RunRequest(prompt=prompt), RunSurface())
        conversation.jobs.work_until_done(task)
        assert task.result().ok
    conversation.close()
    return made


def listed(command: Any, *arguments: str) -> list[dict[str, Any]]:
    done = command.run("sessions", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def test_list_search_and_show(command: Any) -> None:
    bees, tides = listed(command)
    assert (tides["title"], tides["turns"], bees["title"], bees["turns"]) == ("where is it?", 3, "What of bees?", 1)
    assert [each["id"] for each in listed(command, "search", "tide", "gauge")] == [tides["id"]]
    assert listed(command, "search", TOLD)[0]["snippet"] == "The ⟪tide⟫ ⟪gauge⟫ stands in Brest."
    lines = command.run("sessions").stdout.splitlines()
    assert [line.split("\t")[0] for line in lines] == [bees["id"], tides["id"]]
    shown = command.run("sessions", "show", tides["id"]).stdout
    assert "3. and how?\n   By a float." in shown
    nothing = command.run("sessions", "search", "hornets")
    assert (nothing.returncode, nothing.stdout) == (0, "")
    assert "holds 'hornets'" in nothing.stderr


def test_other_folders_are_listed_when_all_are_asked_for(command: Any, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    from_there = type(command)(elsewhere, command.environ)
    assert listed(from_there) == []
    assert len(listed(from_there, "--all")) == 2
    assert len(listed(from_there, "list", "--all")) == 2
    assert str(command.folder) in from_there.run("sessions", "--all").stdout


def test_rename_tag_fork_and_go_on(command: Any) -> None:
    tides = listed(command)[1]["id"]
    assert command.run("sessions", "rename", tides, "Tides", "of", "Brest").stdout == f"{tides}: Tides of Brest\n"
    assert command.run("sessions", "tag", tides, "#thesis").stdout == f"{tides}: #thesis\n"
    fork = command.run("sessions", "fork", tides, "--turn", "2").stdout.strip()
    done = command.run("--resume", fork, "and then?")
    assert (done.returncode, done.stdout) == (0, "On it goes.\n")
    by_id = {each["id"]: each for each in listed(command)}
    assert (by_id[fork]["turns"], by_id[fork]["title"]) == (3, "Tides of Brest (fork at turn 2)")
    assert (by_id[tides]["turns"], by_id[tides]["tags"]) == (3, ["thesis"])


def test_a_turn_that_is_not_there_forks_nothing(command: Any) -> None:
    tides = listed(command)[1]["id"]
    refused = command.run("sessions", "fork", tides, "--turn", "4")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert f"The session {tides} has no turn 4" in refused.stderr
    assert len(listed(command)) == 2


def test_export_to_stdout_and_into_a_file_that_is_new(command: Any) -> None:
    tides = listed(command)[1]["id"]
    assert json.loads(command.run("sessions", "export", tides, "--format", "json").stdout)["session"] == tides
    first = command.run("sessions", "export", tides, "--output", "tides.md")
    assert "3 turns" in first.stdout
    assert "> since when?" in (command.folder / "tides.md").read_text()
    again = command.run("sessions", "export", tides, "--output", "tides.md")
    assert again.returncode == 1
    assert "already exists" in again.stderr


def test_delete_asks_and_is_refused_while_another_process_has_the_session(
    messages_server: Server, command_for: For
) -> None:
    gate = Gate()
    command = command_for(messages_server([say("One."), turn(say("Two"), hold(gate), say("."))]))
    assert command.run("first").returncode == 0
    (session,) = listed(command)
    unasked = command.run("sessions", "delete", session["id"])
    assert unasked.returncode == 2
    assert "--yes" in unasked.stderr
    running = command.start("--continue", "second")
    try:
        gate.wait_until_reached(60)
        (session,) = listed(command)
        assert session["in_use"]
        refused = command.run("sessions", "delete", session["id"], "--yes")
        assert refused.returncode == 1
        assert f"in use by process {running.pid}" in refused.stderr
    finally:
        gate.open()
        out, _ = running.communicate(timeout=60)
    assert out == "Two.\n"
    assert command.run("sessions", "delete", session["id"], "--yes").returncode == 0
    assert listed(command, "--all") == []


def test_on_a_terminal_it_is_a_table_and_deleting_is_asked_for(command: Any) -> None:
    tides = listed(command)[1]["id"]
    terminal = command.terminal("sessions", "search", "tide")
    terminal.expect(pexpect.EOF)
    terminal.wait()
    screen = ESCAPE.sub("", terminal.before)
    assert screen.splitlines()[0].split() == ["title", "when", "turns", "cost", "session"]
    assert "The tide gauge stands in Brest." in screen
    assert "⟪" not in screen
    for answer, left in (("n", 2), ("y", 1)):
        terminal = command.terminal("sessions", "delete", tides)
        terminal.expect_exact("[y/N] ")
        terminal.sendline(answer)
        terminal.expect(pexpect.EOF)
        terminal.wait()
        assert len(listed(command)) == left


def test_a_narrow_terminal_shows_ids_and_titles_in_full(command: Any) -> None:
    tides = listed(command)[1]["id"]
    terminal = command.terminal("sessions", columns=40)
    terminal.expect(pexpect.EOF)
    terminal.wait()
    lines = terminal.before.splitlines()
    place = lines.index("where is it?")
    assert "3 turns" in lines[place + 1]
    assert lines[place + 2] == f"  {tides}"


def test_end_of_input_at_the_question_deletes_nothing(command: Any) -> None:
    tides = listed(command)[1]["id"]
    terminal = command.terminal("sessions", "delete", tides)
    terminal.expect_exact("[y/N] ")
    terminal.sendeof()
    terminal.expect(pexpect.EOF)
    terminal.wait()
    assert (terminal.exitstatus, "Nothing was deleted." in terminal.before) == (0, True), terminal.before
    assert len(listed(command)) == 2


def test_what_was_said_moves_no_cursor_and_names_no_window(messages_server: Server, command_for: For) -> None:
    command = command_for(messages_server([say("Yes.")]))
    assert command.run("a red \x1b]0;owned\x07\x1b[2J tide").returncode == 0
    found = command.run("sessions", "search", "tide").stdout
    assert "\x1b" not in found
    assert "⟨U+001B⟩]0;owned⟨U+0007⟩⟨U+001B⟩[2J ⟪tide⟫" in found.split("\t")[5]
    terminal = command.terminal("sessions", "search", "tide", columns=200)
    terminal.expect(pexpect.EOF)
    terminal.wait()
    assert "\x1b]0;" not in terminal.before
    assert "\x1b[2J" not in terminal.before


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_list_that_cannot_be_written_is_said(command: Any) -> None:
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*command.argv, "sessions"], cwd=command.folder, env=command.environ, stdin=subprocess.DEVNULL,
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert "FILE_ACCESS_ERROR: The output could not be written" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(
    sys.platform != "linux", reason="elsewhere a folder's name is text, and no folder in use is deleted"
)
def test_a_folder_whose_name_is_no_text_and_one_that_is_gone(messages_server: Server, command_for: For) -> None:
    command = command_for(messages_server([say("One."), say("Two.")]))
    folder = Path(os.fsdecode(os.fsencode(command.folder) + b"/caf\xe9"))
    folder.mkdir()
    there = type(command)(folder, command.environ)
    assert there.run("first").stdout == "One.\n"
    assert there.run("--continue", "second").stdout == "Two.\n"
    assert [each["turns"] for each in listed(there)] == [2]
    assert listed(command) == []
    left = subprocess.run(
        ["/bin/sh", "-c", 'rmdir "$PWD" && exec "$@"', "sh", *command.argv, "sessions"], cwd=folder,
        env=command.environ, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (left.returncode, left.stdout) == (1, "")
    assert left.stderr.startswith("FILE_NOT_FOUND: The folder that this process is in has been deleted."), left.stderr


def test_a_catalog_that_is_spoilt_is_made_anew(command: Any) -> None:
    there = listed(command)
    file = state_folder() / "catalog.sqlite3"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.write_bytes(os.urandom(10_000))
    assert listed(command) == there
    assert command.run("sessions", "rebuild").stdout == f"2 sessions, in {file}\n"


def test_no_session_of_that_id(command: Any) -> None:
    for subcommand in (["show"], ["rename"], ["tag"], ["fork"], ["export"], ["delete", "--yes"]):
        more = ["title"] if subcommand == ["rename"] else []
        refused = command.run("sessions", *subcommand, "1999", *more)
        assert (refused.returncode, refused.stdout) == (8, ""), subcommand
        assert "'1999' is no session" in refused.stderr


def test_slash_commands_in_an_interactive_session(command: Any) -> None:
    tides = listed(command)[1]["id"]
    terminal = command.terminal(columns=200)
    terminal.wait_for_prompt()
    terminal.sendline("/sessions tide gauge")
    terminal.expect(f"where is it.*{tides}")
    terminal.wait_for_prompt()
    terminal.sendline("/resume tide gauge")
    terminal.expect("Resumed")
    terminal.expect(tides)
    terminal.wait_for_prompt()
    terminal.sendline("/rename Tides of Brest")
    terminal.expect("This session is “Tides of Brest” now")
    terminal.wait_for_prompt()
    terminal.sendline("/fork 1")
    terminal.expect("Forked")
    terminal.expect(r"Tides of Brest \(fork at turn 1\)")
    terminal.wait_for_prompt()
    terminal.sendline("and then?")
    terminal.expect("On it goes.")
    terminal.wait_for_prompt()
    terminal.sendline("/clear")
    terminal.expect("A new session")
    terminal.wait_for_prompt()
    terminal.sendeof()
    terminal.expect(pexpect.EOF)
    terminal.wait()
    assert {(each["title"], each["turns"]) for each in listed(command)} == {
        ("Tides of Brest", 3),
        ("Tides of Brest (fork at turn 1)", 2),
        ("What of bees?", 1),
    }


def test_without_a_session_on_disk_there_is_none_to_go_on_with(command: Any) -> None:
    for name in ("resume x", "fork", "rename x", "tag x", "clear"):
        refused = command.run("--no-session", f"/{name}")
        assert refused.returncode == 2, name
        assert "--no-session" in refused.stderr


def test_rename_without_a_title_asks_the_small_model_once(messages_server: Server, command_for: For) -> None:
    script = [turn(think("Hm."), use("LS", path=".")), say("Nothing."), say("“Empty folder looked at.”")]
    server = messages_server(script)
    command = command_for(server)
    assert command.run("what is here?").returncode == 0
    named = command.run("--continue", "/rename")
    assert named.returncode == 0, named.stderr
    assert (
        "This session is “Empty folder looked at.” now. The small model named it; it cost under $0.0001."
        in named.stdout
    )
    asked = server.requests[-1].body
    assert (asked["model"], len(asked["messages"])) == ("claude-haiku-5-5", 1)
    assert "what is here?" in asked["messages"][0]["content"][0]["text"]
    assert listed(command)[0]["title"] == "Empty folder looked at."
    assert len(server.requests) == 3
    assert not server.rejected


def test_sessions_of_claude_code_are_listed_imported_and_gone_on_with(command: Any) -> None:
    folder = Path(command.environ["HOME"]) / ".claude" / "projects" / re.sub(r"[^a-zA-Z0-9]", "-", str(command.folder))
    folder.mkdir(parents=True)
    user = {"type": "user", "uuid": "a", "parentUuid": None, "message": {"role": "user", "content": "What of hives?"}}
    said = {"role": "assistant", "id": "m", "content": [{"type": "text", "text": "They hum."}]}
    answer = {"type": "assistant", "uuid": "b", "parentUuid": "a", "message": said}
    session_id = "7f3c1a52-98d4-4c55-9a3e-0a4f1d2b6c11"
    (folder / f"{session_id}.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in (user, answer)))
    [one] = json.loads(command.run("sessions", "import", "--json").stdout)
    assert (one["id"], one["title"]) == (session_id, "What of hives?")
    assert command.run("sessions", "import").stdout.split("\t")[0] == session_id
    done = command.run("sessions", "import", session_id[:8])
    assert (done.returncode, done.stdout) == (0, f"{session_id}\n")
    assert "a copy of a Claude Code session" in done.stderr
    assert command.run("sessions", "import", "nothing").returncode == 8
    assert listed(command)[0]["id"] == session_id
    assert command.run("--resume", session_id, "and now?").returncode == 0
    entry = next(each for each in listed(command) if each["id"] == session_id)
    assert entry["turns"] == 2
    assert entry["model"]
