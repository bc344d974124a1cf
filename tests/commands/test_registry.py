"""Every slash command works as the first thing that is ever done: nothing of ours is there yet, or can be made."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from cellwright.commands.registry import COMMANDS
from cellwright.errors import CellwrightError
from cellwright.testing import MessagesServer, say
from row_tables import for_each_row
from talk import Talk

EMBEDDING = {"provider": "openai", "model": "any", "base_url": "http://127.0.0.1:9"}


def forms(name: str, takes: str) -> Iterator[str]:
    """The command alone, and with each word that may come first, with what may follow that.

    >>> list(forms("undo", "[N] [code|both] [yes]"))
    ['/undo', '/undo 1 code yes', '/undo code yes', '/undo both yes', '/undo yes']
    >>> list(forms("goal", "[GOAL | clear]"))
    ['/goal', '/goal 1', '/goal clear']
    """
    yield f"/{name}"
    for way in takes.strip("[]").split(" | "):
        words = way.split()
        optional = [word.startswith("[") or word.endswith("]") for word in words]
        plain = [word.strip("[]") for word in words]
        for first in range(len(words)):
            if all(optional[:first]):
                for word in plain[first].split("|"):
                    rest = (each.split("|")[0] for each in plain[first + 1 :])
                    yield " ".join((f"/{name}", _value(word), *map(_value, rest)))


def _value(word: str) -> str:
    """The word itself, or something in the place of what it stands for."""
    return word if word.islower() or word == "%" else "1"


FORMS = [form for name, command in COMMANDS.items() for form in forms(name, command.takes)]


@pytest.fixture(scope="module")
def model() -> Iterator[MessagesServer]:
    with MessagesServer(lambda _body: say("Good.")) as server:
        yield server


def test_all_forms_are_tried() -> None:
    assert len(FORMS) > len(COMMANDS) * 1.5
    assert {"/index embed", "/mcp approve 1", "/plugin list", "/tasks stop 1", "/bug with-messages 1"} <= {*FORMS}


@for_each_row("has_place", [True, False])
@for_each_row("form", FORMS)
def test_a_command_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: MessagesServer, form: str, has_place: bool
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    state = tmp_path / "state"
    if not has_place:  # below a file nothing can be made
        state.write_text("")
    monkeypatch.setenv("CELLWRIGHT_HOME", str(state / "cellwright"))
    talk = Talk(model, tmp_path)
    if form.startswith("/index"):
        talk.settings(cellwright={"embedding": EMBEDDING})
    with contextlib.closing(talk), contextlib.suppress(CellwrightError):  # which may say that there is nothing to undo
        assert talk.page(form).plain()
