"""`/memory`: the files of instructions that Claude is told, with their sizes, and those that wait for trust."""

from __future__ import annotations

import asyncio
from pathlib import Path

from cellwright.commands.command import CommandCall, CommandPage, Row, Section
from cellwright.config.memory.find_memory_files import read_memory
from cellwright.config.memory.memory_file import MemoryFile
from cellwright.events import CHARS_PER_TOKEN
from cellwright.tools.paths import shown_path

SCOPES = {
    "managed": "the administrator's",
    "user": "yours, for all projects",
    "project": "the project's",
    "local": "yours, for this project",
    "auto": "Claude's own notes",
}


async def memory_page(call: CommandCall) -> CommandPage:
    """Show what is told at the beginning, what comes with certain files, and what is not told."""
    in_force = call.conversation.in_force
    memory = await asyncio.to_thread(read_memory, in_force.memory_place)
    cwd = in_force.cwd
    head: Row = ("file", "whose", "tokens", "")
    tokens = sum(_tokens(file) for file in memory.files)
    text = (
        f"About {tokens:,} tokens of each request. Write CLAUDE.md in the project, or ~/.claude/CLAUDE.md for all of "
        "yours; /init has Claude write the first one."
    )
    sections = [
        Section("Instructions sent with the first prompt", [head, *(_row(cwd, file) for file in memory.files)], text)
    ]
    if memory.rules:
        sections.append(
            Section("Rules that come with certain files", [head, *(_row(cwd, file) for file in memory.rules)])
        )
    waiting = [item.text for item in in_force.trust.waiting if item.text.startswith("instructions to Claude")]
    if waiting:
        rows = [("what", "why"), *((each, "waits until you trust the folder") for each in waiting)]
        sections.append(Section("Not sent", rows))
    if memory.notices:
        sections.append(Section("Left out", [("what", ""), *((notice, "") for notice in memory.notices)]))
    return CommandPage(sections)


def _row(cwd: Path, file: MemoryFile) -> Row:
    more = f"imported by {shown_path(cwd, file.imported_by)}" if file.imported_by is not None else ", ".join(file.paths)
    return shown_path(cwd, file.path), SCOPES[file.scope], f"{_tokens(file):,}", more


def _tokens(file: MemoryFile) -> int:
    return round(len(file.text) / CHARS_PER_TOKEN)
