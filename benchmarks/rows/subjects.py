"""What is measured: the same work done by a plain floor, by the anthropic SDK, and by Cellwright.

Each is run as `python -m benchmarks.rows.subjects SUBJECT ROW URL FOLDER` in a process of its own, with IPython and
ipykernel imported first (a kernel that is there already), and prints one JSON object.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

MODEL = "claude-opus-5-5"
READ_TOOL = {
    "name": "Read",
    "description": "Read a file.",
    "input_schema": {"type": "object", "properties": {"file_path": {"type": "string"}}, "required": ["file_path"]},
}
BASH_TOOL = {
    "name": "Bash",
    "description": "Run a command.",
    "input_schema": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
}
WAIT_TOOL = {
    "name": "wait",
    "description": "Wait.",
    "input_schema": {"type": "object", "properties": {}},
}

Ask = Callable[[str], Awaitable[None]]


async def _tool(name: str, tool_input: dict[str, Any]) -> str:
    if name == "wait":
        await asyncio.sleep(0.2)
        return "waited"
    if name == "Bash":
        pipe = asyncio.subprocess.PIPE
        shell = await asyncio.create_subprocess_exec("bash", "-c", tool_input["command"], stdout=pipe, stderr=pipe)
        return b"".join(await shell.communicate()).decode() or "(no output)"
    return Path(tool_input["file_path"]).read_text("utf-8")


def floor(url: str, folder: Path, tools: bool) -> Ask:
    """asyncio + httpx2 + json, done plainly: no checks, no transcript, no permissions."""
    import httpx2

    client = httpx2.AsyncClient(base_url=url, timeout=60)
    headers = {"authorization": "Bearer sk-ant-local-0000", "anthropic-version": "2026-10-21"}
    messages: list[dict[str, Any]] = []

    async def turn() -> dict[str, Any]:
        body = {"model": MODEL, "max_tokens": 32000, "stream": True, "messages": messages}
        if tools:
            body["tools"] = [READ_TOOL, BASH_TOOL, WAIT_TOOL]
        async with client.stream("POST", "/v1/messages", json=body, headers=headers) as reply:
            return await _message(reply.aiter_lines())

    async def ask(prompt: str) -> None:
        messages.append({"role": "user", "content": prompt})
        while True:
            message = await turn()
            messages.append({"role": "assistant", "content": message["content"]})
            calls = [block for block in message["content"] if block["type"] == "tool_use"]
            if message["stop_reason"] != "tool_use":
                return
            results = await asyncio.gather(*(_tool(call["name"], call["input"]) for call in calls))
            messages.append({"role": "user", "content": _results(calls, results)})

    return ask


async def _message(lines: AsyncIterator[str]) -> dict[str, Any]:
    blocks: dict[int, dict[str, Any]] = {}
    partial: dict[int, str] = {}
    stop = ""
    async for line in lines:
        if not line.startswith("data:"):
            continue
        event = json.loads(line[5:])
        kind = event["type"]
        if kind == "content_block_start":
            blocks[event["index"]] = event["content_block"]
            partial[event["index"]] = ""
        elif kind == "content_block_delta":
            delta = event["delta"]
            partial[event["index"]] += delta.get("text") or delta.get("partial_json") or ""
        elif kind == "message_delta":
            stop = event["delta"]["stop_reason"]
    for index, block in blocks.items():
        if block["type"] == "text":
            block["text"] = partial[index]
        elif block["type"] == "tool_use":
            block["input"] = json.loads(partial[index] or "{}")
    return {"stop_reason": stop, "content": list(blocks.values())}


def _results(calls: Sequence[Any], results: Sequence[str]) -> list[dict[str, Any]]:
    return [
        {"type": "tool_result", "tool_use_id": call["id"], "content": result}
        for call, result in zip(calls, results, strict=True)
    ]


def sdk(url: str, folder: Path, tools: bool) -> Ask:
    """The anthropic SDK's `messages.stream`, with a loop of its own around it."""
    import anthropic

    client = anthropic.AsyncAnthropic(base_url=url, api_key="sk-ant-local-0000", max_retries=0)
    messages: list[Any] = []
    more: dict[str, Any] = {"tools": [READ_TOOL, BASH_TOOL, WAIT_TOOL]} if tools else {}

    async def ask(prompt: str) -> None:
        messages.append({"role": "user", "content": prompt})
        while True:
            async with client.messages.stream(model=MODEL, max_tokens=32000, messages=messages, **more) as stream:
                async for _ in stream:
                    pass
                message = await stream.get_final_message()
            messages.append({"role": "assistant", "content": message.content})
            if message.stop_reason != "tool_use":
                return
            calls = [block.model_dump() for block in message.content if block.type == "tool_use"]
            results = await asyncio.gather(*(_tool(call["name"], call["input"]) for call in calls))
            messages.append({"role": "user", "content": _results(calls, results)})

    return ask


def cellwright(url: str, folder: Path, tools: bool) -> Ask:
    """The whole loop: permission checks, transcript on disk, every event made and numbered."""
    import cellwright
    from cellwright.agent.agent_setup import AgentSetup
    from cellwright.agent.loop import run_agent
    from cellwright.conversation.runs.in_force import SandboxLookup
    from cellwright.conversation.system_prompt import system_blocks
    from cellwright.permissions.sandboxing import SandboxRules
    from cellwright.sessions.session import Session
    from cellwright.tools.code.edit_symbol import edit_symbol_tool
    from cellwright.tools.files.apply_patch import apply_patch_tool
    from cellwright.tools.files.edit import edit_tool, multi_edit_tool
    from cellwright.tools.files.file_state import FileState
    from cellwright.tools.files.read import read_tool
    from cellwright.tools.files.write import write_tool
    from cellwright.tools.shell.bash import bash_tool

    async def wait(tool_input: dict[str, Any], ctx: cellwright.ToolContext) -> str:
        return await _tool("wait", tool_input)

    state = FileState()
    makers = (read_tool, write_tool, edit_tool, multi_edit_tool, apply_patch_tool, edit_symbol_tool)
    agent = AgentSetup(
        provider=cellwright.connect({"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "sk-ant-local-0000"}),
        model=MODEL,
        system=system_blocks(),
        tools=[
            *(make(state, folder) for make in makers),
            bash_tool(folder),
            cellwright.Tool(call=wait, read_only=True, **WAIT_TOOL),
        ]
        if tools
        else [],
        # commands are confined as in a kernel
        policy=cellwright.PermissionPolicy(
            roots=(folder,), cwd=folder, sandbox=SandboxRules(means=SandboxLookup().abilities if tools else None)
        ),
    )
    session = Session.create(folder, folder / "sessions")

    async def ask(prompt: str) -> None:
        end = await run_agent(agent, prompt, session, lambda event: None)
        assert end.ok, end.error

    return ask


SUBJECTS: dict[str, Callable[[str, Path, bool], Ask]] = {"floor": floor, "sdk": sdk, "cellwright": cellwright}


async def _timed_ask(ask: Ask, prompt: str) -> dict[str, float]:
    submitted, cpu = time.monotonic(), time.process_time()
    await ask(prompt)
    return {"submitted": submitted, "wall_s": time.monotonic() - submitted, "cpu_s": time.process_time() - cpu}


def _rss_mb() -> float:
    if sys.platform.startswith("linux"):
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


async def _run(subject: str, row: str, url: str, folder: Path) -> dict[str, Any]:
    before_rss, before_modules = _rss_mb(), len(sys.modules)
    begun, begun_cpu = time.monotonic(), time.process_time()
    ask = SUBJECTS[subject](url, folder, row not in ("stream", "warm"))
    made_cpu = time.process_time() - begun_cpu
    runs = [await _timed_ask(ask, "first")]
    if row == "warm":
        runs.append(await _timed_ask(ask, "second"))
    return {
        "begun": begun,
        "import_cpu_s": made_cpu,
        "modules": len(sys.modules) - before_modules,
        "rss_mb": _rss_mb() - before_rss,
        "runs": runs,
    }


def main() -> None:
    """Warm up as a kernel does, run, print."""
    import ipykernel.kernelapp  # noqa: F401  a kernel has imported it before anything of ours
    import IPython  # noqa: F401

    subject, row, url, folder = sys.argv[1:]
    print(json.dumps(asyncio.run(_run(subject, row, url, Path(folder)))))


if __name__ == "__main__":
    main()
