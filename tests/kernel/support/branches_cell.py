"""Runs in a kernel: its branches, from a cell that waits for them as a `%%claude` cell does, or without one."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from IPython.core.getipython import get_ipython

from cellwright.agent.calls.confinement import Confinement
from cellwright.agent.thread import AgentThread
from cellwright.kernel.branches.branch import BranchResult
from cellwright.kernel.branches.kernel_branches import KernelBranches
from cellwright.kernel.branches.resets import RESETS
from cellwright.kernel.branches.snapshot import NoBranch

shell = get_ipython()
thread = AgentThread()
live: list[dict[str, Any]] = []


def made(without: str = "", **more: Any) -> KernelBranches:
    """Branches of this kernel, with one reset left out."""
    assert not without or any(reset.name == without for reset in RESETS)
    resets = [reset for reset in RESETS if reset.name != without]
    return KernelBranches(shell, resets=resets, **more)


branches = made()
reading = Confinement(read=(str(Path.cwd()),))


async def wait(work: Coroutine[Any, Any, Any]) -> Any:
    """Let the agent's thread do `work` while the loop of this cell goes on."""
    return await asyncio.wrap_future(thread.submit(work).future)


async def taken(of: KernelBranches | None = None) -> str:
    try:
        await wait((of or branches).snapshot())
    except NoBranch as error:
        return error.reason
    return "taken"


async def ran(
    code: str,
    owner: str = "main",
    seconds: float = 30,
    of: KernelBranches | None = None,
    interrupt: float | None = None,
    confinement: Confinement | None = None,
) -> BranchResult:
    async def run() -> BranchResult:
        branch = await (of or branches).branch(owner, confinement)
        if interrupt is not None:
            asyncio.get_running_loop().call_later(interrupt, branch.interrupt)
        live.clear()
        return await branch.run(code, timeout=seconds, on_output=live.append)

    return await wait(run())


def text_of(result: BranchResult) -> str:
    """What a reader sees of it."""
    return "".join(map(_text, result.outputs)) + result.text


def _text(output: dict[str, Any]) -> str:
    match output["output_type"]:
        case "stream":
            return str(output["text"])
        case "error":
            return f"{output['ename']}: {output['evalue']}\n"
        case _:
            return f"{output['data'].get('text/plain', sorted(output['data']))}\n"


async def said(code: str, **more: Any) -> str:
    return text_of(await ran(code, **more))
