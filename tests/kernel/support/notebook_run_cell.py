"""Runs in a kernel: calls NotebookRun the way a `%%claude` cell does, on a notebook file, and tells what came back."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

from IPython.core.getipython import get_ipython

from cellwright.agent.calls.tool_results import json_of
from cellwright.agent.thread import AgentTask, AgentThread, CallerJobs
from cellwright.agent.tool import ToolContext, ToolResult
from cellwright.errors import ToolError
from cellwright.kernel.cells.notebook_run import Runner, notebook_run_tool
from cellwright.kernel.magic.input_rewrite import Rewriting
from cellwright.kernel.namespace.cell_log import CellLog
from cellwright.kernel.run.ipykernel_api import ExecutionCountMender
from cellwright.kernel.run.notebook import front_end_of
from cellwright.tools.notebook.file_notebook import FileNotebook
from cellwright.tools.notebook.open_notebook import NothingOpen, OpenNotebook

PATH = Path("notebook.ipynb")


class Named(NothingOpen):
    """The kernel's notebook is the one whose file is named."""

    refused = ""

    def own(self) -> OpenNotebook | None:
        return FileNotebook(PATH) if PATH.is_file() else None

    def refusal(self, _path: Path) -> str:
        return self.refused


shell = get_ipython()
thread = AgentThread()
jobs = CallerJobs()
log = CellLog(shell)
log.start()
Rewriting(shell).install()
ExecutionCountMender(shell).install()
notebooks = Named()
news: list[dict[str, Any]] = []
tool = notebook_run_tool(
    Runner(shell, jobs, notebooks, log, Path.cwd(), in_kernel=True, own_cell=lambda: front_end_of(shell).cell_id)
)


def sources() -> dict[str, str]:
    """What the notebook's cells hold now."""
    content = json.loads(PATH.read_text("utf-8"))
    return {cell["id"]: "".join(cell["source"]) for cell in content["cells"]}


def rewrite(cell_id: str, source: str) -> None:
    """Change a cell as somebody else would."""
    content = json.loads(PATH.read_text("utf-8"))
    for cell in content["cells"]:
        if cell["id"] == cell_id:
            cell["source"] = source
    PATH.write_text(json.dumps(content), "utf-8")


async def _call(tool_input: dict[str, Any], between: Any) -> Any:
    assert tool.prepare is not None
    await tool.prepare(tool_input)
    if between is not None:
        between()
    return await tool.call(tool_input, ToolContext("toolu_1", lambda **more: news.append(more)))


def start(tool_input: dict[str, Any], between: Any = None) -> AgentTask[Any]:
    news.clear()
    return thread.submit(_call(tool_input, between))


async def awaited(between: Any = None, **tool_input: Any) -> str:
    task = start(tool_input, between)
    await jobs.work_until_done_async(task)
    return _told(task)


def blocking(**tool_input: Any) -> str:
    task = start(tool_input)
    jobs.work_until_done(task)
    return _told(task)


async def cancelled(**tool_input: Any) -> str:
    """Cancels the run as the widget's Stop does, as soon as the code has set `ready`."""
    task = start(tool_input)
    running = asyncio.ensure_future(jobs.work_until_done_async(task))

    async def cancel_when_ready() -> None:
        while "ready" not in shell.user_ns:
            await asyncio.sleep(0.01)
        task.cancel()

    asyncio.run_coroutine_threadsafe(cancel_when_ready(), thread.loop)
    await running
    return _told(task)


def _told(task: AgentTask[Any]) -> str:
    told: dict[str, Any] = {"status": "ok", "structured": None}
    try:
        result = task.result()
        assert isinstance(result, ToolResult)
        told["content"] = result.content
        told["structured"] = json_of(result.structured, "NotebookRun")
        told["status"] = "error" if result.is_error else "ok"
    except ToolError as error:
        told |= {"status": str(error.code), "content": error.message}
    except CancelledError:
        told |= {"status": "cancelled", "content": ""}
    told["text"] = (
        told["content"]
        if isinstance(told["content"], str)
        else "".join(block.get("text", f"[{block['type']}]") for block in told["content"])
    )
    return json.dumps(told)
