"""`/add-dir`: the folders that Claude works in, and another one besides."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from cellwright.commands.command import CommandCall, CommandPage, Row, Section
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.features.conversation import Conversation

ADD_DIR = "[DIR]"


async def add_dir_page(call: CommandCall) -> CommandPage:
    """Show the folders, or have Claude work in another one as well."""
    conversation = call.conversation
    if not call.text:
        return CommandPage([_folders(conversation)])
    folder = await asyncio.to_thread(_named_folder, conversation.cwd, call.text)
    if any(folder.is_relative_to(known) for known in _known(conversation)):
        return CommandPage([Section("Folders", text=f"Claude already works in {folder}.")])
    said = await conversation.add_folder(folder)
    rule = json.dumps({"permissions": {"additionalDirectories": [str(folder)]}})
    lines = [
        f"Claude may read {folder} now, and change its files as in the project, also in the current run.",
        f"It holds while this kernel or program runs; `{rule}` in the settings adds it for good.",
        *said.messages,
        *said.problems,
    ]
    return CommandPage([Section("Folder added", text="\n".join(lines)), _folders(conversation)])


def _folders(conversation: Conversation) -> Section:
    rows: list[Row] = [("folder",), *((str(folder),) for folder in _known(conversation))]
    return Section("Folders", rows, "Claude works in these; /add-dir DIR adds one.")


def _known(conversation: Conversation) -> tuple[Path, ...]:
    return (conversation.cwd, *conversation.in_force.settings.additional_directories)


def _named_folder(cwd: Path, text: str) -> Path:
    """The folder that `text` names. Raises `CellwrightError` FILE_NOT_FOUND where there is none."""
    name = text.strip("\"'")
    try:
        folder = (cwd / Path(name).expanduser()).resolve()
        if folder.is_dir():
            return folder
    except (OSError, RuntimeError, ValueError):
        pass  # a home that there is not, a name that no folder can have
    raise CellwrightError(ErrorCode.FILE_NOT_FOUND, f"Folder {name} was not found. Nothing was added.")
