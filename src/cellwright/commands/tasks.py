"""`/tasks` and `/steer`: what is going on in this conversation, how it is stopped, and how it is told something."""

from __future__ import annotations

import secrets
import time

from cellwright.agent.prompt import SteeringText
from cellwright.commands.command import CommandCall, CommandPage, Row, Section
from cellwright.conversation.runs.run import Run
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.features.conversation import Conversation
from cellwright.text import dollars, visible_line
from cellwright.tools.shell.background import BackgroundTask, background_tasks

STATES = {
    "waiting": "waits for its turn",
    "running": "at work",
    "asking": "asks you",
    "done": "done",
    "failed": "failed",
    "interrupted": "interrupted",
}
USAGE = "/tasks shows what is running; /tasks stop ID ends a run, command or agent; /tasks stop all ends everything."


async def tasks_page(call: CommandCall) -> CommandPage:
    """Show what goes on, or what was stopped."""
    if not call.text:
        return CommandPage(_sections(call.conversation))
    verb, *ids = call.text.split()
    if verb != "stop" or len(ids) != 1:
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, f"{USAGE} Nothing was stopped.")
    stopped = await _stop_all(call.conversation) if ids == ["all"] else [await stop_task(call.conversation, ids[0])]
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


async def _stop_all(conversation: Conversation) -> list[Row]:
    # the last first: else each would have its turn for a moment
    runs = [await stop_task(conversation, run.id) for run in reversed(conversation.runs.active)]
    shell = [await _stop_shell(task) for task in background_tasks().all() if not task.run.ended.done()]
    working = [each.id for each in conversation.features.subagents.background if not each.task.done()]
    return [*runs, *shell, *[await stop_task(conversation, agent_id) for agent_id in working]]


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
