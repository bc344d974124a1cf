"""The server as a panel of a kernel's conversation (docs/protocol/chat.md): it asks for runs, and hears their lines.

One relay per kernel, shared by the runs that clients have asked for there. If the kernel has subshells everything
goes over one of them, so it works while a cell runs; else it waits until the kernel is idle.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import uuid
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from cellwright.server.api_error import RouteError
from cellwright.server.kernel_connection import (
    KernelComm,
    KernelConnection,
    KernelLost,
    Message,
    load_extension,
    settle_reply,
)
from cellwright.server.server_page import NotebookLink, PageOf

if TYPE_CHECKING:
    from cellwright.tools.mcp.kernel_tools import AskQuestion, CallQuestion, TellProgress

TARGET = "cellwright.chat"
PROTOCOL = 1
REPLY_SECONDS = 60.0

_RESTARTS = ("starting", "restarting", "autorestarting", "dead")

logger = logging.getLogger(__name__)


def _unanswered(method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Build a request that wants no reply."""
    return {"type": "request", "id": "", "method": method, "params": params}


class RunView(Protocol):
    """A listener to one run of the kernel."""

    @property
    def held(self) -> int:
        """The number of the kernel's lines that it has."""

    def take(self, first: int, lines: Sequence[Mapping[str, Any]]) -> bool:
        """Lines `first`, `first + 1`, …; False where some before them are missing."""

    def state_changed(self, run: Mapping[str, Any]) -> None:
        """Take in what the kernel says of the run now."""

    def fail(self, code: str, message: str) -> None:
        """Nothing more comes of it."""


class KernelRelay:
    """The conversation of the kernel `kernel_id`, which has the server's notebooks as the page of `page_of` meanwhile.

    `about_wait` is called with words for the user when it has to wait.
    """

    def __init__(self, kernels: Any, kernel_id: str, connect_seconds: float, page_of: PageOf) -> None:
        self.kernel_id = kernel_id
        self.state: Mapping[str, Any] = {}
        self.executable = ""
        self.version = ""
        self.ended = False
        """The kernel's process or the way to it is gone: a new relay is needed."""
        self._kernels = kernels
        self._connect_seconds = connect_seconds
        self._page = uuid.uuid4().hex
        self._comm: KernelComm | None = None
        self._log = ""
        self._connection: KernelConnection | None = None
        self._subshell: str | None = None
        self._runs: dict[str, RunView] = {}
        self._not_taken: set[str] = set()
        self._unclaimed_runs: dict[str, Mapping[str, Any]] = {}
        self._replies: dict[str, asyncio.Future[Any]] = {}
        self._acks: dict[asyncio.Future[None], str] = {}
        self._asking: dict[str, AskQuestion] = {}
        self._telling: dict[str, TellProgress] = {}
        self._asked: set[asyncio.Task[None]] = set()
        self._ids = itertools.count(1)
        self._welcome: asyncio.Future[Mapping[str, Any]] | None = None
        self._watch: asyncio.Task[None] | None = None
        self._reconnecting: asyncio.Task[None] | None = None
        self._notebooks = NotebookLink(page_of, kernel_id, lambda: bool(self._runs))

    @property
    def has_subshells(self) -> bool:
        return self._subshell is not None

    @property
    def _reply_seconds(self) -> float | None:
        """The time the kernel may take to answer; without a subshell as long as the cell that runs."""
        return None if self._subshell is None else REPLY_SECONDS

    # ---- the connection ----

    async def open(self, about_wait: Callable[[str], None]) -> None:
        """Connect to the kernel's conversation. Raises ApiError: what is wrong and what to do."""
        self._kernels.notify_connect(self.kernel_id)  # so that Jupyter does not cull the kernel
        for event in ("restart", "dead"):
            self._kernels.add_restart_callback(self.kernel_id, self._process_ended, event)
        try:
            await self._connect(about_wait)
        except BaseException:
            await self.close()
            raise
        self._watch = asyncio.create_task(self._watch_kernel())

    async def close(self) -> None:
        """Leave the conversation; what runs in the kernel goes on."""
        for task in (self._watch, self._reconnecting):
            if task is not None and task is not asyncio.current_task():
                task.cancel()
        if self._connection is not None:
            with contextlib.suppress(KernelLost, TimeoutError):
                await self._leave(self._connection)
            await self._disconnect(self._connection)
        if self.kernel_id in self._kernels:
            self._kernels.notify_disconnect(self.kernel_id)
            for event in ("restart", "dead"):
                self._kernels.remove_restart_callback(self.kernel_id, self._process_ended, event)

    async def _leave(self, connection: KernelConnection) -> None:
        self._notebooks.close()
        if self._comm is not None:
            self._comm.close()
        if self._subshell is not None:
            # what a subshell has not read yet goes with it: its answer to this comes after the leave-taking
            about = {"target_name": TARGET}
            # so long may a kernel that lives take to hear that the server leaves it
            seconds = 1.0 if self.ended else 5.0
            with contextlib.suppress(TimeoutError):
                await connection.request("shell", "comm_info_request", about, self._subshell, seconds)
            content = {"subshell_id": self._subshell}
            await connection.request("control", "delete_subshell_request", content, seconds=1.0)

    async def _disconnect(self, connection: KernelConnection) -> None:
        self._connection = self._comm = None
        self._notebooks.forget()
        await connection.close()

    async def _connect(self, about_wait: Callable[[str], None]) -> None:
        connection = KernelConnection(self._kernels.get_kernel(self.kernel_id), self._published, self._connection_lost)
        self._connection = connection
        try:
            await connection.open(self._connect_seconds)
        except (TimeoutError, OSError) as error:
            raise RouteError(
                504, "EXECUTION_TIMEOUT", f"Kernel {self.kernel_id} does not answer. Restart it."
            ) from error
        if connection.language != "python":
            message = (
                f"Kernel {self.kernel_id} runs {connection.language or 'no Python'}; Claude works in Python kernels."
            )
            raise RouteError(409, "EXECUTION_ERROR", message)
        self._subshell = None
        if connection.has_subshells:
            try:
                self._subshell = await connection.create_subshell(REPLY_SECONDS)
            except TimeoutError as error:
                message = f"Kernel {self.kernel_id} gives no subshell. Restart it."
                raise RouteError(504, "EXECUTION_TIMEOUT", message) from error
        self.notify_if_waiting(about_wait)

        def wait_for_cell() -> None:
            if self._subshell is not None:  # it was said before the first request that went there
                about_wait("The kernel is busy and has no Cellwright yet: waiting for its cell.")

        await load_extension(connection, self._subshell, self._reply_seconds, self.kernel_id, wait_for_cell)
        await self._open_comm(connection)
        await self._notebooks.open(connection, self._subshell)

    def notify_if_waiting(self, about_wait: Callable[[str], None]) -> None:
        """Tell `about_wait` where what is asked of the kernel now has to wait for a cell."""
        state = getattr(self._kernels.get_kernel(self.kernel_id), "execution_state", "")
        if self._subshell is None and state == "busy":
            about_wait(
                "The kernel is busy, and its ipykernel has no subshells (7.1 or newer has): waiting for its cell."
            )

    async def _open_comm(self, connection: KernelConnection) -> None:
        self._comm = KernelComm(connection, self._subshell, TARGET)
        self._welcome = asyncio.get_running_loop().create_future()
        have = {run_id: view.held for run_id, view in self._runs.items()}
        hello = {"protocol": PROTOCOL, "client": "server", "page": self._page, "view": "lines"}
        self._comm.open({**hello, "log": self._log, "have": have})
        try:
            welcome = await asyncio.wait_for(self._welcome, self._reply_seconds)
        except TimeoutError as error:
            message = f"Cellwright in kernel {self.kernel_id} does not answer. Restart the kernel."
            raise RouteError(504, "EXECUTION_TIMEOUT", message) from error
        log, self._log = self._log, str(welcome["log"])
        self.executable, self.version = str(welcome.get("executable", "")), str(welcome.get("version", ""))
        if log and log != self._log:
            self._fail_all("The kernel was restarted while Claude was working. Finished work is in the session.")

    # ---- what is asked of the kernel ----

    async def request(self, method: str, params: Mapping[str, Any]) -> Any:
        """The kernel's answer to one of the panel's requests. Raises ApiError."""
        return await self._request(method, params, self._reply_seconds)

    async def call_tool(
        self, params: Mapping[str, Any], ask: AskQuestion | None, tell: TellProgress
    ) -> Mapping[str, Any]:
        """Have a tool called in the kernel: its end, however long it takes. `ask` puts what has to be asked to the user of
        who calls, None: they cannot be asked. `tell` is told what it is at. Cancelled, it stops the call. Raises ApiError.
        """
        call = uuid.uuid4().hex
        self._telling[call] = tell
        if ask is not None:
            self._asking[call] = ask
        try:
            end: Mapping[str, Any] = await self._request(
                "call_tool", {**params, "call": call, "asks": ask is not None}, None
            )
        except asyncio.CancelledError:
            self._send(_unanswered("call_stop", {"call": call}))
            raise
        finally:
            self._asking.pop(call, None)
            del self._telling[call]
        return end

    async def _request(self, method: str, params: Mapping[str, Any], seconds: float | None) -> Any:
        request_id = f"s{next(self._ids)}"
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._replies[request_id] = reply
        try:
            await self.send({"type": "request", "id": request_id, "method": method, "params": dict(params)})
            return await asyncio.wait_for(reply, seconds)
        except TimeoutError as error:
            raise RouteError(504, "EXECUTION_TIMEOUT", f"Kernel {self.kernel_id} does not answer.") from error
        finally:
            del self._replies[request_id]

    async def answer(self, question: str, answer: Mapping[str, Any]) -> None:
        """Answer a question; returns when the kernel has taken it, or when it came too late. Raises ApiError."""
        acknowledged: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._acks[acknowledged] = question  # several clients may answer at once
        try:
            await self.send({"type": "answer", "question": question, **answer})
            await asyncio.wait_for(acknowledged, self._reply_seconds)
        except TimeoutError as error:
            raise RouteError(504, "EXECUTION_TIMEOUT", f"Kernel {self.kernel_id} did not take the answer.") from error
        finally:
            del self._acks[acknowledged]

    async def send(self, message: Mapping[str, Any]) -> None:
        """Send one of the panel's messages. Raises ApiError where the connection is lost."""
        try:
            await self._the_comm().send(message)
        except KernelLost as error:
            raise RouteError(502, "EXECUTION_ERROR", f"Kernel {self.kernel_id} is not reached.") from error

    async def follow(self, run_id: str, view: RunView) -> None:
        """Tell `view` of the kernel's run `run_id` from its first line on."""
        self._runs[run_id] = view
        if (unclaimed := self._unclaimed_runs.pop(run_id, None)) is not None:
            view.state_changed(unclaimed)
        if run_id in self._not_taken:  # they came before the reply that named the run
            self._not_taken.discard(run_id)
            await self.send({"type": "again", "run": run_id, "have": view.held})

    def leave_run(self, run_id: str) -> None:
        """Nobody follows that run any more."""
        self._runs.pop(run_id, None)

    async def refresh(self) -> None:
        """Have the kernel know what the server has now, before more is asked of it."""
        await self._notebooks.refresh()

    def _the_comm(self) -> KernelComm:
        if self._comm is None:
            raise KernelLost
        return self._comm

    # ---- what the kernel says ----

    def _published(self, message: Message) -> None:
        kind, content = message["header"]["msg_type"], message["content"]
        if self._comm is not None and self._comm.concerns(message):
            whole = self._comm.take(message)
            if self._comm.closed:
                self._comm_closed()
            elif whole is not None:
                self._on_message(whole)
        elif self._notebooks.take(message):
            return
        elif not self._log:
            return  # a kernel that has just been started says so
        elif kind == "shutdown_reply" or (kind == "status" and content.get("execution_state") in _RESTARTS):
            self._process_ended()

    def _on_message(self, message: Mapping[str, Any]) -> None:  # noqa: C901  one arm for each message
        match message:
            case {"type": "welcome"}:
                if self._welcome is not None and not self._welcome.done():
                    self._welcome.set_result(message)
            case {"type": "unsupported"}:
                install = "pip install --upgrade cellwright"
                has = f"Kernel {self.kernel_id} has Cellwright {message.get('version', '')}, which speaks another"
                text = f"{has} protocol than the server's. Upgrade both: {install}"
                self._refuse(RouteError(409, "EXTENSION_MISSING", text, {"install": install}))
            case {"type": "failed", "code": str(code), "message": str(text)}:
                self._refuse(RouteError.of_kernel(code, text, None))
            case {"type": "request", "id": str(request_id)}:  # whether the server is there
                self._send({"type": "reply", "id": request_id, "result": None})
            case {"type": "state"}:
                self.state = message
            case {"type": "run", "run": {"id": str(run_id)}}:
                self._on_run(run_id, message["run"])
            case {"type": "lines", "run": str(run_id), "first": int(first), "lines": list(lines)}:
                self._lines(run_id, first, lines)
            case {"type": "gone", "runs": list(runs)}:
                for run_id in runs:
                    if (view := self._runs.pop(run_id, None)) is not None:
                        view.fail("INTERRUPTED", "The kernel's conversation continues without this run.")
            case {"type": "ack", "question": str(question)}:
                for acknowledged, asked in self._acks.items():
                    if asked == question and not acknowledged.done():
                        acknowledged.set_result(None)
            case {"type": "call_question", "call": str(call), "text": str(text), "rules": list(rules)}:
                from cellwright.tools.mcp.kernel_tools import CallQuestion  # few servers have agents of others

                self._put(call, CallQuestion(text, tuple(map(str, rules)), ""))
            case {"type": "call_progress", "call": str(call), "message": str(words)}:
                if (tell := self._telling.get(call)) is not None:
                    tell(words)
            case {"type": "reply", "id": str(request_id)}:
                settle_reply(self._replies.get(request_id), message)

    def _put(self, call: str, question: CallQuestion) -> None:
        """Put the question of a call, and send the answer."""
        if (ask := self._asking.get(call)) is None:
            return  # it was stopped

        async def put() -> None:
            answer = "deny"
            try:
                answer = await ask(question)
            finally:
                self._send(_unanswered("call_answer", {"call": call, "answer": answer}))

        task = asyncio.create_task(put())
        self._asked.add(task)
        task.add_done_callback(self._put_ended)

    def _put_ended(self, task: asyncio.Task[None]) -> None:
        self._asked.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:  # the client left, or is at fault
            logger.warning("a question of kernel %s was not answered: %s", self.kernel_id, error)

    def _comm_closed(self) -> None:
        text = f"Cellwright in kernel {self.kernel_id} ended the connection: it was unloaded, or is older than the server's."
        self.ended = True
        self._refuse(RouteError(409, "EXTENSION_MISSING", text))
        self._fail_all(text)
        self._fail_replies(text)

    def _refuse(self, error: RouteError) -> None:
        if self._welcome is not None and not self._welcome.done():
            self._welcome.set_exception(error)

    def _on_run(self, run_id: str, run: Mapping[str, Any]) -> None:
        if (view := self._runs.get(run_id)) is not None:
            view.state_changed(run)
            return
        self._unclaimed_runs[run_id] = run  # it may be named by a reply that is on its way, or be a cell's
        if len(self._unclaimed_runs) > 50:
            del self._unclaimed_runs[next(iter(self._unclaimed_runs))]

    def _lines(self, run_id: str, first: int, lines: Sequence[Mapping[str, Any]]) -> None:
        view = self._runs.get(run_id)
        if view is None:
            self._not_taken.add(run_id)
        elif not view.take(first, lines):
            self._send({"type": "again", "run": run_id, "have": view.held})

    def _send(self, message: Mapping[str, Any]) -> None:
        """Send a small message; where the connection is lost there is nobody who waits for it."""
        with contextlib.suppress(KernelLost):
            self._the_comm().send_now(message)

    # ---- when the kernel or the way to it ends ----

    async def _watch_kernel(self) -> None:
        """Nobody tells of a kernel that was shut down from elsewhere."""
        while True:
            await asyncio.sleep(5.0)
            if self.kernel_id not in self._kernels:
                self._process_ended()
                return

    def _process_ended(self) -> None:
        self.ended = True
        self._fail_all("The kernel died or was restarted while Claude was working. Finished work is in the session.")
        self._fail_replies(f"Kernel {self.kernel_id} died or was restarted.")

    def _fail_replies(self, message: str) -> None:
        error = RouteError(502, "EXECUTION_ERROR", message)
        for waiting in (*self._replies.values(), *self._acks):
            if not waiting.done():
                waiting.set_exception(error)

    def _fail_all(self, message: str) -> None:
        views, self._runs = list(self._runs.values()), {}
        for view in views:
            view.fail("EXECUTION_ERROR", message)

    def _connection_lost(self) -> None:
        if self._reconnecting is None or self._reconnecting.done():
            self._reconnecting = asyncio.create_task(self._connect_again())

    async def _connect_again(self) -> None:
        """The network was lost, not the kernel: take up where the lines ended."""
        # so often is a broken connection (a gateway's) made anew before its runs are given up
        for attempt in range(3):
            if self._connection is not None:
                await self._disconnect(self._connection)
            await asyncio.sleep(attempt)
            try:
                await self._connect(lambda _: None)
            except (RouteError, KernelLost, OSError) as error:
                logger.warning("kernel %s is not reached again: %s", self.kernel_id, error)
            else:
                # what was asked for over the comm before is answered on that, and nobody hears it
                self._fail_replies(f"Lost the connection to kernel {self.kernel_id}; the result is unknown.")
                return
        self.ended = True
        self._fail_all("The connection to the kernel was lost. Finished work is in the session.")
        self._fail_replies(f"The connection to kernel {self.kernel_id} was lost.")


class Relays:
    """On the server's loop only. `page_of` makes the page by which a kernel has the server's notebooks; `in_use` says of a
    kernel whether a run goes on there.
    """

    def __init__(
        self, kernels: Any, connect_seconds: float, page_of: PageOf, in_use: Callable[[str], bool] = lambda _: False
    ) -> None:
        self._kernels = kernels
        self._in_use = in_use
        self._connect_seconds = connect_seconds
        self._page_of = page_of
        self._relays: dict[str, KernelRelay] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._idle: dict[str, asyncio.TimerHandle] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._held: Counter[str] = Counter()

    @contextlib.asynccontextmanager
    async def held(self, kernel_id: str) -> AsyncIterator[KernelRelay]:
        """The relay to that kernel, which is not left while the block lasts. Raises ApiError."""
        self._held[kernel_id] += 1
        try:
            yield await self.of(kernel_id, lambda _: None)
        finally:
            self._held[kernel_id] -= 1
            if not self._held[kernel_id]:
                del self._held[kernel_id]
                if not self._in_use(kernel_id) and kernel_id in self._relays:
                    self.idle(kernel_id)

    async def of(self, kernel_id: str, about_wait: Callable[[str], None]) -> KernelRelay:
        """The relay to that kernel, connected. Raises ApiError."""
        if (timer := self._idle.pop(kernel_id, None)) is not None:
            timer.cancel()
        async with self._locks.setdefault(kernel_id, asyncio.Lock()):
            relay = self._relays.get(kernel_id)
            if relay is not None and not relay.ended:
                await relay.refresh()
                return relay
            if relay is not None:
                await relay.close()
            if kernel_id not in self._kernels:
                raise RouteError(404, "NOT_FOUND", f"Kernel {kernel_id} was not found.")
            relay = KernelRelay(self._kernels, kernel_id, self._connect_seconds, self._page_of)
            try:
                await relay.open(about_wait)
            except KernelLost as error:
                message = f"Kernel {kernel_id} ended while it was connected to."
                raise RouteError(502, "EXECUTION_ERROR", message) from error
            self._relays[kernel_id] = relay
            return relay

    def kernels(self) -> list[dict[str, Any]]:
        """The kernels that the server is connected to, and what they hold."""
        return [
            {
                "id": kernel_id,
                "version": relay.version,
                "executable": relay.executable,
                "subshells": relay.has_subshells,
                "session": relay.state.get("session", {}).get("id"),
                "current": relay.state.get("current"),
            }
            for kernel_id, relay in self._relays.items()
            if not relay.ended
        ]

    def leave_run(self, kernel_id: str, kernel_run: str) -> None:
        """Nobody follows that run of the kernel any more."""
        if (relay := self._relays.get(kernel_id)) is not None:
            relay.leave_run(kernel_run)

    def idle(self, kernel_id: str) -> None:
        """No run goes on there: leave the kernel after a while."""
        if (timer := self._idle.pop(kernel_id, None)) is not None:
            timer.cancel()
        # a connection is kept so long after the last run: the next prompt need not connect
        self._idle[kernel_id] = asyncio.get_running_loop().call_later(30.0, self._leave, kernel_id)

    def _leave(self, kernel_id: str) -> None:
        self._idle.pop(kernel_id, None)
        if self._held[kernel_id]:
            return  # who holds it says so when it is done
        task = asyncio.ensure_future(self.drop(kernel_id))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def drop(self, kernel_id: str) -> None:
        """Leave that kernel now."""
        async with self._locks.setdefault(kernel_id, asyncio.Lock()):
            if (relay := self._relays.pop(kernel_id, None)) is not None:
                await relay.close()
        self._locks.pop(kernel_id, None)

    async def close(self) -> None:
        """Leave all kernels."""
        for timer in self._idle.values():
            timer.cancel()
        await asyncio.gather(*(self.drop(kernel_id) for kernel_id in list(self._relays)))
