"""`/btw`, `/goal`, `/compact`, `/autocompact`, `/add-dir`, `/tasks`, `/steer` and `!command`: what is said besides prompts.

`/tasks` and `/steer` are about what is going on in the conversation: they list it, stop it, and send it a message.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from pathlib import Path

from cellwright.agent.compaction import compacted_line
from cellwright.agent.prompt import SteeringText
from cellwright.commands.command import CommandCall, CommandPage, Row, Section
from cellwright.commands.model_and_mode import choose
from cellwright.commands.sessions.sessions import price
from cellwright.conversation.feature import unheard
from cellwright.conversation.resolve_options import compaction_settings
from cellwright.conversation.runs.run import Run
from cellwright.errors import CellwrightError, ErrorCode, ToolError
from cellwright.features.conversation import Conversation
from cellwright.text import dollars, visible_line
from cellwright.tools.shell.background import BackgroundTask, background_tasks

BTW = "QUESTION"
GOAL = "[GOAL | clear]"
MAX_GOAL_CHARS = 4_000

COMPACT = "[FOCUS]"
AUTOCOMPACT = "[on | off | SHARE %]"
MIN_SHARE, MAX_SHARE = 10, 95

ADD_DIR = "[DIR]"

STATES = {
    "waiting": "waits for its turn",
    "running": "at work",
    "asking": "asks you",
    "done": "done",
    "failed": "failed",
    "interrupted": "interrupted",
}
USAGE = "/tasks shows what is running; /tasks stop ID ends a run, command or agent; /tasks stop all ends everything."


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
    if now.automatic:
        whole = "the model's window"
        window = whole if now.window is None else f"{now.window:,} tokens, or of {whole} if less"
        text = f"The conversation is summarised automatically when it fills {now.share:.0%} of {window}."
    else:
        text = "The conversation is not summarised automatically: when it fills the window, Claude stops."
    if word == "on" and not now.automatic:
        text += " An environment variable or the administrator switches it off."
    return CommandPage([Section("Compaction", text=f"{text} /compact does it now.")])


async def user_command_page(call: CommandCall) -> CommandPage:
    """Run the command that `call.text` is, and show how it ended. Raises CellwrightError."""
    if not call.text:
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, "Write the command after the `!`. Nothing was run.")
    try:
        result = await call.conversation.features.user_commands.run(
            call.text, unheard
        )  # the page comes when it has ended
    except ToolError as error:
        raise CellwrightError(error.code, error.message) from error
    ending = f" · {result.ending}" if result.ending else ""
    told = "Claude learns of it with your next prompt."
    return CommandPage([Section(f"{result.title}{ending}", code=result.text.rstrip("\n") or "(no output)", text=told)])


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


async def tasks_page(call: CommandCall) -> CommandPage:
    """Show what goes on, or what was stopped."""
    if not call.text:
        return CommandPage(_sections(call.conversation))
    verb, *ids = call.text.split()
    if verb != "stop" or len(ids) != 1:
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, f"{USAGE} Nothing was stopped.")
    conversation = call.conversation
    if ids == ["all"]:
        # the last first: else each would have its turn for a moment
        stopped = [await stop_task(conversation, run.id) for run in reversed(conversation.runs.active)]
        stopped += [await _stop_shell(task) for task in background_tasks().all() if not task.run.ended.done()]
        working = [each.id for each in conversation.features.subagents.background if not each.task.done()]
        stopped += [await stop_task(conversation, agent_id) for agent_id in working]
    else:
        stopped = [await stop_task(conversation, ids[0])]
    return CommandPage([Section("Stopped", [("", ""), *stopped], "" if stopped else "Nothing is running.")])


def steer_page(call: CommandCall) -> CommandPage:
    """Tell Claude something while it works, and show that it was told."""
    if not call.text:
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, "/steer needs a message for Claude.")
    call.conversation.runs.steer(SteeringText(secrets.token_hex(8), call.text, "steer"))
    run = call.conversation.runs.current
    title = "" if run is None else f"“{run.title}” ({run.id})"
    return CommandPage([Section("Told", text=f"Claude reads it with the next step of {title}.")])


def _sections(conversation: Conversation) -> list[Section]:
    runs = conversation.runs
    head: Row = ("run", "cell", "prompt", "state", "time", "cost")
    active = [_run_row(run) for run in runs.active]
    ended = [_run_row(run) for run in reversed(runs.finished) if run.background]
    sections = [Section("Runs", [head, *active], "" if active else "Claude is not working.")]
    if ended:
        sections.append(Section("Ended in the background", [head, *ended]))
    shell = [_shell_row(task) for task in background_tasks().all()]
    if shell:
        sections.append(Section("Shell commands", [("task", "command", "state", "output"), *shell]))
    if agents := conversation.features.subagents.background:
        rows = [(each.id, each.type, visible_line(each.description), each.state) for each in agents]
        sections.append(Section("Agents in the background", [("task", "agent", "what", "state"), *rows]))
    return sections


def _run_row(run: Run) -> Row:
    state = STATES[run.state] + (f": {run.error}" if run.state == "failed" else "")
    where = f"{run.origin} in the background" if run.background else run.origin
    cost = "not known" if run.cost_usd is None else dollars(run.cost_usd)
    return (run.id, where, run.title, state, _duration(run.seconds), cost)


def _shell_row(task: BackgroundTask) -> Row:
    if task.run.ended.done():
        state = task.status.removeprefix(f"{task.id} ")
    else:
        state = f"running for {_duration(time.monotonic() - task.started)}"
    return (task.id, visible_line(task.run.command), state, str(task.output_file or ""))


async def stop_task(conversation: Conversation, task_id: str) -> Row:
    """Stop a run, a command or an agent by its ID. Raises CellwrightError INVALID_PARAMETERS when none has it."""
    for run in conversation.runs.active:
        if run.id == task_id and run.task is not None:
            run.task.cancel()
            return (run.id, run.title)
    for task in background_tasks().all():
        if task.id == task_id:
            return await _stop_shell(task)
    if (agent := await conversation.features.subagents.stop(task_id, "by the user")) is not None:
        return (agent.id, f"{agent.type} {agent.state}")
    ids = [run.id for run in conversation.runs.active]
    ids += [task.id for task in background_tasks().all() if not task.run.ended.done()]
    ids += [each.id for each in conversation.features.subagents.background if not each.task.done()]
    known = ", ".join(ids) or "nothing"
    message = f"Task {task_id!r} was not found. Running: {known}. Nothing was stopped."
    raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)


async def _stop_shell(task: BackgroundTask) -> Row:
    if not task.run.ended.done():
        # Claude is told with its next step, as of any task that ended
        task.stopped = "by the user"
        await task.run.stop_from_any_loop()
    return (task.id, task.status.removeprefix(f"{task.id} "))


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
