"""Runs in a kernel: calls the tool `Python` the way a `%%claude` cell does, and tells what came back."""

from __future__ import annotations

import asyncio
import json
import sys
from concurrent.futures import CancelledError
from typing import Any

from IPython.core.getipython import get_ipython

from cellwright.agent.thread import AgentTask, AgentThread, CallerJobs
from cellwright.agent.tool import ToolContext, ToolResult
from cellwright.errors import ToolError
from cellwright.kernel.execute.python_tool import python_tool

shell = get_ipython()
thread = AgentThread()
jobs = CallerJobs()
live: list[dict[str, Any]] = []


def progress(**news: Any) -> None:
    """On the agent's thread: what it writes there belongs into the cell, whatever the main thread does."""
    live.append(news)
    if "ready" in news.get("text", ""):
        print("[the code is running]", flush=True)


def on_stuck(tool_use_id: str) -> None:
    print(f"[stuck: {tool_use_id}]", flush=True)
    if "release" in shell.user_ns:
        shell.user_ns["release"].set()


tool = python_tool(shell, jobs, in_kernel=True, on_stuck=on_stuck)


def start(code: str, seconds: float | None = None, **more: Any) -> AgentTask[Any]:
    live.clear()
    used = tool if seconds is None else python_tool(shell, jobs, in_kernel=True, seconds=seconds, on_stuck=on_stuck)
    return thread.submit(_call(used, code, more))


async def _call(used: Any, code: str, more: dict[str, Any]) -> Any:
    return await used.call({"code": code, **more}, ToolContext("toolu_1", progress))


async def awaited(code: str, seconds: float | None = None, **more: Any) -> str:
    """As a `%%claude` cell: the loop of the kernel goes on."""
    task = start(code, seconds, **more)
    await jobs.work_until_done_async(task)
    return _told(task)


def blocking(code: str) -> str:
    """As `cellwright.ask`: the main thread waits."""
    task = start(code)
    jobs.work_until_done(task)
    return _told(task)


async def cancelled(code: str) -> str:
    """Cancels the run as the widget's Stop does, as soon as the code says that it is ready."""
    task = start(code)
    running = asyncio.ensure_future(jobs.work_until_done_async(task))

    async def cancel_when_ready() -> None:
        while not any("ready" in news.get("text", "") for news in live):
            await asyncio.sleep(0.01)
        task.cancel()

    asyncio.run_coroutine_threadsafe(cancel_when_ready(), thread.loop)
    await running
    return _told(task)


def _told(task: AgentTask[Any]) -> str:
    told: dict[str, Any] = {"live": live, "status": "ok"}
    try:
        result = task.result()
    except CancelledError:
        told["status"] = "cancelled"
    except ToolError as error:
        told |= {"status": str(error.code), "text": error.message, "details": error.details}
    else:
        assert isinstance(result, ToolResult)
        told |= {"status": "error" if result.is_error else "ok"}
        blocks = [{"type": "text", "text": result.content}] if isinstance(result.content, str) else result.content
        told |= {"blocks": blocks, "text": "\n".join(block.get("text", "[image]") for block in blocks)}
    return json.dumps(told)


def traces() -> str:
    """What IPython remembers of what was run, and what the tool leaves behind in it."""
    namespace = shell.user_ns
    hidden = sorted(name for name in namespace if name.startswith("_") and not name.startswith("__"))
    return json.dumps(
        {
            "count": shell.execution_count,
            "In": namespace["In"][-2:],
            "Out": repr(namespace["Out"]),
            "_": repr(namespace["_"]),
            "hidden": hidden,
            "outputs": sorted(getattr(shell.history_manager, "outputs", ())),  # IPython 8 has none
            "payload": shell.payload_manager.read_payload(),
            "own": sorted({*vars(shell), *vars(shell.display_pub), *vars(sys.stdout)}),
        }
    )
