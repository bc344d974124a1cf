"""`/branches` and `/preview`: the copies of the kernel and of files that Claude works on, and taking something from them."""

from __future__ import annotations

import json
import keyword
import re
import time
from typing import TYPE_CHECKING, Any

from cellwright.agent.thread import JobOwner
from cellwright.commands.command import CommandCall, CommandPage, Row, Section
from cellwright.conversation.kernel_copies import ListedBranch
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.features.branches import KernelCopies
from cellwright.features.conversation import Conversation
from cellwright.features.preview.feature import TurnPreview

if TYPE_CHECKING:
    from cellwright.features.preview.open_preview import OpenPreview


BRANCHES = "[stop ID | run CALL | keep NAME [as NEW]]"
BRANCHES_USAGE = (
    "/branches shows Claude's copies of your kernel; /branches stop ID (or all) ends one; /branches run CALL runs the code "
    "of a Branch call in your kernel; /branches keep NAME (as NEW) takes a variable of Claude's branch into your kernel."
)

PREVIEW = "[accept all | accept N … | decline]"
PREVIEW_USAGE = (
    "/preview shows what the last preview would change; /preview accept 1 3 (or all) accepts and drops the rest; /preview "
    "decline drops it."
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
    raise CellwrightError(ErrorCode.INVALID_PARAMETERS, f"{BRANCHES_USAGE} Nothing was stopped, run or taken.")


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
    return (
        each.owner,
        whose,
        time.strftime("%H:%M:%S", time.localtime(each.since)),
        f"{each.memory / 2**20:,.0f} MB",
        state,
    )


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
            message = f"{each!r} cannot be the name of a variable here. {BRANCHES_USAGE} Nothing was taken."
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
    title = {"success": "Ran in your kernel", "denied": "Not run"}.get(end.status, "Failed in your kernel")
    return CommandPage(
        [Section(title, code=code, language="python", text="\n".join(filter(None, (_shown(end.content), *notes))))]
    )


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


async def preview_page(call: CommandCall) -> CommandPage:
    """Show the preview that waits, accept parts of it, or drop it."""
    feature = call.conversation.features.preview
    if feature is None or (preview := feature.open) is None:
        text = "No preview waits. `%%claude --branch` and a prompt make one, in a notebook's kernel on Linux."
        return CommandPage([Section("Preview", text=text)])
    if call.conversation.runs.current is not None:
        message = "Claude is working. Decide on the preview when the turn has ended."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    from cellwright.features.preview.open_preview import all_of, listing  # few look

    items = preview.items or await preview.look()
    verb, _, rest = call.text.strip().partition(" ")
    numbers = re.findall(r"\d+", rest)
    match verb:
        case "":
            return CommandPage(
                [Section("Preview", text=PREVIEW_USAGE), Section("What it would change", code=listing(items))]
            )
        case "decline":
            text, _ = await feature.accept(preview, [])
            return CommandPage([Section("Preview declined", code=text)])
        case "accept" if rest.strip() == "all" or (numbers and re.fullmatch(r"[\d ,]+", rest)):
            chosen = sorted(all_of(items)) if rest.strip() == "all" else [int(number) for number in numbers]
            if unknown := [str(number) for number in chosen if number not in {item.number for item in items}]:
                message = f"The preview has no number {', '.join(unknown)}. Nothing was changed."
                raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
            return await _accepted(call, feature, preview, chosen)
    raise CellwrightError(ErrorCode.INVALID_PARAMETERS, f"{PREVIEW_USAGE} Nothing was changed.")


async def _accepted(call: CommandCall, feature: TurnPreview, preview: OpenPreview, chosen: list[int]) -> CommandPage:
    """Accept the items: as a turn of their own, which /undo takes back."""
    conversation = call.conversation
    record = conversation.checkpoints.begin(preview.session, "/preview accept", preview.session.next_seq)
    owner: JobOwner = _Unawaited()
    said: list[str] = []
    try:
        with conversation.jobs.owned_by(owner):
            text, codes = await feature.accept(preview, chosen)
            said.append(text)
            said += await _run_codes(call, codes)
    finally:
        record.end()
    return CommandPage([Section("Preview", code="\n".join(said))])


async def _run_codes(call: CommandCall, codes: list[str]) -> list[str]:
    """Run the preview's code in the kernel, under everything that holds Claude's own calls."""
    if not codes:
        return []
    said: list[str] = []
    session = call.conversation.sessions.current
    options = RunOptions(builtin_tools=False, tool_names=("Python",), allow=session.granted)
    calls = call.conversation.served_calls(options, said.append)
    try:
        for code in codes:
            end = await calls.call("Python", {"code": code}, call.ask_user, emit=call.emit)
            said.append(f"{'ran' if end.status == 'success' else end.status}: {_shown(end.content)}".rstrip(": "))
            if end.status != "success":
                break
    finally:
        calls.close()
    session.granted = (*session.granted, *calls.granted)
    return said


def _shown(content: Any) -> str:
    return content if isinstance(content, str) else "\n".join(str(each.get("text", "[picture]")) for each in content)
