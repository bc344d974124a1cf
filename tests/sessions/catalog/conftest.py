"""Sessions as a run leaves them, and the catalog of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cellwright.sessions.catalog.catalog import Catalog
from cellwright.sessions.session import Session
from cellwright.sessions.state_dir import sessions_folder

SYSTEM = [{"type": "text", "text": "Be polite."}]
TOOLS = [{"name": "Read", "description": "Read.", "input_schema": {"type": "object", "properties": {}}}]
MODEL = "claude-opus-5-5"
USAGE = {"input_tokens": 3, "output_tokens": 5}


def begun(cwd: Path) -> Session:
    session = Session.create(cwd, sessions_folder(cwd))
    session.begin(model=MODEL, system=SYSTEM, tools=TOOLS)
    return session


def append(session: Session, message: dict[str, Any], **facts: Any) -> None:
    session.next_seq += 1  # each message comes with an event
    session.append(message, **facts)


def say(session: Session, prompt: str, answer: str = "Yes.", cost: float | None = 0.25) -> None:
    """One turn: the prompt, a call with a result that nobody searches for, the answer."""
    number = len(session.encoded)
    call = {"type": "tool_use", "id": f"t{number}", "name": "Read", "input": {"file_path": "secretfile.py"}}
    result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": "resultword"}
    told = {"type": "text", "text": "<context>\ntoldword\n</context>"}
    append(session, {"role": "user", "content": [told, {"type": "text", "text": prompt}]})
    thinking = {"type": "thinking", "thinking": "thoughtword", "signature": "s"}
    append(session, {"role": "assistant", "content": [thinking, call]}, usage=USAGE, cost_usd=cost, model=MODEL)
    append(session, {"role": "user", "content": [result]})
    answered = {"role": "assistant", "content": [{"type": "text", "text": answer}]}
    append(session, answered, usage=USAGE, cost_usd=cost, model=MODEL)


Held = Callable[..., Path]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "bees"
    folder.mkdir()
    return folder


@pytest.fixture
def held(project: Path) -> Held:
    """`held("prompt", "another", answer=…, cwd=…)`: the path of a session with these turns, which is closed."""

    def make(*prompts: str, answer: str = "Yes.", cwd: Path = project, **facts: Any) -> Path:
        session = begun(cwd)
        for prompt in prompts:
            say(session, prompt, answer, **facts)
        session.close()
        assert session.path is not None
        return session.path

    return make


@pytest.fixture
def catalog() -> Catalog:
    return Catalog()
