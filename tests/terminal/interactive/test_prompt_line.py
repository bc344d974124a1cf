"""The interactive terminal: its prompt line, the keys that need no Enter, and lists to choose from."""

from __future__ import annotations

import io
import json
import os
import re
import stat
import termios
from collections.abc import Callable
from typing import Any

import pexpect
import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from cellwright.terminal.interactive.answer_menu import choose
from cellwright.terminal.interactive.keys import KeysAtWork, _without_sequences, reads_keys
from cellwright.terminal.interactive.prompt_line import PickerRow, Suggestion, _Words, pick
from cellwright.terminal.question import OfferedAnswer
from cellwright.terminal.views.themes import theme_named
from cellwright.testing import Gate, MessagesServer, fault, hold, say, think, turn, use
from eventual import eventually
from row_tables import for_each_row

Server = Callable[..., MessagesServer]
For = Callable[[MessagesServer | None], Any]

ESCAPE, SHIFT_TAB, ALT_ENTER, CTRL_D, CTRL_O, DOWN, UP = "\x1b", "\x1b[Z", "\x1b\r", "\x04", "\x0f", "\x1b[B", "\x1b[A"
WITHOUT_CURSOR = {"PROMPT_TOOLKIT_NO_CPR": "1"}
"""The tests' terminal does not say where its cursor is."""
SEQUENCES = re.compile(r"\x1b\[\??[0-9;]*[A-Za-z]")


def session(command: Any, *arguments: str, **environ: str) -> Any:
    """An interactive session that waits for its first prompt."""
    terminal = command.terminal(*arguments, **WITHOUT_CURSOR, **environ)
    terminal.wait_for_prompt()
    return terminal


def leave(terminal: Any) -> str:
    """Leave at the prompt; gives the rest of the screen's text."""
    terminal.wait_for_prompt()
    terminal.send(CTRL_D)
    terminal.expect(pexpect.EOF)
    terminal.wait()
    assert terminal.exitstatus == 0
    return SEQUENCES.sub("", terminal.before)


def said(server: MessagesServer, request: int = -1) -> str:
    return json.dumps(server.requests[request].body["messages"][-1], ensure_ascii=False)


@pytest.mark.parametrize("typed", [f"one{ALT_ENTER}two\r", "one\\\rtwo\r", "\x1b[200~one\ntwo\x1b[201~\r"])
def test_a_prompt_of_several_lines(messages_server: Server, command_for: For, typed: str) -> None:
    server = messages_server([say("Fine.")])
    terminal = session(command_for(server))
    terminal.send(typed)
    terminal.expect("Fine")
    leave(terminal)
    assert "one\\ntwo" in said(server)


def test_what_was_asked_is_in_the_history_of_the_folder(
    messages_server: Server, command_for: For, own_place: Any
) -> None:
    server = messages_server([say("First."), say("Second.")])
    command = command_for(server)
    for answer in ("First", "Second"):
        terminal = session(command)
        terminal.send("what is here?\r" if answer == "First" else "\x1b[A\r")
        terminal.expect(answer)
        leave(terminal)
    assert "what is here?" in said(server)
    (history,) = own_place.rglob("prompt-history")
    assert stat.S_IMODE(history.stat().st_mode) == 0o600


def test_without_a_session_there_is_no_history(messages_server: Server, command_for: For, own_place: Any) -> None:
    terminal = session(command_for(messages_server([say("Fine.")])), "--no-session")
    terminal.send("hello\r")
    terminal.expect("Fine")
    leave(terminal)
    assert list(own_place.rglob("prompt-history")) == []


def test_commands_and_files_are_completed(messages_server: Server, command_for: For) -> None:
    server = messages_server([say("Fine.")])
    command = command_for(server)
    (command.folder / "notes.txt").write_text("alpha\n", encoding="utf-8")
    terminal = session(command)
    terminal.send("/doc")
    terminal.expect_exact("what keeps Cellwright from working here")
    terminal.send("\x15look at @not")
    terminal.expect_exact("notes.txt")
    terminal.send("\t\r\r")
    terminal.expect("Fine")
    leave(terminal)
    assert "@notes.txt" in said(server)
    assert "alpha" in said(server)


@for_each_row(
    ("written", "caret", "inserted"),
    [("/und", 4, "/undo "), ("/und 2", 4, "/undo"), ("/und\n2", 4, "/undo"), ("/undo2", 4, "/undo ")],
)
def test_a_command_before_its_argument_gets_no_second_space(written: str, caret: int, inserted: str) -> None:
    words = _Words(lambda word: [Suggestion("/undo ", "/undo [N]", "take back")])
    (found,) = words.get_completions(Document(written, caret), CompleteEvent())
    assert found.text == inserted


def test_shift_tab_changes_the_mode(messages_server: Server, command_for: For) -> None:
    server = messages_server([use("Write", file_path="new.txt", content="x"), say("Written.")])
    command = command_for(server)
    terminal = session(command)
    terminal.send(f"{SHIFT_TAB}write\r")
    terminal.expect("Written")
    leave(terminal)
    assert (command.folder / "new.txt").read_text(encoding="utf-8") == "x"


def test_below_it_stand_mode_and_model(messages_server: Server, command_for: For) -> None:
    terminal = command_for(messages_server()).terminal()
    terminal.expect_exact("\x1b[6n")  # where is the cursor?
    terminal.send("\x1b[1;1R")
    terminal.expect_exact("Ask")
    terminal.expect_exact("Opus 5.5")
    terminal.send(SHIFT_TAB)
    terminal.expect_exact("ccept edits")  # what changed is drawn
    terminal.send(CTRL_D)
    terminal.expect(pexpect.EOF)


def test_a_model_is_chosen_from_a_list(messages_server: Server, command_for: For) -> None:
    server = messages_server([say("Fine.")])
    terminal = session(command_for(server))
    terminal.send("/model\r")
    terminal.expect_exact("Enter takes")
    terminal.send("sonnet-5-5\r")
    terminal.expect_exact("claude-sonnet-5-5 answers from the next prompt.")
    terminal.wait_for_prompt()
    terminal.send("go\r")
    terminal.expect("Fine")
    leave(terminal)
    assert server.requests[0].body["model"] == "claude-sonnet-5-5"


def test_escape_stops_claude_and_what_was_begun_is_the_next_prompts(messages_server: Server, command_for: For) -> None:
    gate = Gate()
    server = messages_server([turn(say("Long story. "), hold(gate)), say("Fine.")])
    terminal = session(command_for(server))
    terminal.send("tell\r")
    terminal.expect("Long story")
    terminal.send("shorter")
    terminal.expect_exact("> shorter")
    terminal.send(ESCAPE)
    terminal.expect("Stopped")
    terminal.expect_exact("shorter")
    terminal.send(", please\r")
    terminal.expect("Fine")
    leave(terminal)
    assert "shorter, please" in said(server)


def test_what_is_written_and_sent_meanwhile_is_told_to_claude(messages_server: Server, command_for: For) -> None:
    gate = Gate()
    server = messages_server([turn(say("Looking. "), hold(gate), use("LS", path=".")), say("Fine.")])
    terminal = session(command_for(server))
    terminal.send("look\r")
    terminal.expect("Looking")
    terminal.send("only at Python\r")
    terminal.expect_exact("Queued for the next step: only at Python")
    gate.open()
    terminal.expect_exact("You: only at Python")
    terminal.expect("Fine")
    leave(terminal)
    assert "only at Python" in "".join(said(server, number) for number in range(1, len(server.requests)))


def test_a_command_that_is_sent_while_claude_works_is_the_next_prompt(
    messages_server: Server, command_for: For
) -> None:
    gate = Gate()
    server = messages_server([turn(say("Looking. "), hold(gate), say("Fine."))])
    terminal = session(command_for(server))
    terminal.send("work\r")
    terminal.expect("Looking")
    terminal.send("/status\r")
    terminal.expect_exact("> /status")
    gate.open()
    terminal.expect("Fine")
    terminal.expect_exact("> \x1b[0m/status")  # in the prompt's colours: what shows it can be typed in
    terminal.send("\r")
    terminal.expect_exact("kept in")
    leave(terminal)
    assert all("/status" not in said(server, number) for number in range(len(server.requests)))


def test_ctrl_o_shows_results_whole(messages_server: Server, command_for: For) -> None:
    server = messages_server([use("Read", file_path="notes.txt"), say("Fine.")])
    command = command_for(server)
    (command.folder / "notes.txt").write_text("alpha\nomega\n", encoding="utf-8")
    terminal = session(command)
    terminal.send(f"{CTRL_O}read\r")
    terminal.expect("omega")
    terminal.expect("Fine")
    leave(terminal)


def test_thinking_is_folded_and_ctrl_o_at_the_prompt_unfolds_it(messages_server: Server, command_for: For) -> None:
    server = messages_server([turn(think("A first idea.\nThen a second one."), say("Fine."))])
    terminal = session(command_for(server))
    terminal.send("think\r")
    terminal.expect(r"Thought (?:briefly|for [\d.]+ s): A first idea\.")
    terminal.expect("Fine")
    terminal.wait_for_prompt()
    terminal.send(CTRL_O)
    terminal.expect_exact("Then a second one.")
    leave(terminal)


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ("1", "Wrote"),
        (ESCAPE, "the user said no"),
        ("4not today\r", "not today"),
        ("xwz1", "Wrote"),
        ("y", "Wrote"),
        ("n", "the user said no"),
        (f"{DOWN}1", "Wrote"),
        (f"{DOWN}{DOWN}{UP}{UP}\r", "Wrote"),
        (f"{UP}\rnot like thát{ESCAPE}", "not like thát"),
    ],
)
def test_a_question_is_answered_by_a_key(messages_server: Server, command_for: For, keys: str, told: str) -> None:
    server = messages_server([use("Write", file_path="new.txt", content="x"), say("Fine.")])
    command = command_for(server)
    terminal = session(command)
    terminal.send("write\r")
    terminal.expect_exact("e or 4")
    terminal.send(keys)
    terminal.expect("Fine")
    leave(terminal)
    assert (command.folder / "new.txt").exists() == (told == "Wrote")
    if told != "Wrote":
        assert told in said(server)


def test_letters_of_what_is_being_written_answer_no_question(messages_server: Server, command_for: For) -> None:
    gate = Gate()
    script = [
        turn(say("Looking. "), hold(gate), use("Write", file_path="new.txt", content="x")),
        say("Fine."),
        say("Yes."),
    ]
    server = messages_server(script)
    command = command_for(server)
    terminal = session(command)
    terminal.send("write\r")
    terminal.expect("Looking")
    terminal.send("maybe")
    terminal.expect_exact("> maybe")
    gate.open()
    terminal.expect_exact("Press Enter to see it")
    terminal.send(" y1y or tests")
    terminal.send("\r")
    terminal.expect_exact("e or 4")
    assert not (command.folder / "new.txt").exists()
    terminal.send("n")
    terminal.expect("Fine")
    terminal.expect_exact("maybe y1y or tests")
    terminal.send("\r")
    terminal.expect("Yes")
    leave(terminal)
    assert not (command.folder / "new.txt").exists()
    assert "maybe y1y or tests" in said(server)


@for_each_row(
    ("typed", "kept"),
    [
        ("abc", "abc"),
        ("\x1b[A", ""),
        ("a\x1b[1;5Cb", "ab"),
        ("\x1bOPx", "x"),
        ("\x1b[15~x", "x"),
        ("\x1b[200~pasted\x1b[201~", "pasted"),
        ("\x1b", "\x1b"),
        ("x\x1b", "x\x1b"),
        ("\x1b[", ""),
    ],
)
def test_keys_that_are_sequences_say_nothing(typed: str, kept: str) -> None:
    assert _without_sequences(typed) == kept


@for_each_row(
    ("typed", "taken"),
    [
        ("\r", "a"),
        (f"{DOWN}\r", "b"),
        (f"{DOWN}{DOWN}{DOWN}\r", "c"),
        ("ban\r", "b"),
        ("zzz\r\x7f\x7f\x7f\r", "a"),
        ("yellow\r", "b"),
        ("\x03", None),
        (ESCAPE, None),
    ],
)
def test_a_list_is_chosen_from(typed: str, taken: str | None) -> None:
    rows = [PickerRow("a", "apple", "red"), PickerRow("b", "banana", "yellow"), PickerRow("c", "cherry", "red")]
    with create_pipe_input() as keyboard:
        keyboard.send_text(typed)
        assert pick("Fruit", rows, keyboard=keyboard, screen=DummyOutput()) == taken


@for_each_row("gone", ["no terminal", "closed", "hung up", "hung up while it listens"])
def test_a_keyboard_that_is_gone_says_nothing(gone: str) -> None:
    master, slave = os.openpty()
    reader, writer = os.pipe()
    with os.fdopen(slave) as terminal, os.fdopen(reader) as pipe:
        stdin = pipe if gone == "no terminal" else terminal
        keys = KeysAtWork(stdin)
        if gone == "hung up while it listens":
            keys.listen()
            assert keys.listens
        if gone == "closed":
            stdin.close()
        if gone.startswith("hung up"):
            os.close(master)
        else:
            assert not reads_keys(stdin)
        keys.listen()
        assert keys.poll() == []
        keys.pause()
        assert not keys.listens
        assert choose([OfferedAnswer("1", "Yes")], "", stdin, io.StringIO(), theme_named("ansi")) is None
    for descriptor in (writer, *([] if gone.startswith("hung up") else [master])):
        os.close(descriptor)


def test_a_keyboard_is_given_back_as_it_was() -> None:
    master, slave = os.openpty()
    with os.fdopen(slave) as stdin:
        before = termios.tcgetattr(slave)
        keys = KeysAtWork(stdin)
        keys.listen()
        assert termios.tcgetattr(slave) != before
        os.write(master, b"\x0fhigh\r")
        assert eventually(lambda: keys.poll() or None) == [CTRL_O, "high"]
        keys.pause()
        assert termios.tcgetattr(slave) == before
    os.close(master)


def test_a_session_that_goes_on_shows_its_last_turn(messages_server: Server, command_for: For) -> None:
    server = messages_server([say("One."), say("Two of **them**.")])
    command = command_for(server)
    command.run("--quiet", "first")
    command.run("--continue", "--quiet", "second")
    shown = SEQUENCES.sub("", session(command, "--continue").before)
    assert re.search(r"1 earlier prompt of this session\s+> second\s+Two of them\.", shown)
    assert "One." not in shown


def test_what_ends_a_run_stands_above_its_last_line(messages_server: Server, command_for: For) -> None:
    server = messages_server(
        [turn(say("Half of it."), fault("error_event", error_type="invalid_request_error", after=5))]
    )
    terminal = session(command_for(server))
    terminal.send("go\r")
    terminal.expect("Failed · ")
    assert "✗ API_REQUEST_INVALID: " in SEQUENCES.sub("", terminal.before)
    assert "API_REQUEST_INVALID" not in leave(terminal)


def test_a_session_without_a_key_asks_for_one_until_it_is_taken(
    messages_server: Server, command_for: For, own_place: Any
) -> None:
    server = messages_server([say("Hello.")])
    command = command_for(server)
    terminal = command.terminal(**WITHOUT_CURSOR, ANTHROPIC_API_KEY="")
    for key in ("sk-wrong", server.api_key):
        terminal.expect(r"\(hidden\): ")
        terminal.sendline(key)
    terminal.expect("Key saved in ")
    terminal.wait_for_prompt()
    terminal.send("hi\r")
    terminal.expect(r"Hello\.")
    leave(terminal)


def test_a_session_without_a_key_ends_if_none_is_entered(messages_server: Server, command_for: For) -> None:
    terminal = command_for(messages_server([])).terminal(ANTHROPIC_API_KEY="")
    terminal.expect(r"\(hidden\): ")
    terminal.sendline("")
    terminal.expect("No key was entered")
    terminal.expect(pexpect.EOF)
    terminal.wait()
    assert terminal.exitstatus == 3


def test_a_card_that_is_higher_than_the_window_leaves_its_counts_and_ctrl_o_shows_the_change(
    messages_server: Server, command_for: For
) -> None:
    write = use("Write", file_path="gauges.py", content="level = 1\n" * 50)
    terminal = session(command_for(messages_server([write, say("Done.")])))
    terminal.send("go\r")
    terminal.expect("Escape denies")
    shown = SEQUENCES.sub("", terminal.before)
    assert shown.count("Create gauges.py (+50 −0)") == 1
    assert "more lines · Ctrl-O shows all" in shown
    terminal.send("1")
    terminal.expect("Done · ")
    ended = SEQUENCES.sub("", terminal.before).rpartition("✓ ")[2]
    assert ended.startswith("Wrote gauges.py · +50 −0")
    assert "level = 1" not in ended
    terminal.wait_for_prompt()
    terminal.send("\x0f")
    terminal.expect_exact("+level = 1")
    leave(terminal)
