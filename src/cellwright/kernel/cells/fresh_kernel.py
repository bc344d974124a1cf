"""Cells run in a fresh kernel, in processes of their own that end with the call, and with us at the latest."""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from cellwright.agent.calls.approval import Confinement, also_writing, in_engine, without_hosts
from cellwright.config.settings.settings_in_force import SettingsInForce
from cellwright.conversation.resolve_options import policy_of
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.errors import CellwrightError, ErrorCode, ToolError
from cellwright.kernel.cells import fresh_kernel_main as fresh_kernel
from cellwright.permissions.sandboxing import FindAbilities
from cellwright.this_process import late_imports
from cellwright.this_process.files import scratch_folder
from cellwright.tools.process.child_processes import Command
from cellwright.tools.process.runner import RunningProgram, child_environment


class FreshCell(Struct, frozen=True):
    """The source one cell is run with, and whether it may fail."""

    source: str
    may_fail: bool = False


class FreshResult(Struct):
    """The outcome of the cells, by their place in what was asked for. `outputs` None: too large to be compared.

    `stopped` is the cell in which the run came to its end too early, and `why`: "timeout" (of this cell), "died" (the
    kernel did), "time" (of the whole); `begun`: whether any cell began.
    """

    outputs: dict[int, Sequence[Mapping[str, Any]] | None] = field(default_factory=dict)
    failed: set[int] = field(default_factory=set)
    seconds: float = 0.0
    stopped: int | None = None
    why: str = ""
    begun: bool = False


def own_confinement(in_force: SettingsInForce, means: FindAbilities) -> Confinement | None:
    """The bounds of a fresh kernel that the user starts: those of the container that the settings name; None for no bounds.

    `means` is what this machine can confine by. Raises ToolError if the container cannot be used.
    """
    try:
        decision = policy_of(
            RunOptions(), in_force.settings, in_force.cwd, in_force.environ, means
        ).decide_on_own_kernel()
    except CellwrightError as error:
        raise ToolError(error.message, code=error.code) from None
    if decision.behavior != "allow":
        raise ToolError(f"{decision.reason} Nothing was run.", code=ErrorCode.CONFIG_INVALID)
    return decision.confinement


async def run_fresh(
    cells: Sequence[FreshCell],
    *,
    kernel: str,
    cwd: Path,
    environ: Mapping[str, str],
    cell_seconds: float,
    seconds: float,
    begins: Callable[[int], object],
    confinement: Confinement | None = None,
) -> FreshResult:
    """Run `cells` in a fresh `kernel` in the folder `cwd` until one fails. `begins(index)` is called for each.

    Its environment has no secrets. `confinement` is what its processes may touch (None: no bounds); in a container it is the
    image's own `python3`. Raises ToolError when there is no such kernel. Everything that it started is gone
    when this returns or raises.
    """
    request = {
        "cells": [{"source": cell.source, "may_fail": cell.may_fail} for cell in cells],
        "kernel": kernel if confinement is None or confinement.container is None else "python3",
        "cwd": str(cwd),
        "cell_seconds": cell_seconds,
    }
    result = FreshResult()
    current = 0
    started = asyncio.get_running_loop().time()
    try:
        async with asyncio.timeout(seconds):
            async with contextlib.aclosing(_events(request, cwd, environ, confinement)) as saying:
                async for event in saying:
                    if "begins" in event:
                        current, result.begun = event["begins"], True
                        begins(current)
                    else:
                        _apply_event(event, result, kernel)
    except TimeoutError:
        result.stopped, result.why = current, "time"
    result.seconds = asyncio.get_running_loop().time() - started
    if result.stopped is None and not result.failed and len(result.outputs) < len(cells):
        result.stopped, result.why = current, "died"
    return result


def _apply_event(event: Mapping[str, Any], result: FreshResult, kernel: str) -> None:
    if "problem" in event:
        message = f"The fresh kernel {kernel} could not run anything: {event['problem']}"
        raise ToolError(message, code=ErrorCode.EXECUTION_ERROR)
    if "stopped" in event:
        result.stopped, result.why = event["stopped"], event["why"]
        return
    result.outputs[event["ended"]] = event["outputs"]
    if event["failed"]:
        result.failed.add(event["ended"])


async def _events(
    request: Mapping[str, Any], cwd: Path, environ: Mapping[str, str], confinement: Confinement | None
) -> AsyncGenerator[dict[str, Any], None]:
    """Yield what the program says, line by line, until its end."""
    lines: asyncio.Queue[bytes | None] = asyncio.Queue()
    rest = bytearray()

    def take(chunk: bytes) -> bool:
        *complete, last = chunk.split(b"\n")
        for line in complete:
            lines.put_nowait(bytes(rest) + line)
            rest.clear()
        rest.extend(last)
        return True

    with contextlib.ExitStack() as until_its_end:
        # -P: nothing is imported from this folder
        arguments = [sys.executable, "-P", str(Path(fresh_kernel.__file__))]
        if confinement is not None and confinement.container is not None:
            folder = until_its_end.enter_context(scratch_folder("fresh", shared=True))
            arguments = [sys.executable, str(_program_in(folder))]
            confinement = confinement if in_engine(confinement) else also_writing(confinement, folder)
        command = Command(
            arguments=arguments, cwd=cwd, environ=child_environment(environ), confinement=without_hosts(confinement)
        )
        try:
            # the kernel that the program starts leaves its group, and is ended by its mark
            program = await RunningProgram.started(
                command,
                output=take,
                errors=subprocess.DEVNULL,
                source=json.dumps(request).encode(),
                at_end=lambda: lines.put_nowait(None),
            )
        except OSError as error:
            raise ToolError(f"A fresh kernel could not be started: {error}.") from error
        try:
            while (line := await lines.get()) is not None:
                yield json.loads(line)
        finally:
            await program.end()


def _program_in(folder: Path) -> Path:
    """Copy the program into `folder` with what it imports of ours: a container has no Cellwright."""
    for module in (late_imports, fresh_kernel):
        name = Path(*module.__name__.split(".")).with_suffix(".py")
        target = folder / name if module is late_imports else folder / "fresh_kernel_main.py"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(Path(str(module.__file__)).read_bytes())
    return folder / "fresh_kernel_main.py"
