"""`/branches`: the copies of the kernel in which Claude tries things; end one, or run the code of one in the kernel."""

from __future__ import annotations

import json
import keyword
import time
from typing import Any

from cellwright.agent.thread import JobOwner
from cellwright.commands.command import CommandCall, CommandPage, Row, Section
from cellwright.conversation.kernel_copies import ListedBranch
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.features.branches import KernelCopies
from cellwright.features.conversation import Conversation

BRANCHES = "[stop ID | run CALL | keep NAME [as NEW]]"
USAGE = (
    "/branches shows Claude's copies of your kernel; /branches stop ID (or all) ends one; /branches run CALL runs the code "
    "of a Branch call in your kernel; /branches keep NAME (as NEW) takes a variable of Claude's branch into your kernel."
)


async def branches_page(call: CommandCall) -> CommandPage:
    """Show the branches, end some, or run the code of a call in the kernel itself."""
    branches = call.conversation.features.branches
    if branches is None:
        text = "Only a notebook's kernel on Linux has branches; here Claude's code runs with Python, which asks you."
        return CommandPage([Section("Branches", text=text)])
    verb, _, name = call.text.partition(" ")
    match verb, name.strip():
        case "", "":
            return CommandPage([_list(branches)])
        case "stop", name if name:
            return CommandPage([await _stopped(branches, name)])
        case "run", name if name:
            return await _run_in_kernel(call, name)
        case "keep", names if names:
            return CommandPage([await _kept(call.conversation, branches, names)])
    raise CellwrightError(ErrorCode.INVALID_PARAMETERS, f"{USAGE} Nothing was stopped, run or taken.")


def _list(branches: KernelCopies) -> Section:
    rows: list[Row] = [("branch", "whose", "since", "own memory", "state")]
    rows += [
        _row(each, branches.whose(each.owner), "running" if each.running else "waiting") for each in branches.listing()
    ]
    has_branch = len(rows) > 1
    rows += [_row(each, "", "starts branches by value") for each in branches.templates()]
    text = (
        f"Setting cellwright.branches: {branches.setting}. A branch is a copy of your kernel that ends with Claude's turn; "
        "memory counts only what it does not share with the kernel."
    )
    return Section("Branches", rows, text if has_branch else f"Claude has no branch of your kernel now. {text}")


def _row(each: ListedBranch, whose: str, state: str) -> Row:
    return each.owner, whose, time.strftime("%H:%M:%S", time.localtime(each.since)), _size(each.memory), state


def _size(count: int) -> str:
    return f"{count / 2**20:,.0f} MB"


async def _stopped(branches: KernelCopies, name: str) -> Section:
    there = [each.owner for each in (*branches.listing(), *branches.templates())]
    ended = [owner for owner in there if name in ("all", owner) and await branches.stop(owner)]
    if not ended and name != "all":
        known = ", ".join(there) or "none"
        message = f"Branch {name!r} was not found. Branches: {known}. Nothing was stopped."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    return Section("Stopped", [("", ""), *((owner, "ended") for owner in ended)], "" if ended else "There was none.")


async def _kept(conversation: Conversation, branches: KernelCopies, names: str) -> Section:
    """Take a variable of Claude's branch into the kernel, as data."""
    name, _, new = (each.strip() for each in names.partition(" as "))
    new = new or name
    for each in (name, new):
        if not each.isidentifier() or keyword.iskeyword(each) or each.startswith("_"):
            message = f"{each!r} cannot be the name of a variable here. {USAGE} Nothing was taken."
            raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    _refuse_while_claude_works(conversation, "Take the variable")
    with conversation.jobs.owned_by(_Unawaited()):
        size = await branches.take(name, new)
    return Section("Taken", [("variable", "taken"), (new, size)])


def _refuse_while_claude_works(conversation: Conversation, what: str) -> None:
    if conversation.runs.current is not None:
        message = f"Claude is working. {what} when the turn has ended."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)


async def _run_in_kernel(call: CommandCall, name: str) -> CommandPage:
    """Run the code of a Branch call with Python, under everything that holds Claude's own calls."""
    conversation = call.conversation
    code = _code_of(conversation, name)
    _refuse_while_claude_works(conversation, "Run the code in your kernel")
    notes: list[str] = []
    session = conversation.sessions.current
    options = RunOptions(builtin_tools=False, tool_names=("Python",), allow=session.granted)
    calls = conversation.served_calls(options, notes.append)
    owner: JobOwner = _Unawaited()
    try:
        with conversation.jobs.owned_by(owner):
            end = await calls.call("Python", {"code": code}, call.ask_user, emit=call.emit)
    finally:
        calls.close()
    session.granted = (*session.granted, *calls.granted)
    shown = end.content if isinstance(end.content, str) else "\n".join(_text(block) for block in end.content)
    title = {"success": "Ran in your kernel", "denied": "Not run"}.get(end.status, "Failed in your kernel")
    return CommandPage([Section(title, code=code, language="python", text="\n".join(filter(None, (shown, *notes))))])


class _Unawaited:
    """The owner of jobs that no run waits for: the kernel does them between two cells, or in the cell that waits."""

    background = True


def _code_of(conversation: Conversation, name: str) -> str:
    """The code of the session's Branch call `name`. Raises CellwrightError INVALID_PARAMETERS if there is none."""
    for encoded in reversed(conversation.sessions.current.story):
        if name not in (encoded if isinstance(encoded, str) else encoded.decode("utf-8", "replace")):
            continue
        content = json.loads(encoded)["content"]
        for block in content if isinstance(content, list) else ():
            if block.get("type") == "tool_use" and (block["id"], block["name"]) == (name, "Branch"):
                return str(block["input"].get("code", ""))
    message = f"Branch call {name!r} was not found in this session. Nothing was run."
    raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)


def _text(block: dict[str, Any]) -> str:
    return str(block.get("text", "[picture]"))
