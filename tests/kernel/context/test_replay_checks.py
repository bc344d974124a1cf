"""A strict replay compares what Claude was told and what searches gave then with what it would be told and given now."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from notebook_kernel import NotebookKernel, model_of, running_kernel

from cellwright.testing import MessagesServer, say, turn, use

pytestmark = pytest.mark.kernel

PROMPT = "%%claude --record mine.jsonl\nHow many in @bees.csv and $count? See @cell.md."
LOOK = "%%claude --record mine.jsonl\nLook around."
SCRIPT = [
    say("Two."),
    turn(use("Grep", pattern="bea", output_mode="content"), use("LS", path="."), use("Glob", pattern="*.csv")),
    turn(use("Bash", command="echo hi"), use("Variables")),
    say("I looked."),
]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "bees.csv").write_text("bee\nann\nbea\n")
    (folder / "cell.md").write_text("A cell.\n")
    return folder


@contextmanager
def kernel(project: Path, server: MessagesServer, **environ: str) -> Iterator[NotebookKernel]:
    data = str(project.parent / "jupyter")
    with running_kernel(project, {**model_of(server), "JUPYTER_DATA_DIR": data, **environ}) as running:
        assert running.run("%load_ext cellwright").status == "ok"
        yield running


def play(running: NotebookKernel, count: str = "count = 2", prompt: str = PROMPT, look: str = LOOK) -> list[Any]:
    assert running.run(count).status == "ok"
    return [running.run(prompt, cell_id="cell-2"), running.run(look, cell_id="cell-3")]


def test_strict_fails_for_whatever_says_something_else(
    project: Path, messages_server: Callable[..., MessagesServer]
) -> None:
    server = messages_server(SCRIPT)
    with kernel(project, server) as running:
        running.run("%config Claude.allow = ['Bash']")
        cells = play(running)
        assert [cell.status for cell in cells] == ["ok", "ok"], cells
        assert server.remaining_turns == 0
    sent = len(server.requests)
    with kernel(project, server, CELLWRIGHT_REPLAY="strict") as running:
        for again in range(2):
            cells = play(running)
            assert [cell.status for cell in cells] == ["ok", "ok"], (again, [cell.error for cell in cells])
            running.run("%claude /clear")
        assert "1 command not checked." in "".join(str(output) for output in cells[1].outputs)
        (project / "bees.csv").write_text("bee\n")
        (project / "cell.md").unlink()
        (project / "wasps.csv").write_text("bea\n")
        told, looked = play(running)
        # what is otherwise, and nothing else
        assert (told.error or "").partition("recorded one:\n")[2].splitlines()[:2] == [
            "- bees.csv says something else now.",
            "- cell.md was sent then and is missing now.",
        ]
        assert "\n- " not in (told.error or "").partition("is missing now.")[2]
        for tool, line in (("Grep", "wasps.csv:1:bea"), ("LS", "wasps.csv 4"), ("Glob", "wasps.csv")):
            assert f"- {tool}, then (-) and now (+):" in (looked.error or "")
            assert f"\n+ {line}\n" in (looked.error or "")
        running.run("%claude /clear")
        told, looked = play(running, "count = 3")
        assert "$count says something else" in (told.error or "")
        assert "The notebook says something else" in (told.error or "")
        assert "Variables, then (-) and now (+)" in (looked.error or "")
    assert len(server.requests) == sent
