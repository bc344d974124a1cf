"""Questions of Claude's own, plans and todos on a terminal: answered by typing."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pexpect

from cellwright.testing import MessagesServer, say, turn, use

Server = Callable[..., MessagesServer]
For = Callable[[MessagesServer | None], Any]

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

STORE = {
    "question": "Where to keep it?",
    "header": "Storage",
    "options": [{"label": "Parquet", "description": "small"}, {"label": "CSV", "description": "opens anywhere"}],
}
GAUGES = {
    "question": "Which gauges?",
    "header": "Gauges",
    "multiSelect": True,
    "options": [{"label": name, "description": "a gauge"} for name in ("Harbour", "Estuary")],
}
PLAN = "1. Write **made.txt**.\n2. Nothing else."


def told(server: MessagesServer, request: int) -> str:
    """What the calls of the turn before this request came to, as the model reads it."""
    return json.dumps(server.requests[request].body["messages"][-1], ensure_ascii=False)


def finished(terminal: pexpect.spawn) -> str:
    terminal.expect(pexpect.EOF)
    terminal.wait()
    return ESCAPE.sub("", terminal.before)


def test_questions_are_answered_by_keys_and_in_words(messages_server: Server, command_for: For) -> None:
    server = messages_server([turn(use("AskUserQuestion", questions=[STORE, GAUGES])), say("Thanks.")])
    terminal = command_for(server).terminal("go")
    terminal.expect("Press 1, 2, 3 or s, or ↑ ↓ and Enter")
    assert "  2  CSV\r\n     opens anywhere" in ESCAPE.sub("", terminal.before)
    terminal.send("\x1b[B\r")
    terminal.expect("Press 1, 2, 3 or s, Enter sends what is marked")
    assert "❯ Storage: CSV" in ESCAPE.sub("", terminal.before)
    terminal.send("2 1")  # marked, taken back, and the other one
    terminal.expect("☑ Harbour")
    terminal.sendline("3and the lighthouse")
    assert "❯ Gauges: Harbour, and the lighthouse" in finished(terminal)
    assert "- Where to keep it? → CSV\\n- Which gauges? → Harbour, and the lighthouse" in told(server, 1)


def test_a_terminal_that_cannot_draw_reads_numbers_and_words(messages_server: Server, command_for: For) -> None:
    server = messages_server([turn(use("AskUserQuestion", questions=[STORE, GAUGES])), say("Thanks.")])
    terminal = command_for(server).terminal("go", TERM="dumb")
    terminal.expect("Storage: number or an answer of your own")
    assert "2  CSV\r\n     opens anywhere" in ESCAPE.sub("", terminal.before)
    terminal.sendline("2")
    terminal.expect("Gauges: numbers or an answer of your own")
    terminal.sendline("1, and the lighthouse")
    finished(terminal)
    assert "- Where to keep it? → CSV\\n- Which gauges? → Harbour, and the lighthouse" in told(server, 1)
    assert terminal.exitstatus == 0


def test_the_end_of_the_input_dismisses_a_question(messages_server: Server, command_for: For) -> None:
    server = messages_server([turn(use("AskUserQuestion", questions=[STORE])), say("Then I choose.")])
    terminal = command_for(server).terminal("go")
    terminal.expect("Press 1, 2 or 3, or ↑ ↓ and Enter. Escape dismisses.")
    terminal.sendeof()
    finished(terminal)
    assert "The user did not answer: the question was dismissed" in told(server, 1)


def test_a_plan_is_edited_sent_back_approved_and_then_carried_out(messages_server: Server, command_for: For) -> None:
    write = use("Write", file_path="made.txt", content="made\n")
    plan = use("ExitPlanMode", plan=PLAN)
    server = messages_server([turn(write), turn(plan), turn(plan), turn(write), say("Done.")])
    command = command_for(server)
    made = command.folder / "made.txt"
    terminal = command.terminal("--permission-mode", "plan", "go", EDITOR="sed -i s/Nothing/Something/")
    terminal.expect("Press 1, 2, e or 4")
    shown = ESCAPE.sub("", terminal.before)
    assert "⊘ Write made.txt · denied" in shown
    assert re.search(r"1\.? Write made\.txt\.", shown)
    terminal.sendline("4 what else?")
    terminal.expect("Press 1, 2, e or 4")
    terminal.sendline("e")
    terminal.expect(r"2\.? (\x1b\S*)*Something else")
    terminal.expect("Press 1, 2, e or 4")
    assert not made.exists()
    terminal.sendline("2")
    screen = finished(terminal)
    assert "Mode: Accept edits" in screen
    assert made.read_text("utf-8") == "made\n"
    assert "approve the plan yet: what else?" in told(server, 2)
    assert "after editing it" in told(server, 3)
    assert "2. Something else." in told(server, 3)


def test_the_todos_are_drawn_when_they_change(messages_server: Server, command_for: For) -> None:
    def todos(*statuses: str) -> Any:
        names = ("read", "fix")
        return turn(
            use(
                "TodoWrite",
                todos=[
                    {"content": name, "status": status, "activeForm": f"{name}ing"}
                    for name, status in zip(names, statuses, strict=True)
                ],
            )
        )

    server = messages_server([todos("in_progress", "pending"), todos("completed", "in_progress"), say("Done.")])
    screen = finished(command_for(server).terminal("go"))
    shown = re.findall(r"Todos: \d of \d done|[✓▸○] \w+", screen)
    assert shown == ["Todos: 0 of 2 done", "▸ read", "○ fix", "Todos: 1 of 2 done", "✓ read", "▸ fix"]
