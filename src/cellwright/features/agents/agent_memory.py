"""The notes that an agent with `memory` keeps from one task to the next: `MEMORY.md` in a folder of its own."""

from __future__ import annotations

import re
from pathlib import Path

from cellwright.config.agents.agent_definition import AgentMemory
from cellwright.sessions.project_writes import check_way

NOTES = "MEMORY.md"
MAX_LINES = 200
MAX_BYTES = 25_000
"""The part of the notes that is told, as in Claude Code."""


def memory_folder(memory: AgentMemory, name: str, *, users: Path, project: Path) -> Path:
    """The folder of the notes of the agent `name`.

    >>> memory_folder("project", "reviewer", users=Path("/home/a/.claude"), project=Path("/p")).as_posix()
    '/p/.claude/agent-memory/reviewer'
    """
    folder = re.sub(r"[^\w-]+", "-", name).strip("-") or "agent"
    match memory:
        case "user":
            return users / "agent-memory" / folder
        case "project":
            return project / ".claude" / "agent-memory" / folder
        case "local":
            return project / ".claude" / "agent-memory-local" / folder


def read_notes(folder: Path, project: Path) -> str:
    """The beginning of the notes in `folder`; "" if absent, or behind a link that `project` brings."""
    try:
        check_way(project, folder / NOTES)
        if not (folder / NOTES).is_file():
            return ""
        with (folder / NOTES).open("rb") as opened:
            text = opened.read(MAX_BYTES).decode("utf-8", "ignore")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[:MAX_LINES])


def notes_text(folder: Path, notes: str) -> str:
    """Word what an agent is told of its notes."""
    return (
        f'<notes folder="{folder}">\nYou keep notes in this folder from one task to the next. The beginning of {NOTES} is '
        "below; other files there you read when you need them. Before you end, put down what will help with later tasks, "
        f"in {NOTES} as briefly as you can.\n\n{notes or '(none yet)'}\n</notes>"
    )
