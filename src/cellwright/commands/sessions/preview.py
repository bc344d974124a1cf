"""`/preview`: what the last preview would change; accept parts of it, or drop it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from cellwright.agent.thread import JobOwner
from cellwright.commands.command import CommandCall, CommandPage, Section
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.features.preview.feature import TurnPreview

if TYPE_CHECKING:
    from cellwright.features.preview.open_preview import OpenPreview

PREVIEW = "[accept all | accept N … | decline]"
USAGE = (
    "/preview shows what the last preview would change; /preview accept 1 3 (or all) accepts and drops the rest; /preview "
    "decline drops it."
)


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
            return CommandPage([Section("Preview", text=USAGE), Section("What it would change", code=listing(items))])
        case "decline":
            text, _ = await feature.accept(preview, [])
            return CommandPage([Section("Preview declined", code=text)])
        case "accept" if rest.strip() == "all" or (numbers and re.fullmatch(r"[\d ,]+", rest)):
            chosen = sorted(all_of(items)) if rest.strip() == "all" else [int(number) for number in numbers]
            if unknown := [str(number) for number in chosen if number not in {item.number for item in items}]:
                message = f"The preview has no number {', '.join(unknown)}. Nothing was changed."
                raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
            return await _accepted(call, feature, preview, chosen)
    raise CellwrightError(ErrorCode.INVALID_PARAMETERS, f"{USAGE} Nothing was changed.")


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
            said += await _run(call, codes)
    finally:
        record.end()
    return CommandPage([Section("Preview", code="\n".join(said))])


async def _run(call: CommandCall, codes: list[str]) -> list[str]:
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


class _Unawaited:
    """The owner of jobs that no run waits for: the kernel does them between two cells, or in the cell that waits."""

    background = True
