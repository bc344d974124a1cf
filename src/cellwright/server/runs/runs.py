"""All runs that clients have asked for: begun in a kernel, found again by their id, forgotten some time after their end.

`OwnKernels` are those that were started for runs: shut down when their run is over, or, where the client keeps them,
when they idle. `RunLimits` bounds what clients ask of the server: runs and other requests, at once and in a minute.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from jupyter_core.utils import ensure_async
from msgspec import Struct, field

from cellwright.errors import log_fault
from cellwright.server.api_error import RouteError
from cellwright.server.kernel_connection import KernelLost
from cellwright.server.relay import Relays
from cellwright.server.runs.run import ClientRun, RunPlace
from cellwright.server.server_page import PageOf

logger = logging.getLogger(__name__)


MINUTE = 60.0
BUSY_SECONDS = 5
"""When a client that met too many runs may ask again: nobody knows when one of them ends."""

SCHEMA = Path(__file__).with_name("run_events.yaml")
SCHEMA_ID = "urn:cellwright:events:run:v1"


class OwnKernels:
    """They are the server's kernels like all others, so its REST interface and its culler know them too.

    `in_use(kernel_id)` says whether a run goes on there.
    """

    def __init__(
        self,
        kernels: Any,
        most: int,
        idle_seconds: float,
        in_use: Callable[[str], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._kernels = kernels
        self._most = most
        self._idle_seconds = idle_seconds
        self._in_use = in_use
        self._clock = clock
        self._used: dict[str, float] = {}
        self._starting = 0
        self._culling: asyncio.Task[None] | None = None
        self._ending: dict[str, asyncio.Future[Any]] = {}

    def __contains__(self, kernel_id: str) -> bool:
        return kernel_id in self._used

    async def start(self, folder: str, name: str | None) -> str:
        """Start a kernel in `folder`, a path below the server's root; its id. Raises ApiError."""
        self._forget_gone()
        if len(self._used) + self._starting >= self._most:
            message = f"{self._most} kernels of runs are there already. Name one of them, or shut one down."
            raise RouteError(429, "RATE_LIMIT_EXCEEDED", message, retry_after=30)
        self._starting += 1
        try:
            kernel_id: str = await ensure_async(self._kernels.start_kernel(path=folder, kernel_name=name))
        except Exception as error:  # a kernelspec's program, a provisioner, a gateway: each has errors of its own
            raise RouteError(502, "EXECUTION_ERROR", f"No kernel could be started: {error}") from error
        finally:
            self._starting -= 1
        self._used[kernel_id] = self._clock()
        if self._culling is None:
            self._culling = asyncio.create_task(self._cull())
        return kernel_id

    def used(self, kernel_id: str) -> None:
        """A run has just ended there."""
        if kernel_id in self._used:
            self._used[kernel_id] = self._clock()

    async def shut_down(self, kernel_id: str) -> None:
        """End a kernel that was started for a run. Who is cancelled meanwhile leaves it to end all the same."""
        self._used.pop(kernel_id, None)
        if kernel_id in self._kernels and kernel_id not in self._ending:
            ending = asyncio.ensure_future(ensure_async(self._kernels.shutdown_kernel(kernel_id)))
            self._ending[kernel_id] = ending
            ending.add_done_callback(lambda _: self._ending.pop(kernel_id, None))
            await asyncio.shield(ending)

    async def close(self) -> None:
        """Stop looking after them; the server shuts all of its kernels down."""
        if self._culling is not None:
            self._culling.cancel()
        if self._ending:  # to end a kernel that is being ended is an error of Jupyter's, and its server would not stop
            # so long, when the server ends, is a kernel waited for that is being shut down
            await asyncio.wait(self._ending.values(), timeout=20.0)

    async def _cull(self) -> None:
        while True:
            await asyncio.sleep(max(self._idle_seconds / 4, 0.05))
            self._forget_gone()
            for kernel_id, used in list(self._used.items()):
                if not self._in_use(kernel_id) and self._clock() - used > self._idle_seconds:
                    logger.info("kernel %s was started for a run and idles: shut down", kernel_id)
                    await self.shut_down(kernel_id)

    def _forget_gone(self) -> None:
        for kernel_id in [each for each in self._used if each not in self._kernels]:
            del self._used[kernel_id]


def server_root(root: str) -> Path:
    """The server's root on disk. In its settings Jupyter Server writes a root below the home folder with `~`."""
    return Path(root).expanduser().resolve()


def folder_below(root: str, folder: str) -> Path:
    """The folder on disk that the path `folder` (with `/`) below the server's root means. Raises ApiError.

    A link that leads out of the root is refused like `..`: what is outside is not served.
    """
    base = server_root(root)
    if "\0" in folder:
        raise RouteError(400, "FILE_PATH_INVALID", "A folder's name holds no NUL character.")
    try:
        found = (base / folder.strip("/")).resolve()
        is_folder = found.is_dir()
    except (OSError, RuntimeError, ValueError):
        is_folder = False
    if not is_folder:
        raise RouteError(404, "FILE_NOT_FOUND", f"Folder {folder!r} was not found below the server's root.")
    if not found.is_relative_to(base):
        raise RouteError(403, "FILE_ACCESS_ERROR", f"{folder!r} leads out of the server's root.")
    return found


class RunLimits(Struct, frozen=True, kw_only=True):
    """As `c.CellwrightApp` says; sizes in bytes, times in seconds."""

    max_runs: int
    max_runs_per_user: int
    runs_per_minute: int
    max_own_kernels: int
    max_request_bytes: int
    max_event_bytes: int
    finished_run_seconds: float
    max_finished_runs: int
    own_kernel_idle_seconds: float
    kernel_connect_seconds: float
    heartbeat_seconds: float


class RunsAtOnce:
    """A count of runs by owner. A place is taken before any kernel is asked, and given back at the run's end."""

    def __init__(self, limits: RunLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._clock = clock
        self._running: dict[str, int] = {}
        self._begun: dict[str, deque[float]] = {}

    @property
    def running(self) -> int:
        return sum(self._running.values())

    def take(self, owner: str) -> None:
        """Take a place for a run of `owner`. Raises ApiError 429."""
        limits = self._limits
        if self.running >= limits.max_runs:
            raise _too_many(
                f"The server runs {limits.max_runs} prompts at once, and as many are running.", BUSY_SECONDS
            )
        if self._running.get(owner, 0) >= limits.max_runs_per_user:
            raise _too_many(f"You may run {limits.max_runs_per_user} prompts at once. Stop one, or wait.", BUSY_SECONDS)
        now = self._clock()
        begun = self._begun.setdefault(owner, deque())
        while begun and now - begun[0] >= MINUTE:
            begun.popleft()
        if len(begun) >= limits.runs_per_minute:
            wait = math.ceil(MINUTE - (now - begun[0]))
            raise _too_many(f"You may begin {limits.runs_per_minute} runs a minute.", wait)
        begun.append(now)
        self._running[owner] = self._running.get(owner, 0) + 1

    def give_back(self, owner: str) -> None:
        """The run of `owner` is over."""
        self._running[owner] -= 1
        if not self._running[owner]:
            del self._running[owner]


class RequestsAtOnce:
    """A count of requests by owner: so many at once, so many a minute."""

    def __init__(self, most: int, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._per_minute = per_minute
        self._clock = clock
        self._going_on: dict[str, int] = {}
        self._begun: dict[str, deque[float]] = {}

    @contextlib.contextmanager
    def taken(self, owner: str) -> Iterator[None]:
        """A request of `owner` goes on while the block lasts. Raises ApiError 429."""
        if self._going_on.get(owner, 0) >= self._most:
            raise _too_many(f"{self._most} of your requests are running. Wait until one has ended.", BUSY_SECONDS)
        now = self._clock()
        begun = self._begun.setdefault(owner, deque())
        while begun and now - begun[0] >= MINUTE:
            begun.popleft()
        if len(begun) >= self._per_minute:
            wait = math.ceil(MINUTE - (now - begun[0]))
            raise _too_many(f"You may send {self._per_minute} requests a minute.", wait)
        begun.append(now)
        self._going_on[owner] = self._going_on.get(owner, 0) + 1
        try:
            yield
        finally:
            self._going_on[owner] -= 1
            if not self._going_on[owner]:
                del self._going_on[owner]


def _too_many(message: str, wait: int) -> RouteError:
    return RouteError(429, "RATE_LIMIT_EXCEEDED", message, {"retry_after_seconds": wait}, retry_after=wait)


class RunReports:
    """Reports to `logger`, the server's event logger; to nobody where it is None."""

    def __init__(self, logger: Any | None) -> None:
        self._logger = logger
        self._begun: dict[str, float] = {}
        if logger is not None:
            logger.register_event_schema(SCHEMA)

    def started(self, run: ClientRun) -> None:
        self._begun[run.id] = time.monotonic()
        self._emit({"action": "started", "run": run.id, "own_kernel": run.place.own_kernel})

    def ended(self, run: ClientRun) -> None:
        seconds = time.monotonic() - self._begun.pop(run.id)
        metadata = run.metadata
        report = {
            "action": "ended",
            "run": run.id,
            "own_kernel": run.place.own_kernel,
            "stop_reason": str(metadata.get("stop_reason") or ""),
            "duration_ms": round(seconds * 1000),
            "tools": int(metadata.get("tools_executed") or 0),
            "tools_failed": int(metadata.get("tools_failed") or 0),
            "requests": int(metadata.get("total_api_calls") or 0),
            "tokens": int(metadata.get("total_tokens_used") or 0),
            "cost_usd": metadata.get("cost_usd"),
        }
        self._emit(report)

    def _emit(self, data: dict[str, Any]) -> None:
        if self._logger is not None:
            self._logger.emit(schema_id=SCHEMA_ID, data=data)


class ClientRunRequest(Struct, frozen=True, kw_only=True):
    """A client's request for a run, as `openapi.json` describes it. `kernel_id` is empty for a kernel of its own."""

    prompt: str
    kernel_id: str = ""
    folder: str = ""
    kernel_name: str | None = None
    keep: bool = False
    session: str | None = None
    context: str = "auto"
    attachments: tuple[Mapping[str, Any], ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    cancel_on_disconnect: bool = False

    def prompt_params(self) -> dict[str, Any]:
        """The params of the kernel's `prompt`."""
        return {
            "text": self.prompt,
            "attachments": [dict(attachment) for attachment in self.attachments],
            "context": self.context,
            "cell": None,
            "options": dict(self.options),
        }


class ClientRuns:
    """On the server's loop only. `page_of` makes the page by which a kernel has the server's notebooks."""

    def __init__(self, kernels: Any, limits: RunLimits, reports: RunReports, page_of: PageOf) -> None:
        self.limits = limits
        self.relays = Relays(kernels, limits.kernel_connect_seconds, page_of, self.in_use)
        self.own_kernels = OwnKernels(kernels, limits.max_own_kernels, limits.own_kernel_idle_seconds, self.in_use)
        self._kernels = kernels
        self._reports = reports
        self._at_once = RunsAtOnce(limits)
        self._runs: dict[str, ClientRun] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def running(self) -> int:
        return self._at_once.running

    def in_use(self, kernel_id: str) -> bool:
        """Return whether one of these runs goes on in that kernel."""
        return any(run.place.kernel_id == kernel_id and not run.finished for run in self._runs.values())

    def find(self, run_id: str, owner: str) -> ClientRun:
        """The run of that id that `owner` began. Raises ApiError 404."""
        run = self._runs.get(run_id)
        if run is None or run.place.owner != owner:
            raise RouteError(404, "NOT_FOUND", f"Run {run_id} was not found; it may have ended too long ago.")
        return run

    async def start(self, request: ClientRunRequest, owner: str) -> ClientRun:
        """Begin a run. Returns when the kernel has it, or when it has to wait for its kernel. Raises ApiError."""
        if request.kernel_id and request.kernel_id not in self._kernels:
            raise RouteError(404, "NOT_FOUND", f"Kernel {request.kernel_id} was not found.")
        self._at_once.take(owner)
        try:
            kernel_id = request.kernel_id or await self.own_kernels.start(request.folder, request.kernel_name)
        except BaseException:
            self._at_once.give_back(owner)
            raise
        place = RunPlace(
            kernel_id=kernel_id,
            owner=owner,
            own_kernel=not request.kernel_id and not request.keep,
            cancel_on_disconnect=request.cancel_on_disconnect,
        )
        run = ClientRun(uuid.uuid4().hex, place, self.limits.max_event_bytes, self._on_finished)
        self._runs[run.id] = run
        self._reports.started(run)
        return await self._started(run, request)

    async def _started(self, run: ClientRun, request: ClientRunRequest) -> ClientRun:
        beginning = asyncio.create_task(self._begin(run, request))
        self._tasks.add(beginning)
        beginning.add_done_callback(self._tasks.discard)
        waits = asyncio.ensure_future(run.must_wait.wait())
        # a client waits a little longer than connecting may take for more than the news that its run waits
        seconds = self.limits.kernel_connect_seconds + 5.0
        done, _ = await asyncio.wait({beginning, waits}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        waits.cancel()
        if not done:
            run.wait(f"Kernel {run.place.kernel_id} has not taken the prompt yet; it may be busy.")
        if run.refused is not None:
            self._runs.pop(run.id, None)
            raise run.refused
        return run

    async def _begin(self, run: ClientRun, request: ClientRunRequest) -> None:
        try:
            relay = await self.relays.of(run.place.kernel_id, run.wait)
            relay.notify_if_waiting(run.wait)
            if request.session is not None and not run.finished:
                await relay.request("session_resume", {"id": request.session})
            if run.finished:  # it was stopped while it waited for its kernel
                return
            reply = await relay.request("prompt", request.prompt_params())
            if run.finished:
                await relay.send({"type": "stop", "run": str(reply["run"])})
                return
            run.begin(str(reply["run"]))
            await relay.follow(run.kernel_run, run)
        except RouteError as error:
            run.refuse(error)
        except KernelLost:
            run.refuse(RouteError(502, "EXECUTION_ERROR", f"Kernel {run.place.kernel_id} ended."))
        except Exception as error:  # noqa: BLE001  the run's place must be given back, whatever went wrong
            log_fault(logger, "run %s could not begin", run.id)
            run.refuse(RouteError(500, "EXECUTION_ERROR", f"{type(error).__name__}: {error}"))

    async def stop(self, run: ClientRun) -> None:
        """Interrupt a run, or take it out of the line. Raises ApiError."""
        if run.finished:
            return
        if run.kernel_run:
            relay = await self.relays.of(run.place.kernel_id, run.wait)
            await relay.send({"type": "stop", "run": run.kernel_run})
        else:
            run.interrupt()

    def reader_left(self, run: ClientRun) -> None:
        """A client that read the run's events has gone."""
        if run.place.cancel_on_disconnect and not run.readers and not run.finished:
            self._in_background(self.stop(run))

    async def close(self) -> None:
        """The server ends."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.relays.close()
        await self.own_kernels.close()

    def _on_finished(self, run: ClientRun) -> None:
        self._at_once.give_back(run.place.owner)
        self._reports.ended(run)
        kernel_id = run.place.kernel_id
        if run.kernel_run:
            self.relays.leave_run(kernel_id, run.kernel_run)
        self.own_kernels.used(kernel_id)
        if run.place.own_kernel:
            self._in_background(self._end_own_kernel(kernel_id))
        elif not self.in_use(kernel_id):
            self.relays.idle(kernel_id)
        asyncio.get_running_loop().call_later(self.limits.finished_run_seconds, self._runs.pop, run.id, None)
        finished = [each for each in self._runs.values() if each.finished]
        for oldest in finished[: max(0, len(finished) - self.limits.max_finished_runs)]:
            del self._runs[oldest.id]

    async def _end_own_kernel(self, kernel_id: str) -> None:
        await self.relays.drop(kernel_id)
        await self.own_kernels.shut_down(kernel_id)

    def _in_background(self, work: Any) -> None:
        task = asyncio.ensure_future(_logged(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _logged(work: Any) -> None:
    try:
        await work
    except RouteError as error:
        logger.warning("%s", error.message)
    except Exception:  # noqa: BLE001  nobody awaits it
        log_fault(logger, "work after a run failed")
