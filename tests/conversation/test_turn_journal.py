"""A turn is killed, or a write fails, at every write that it makes: what was shown, what is on disk, what is sent next.

The turns are made: one for each kind of tool, and several calls at once. A sample of their writes is broken in each run of
the tests, all of them with `-m slow`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct
from tests.shared.forked import broken_turns

from cellwright.testing import MessagesServer, Turn, say, think, turn, use

INTRO = "I will do it now: first this, then that."
OUTRO = "All of it is done, and here is what came of it."
OLD, NEW = "old words\n", "new words\n"
NOTEBOOK = {
    "cells": [
        {"cell_type": "code", "id": "c1", "metadata": {}, "execution_count": None, "outputs": [], "source": "old"}
    ],
    "metadata": {},
    "nbformat": 4,
    "nbformat_minor": 5,
}
SAMPLE = 3
"""Of the writes of each kind of turn, so many are broken in each way where not all are."""


class Kind(Struct, frozen=True):
    """A kind of turn: its steps, made for a project's folder, and the files that it changes, before and after."""

    name: str
    steps: Callable[[Path], list[Turn]]
    changed: dict[str, tuple[str | None, str]]
    kernel: bool = False


def edit(project: Path, name: str) -> Any:
    return use("Edit", file_path=str(project / name), old_string="old", new_string="new")


def several(project: Path) -> list[Turn]:
    reads = [use("Read", file_path=str(project / name)) for name in ("a.txt", "b.txt")]
    writes = [
        edit(project, "a.txt"),
        edit(project, "b.txt"),
        use("Write", file_path=str(project / "new.txt"), content=NEW),
        use("Bash", command="echo new words > bash.txt"),
    ]
    return [turn(think("Hm."), say(INTRO), *reads), turn(say(INTRO), *writes)]


KINDS = [
    Kind(
        "edit",
        lambda at: [turn(use("Read", file_path=str(at / "a.txt"))), turn(say(INTRO), edit(at, "a.txt"))],
        {"a.txt": (OLD, NEW)},
    ),
    Kind(
        "write",
        lambda at: [turn(think("Hm."), say(INTRO), use("Write", file_path=str(at / "new.txt"), content=NEW))],
        {"new.txt": (None, NEW)},
    ),
    Kind(
        "notebook",
        lambda at: [
            turn(use("Read", file_path=str(at / "n.ipynb"))),
            turn(say(INTRO), use("NotebookEdit", notebook_path=str(at / "n.ipynb"), cell_id="c1", new_source="new")),
        ],
        {"n.ipynb": ('"old"', '"new"')},
    ),
    Kind(
        "bash",
        lambda at: [turn(say(INTRO), use("Bash", command="echo new words > bash.txt"))],
        {"bash.txt": (None, NEW)},
    ),
    Kind(
        "python",
        lambda at: [turn(say(INTRO), use("Python", code=f"print(open({str(at / 'py.txt')!r}, 'w').write({NEW!r}))"))],
        {"py.txt": (None, NEW)},
        kernel=True,
    ),
    Kind(
        "several",
        several,
        {"a.txt": (OLD, NEW), "b.txt": (OLD, NEW), "new.txt": (None, NEW), "bash.txt": (None, NEW)},
    ),
]


class Turns:
    """Plays turns in projects of their own, each in a process that may be killed."""

    def __init__(self, folder: Path, player: subprocess.Popen[str]) -> None:
        self.folder = folder
        self.player = player
        self.count = 0

    def project(self) -> Path:
        self.count += 1
        project = self.folder / str(self.count) / "project"
        project.mkdir(parents=True)
        for name in ("a.txt", "b.txt"):
            (project / name).write_text(OLD, "utf-8")
        (project / "n.ipynb").write_text(json.dumps(NOTEBOOK, indent=1), "utf-8")
        return project

    def play(
        self, server: MessagesServer, project: Path, prompt: str, *, kernel: bool = False, **breaking: Any
    ) -> tuple[dict[str, Any], list[Any]]:
        """What the process came to, and the events that were shown."""
        events = project.parent / f"{prompt}.jsonl"
        case = {
            "project": str(project),
            "home": str(project.parent / "home"),
            "url": server.url,
            "key": server.api_key,
            "prompt": prompt,
            "kernel": kernel,
            "events": str(events),
            **breaking,
        }
        (project.parent / "home").mkdir(exist_ok=True)
        assert self.player.stdin is not None
        assert self.player.stdout is not None
        self.player.stdin.write(json.dumps(case) + "\n")
        self.player.stdin.flush()
        done = json.loads(self.player.stdout.readline())
        return done, [json.loads(line) for line in events.read_text("utf-8").splitlines()] if events.exists() else []


@pytest.fixture(scope="module")
def turns(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Turns]:
    with subprocess.Popen(
        [sys.executable, broken_turns.__file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as player:
        yield Turns(tmp_path_factory.mktemp("turns"), player)
        assert player.stdin is not None
        player.stdin.close()


def script(kind: Kind, project: Path) -> Callable[[dict[str, Any]], Turn]:
    """The model's answers, by what the request holds."""

    def answer(body: dict[str, Any]) -> Turn:
        last = body["messages"][-1]["content"]
        if any(block.get("text") == "go on" for block in last):
            return turn(say("Going on."))
        prompted = max(
            at for at, message in enumerate(body["messages"]) if "begin the work" in json.dumps(message["content"])
        )
        said = sum(message["role"] == "assistant" for message in body["messages"][prompted:])
        steps = kind.steps(project)
        return steps[said] if said < len(steps) else turn(say(OUTRO))

    return answer


def texts_shown(events: list[Any]) -> list[str]:
    """The blocks of text that were shown and, by what was shown after them, are whole."""
    texts: dict[tuple[int, int], str] = {}
    answer, at = 0, None
    for event in events:
        if event["type"] == "TextDelta":
            at = (answer, event["index"])
            texts[at] = texts.get(at, "") + event["text"]
        answer += event["type"] == "TurnEnd"
    if events and events[-1]["type"] == "TextDelta" and at is not None:
        del texts[at]  # of what streamed in the last moments before a kill not all may be written
    return list(texts.values())


def judge(kind: Kind, project: Path, server: MessagesServer, events: list[Any], *, ended: bool) -> None:
    """Hold what the next request says against what was shown and what is on disk."""
    assert [request.error for request in server.rejected] == []
    if ended:  # whatever failed: the run had its one end, and nothing after it
        assert [event["type"] for event in events].count("RunEnd") == 1
        assert events[-1]["type"] == "RunEnd"
    messages = server.requests[-1].body["messages"]
    sent = json.dumps(messages)
    missing = [text for text in texts_shown(events) if text not in sent]
    assert missing == [], (events[-1], sent)
    blocks = [block for message in messages for block in message["content"]]
    results = {block["tool_use_id"]: block for block in blocks if block["type"] == "tool_result"}
    calls = [block for block in blocks if block["type"] == "tool_use" and block["name"] != "Read"]
    for name, (old, new) in kind.changed.items():
        content = (project / name).read_text("utf-8") if (project / name).exists() else None
        named = [call for call in calls if name in json.dumps(call["input"])]
        assert named or content is None or new not in content, f"{name} was changed, and Claude does not know"
        for call in named:
            judge_file(call["name"], results[call["id"]], content, old, new)


def judge_file(tool: str, result: dict[str, Any], content: str | None, old: str | None, new: str) -> None:
    """Hold what Claude is told of a call against the file that it was to change."""
    told = json.dumps(result)
    is_new = content is not None and new in content
    is_old = content is None if old is None else content is not None and old in content
    # a shell, and Python, make a file before there is anything in it
    assert is_new or is_old or tool in ("Bash", "Python"), (told, content)
    assert is_new or result.get("is_error"), (told, content)
    assert not (is_new and "Not run" in told), (told, content)


def break_at(turns: Turns, kind: Kind, at: int, how: str) -> bool:
    """Break the `at`-th write of a turn, then go on; gives whether the turn came so far."""
    project = turns.project()
    with MessagesServer(script(kind, project)) as server:
        done, events = turns.play(server, project, "begin the work", kernel=kind.kernel, at=at, how=how)
        assert done["status"] in (0, -9), done
        reached = done["status"] == -9 if how == "kill" else done["writes"] >= at
        on, _ = turns.play(server, project, "go on", kernel=kind.kernel)
        assert on["status"] == 0
        judge(kind, project, server, events, ended=done["status"] == 0 and bool(events))
    return reached


def writes_of(turns: Turns, kind: Kind) -> int:
    project = turns.project()
    with MessagesServer(script(kind, project)) as server:
        done, events = turns.play(server, project, "begin the work", kernel=kind.kernel)
    assert done["status"] == 0
    assert events[-1]["stop_reason"] == "end_turn", events[-1]
    for name, (_, new) in kind.changed.items():
        assert new in (project / name).read_text("utf-8")
    return int(done["writes"])


def broken(turns: Turns, kind: Kind, step: Callable[[int], int]) -> int:
    count = writes_of(turns, kind)
    numbers = range(1, count + 1, step(count))
    reached = [break_at(turns, kind, at, how) for at in numbers for how in ("kill", "raise")]
    assert sum(reached) >= len(reached) // 2
    return len(reached)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_turn_that_breaks_somewhere(turns: Turns, kind: Kind) -> None:
    broken(turns, kind, lambda count: max(1, count // SAMPLE))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_turn_that_breaks_anywhere(turns: Turns, kind: Kind) -> None:
    print(f"\n{kind.name}: {broken(turns, kind, lambda _: 1) // 2} writes, each killed once and failed once")
