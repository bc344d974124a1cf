"""A program of its own: runs code cells in a fresh kernel with nbclient, one after another, until one fails.

On its standard input it gets one JSON object, `{"cells": [{"source": …, "may_fail": bool}, …], "kernel": NAME, "cwd":
FOLDER, "cell_seconds": SECONDS}`. On its standard output it says, a JSON object a line:

    {"begins": INDEX}                                                 a cell begins
    {"ended": INDEX, "outputs": [...], "failed": bool, "seconds": S}  … and ends; again for a cell changed by a later one
    {"stopped": INDEX, "why": "timeout" | "died"}                     nothing follows for this cell and those after it
    {"problem": TEXT}                                                 there is no kernel to run anything

Outputs that are too large to be compared are null. It must run where Cellwright cannot be imported.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from typing import Any, BinaryIO

from cellwright.this_process.late_imports import importing


def main() -> None:
    request = json.load(sys.stdin)
    stream = os.fdopen(os.dup(1), "wb")  # the kernel inherits 1 and 2, and must not write between the lines
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    try:
        asyncio.run(_run(request, stream))
    except Exception as error:  # noqa: BLE001  whatever keeps the kernel from starting is said to whoever waits
        _emit(stream, problem=f"{type(error).__name__}: {error}")


async def _run(request: dict[str, Any], stream: BinaryIO) -> None:
    # nbformat imports jsonschema, which makes 38 parsers in 1.4 s for a format that no notebook has, where it finds this
    sys.modules["rfc3987_syntax"] = None  # type: ignore[assignment]

    with importing:
        from nbclient import NotebookClient, exceptions
    from nbformat.v4 import new_code_cell, new_notebook

    cells = [new_code_cell(cell["source"]) for cell in request["cells"]]
    client = NotebookClient(
        new_notebook(cells=cells),
        timeout=request["cell_seconds"],
        kernel_name=request["kernel"],
        resources={"metadata": {"path": request["cwd"]}},
        allow_errors=True,
        store_widget_state=False,
    )
    sent_outputs: dict[int, str] = {}
    async with client.async_setup_kernel():
        for index, cell in enumerate(client.nb.cells):
            _emit(stream, begins=index)
            started = time.perf_counter()
            try:
                await client.async_execute_cell(cell, index)
            except exceptions.CellTimeoutError:
                _emit(stream, stopped=index, why="timeout")
                break
            except exceptions.DeadKernelError:
                _emit(stream, stopped=index, why="died")
                break
            failed = any(output["output_type"] == "error" for output in cell.outputs)
            sent_outputs[index] = _outputs(cell)
            _emit_ended(stream, index, sent_outputs[index], failed, time.perf_counter() - started)
            for earlier in range(index):
                # a display may be updated from a later cell
                if (now := _outputs(client.nb.cells[earlier])) != sent_outputs[earlier]:
                    sent_outputs[earlier] = now
                    _emit_ended(stream, earlier, now, False, 0.0)
            if failed and not request["cells"][index]["may_fail"]:
                break


def _outputs(cell: Any) -> str:
    text = json.dumps(cell.get("outputs", []))
    # the outputs of one cell, as JSON
    return text if len(text) <= 30_000_000 else "null"


def _emit_ended(stream: BinaryIO, index: int, outputs: str, failed: bool, seconds: float) -> None:
    _emit(stream, ended=index, outputs=json.loads(outputs), failed=failed, seconds=seconds)


def _emit(stream: BinaryIO, **what: Any) -> None:
    stream.write(json.dumps(what).encode() + b"\n")
    stream.flush()


if __name__ == "__main__":
    main()
