"""Saved outputs as text: what Claude would get of them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from cellwright.kernel.execute.branch_tool import take_output
from cellwright.kernel.execute.captured_output import CapturedOutput


async def output_text(outputs: Sequence[Mapping[str, Any]]) -> str:
    """Return the text of outputs (nbformat) as Claude gets it."""
    captured = CapturedOutput(asyncio.get_running_loop(), _unseen)
    for output in outputs:
        take_output(captured, "stability-", output)
    content = await captured.content()
    if isinstance(content, str):
        return content
    return "\n".join(str(block.get("text", "")) for block in content)


def error_in(outputs: Sequence[Mapping[str, Any]]) -> str:
    """Return the error that ended the code, on one line; "" if there is none."""
    errors = [output for output in outputs if output.get("output_type") == "error"]
    return f"{errors[-1].get('ename')}: {errors[-1].get('evalue')}"[:200].split("\n")[0] if errors else ""


def _unseen(*_: object, **__: object) -> None:
    """Nobody looks on: thousands of outputs come."""
