"""The end of code that ran again in a copy of the kernel, as Claude would get it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from cellwright.conversation.kernel_copies import Ran
from cellwright.kernel.execute.branch_tool import take_output
from cellwright.kernel.execute.captured_output import CapturedOutput


async def ran_with(outputs: Sequence[Mapping[str, Any]], problem: str = "") -> Ran:
    """Return the run that gave `outputs` (nbformat). `problem`: why it was stopped; without one, the error that ended it."""
    return Ran(await _text_of(outputs), problem or _error_in(outputs))


async def _text_of(outputs: Sequence[Mapping[str, Any]]) -> str:
    """Return the text of outputs (nbformat) as Claude gets it."""
    captured = CapturedOutput(asyncio.get_running_loop(), _unseen)
    for output in outputs:
        take_output(captured, "stability-", output)
    content = await captured.content()
    if isinstance(content, str):
        return content
    return "\n".join(str(block.get("text", "")) for block in content)


def _error_in(outputs: Sequence[Mapping[str, Any]]) -> str:
    """Return the error that ended the code, on one line; "" if there is none."""
    errors = [output for output in outputs if output.get("output_type") == "error"]
    return f"{errors[-1].get('ename')}: {errors[-1].get('evalue')}"[:200].split("\n")[0] if errors else ""


def _unseen(*_: object, **__: object) -> None:
    """Nobody looks on: thousands of outputs come."""
