"""The sessions of all kernels of this server on one screen: what runs, waits and asks in each, watched while a page asks.

Pages are told by Jupyter's event system that something has changed, without content, and fetch the rest: whoever may
read events need not be allowed to use kernels.

A kernel's message `overview` (docs/protocol/chat.md) comes over a comm of the server's own. A kernel that has not loaded
Cellwright is left alone: it is asked for its comms on the control channel, and its connection is closed. Nothing here
keeps one from being culled.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import time
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jupyter_core.utils import ensure_async
from tornado.web import authenticated

from cellwright.server.api_error import RouteError
from cellwright.server.kernel_connection import KernelComm, KernelConnection, KernelLost, Message, settle_reply
from cellwright.server.relay import PROTOCOL, TARGET
from cellwright.server.routes.base_handler import CellwrightRoute, may_execute, may_read, may_use_kernels
from cellwright.server.runs.runs import ClientRuns

PRESENCE = "cellwright.present"
REPLY_SECONDS = 10.0

logger = logging.getLogger(__name__)

SCHEMA = Path(__file__).with_name("overview_events.yaml")
SCHEMA_ID = "urn:cellwright:events:overview:v1"

TICK_SECONDS = 2.0


class KernelWatch:
    """On the server's loop. `changed` is called when what is known of the kernel is different."""

    def __init__(self, kernels: Any, kernel_id: str, changed: Callable[[], None]) -> None:
        self.kernel_id = kernel_id
        self.overview: Mapping[str, Any] | None = None
        """The kernel's last message; None before the first."""
        self.present = False
        """True when the kernel has loaded Cellwright."""
        self._kernels = kernels
        self._changed = changed
        self._page = uuid.uuid4().hex
        self._connection: KernelConnection | None = None
        self._subshell: str | None = None
        self._comm: KernelComm | None = None
        self._looking: asyncio.Task[None] | None = None
        self._looked_at = float("-inf")
        self._activity: object = None
        self._ids = itertools.count(1)
        self._replies: dict[str, asyncio.Future[Any]] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def look(self) -> None:
        """Connect when the kernel may have loaded Cellwright since it was last asked."""
        if self._comm is not None or (self._looking is not None and not self._looking.done()):
            return
        activity = getattr(self._kernels.get_kernel(self.kernel_id), "last_activity", None)
        now = time.monotonic()
        # a kernel that lacks Cellwright and was active since is asked again after this time
        if activity == self._activity or now - self._looked_at < 3.0:
            return
        self._activity, self._looked_at = activity, now
        self._looking = asyncio.get_running_loop().create_task(self._look())

    async def settled(self, seconds: float) -> None:
        """Wait until a look that is under way is done, at most for `seconds`."""
        if self._looking is not None:
            await asyncio.wait({self._looking}, timeout=seconds)

    async def stop(self, task_id: str) -> None:
        """Stop a run, a command or an agent of the kernel. Raises RouteError."""
        request_id = f"o{next(self._ids)}"
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._replies[request_id] = reply
        request = {"type": "request", "id": request_id, "method": "stop_task", "params": {"id": task_id}}
        try:
            if self._comm is None:
                raise KernelLost
            self._comm.send_now(request)
            # without subshells the kernel takes it when its cell is done
            await asyncio.wait_for(reply, REPLY_SECONDS)
        except KernelLost as error:
            message = f"Kernel {self.kernel_id} is not connected to the overview."
            raise RouteError(409, "CONFLICT", message) from error
        except TimeoutError as error:
            message = f"Kernel {self.kernel_id} does not answer; it stops the task when its cell is done."
            raise RouteError(504, "EXECUTION_TIMEOUT", message) from error
        finally:
            del self._replies[request_id]

    async def close(self) -> None:
        """Leave the kernel; what runs there continues."""
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
        await self._disconnect()

    async def _look(self) -> None:
        try:
            await self._connect()
        except (KernelLost, OSError, TimeoutError) as error:
            logger.debug("kernel %s is not watched: %s", self.kernel_id, error)
            await self._disconnect()

    async def _connect(self) -> None:
        manager = self._kernels.get_kernel(self.kernel_id)
        self._connection = connection = KernelConnection(manager, self._published, self._lost)
        await connection.open(20.0)
        ours: Any = None
        if connection.language == "python":
            about = {"target_name": PRESENCE}
            reply = await connection.request("control", "comm_info_request", about, seconds=REPLY_SECONDS)
            ours = reply["content"].get("comms")
        if not ours:
            await self._disconnect()
            return
        self.present = True
        self._changed()
        if connection.has_subshells:
            self._subshell = await connection.create_subshell(REPLY_SECONDS)
        self._comm = KernelComm(connection, self._subshell, TARGET)
        connection.hear_only("comm-" + self._comm.comm_id, "kernel.")
        hello = {"protocol": PROTOCOL, "client": "server", "page": self._page, "view": "overview"}
        self._comm.open({**hello, "log": "", "have": {}})

    def _published(self, message: Message) -> None:
        kind, content = message["header"]["msg_type"], message["content"]
        if self._comm is not None and self._comm.concerns(message):
            whole = self._comm.take(message)
            if self._comm.closed:
                self._lost()
            elif whole is not None:
                self._on_message(whole)
        elif self._comm is not None and (
            kind == "shutdown_reply" or (kind == "status" and content.get("execution_state") == "starting")
        ):
            self._lost()

    def _on_message(self, message: Mapping[str, Any]) -> None:
        match message:
            case {"type": "overview"}:
                self.overview = {key: value for key, value in message.items() if key != "type"}
                self._changed()
            case {"type": "request", "id": str(request_id)} if self._comm is not None:
                with contextlib.suppress(KernelLost):
                    self._comm.send_now({"type": "reply", "id": request_id, "result": None})
            case {"type": "unsupported"} | {"type": "failed"}:
                self._lost()
            case {"type": "reply", "id": str(request_id)}:
                settle_reply(self._replies.get(request_id), message)

    def _lost(self) -> None:
        """The kernel was restarted, has unloaded Cellwright, or the way to it broke: it is looked for again."""
        self._comm = None
        task = asyncio.get_running_loop().create_task(self._disconnect())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        comm, self._comm = self._comm, None
        subshell, self._subshell = self._subshell, None
        was, self.present, self.overview = self.present, False, None
        if was:
            self._activity = None  # it may have Cellwright again without more activity
            self._changed()
        if connection is None:
            return
        with contextlib.suppress(KernelLost, TimeoutError):
            if comm is not None and not comm.closed:
                comm.close()
                if subshell is not None:
                    # what a subshell has not read yet goes with it: its answer to this comes after the leave-taking
                    about = {"target_name": TARGET}
                    await connection.request("shell", "comm_info_request", about, subshell, 1.0)
            if subshell is not None:
                await connection.request("control", "delete_subshell_request", {"subshell_id": subshell}, seconds=1.0)
        await connection.close()


class SessionsOverview:
    """On the server's loop. `logger` is the server's event logger; `sessions` says which notebook a kernel runs."""

    def __init__(self, kernels: Any, sessions: Any, logger: Any | None) -> None:
        self._kernels = kernels
        self._sessions = sessions
        self._logger = logger
        self._watches: dict[str, KernelWatch] = {}
        self._until = 0.0
        self._ticking: asyncio.Task[None] | None = None
        self._news: asyncio.TimerHandle | None = None
        self._revision = 0
        if logger is not None:
            logger.register_event_schema(SCHEMA)

    async def report(self) -> dict[str, Any]:
        """The kernels that have loaded Cellwright, with what runs, waits and asks in each."""
        # kernels are watched for so long after a page has asked
        self._until = time.monotonic() + 180.0
        self._look()
        if self._ticking is None or self._ticking.done():
            self._ticking = asyncio.get_running_loop().create_task(self._tick())
        # a page waits no longer for kernels that were not watched yet
        await asyncio.gather(*(watch.settled(3.0) for watch in self._watches.values()))
        listed = await ensure_async(self._sessions.list_sessions())
        notebooks = {each["kernel"]["id"]: each for each in listed if each.get("kernel")}
        rows = [self._row(watch, notebooks) for watch in self._watches.values() if watch.present]
        return {"revision": self._revision, "now": time.time(), "kernels": rows}

    async def stop(self, kernel_id: str, task_id: str) -> None:
        """Stop a run, a command or an agent of that kernel. Raises RouteError."""
        watch = self._watches.get(kernel_id)
        if watch is None or not watch.present:
            raise RouteError(404, "NOT_FOUND", f"Kernel {kernel_id} was not found, or has not loaded Cellwright.")
        await watch.stop(task_id)

    async def close(self) -> None:
        """Leave all kernels."""
        if self._ticking is not None:
            self._ticking.cancel()
        if self._news is not None:
            self._news.cancel()
        await self._leave_all()

    async def _tick(self) -> None:
        while time.monotonic() < self._until:
            await asyncio.sleep(TICK_SECONDS)
            self._look()
        await self._leave_all()

    async def _leave_all(self) -> None:
        watches, self._watches = list(self._watches.values()), {}
        await asyncio.gather(*(watch.close() for watch in watches), return_exceptions=True)

    def _look(self) -> None:
        there = list(self._kernels.list_kernel_ids())[:200]
        for kernel_id in set(self._watches) - set(there):
            watch = self._watches.pop(kernel_id)
            task = asyncio.get_running_loop().create_task(watch.close())
            task.add_done_callback(lambda _: self._changed())
        for kernel_id in there:
            if kernel_id not in self._watches:
                self._watches[kernel_id] = KernelWatch(self._kernels, kernel_id, self._changed)
            self._watches[kernel_id].look()

    def _row(self, watch: KernelWatch, notebooks: dict[str, dict[str, Any]]) -> dict[str, Any]:
        session = notebooks.get(watch.kernel_id, {})
        kernel = self._kernels.get_kernel(watch.kernel_id)
        return {
            "id": watch.kernel_id,
            "name": str(getattr(kernel, "kernel_name", "")),
            "path": str(session.get("path") or ""),
            "type": str(session.get("type") or ""),
            "session_name": str(session.get("name") or ""),
            "state": str(getattr(kernel, "execution_state", "")),
            "overview": watch.overview,
        }

    def _changed(self) -> None:
        self._revision += 1
        if self._logger is not None and self._news is None:
            logger = self._logger

            def emit() -> None:
                self._news = None
                logger.emit(schema_id=SCHEMA_ID, data={"revision": self._revision})

            # changes within this time are one event
            self._news = asyncio.get_running_loop().call_later(0.2, emit)


class OverviewRoute(CellwrightRoute):
    """`GET overview`"""

    def initialize(self, runs: ClientRuns, **settings: Any) -> None:
        super().initialize(runs)
        self.overview: SessionsOverview = settings["overview"]

    @authenticated
    @may_read
    @may_use_kernels
    async def get(self) -> None:
        self.answer(await self.overview.report())


class StopTaskRoute(CellwrightRoute):
    """`POST kernels/{id}/stop`"""

    def initialize(self, runs: ClientRuns, **settings: Any) -> None:
        super().initialize(runs)
        self.overview: SessionsOverview = settings["overview"]

    @authenticated
    @may_execute
    @may_use_kernels
    async def post(self, kernel_id: str) -> None:
        await self.overview.stop(kernel_id, self.body("StopTask")["id"])
        self.answer({})
