"""`cellwright` on a terminal: what is drawn, what is asked, and Ctrl-C."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import sys
from collections.abc import Callable
from typing import Any

import pexpect
import pytest

from cellwright.testing import Gate, MessagesServer, fault, hold, say, turn, use

Server = Callable[..., MessagesServer]
For = Callable[[MessagesServer | None], Any]

EDIT = use("Edit", file_path="notes.txt", old_string="alpha", new_string="beta")
READ = use("Read", file_path="notes.txt")
ASKED = r"Press 1, .*e or 4|e\] "
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def with_notes(command: Any) -> Any:
    (command.folder / "notes.txt").write_text("alpha\n", encoding="utf-8")
    return command


def notes(command: Any) -> str:
    return str((command.folder / "notes.txt").read_text(encoding="utf-8"))


def answered(server: MessagesServer, request: int) -> str:
    """What the calls of the turn before this request came to, as the model reads it."""
    return json.dumps(server.requests[request].body["messages"][-1], ensure_ascii=False)


def finished(terminal: pexpect.spawn) -> str:
    """The rest of the screen's text; the command has ended."""
    terminal.expect(pexpect.EOF)
    terminal.wait()
    return ESCAPE.sub("", terminal.before)


def test_the_answer_is_drawn_while_it_is_written(messages_server: Server, command_for: For) -> None:
    gate = Gate()
    server = messages_server([turn(say("A **bold** beginning"), hold(gate), say(" and an end.\n\n- one\n- two\n"))])
    terminal = command_for(server).terminal("go")
    terminal.expect("A \x1b\\[1mbold\x1b\\[0m beginning")
    gate.open()
    screen = finished(terminal)
    assert "beginning and an end." in screen
    assert " • one" in screen
    assert " · Opus 5.5 · " in screen
    assert terminal.exitstatus == 0


def test_allowing_once_runs_the_call(messages_server: Server, command_for: For) -> None:
    server = messages_server([READ, EDIT, say("Done.")])
    command = with_notes(command_for(server))
    terminal = command.terminal("go")
    terminal.expect("Press 1, 2, e or 4")
    shown = ESCAPE.sub("", terminal.before)
    assert notes(command) == "alpha\n"
    for words in (
        "✓ Read notes.txt · 1 line",
        "Claude asks: Edit notes.txt (+1 −1)",
        "1   − alpha",
        "  1 + beta",
        "1  Allow once",
    ):
        assert words in shown
    terminal.sendline("1")
    screen = finished(terminal)
    assert notes(command) == "beta\n"
    question_gone = screen.rpartition("✓ Edited notes.txt · +1 −1")
    assert "1 + beta" in question_gone[2], "the call's own line shows the change"
    assert "Claude asks" not in question_gone[2]
    assert terminal.exitstatus == 0


def test_a_card_higher_than_the_window_is_folded_and_leaves_one_line(messages_server: Server, command_for: For) -> None:
    text = "".join(f"line {number} of the file\n" for number in range(1, 27))
    write = use("Write", file_path="long.txt", content=text)
    server = messages_server([write, say("Done.")])
    terminal = command_for(server).terminal("go", columns=80, rows=24)
    terminal.expect("Press 1, 2, e or 4")
    shown = ESCAPE.sub("", terminal.before)
    assert "… 13 more lines · Ctrl-O shows all" in shown
    assert [number for number in range(1, 27) if f"line {number} of" in shown] == [*range(1, 10), *range(23, 27)]
    terminal.sendline("1")
    screen = finished(terminal)
    gone, _, left = screen.rpartition("✓ Wrote long.txt · +26 −0")
    assert gone
    assert "line 1 of" not in left
    assert "Create long.txt" not in left


def test_a_folded_card_is_shown_whole_by_its_key(messages_server: Server, command_for: For) -> None:
    text = "".join(f"line {number} of the file\n" for number in range(1, 27))
    server = messages_server([use("Write", file_path="long.txt", content=text), say("Done.")])
    terminal = command_for(server).terminal("go", columns=80, rows=24)
    terminal.expect("Press 1, 2, e or 4")
    terminal.send("\x0f")
    terminal.expect("Claude asks")
    terminal.expect("Press 1, 2, e or 4")
    shown = ESCAPE.sub("", terminal.before)
    assert [number for number in range(1, 27) if f"line {number} of" not in shown] == []
    assert "Ctrl-O" not in shown
    terminal.sendline("1")
    assert "✓ Wrote long.txt · +26 −0" in finished(terminal)


def test_a_denial_tells_the_reason(messages_server: Server, command_for: For) -> None:
    server = messages_server([READ, EDIT, say("All right.")])
    command = with_notes(command_for(server))
    terminal = command.terminal("go")
    terminal.expect(ASKED)
    terminal.send("what?")
    terminal.sendline("4 not on a Friday")
    screen = finished(terminal)
    assert "⊘ Edit notes.txt · denied" in screen
    assert "not on a Friday" in answered(server, 2)
    assert notes(command) == "alpha\n"
    assert terminal.exitstatus == 0


def test_allowing_for_the_session_asks_once(messages_server: Server, command_for: For) -> None:
    back = use("Edit", file_path="notes.txt", old_string="beta", new_string="gamma")
    server = messages_server([READ, EDIT, back, say("Done.")])
    command = with_notes(command_for(server))
    terminal = command.terminal("go")
    terminal.expect("2  Allow all edits in ")
    terminal.expect(ASKED)
    terminal.sendline("2")
    assert "Claude asks" not in finished(terminal)
    assert notes(command) == "gamma\n"


def test_always_allowing_is_kept(messages_server: Server, command_for: For) -> None:
    touch = use("Bash", command="touch made")
    server = messages_server([touch, say("Done."), touch, say("Done.")])
    command = command_for(server)
    terminal = command.terminal("go")
    terminal.expect(r"3  Always allow this command in this project")
    terminal.expect("Press 1, 2, 3, e or 4")
    terminal.sendline("3")
    finished(terminal)
    kept = json.loads((command.folder / ".claude" / "settings.local.json").read_text(encoding="utf-8"))
    assert kept["permissions"]["allow"] == ["Bash(touch made)"]
    (command.folder / "made").unlink()
    assert "denied" not in command.run("again").stderr
    assert (command.folder / "made").exists()


def test_always_allowing_through_a_linked_folder_holds_for_the_session_and_says_why(
    messages_server: Server, command_for: For
) -> None:
    server = messages_server(
        [use("Bash", command="touch made.txt"), use("Bash", command="touch made.txt"), say("Done.")]
    )
    command = command_for(server)
    (command.folder / "elsewhere").mkdir()
    (command.folder / ".claude").symlink_to("elsewhere")
    terminal = command.terminal("go")
    terminal.expect("Press 1, 2, 3, e or 4")
    terminal.sendline("3")
    screen = " ".join(finished(terminal).split())
    assert "is behind a symlink" in screen
    assert "It holds for this session." in screen
    assert "Traceback" not in screen
    assert terminal.exitstatus == 0
    assert [answered(server, request).count('"is_error": true') for request in (1, 2)] == [0, 0]
    assert list((command.folder / "elsewhere").iterdir()) == []


def test_the_input_is_edited_before_it_runs(messages_server: Server, command_for: For) -> None:
    server = messages_server([use("Bash", command="touch asked-for"), say("Done.")])
    command = command_for(server)
    program = "import sys, pathlib; pathlib.Path(sys.argv[1]).write_text('touch edited\\n')"
    terminal = command.terminal("go", EDITOR=f"{sys.executable} -c {shlex.quote(program)}")
    terminal.expect(ASKED)
    terminal.sendline("e")
    terminal.expect("The input is now:.*touch edited.*Press 1, e or 4")
    terminal.sendline("1")
    finished(terminal)
    assert sorted(path.name for path in command.folder.iterdir()) == ["edited"]
    assert "touch edited" in answered(server, 1)


def test_an_input_is_edited_in_a_line_without_an_editor(messages_server: Server, command_for: For) -> None:
    command = command_for(messages_server([use("Bash", command="touch asked-for"), say("Done.")]))
    terminal = command.terminal("go", EDITOR="", VISUAL="")
    terminal.expect(ASKED)
    terminal.sendline("e")
    terminal.expect("New text")
    terminal.sendline("touch typed")
    terminal.expect(ASKED)
    terminal.sendline("y")
    finished(terminal)
    assert sorted(path.name for path in command.folder.iterdir()) == ["typed"]


def test_what_was_typed_before_the_question_is_no_answer(messages_server: Server, command_for: For) -> None:
    gate = Gate()
    server = messages_server([turn(say("Wait."), hold(gate), use("Bash", command="touch made")), say("Done.")])
    command = command_for(server)
    terminal = command.terminal("go")
    terminal.expect("Wait.")
    terminal.sendline("1")
    terminal.expect("1\r\n")
    gate.open()
    terminal.expect(ASKED)
    terminal.sendline("n")
    finished(terminal)
    assert not (command.folder / "made").exists()


def test_hidden_characters_are_seen_in_a_question(messages_server: Server, command_for: For) -> None:
    command = command_for(messages_server([use("Bash", command="echo \x1b[2Jsafe\u202e #"), say("Done.")]))
    terminal = command.terminal("go")
    terminal.expect(ASKED)
    assert "echo ⟨U+001B⟩[2Jsafe⟨U+202E⟩ #" in ESCAPE.sub("", terminal.before)
    terminal.sendline("4")
    finished(terminal)


def test_nothing_in_an_answer_controls_the_terminal(messages_server: Server, command_for: For) -> None:
    hostile = "before\x1b]0;title\x07\x1b[2J\x9b31mafter [text](https://hidden.example)"
    terminal = command_for(messages_server([say(hostile)])).terminal("go")
    terminal.expect(pexpect.EOF)
    assert "\x1b]" not in terminal.before
    assert "\x1b[2J" not in terminal.before
    assert "\x9b" not in terminal.before
    assert "https://hidden.example" in terminal.before


def test_ctrl_c_interrupts_and_the_session_goes_on(messages_server: Server, command_for: For) -> None:
    server = messages_server([turn(say("I begin"), hold(Gate())), say("Here again.")])
    command = command_for(server)
    terminal = command.terminal("go")
    terminal.expect("I begin")
    terminal.sendintr()
    assert "Interrupted." in finished(terminal)
    assert terminal.exitstatus == 130
    assert command.run("--continue", "--quiet", "go on").stdout == "Here again.\n"
    assert server.rejected == []


def test_ctrl_c_at_a_question_is_no(messages_server: Server, command_for: For) -> None:
    server = messages_server([use("Bash", command="touch made"), say("Here again.")])
    command = command_for(server)
    terminal = command.terminal("go")
    terminal.expect(ASKED)
    terminal.sendintr()
    assert "Interrupted." in finished(terminal)
    assert terminal.exitstatus == 130
    assert not (command.folder / "made").exists()
    assert command.run("--continue", "--quiet", "go on").stdout == "Here again.\n"
    assert server.rejected == []


def test_a_retry_is_seen(messages_server: Server, command_for: For) -> None:
    server = messages_server([turn(say("Half\n\nan\n\nanswer"), fault("cut")), say("Whole.")])
    screen = finished(command_for(server).terminal("go"))
    assert "Retrying" in screen
    assert "(1 of 1)" in screen
    assert "The answer starts again." in screen
    assert "Whole." in screen


def test_after_an_error_in_an_answer_the_next_prompt_is_answered(messages_server: Server, command_for: For) -> None:
    """A sample; every error at every event is played in `tests/agent`."""
    broken = turn(say("Half of it."), fault("error_event", error_type="invalid_request_error", after=5))
    server = messages_server([broken, say("fine"), broken, say("fine")])
    command = command_for(server)
    assert "Half of it." in finished(command.terminal("first"))
    assert command.run("--continue", "--quiet", "second").stdout == "fine\n"
    assert command.run("--continue", "--quiet", "third").returncode != 0
    assert command.run("--continue", "--quiet", "fourth").stdout == "fine\n"
    said = json.dumps(server.requests[-1].body["messages"])
    assert all(prompt in said for prompt in ("first", "Half of it.", "second", "third", "fourth"))
    assert server.rejected == []


PLAIN = {
    "dumb": {"TERM": "dumb"},
    "no colour": {"NO_COLOR": "1"},
    "narrow": {"COLUMNS": "40"},
}


@pytest.mark.parametrize("environ", PLAIN.values(), ids=list(PLAIN))
def test_a_terminal_that_cannot_be_drawn_on_gets_lines(
    messages_server: Server, command_for: For, environ: dict[str, str]
) -> None:
    server = messages_server([turn(say(f"I **look**{' again' * 8}."), READ), EDIT, say("Done.")])
    command = with_notes(command_for(server))
    terminal = command.terminal("go", columns=40, **environ)
    terminal.expect(ASKED)
    shown = terminal.before
    terminal.sendline("y")
    terminal.expect(pexpect.EOF)
    terminal.wait()
    shown += terminal.before
    assert "\x1b" not in shown
    assert f"I **look**{' again' * 5}\r\nagain again again.\r\n* Read notes.txt: 1 line" in shown
    assert "Claude asks: Edit notes.txt" in shown
    assert "* Edited notes.txt: done" in shown
    assert "Done.\r\n" in shown
    assert notes(command) == "beta\n"
    assert terminal.exitstatus == 0


def test_a_prompt_from_a_pipe_leaves_nobody_to_ask(messages_server: Server, command_for: For) -> None:
    server = messages_server([use("Bash", command="touch made"), say("I may not.")])
    command = command_for(server)
    line = f"echo go | {shlex.join(command.argv)}"
    terminal = pexpect.spawn("/bin/sh", ["-c", line], cwd=str(command.folder), env=command.environ, encoding="utf-8")
    screen = finished(terminal)
    assert "denied" in screen
    assert "I may not." in screen
    assert not (command.folder / "made").exists()


def test_a_question_stays_out_of_a_redirected_answer(messages_server: Server, command_for: For) -> None:
    command = command_for(messages_server([use("Bash", command="touch made"), say("Done.")]))
    line = f"{shlex.join(command.argv)} go > answer.txt"
    terminal = pexpect.spawn("/bin/sh", ["-c", line], cwd=str(command.folder), env=command.environ, encoding="utf-8")
    terminal.expect(ASKED)
    terminal.sendline("1")
    finished(terminal)
    assert (command.folder / "made").exists()
    assert (command.folder / "answer.txt").read_text(encoding="utf-8") == "Done.\n"


def test_the_help_fits_a_window_of_24_rows(messages_server: Server, command_for: For) -> None:
    terminal = command_for(messages_server([])).terminal(columns=80, rows=24)
    terminal.wait_for_prompt()
    terminal.send("/help\r")
    terminal.expect("Enter +send")
    terminal.wait_for_prompt()
    shown = ESCAPE.sub("", terminal.before)
    assert "/help all lists all" in shown
    # the echo of the command is above them, the prompt and the line with the mode below
    assert 1 + shown.count("\n") + 2 <= 24
    terminal.sendeof()
    finished(terminal)


def test_an_interactive_session(messages_server: Server, command_for: For) -> None:
    server = messages_server([say("One."), turn(say("Two"), hold(Gate())), say("Three.")])
    terminal = command_for(server).terminal(TERM="dumb")
    terminal.expect("Ctrl-D")
    terminal.expect("\n> ")
    terminal.sendline("first")
    terminal.expect("One\\.\r\n")
    terminal.expect("\n> ")
    terminal.sendline("second \\")
    terminal.expect("  ")
    terminal.sendline("in two lines")
    terminal.expect("Two")
    terminal.sendintr()
    terminal.expect(r"Interrupted\.")
    terminal.expect("\n> ")
    terminal.sendline("/help")
    terminal.expect("/exit")
    terminal.expect("\n> ")
    terminal.sendintr()
    terminal.expect("\n> ")
    terminal.sendline("third")
    terminal.expect("Three\\.\r\n")
    terminal.expect("\n> ")
    terminal.sendeof()
    finished(terminal)
    assert terminal.exitstatus == 0
    assert "second \nin two lines" in json.dumps(server.requests[1].body["messages"][-1]).replace("\\n", "\n")
    assert len(server.requests[2].body["messages"]) == 6
    assert server.rejected == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_stop_request_ends_an_interactive_session_and_keeps_what_was_said(
    number: signal.Signals, messages_server: Server, command_for: For
) -> None:
    server = messages_server([turn(say("I begin"), hold(Gate())), say("Here again.")])
    command = command_for(server)
    terminal = command.terminal()
    terminal.wait_for_prompt()
    terminal.send("go\r")
    terminal.expect("I begin")
    terminal.kill(number)
    finished(terminal)
    assert terminal.exitstatus == 128 + number
    assert command.run("--continue", "--quiet", "go on").stdout == "Here again.\n"
    assert "I begin" in json.dumps(server.requests[1].body["messages"])
    assert server.rejected == []


def test_a_stop_request_at_the_prompt_leaves_the_terminal_as_it_was(messages_server: Server, command_for: For) -> None:
    terminal = command_for(messages_server([])).terminal()
    terminal.wait_for_prompt()
    terminal.kill(signal.SIGTERM)
    finished(terminal)
    assert "\x1b[?2004l" in terminal.before, "bracketed paste is off again"
    assert terminal.exitstatus == 128 + signal.SIGTERM


def test_an_interactive_session_survives_errors(messages_server: Server, command_for: For) -> None:
    server = messages_server([fault("status", status=400), say("Fine.")])
    terminal = command_for(server).terminal(TERM="dumb")
    terminal.expect("\n> ")
    terminal.sendline("first")
    terminal.expect("API_REQUEST_INVALID: ")
    terminal.expect("\n> ")
    terminal.sendline("second")
    terminal.expect("Fine\\.\r\n")
    terminal.expect("\n> ")
    terminal.sendline("/exit")
    finished(terminal)
    assert terminal.exitstatus == 0


def test_a_line_with_an_exclamation_mark_runs_the_users_command(messages_server: Server, command_for: For) -> None:
    server = messages_server([say("I see.")])
    command = command_for(server)
    begun = command.folder / "begun"
    os.mkfifo(begun)
    terminal = command.terminal()
    terminal.wait_for_prompt()
    terminal.sendline("!echo mine | tr m M")
    terminal.expect("Mine")
    terminal.wait_for_prompt()
    terminal.sendline("!echo > begun; sleep 600")
    begun.read_text(encoding="utf-8")
    terminal.sendintr()
    terminal.wait_for_prompt()
    terminal.sendline("What did I do?")
    terminal.expect("I see")
    terminal.wait_for_prompt()
    terminal.sendline("/exit")
    terminal.expect(pexpect.EOF)
    [request] = server.requests
    sent = json.dumps(request.body["messages"])
    assert "<bash-stdout>Mine" in sent


def test_what_is_piped_in_is_never_a_command(messages_server: Server, command_for: For) -> None:
    server = messages_server([say("No."), say("No.")])
    command = command_for(server)
    command.run(piped="!touch made")
    command.run("!touch made")
    assert len(server.requests) == 2
    assert not (command.folder / "made").exists()
