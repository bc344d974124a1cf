"""`cellwright doctor` and `/doctor` in the terminal: for people, for programs, with an exit code."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from cellwright.testing import MessagesServer
from cellwright.version import VERSION

Command = Callable[[MessagesServer | None], Any]


def test_for_programs_all_is_one_object(command_for: Command, messages_server: Callable[..., MessagesServer]) -> None:
    server = messages_server()
    done = command_for(server).run("doctor", "--json")
    found = json.loads(done.stdout)
    by_name = {finding["name"]: finding for finding in found["findings"]}
    assert found["version"] == VERSION
    assert (by_name["credential"]["status"], by_name["credential"]["found"]) == ("ok", "ANTHROPIC_API_KEY")
    assert server.api_key not in done.stdout
    assert done.returncode == (1 if found["problems"] else 0)


def test_a_problem_is_told_first_and_is_an_exit_code(command_for: Command) -> None:
    done = command_for(None).run("doctor", "--offline")
    assert done.returncode == 1
    title, _, rest = done.stdout.partition("\n")
    assert title.startswith("Doctor: 1 problem")
    assert rest.index("credential") < rest.index("✓ Well")
    assert "ANTHROPIC_API_KEY" in rest


def test_the_slash_command_tells_the_same(command_for: Command, messages_server: Callable[..., MessagesServer]) -> None:
    server = messages_server()
    done = command_for(server).run("-p", "/doctor --offline")
    assert done.returncode == 0, done.stderr
    assert "Doctor: " in done.stdout
    assert server.requests == []
    wrong = command_for(server).run("-p", "/doctor --everything")
    assert "--offline" in wrong.stderr
