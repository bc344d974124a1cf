"""Turns are taken back in the terminal: in an interactive session, from one command to the next, with nobody to ask."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pexpect

from cellwright.testing import MessagesServer, say, use

Server = Callable[..., MessagesServer]
For = Callable[[MessagesServer | None], Any]

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
SCRIPT = [use("Write", file_path="notes.txt", content="alpha\n"), say("Done.")]
EDITS = ("--permission-mode", "acceptEdits")


def screen_of(terminal: pexpect.spawn) -> str:
    terminal.expect(pexpect.EOF)
    terminal.wait()
    return ESCAPE.sub("", terminal.before)


def test_in_an_interactive_session(messages_server: Server, command_for: For) -> None:
    command = command_for(messages_server(SCRIPT))
    terminal = command.terminal(*EDITS)
    terminal.wait_for_prompt()
    terminal.sendline("write notes")
    terminal.expect(r"1 file changed \(/undo\)")
    terminal.wait_for_prompt()
    terminal.sendline("/undo")
    terminal.expect("Undo: .*Undo “write notes”")
    terminal.expect(r"notes.txt will be deleted · \+0 −1")
    terminal.expect_exact("Press 1, 2 or 4")
    assert (command.folder / "notes.txt").exists()
    terminal.sendline("1")
    terminal.expect("Undone: turn 1")
    terminal.wait_for_prompt()
    assert not (command.folder / "notes.txt").exists()
    terminal.sendline("/redo yes")
    terminal.expect("Redone: turn 1")
    terminal.wait_for_prompt()
    terminal.sendeof()
    screen_of(terminal)
    assert (command.folder / "notes.txt").read_text() == "alpha\n"


def test_without_a_session_on_disk_an_interactive_session_can_undo(messages_server: Server, command_for: For) -> None:
    command = command_for(messages_server(SCRIPT))
    terminal = command.terminal(*EDITS, "--no-session")
    terminal.wait_for_prompt()
    terminal.sendline("write notes")
    terminal.expect(r"1 file changed")
    terminal.wait_for_prompt()
    terminal.sendline("/undo yes")
    terminal.expect("Undone: turn 1")
    terminal.wait_for_prompt()
    terminal.sendeof()
    screen_of(terminal)
    assert not (command.folder / "notes.txt").exists()


def test_from_one_command_to_the_next(messages_server: Server, command_for: For) -> None:
    command = command_for(messages_server(SCRIPT))
    done = command.run(*EDITS, "-p", "write notes")
    assert done.returncode == 0
    assert (command.folder / "notes.txt").exists()
    listed = command.run("--continue", "-p", "/rewind").stdout
    assert "write notes" in listed
    asked = command.run("--continue", "-p", "/undo")
    assert "Nobody could answer, so nothing was changed" in asked.stdout
    assert (command.folder / "notes.txt").exists()
    assert "Undone: turn 1" in command.run("--continue", "-p", "/undo yes").stdout
    assert not (command.folder / "notes.txt").exists()
