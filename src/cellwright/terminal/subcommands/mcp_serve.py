"""`cellwright mcp serve`: our file, notebook and kernel tools for other agents, over stdio."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import itertools
import os
import queue
import secrets
import signal
import sys
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cellwright.agent.calls.tool_names import access_of
from cellwright.config.settings.settings_files import start_folder
from cellwright.conversation.core import Host
from cellwright.conversation.message_chunks import JoinedMessages, pieces
from cellwright.conversation.runs.run_options import RunOptions, existing_folder
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.events import ToolEnd
from cellwright.features.conversation import Conversation
from cellwright.permissions.modes import LISTED_MODES
from cellwright.permissions.policy import chosen_names
from cellwright.terminal.arguments import split_rules
from cellwright.terminal.exit_codes import ExitCode
from cellwright.this_process.late_imports import importing
from cellwright.tools.mcp.installed_extras import extra_problem
from cellwright.tools.mcp.kernel_tools import (
    KERNEL_TOOLS,
    MAY_BE_SERVED,
    SERVED_TOOLS,
    AskQuestion,
    CallQuestion,
    KernelTool,
    TellProgress,
    kernel_tools,
)
from cellwright.tools.mcp.mcp_server import make_server
from cellwright.tools.process.runner import child_environment

if TYPE_CHECKING:
    from jupyter_client.asynchronous.client import AsyncKernelClient
    from jupyter_client.manager import AsyncKernelManager


MAX_KERNELS = 8
START_SECONDS = 60.0
MAX_STARTS = 3
"""A kernel that ends before it answers is started anew: another process may have taken a port that was chosen for it."""
TARGET = "cellwright.chat"

_LOAD = "%load_ext cellwright\n__import__('sys').path.insert(0, '')"
"""From then on code imports the folder's modules, as in any kernel."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what `serve` takes."""
    parser.add_argument(
        "--tools",
        metavar="NAMES",
        action="append",
        default=[],
        help=f"the tools to offer, with commas: of {', '.join(_names(MAY_BE_SERVED))}, or groups of them such as @search "
        f"(default: {', '.join((*SERVED_TOOLS, *KERNEL_TOOLS))})",
    )
    parser.add_argument(
        "--permission-mode",
        metavar="MODE",
        default=None,
        choices=LISTED_MODES,
        help=f"what is asked for, allowed or denied where no rule says: {', '.join(LISTED_MODES)}",
    )
    parser.add_argument("--allowed-tools", metavar="RULES", action="append", default=[], help="allow without asking")
    parser.add_argument("--disallowed-tools", metavar="RULES", action="append", default=[], help="deny")
    parser.add_argument("--add-dir", metavar="FOLDER", action="append", default=[], help="a folder to work in besides")


def serve(options: argparse.Namespace) -> int:
    """Serve stdio until the client ends it. Raises CellwrightError for what is wrong with the options or the folder."""
    if problem := extra_problem("mcp"):
        raise CellwrightError(ErrorCode.CONFIG_INVALID, problem)
    given = tuple(name.strip() for given in options.tools for name in given.split(",") if name.strip())
    there = _names(MAY_BE_SERVED)
    # of a group those are meant that can be served
    chosen = [name for name in chosen_names(given) if name in there] if given else _names(SERVED_TOOLS)
    if unknown := [name for name in given if not set(chosen_names([name])).intersection(there)]:
        message = f"{', '.join(unknown)} cannot be served. There are: {', '.join(there)}."
        raise CellwrightError(ErrorCode.TOOL_NOT_FOUND, message)
    run_options = RunOptions(
        builtin_tools=False,
        tool_names=tuple(name for name in chosen if name not in KERNEL_TOOLS),
        mode=options.permission_mode,
        allow=split_rules(options.allowed_tools),
        deny=split_rules(options.disallowed_tools),
        add_dirs=tuple(existing_folder(folder) for folder in options.add_dir),
    )
    # Python's own way would wait for the thread that reads stdin; changes of files stand a sudden end
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    asyncio.run(_serve(run_options, [name for name in chosen if name in KERNEL_TOOLS]))
    return ExitCode.OK


def _names(choices: Sequence[str]) -> list[str]:
    """The names of the tools that `choices` and the kernel's tools are."""
    return list(dict.fromkeys((*chosen_names(choices), *KERNEL_TOOLS)))


async def _serve(options: RunOptions, kernel_tool_names: Sequence[str]) -> None:
    with importing:
        from mcp.server.stdio import stdio_server  # takes a second

    cwd = start_folder(os.environ)
    conversation = Conversation(Host(cwd=cwd, interface="an MCP client"))
    try:
        calls = conversation.served_calls(options, lambda text: print(text, file=sys.stderr, flush=True))
        names = [name for name in kernel_tool_names if calls.allows(name)]
        kernel_options = {
            "mode": options.mode,
            "allow": list(options.allow),
            "deny": list(options.deny),
            "add_dirs": [str(folder) for folder in options.add_dirs],
        }
        kernels = OwnKernels(cwd, conversation.in_force.environment, kernel_options, names)
        server = make_server(calls, cwd, kernels)
        try:
            async with stdio_server() as (read, write):
                await server.run(read, write, server.create_initialization_options())
        finally:
            await kernels.close()
        calls.close()
    finally:
        conversation.close()


class KernelFailed(Exception):
    """A kernel did not start, or ended; the message is for who called."""


class OwnKernels:
    """A `KernelCaller` with kernels in `folder`. `options` are those of the calls, as docs/protocol/chat.md has them."""

    def __init__(
        self, folder: Path, environ: Mapping[str, str], options: Mapping[str, Any], names: Sequence[str]
    ) -> None:
        self.tools: Sequence[KernelTool] = kernel_tools(names, by_id=False)
        self._folder = folder
        self._environ = environ
        self._options = options
        self._kernels: dict[Path | None, _OwnKernel] = {}
        self._agent = secrets.token_hex(16)

    async def call(
        self, name: str, tool_input: Mapping[str, Any], ask: AskQuestion | None, tell: TellProgress
    ) -> ToolEnd | None:
        if name not in KERNEL_TOOLS:
            return None  # what is about a notebook's file is done there
        said, rest = tool_input.get("notebook_path"), {k: v for k, v in tool_input.items() if k != "notebook_path"}
        is_path = isinstance(said, str) and "\0" not in said
        notebook = Path(os.path.realpath(self._folder / str(said))) if is_path else None
        if notebook is not None and not notebook.is_file():
            return ToolEnd("", name, "error", f"Notebook {tool_input['notebook_path']} was not found.", 0.0)
        if access_of(name).kind == "cells":
            if notebook is None:
                return ToolEnd("", name, "error", "Say which notebook is meant (notebook_path).", 0.0)
            rest["notebook_path"] = str(notebook)
        path = None if notebook is None else str(notebook)
        params = {"agent": self._agent, "name": name, "input": rest, "notebook": path, "options": self._options}
        try:
            end = await self._kernel(notebook).call(params, ask, tell)
        except KernelFailed as failed:
            return ToolEnd("", name, "error", str(failed), 0.0)
        return ToolEnd("", name, end["status"], end["content"], 0.0, structured=end.get("structured"))

    async def close(self) -> None:
        """End all of them."""
        await asyncio.gather(*(kernel.close() for kernel in self._kernels.values()))

    def _kernel(self, notebook: Path | None) -> _OwnKernel:
        """The kernel of that notebook. Raises KernelFailed."""
        self._kernels = {of: kernel for of, kernel in self._kernels.items() if not kernel.ended}
        if notebook not in self._kernels:
            if len(self._kernels) >= MAX_KERNELS:
                running = ", ".join(path.name for path in self._kernels if path is not None)
                raise KernelFailed(f"{MAX_KERNELS} kernels are there already, of {running}. Go on in one of these.")
            self._kernels[notebook] = _OwnKernel(self._folder, self._environ)
        return self._kernels[notebook]


class _OwnKernel:
    """One kernel, from its first call on; its calls are made one after another."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self.ended = False
        self._folder = folder
        self._environ = environ
        self._one_at_a_time = asyncio.Lock()
        self._manager: AsyncKernelManager | None = None
        self._client: AsyncKernelClient | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._questions: set[asyncio.Task[None]] = set()
        self._comm = uuid.uuid4().hex
        self._joined = JoinedMessages()
        self._ids = itertools.count(1)
        self._published = asyncio.Event()
        self._replies: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._ask: AskQuestion | None = None
        self._tell: TellProgress | None = None

    async def call(self, params: Mapping[str, Any], ask: AskQuestion | None, tell: TellProgress) -> dict[str, Any]:
        """The end of the call. Cancelled, it interrupts what runs. Raises KernelFailed."""
        async with self._one_at_a_time:
            if self.ended:
                raise KernelFailed("The kernel has ended. Call again: a new one is started.")
            if self._client is None:
                try:
                    await self._start()
                except BaseException:
                    await self.close()
                    raise
            self._ask, self._tell = ask, tell
            call = uuid.uuid4().hex
            request = asyncio.ensure_future(
                self._request("call_tool", {**params, "call": call, "asks": ask is not None})
            )
            try:
                return await asyncio.shield(request)
            except asyncio.CancelledError:
                await asyncio.shield(self._interrupt(call, request))
                raise
            finally:
                self._ask = self._tell = None

    async def close(self) -> None:
        """End the kernel."""
        self.ended = True
        self._fail("The kernel was ended.")
        for task in (*self._tasks, *self._questions):
            task.cancel()
        await asyncio.gather(*self._tasks, *self._questions, return_exceptions=True)
        if self._client is not None:
            self._client.stop_channels()
        if self._manager is not None and self._manager.has_kernel:
            await self._manager.shutdown_kernel(now=True)

    async def _start(self) -> None:
        try:
            async with asyncio.timeout(START_SECONDS):
                for _ in range(MAX_STARTS):
                    manager, client = await self._launch()
                    reading = asyncio.create_task(self._read(client))
                    self._tasks = [reading]
                    if await self._answers(manager, client):
                        break
                    reading.cancel()
                    await asyncio.wait({reading})
                    client.stop_channels()
                    await manager.shutdown_kernel(now=True)
                else:
                    raise KernelFailed(f"The kernel ended {MAX_STARTS} times before it answered.")
                self._tasks.append(asyncio.create_task(self._watch(manager)))
                await self._connect(client)
        except TimeoutError as error:
            raise KernelFailed(f"The kernel did not start within {START_SECONDS:g} s.") from error

    async def _launch(self) -> tuple[AsyncKernelManager, AsyncKernelClient]:
        with importing:
            from jupyter_client.manager import AsyncKernelManager  # many servers never need one

        manager = self._manager = AsyncKernelManager()
        assert manager.kernel_spec is not None, "ipykernel brings the kernelspec python3"
        # this very interpreter: the kernelspec named python3 may be another environment's; -P: looking at variables needs
        # no question, so a kernel that starts must run no module that the folder brings along
        manager.kernel_spec.argv[:] = [
            *(sys.executable, "-P", "-m", "ipykernel_launcher", "-f", "{connection_file}", "--log-level=CRITICAL")
        ]
        own = {name: value for name, value in self._environ.items() if name.startswith("CELLWRIGHT_")}
        # where stdin and stdout are the client's, a kernel may have neither
        streams = dict.fromkeys(("stdin", "stdout", "stderr"), asyncio.subprocess.DEVNULL)
        await manager.start_kernel(cwd=str(self._folder), env={**child_environment(self._environ), **own}, **streams)
        client = self._client = manager.client()
        client.start_channels(stdin=False, hb=False)
        return manager, client

    async def _answers(self, manager: AsyncKernelManager, client: AsyncKernelClient) -> bool:
        """Wait until the kernel publishes something, or has ended: what is published before somebody listens is lost."""
        while not self._published.is_set():
            if not await manager.is_alive():
                return False
            client.kernel_info()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._published.wait(), 1.0)
        return True

    async def _connect(self, client: AsyncKernelClient) -> None:
        loading = client.execute(_LOAD, silent=True, store_history=False)
        while (reply := await client.get_shell_msg(timeout=None))["parent_header"].get("msg_id") != loading:
            pass  # the answers to what was asked before
        if reply["content"]["status"] != "ok":
            raise KernelFailed(f"The kernel cannot load cellwright: {reply['content'].get('evalue', '')}")
        welcome = self._replies["welcome"] = asyncio.get_running_loop().create_future()
        hello = {"protocol": 1, "client": "server", "page": self._comm, "view": "lines", "log": "", "have": {}}
        self._say("comm_open", {"target_name": TARGET, "data": hello})
        await welcome

    async def _request(self, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
        request_id = f"s{next(self._ids)}"
        reply: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._replies[request_id] = reply
        try:
            await self._send({"type": "request", "id": request_id, "method": method, "params": dict(params)})
            return await reply
        finally:
            del self._replies[request_id]

    async def _interrupt(self, call: str, request: asyncio.Future[dict[str, Any]]) -> None:
        """Have the call end: what is not yet running by a message, its code by signals."""
        await self._send({"type": "request", "id": "", "method": "call_stop", "params": {"call": call}})
        for _ in range(40):  # one that comes before the code has begun is ignored, and code may go on after one
            if self._manager is None or not self._manager.has_kernel:
                break
            await self._manager.interrupt_kernel()
            if (await asyncio.wait({request}, timeout=0.25))[0]:
                break
        request.cancel()
        await asyncio.wait({request})

    async def _send(self, message: Mapping[str, Any]) -> None:
        for piece in pieces(message):
            self._say("comm_msg", {"data": dict(piece.message)})

    def _say(self, kind: str, content: Mapping[str, Any]) -> None:
        if self._client is not None:
            message = self._client.session.msg(kind, content={"comm_id": self._comm, **content})
            self._client.shell_channel.send(message)

    async def _read(self, client: AsyncKernelClient) -> None:
        while True:
            try:
                message = await client.get_iopub_msg(timeout=None)
            except (queue.Empty, ValueError):
                continue
            self._published.set()
            content = message["content"]
            if content.get("comm_id") != self._comm:
                continue
            if message["msg_type"] == "comm_close":
                self._fail("Cellwright in the kernel ended the connection: it is another version than this one.")
            elif (whole := self._joined.add(content.get("data"))) is not None:
                self._take(whole)

    def _take(self, message: Mapping[str, Any]) -> None:
        match message:
            case {"type": "welcome"}:
                self._settle("welcome", {})
            case {"type": "failed" | "unsupported"}:
                self._fail(str(message.get("message", "The kernel has another version of Cellwright than this one.")))
            case {"type": "call_question", "call": str(call), "text": str(text), "rules": list(rules)}:
                task = asyncio.create_task(self._put(call, CallQuestion(text, tuple(map(str, rules)), "")))
                self._questions.add(task)
                task.add_done_callback(self._questions.discard)
            case {"type": "call_progress", "message": str(words)}:
                if self._tell is not None:
                    self._tell(words)
            case {"type": "reply", "id": str(request_id), "error": dict(error)}:
                if (reply := self._replies.get(request_id)) is not None and not reply.done():
                    reply.set_exception(KernelFailed(str(error.get("message", ""))))
            case {"type": "reply", "id": str(request_id), "result": dict(result)}:
                self._settle(request_id, result)
            case {"type": "request", "id": str(request_id)}:  # whether somebody is there
                task = asyncio.create_task(self._send({"type": "reply", "id": request_id, "result": None}))
                self._questions.add(task)
                task.add_done_callback(self._questions.discard)

    async def _put(self, call: str, question: CallQuestion) -> None:
        answer = "deny"
        try:
            if self._ask is not None:
                answer = await self._ask(question)
        finally:
            params = {"call": call, "answer": answer}
            await self._send({"type": "request", "id": "", "method": "call_answer", "params": params})

    def _settle(self, name: str, result: dict[str, Any]) -> None:
        if (reply := self._replies.get(name)) is not None and not reply.done():
            reply.set_result(result)

    async def _watch(self, manager: AsyncKernelManager) -> None:
        """Nobody tells of a kernel that died."""
        while await manager.is_alive():
            await asyncio.sleep(1.0)
        self.ended = True
        self._fail("The kernel died. Its variables are lost; the next call starts a new one.")

    def _fail(self, message: str) -> None:
        for reply in self._replies.values():
            if not reply.done():
                reply.set_exception(KernelFailed(message))
