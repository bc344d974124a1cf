"""`/btw`, `/goal`, `/compact`, `/autocompact`, `/add-dir` and `!command`: said to a conversation besides prompts."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from cellwright.agent.agent_setup import CompactionSettings
from cellwright.agent.compaction import compacted_line
from cellwright.commands.command import CommandCall, CommandPage, Row, Section
from cellwright.commands.model_and_mode import choose
from cellwright.commands.sessions.sessions import price
from cellwright.conversation.resolve_options import compaction_settings
from cellwright.errors import CellwrightError, ErrorCode, ToolError
from cellwright.features.conversation import Conversation

BTW = "QUESTION"
GOAL = "[GOAL | clear]"
MAX_GOAL_CHARS = 4_000

COMPACT = "[FOCUS]"
AUTOCOMPACT = "[on | off | SHARE %]"
MIN_SHARE, MAX_SHARE = 10, 95

ADD_DIR = "[DIR]"


async def btw_page(call: CommandCall) -> CommandPage:
    """Answer a question from what was said so far, without adding to it; while Claude works as well."""
    if not call.text:
        message = "/btw takes a question about the conversation, such as `/btw which file was that in?`"
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    answer = await call.conversation.ask_beside(call.options, call.text)
    cost = "Its cost is unknown" if answer.cost_usd is None else f"It cost {price(answer.cost_usd)}"
    text = f"{cost}. Question and answer are not part of the conversation."
    return CommandPage([Section("By the way", answer=answer.text), Section("Beside the conversation", text=text)])


def goal_page(call: CommandCall) -> CommandPage:
    """Show the goal, set one, or go on without one."""
    goal = call.conversation.features.goal
    if call.text.lower() in ("clear", "off", "none"):
        had = goal.condition
        goal.clear()
        return CommandPage([Section("Goal", text=f"Given up: {had}" if had else "There was no goal.")])
    if len(call.text) > MAX_GOAL_CHARS:
        message = f"A goal has at most {MAX_GOAL_CHARS:,} characters; this one has {len(call.text):,}."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    if call.text:
        goal.set(call.text)
    if not goal.condition:
        return CommandPage([Section("Goal", text="No goal is set. /goal GOAL sets one.")])
    text = (
        "It holds from your next prompt on (“continue” will do). Whenever Claude wants to end, the small model reads the "
        "conversation and sends it back to work while the goal is not met, up to 8 times for each prompt. A budget and "
        "Stop end it at any time; /goal clear gives the goal up, and so does another session."
    )
    return CommandPage([Section("Goal", text=f"{goal.condition}\n{text}")])


async def compact_page(call: CommandCall) -> CommandPage:
    """Sum up the conversation, with attention to what stands behind the command, and show the summary."""
    event = await call.conversation.compact(call.options, call.text, call.emit)
    text = "Claude continues from this. Nothing is deleted: the panel, /export and /rewind have the whole conversation."
    return CommandPage([Section(compacted_line(event), text=text), Section("Summary", text=event.summary)])


def autocompact_page(call: CommandCall) -> CommandPage:
    """Show when the conversation is summed up by itself, or have it done at another share of the window, or never."""
    conversation, word = call.conversation, call.text.lower()
    if word in ("on", "off"):
        choose(conversation, compacts=word == "on")
    elif word:
        percent = word.removesuffix("%").strip()
        if not percent.isdecimal() or not MIN_SHARE <= int(percent) <= MAX_SHARE:
            message = f"/autocompact takes on, off, or a share of the window from {MIN_SHARE}% to {MAX_SHARE}%."
            raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
        choose(conversation, compacts=True, compact_share=int(percent) / 100)
    now = compaction_settings(conversation.in_force.settings, conversation.in_force.environment)
    text = _sentence(now)
    if word == "on" and not now.automatic:
        text += " An environment variable or the administrator switches it off."
    return CommandPage([Section("Compaction", text=f"{text} /compact does it now.")])


def _sentence(now: CompactionSettings) -> str:
    if not now.automatic:
        return "The conversation is not summarised automatically: when it fills the window, Claude stops."
    window = "the model's window" if now.window is None else f"{now.window:,} tokens, or of the model's window if less"
    return f"The conversation is summarised automatically when it fills {now.share:.0%} of {window}."


async def user_command_page(call: CommandCall) -> CommandPage:
    """Run the command that `call.text` is, and show how it ended. Raises CellwrightError."""
    if not call.text:
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, "Write the command after the `!`. Nothing was run.")
    try:
        result = await call.conversation.features.user_commands.run(call.text, _not_shown_live)
    except ToolError as error:
        raise CellwrightError(error.code, error.message) from error
    ending = f" · {result.ending}" if result.ending else ""
    told = "Claude learns of it with your next prompt."
    return CommandPage([Section(f"{result.title}{ending}", code=result.text.rstrip("\n") or "(no output)", text=told)])


def _not_shown_live(**_news: Any) -> None:
    """The page comes when it has ended."""


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
