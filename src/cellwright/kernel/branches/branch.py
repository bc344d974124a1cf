"""The kernel's end of one branch: code goes in, outputs come out, and every wait has an end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Struct

from cellwright.kernel.branches.bounds import end_marked
from cellwright.kernel.branches.memory import Standstill, parent_of, private_memory, standstill
from cellwright.kernel.branches.messages import (
    Answered,
    Cleared,
    Done,
    Event,
    EventReader,
    Failed,
    ProtocolError,
    Shown,
    Stream,
    send,
    sent,
)
from cellwright.kernel.branches.snapshot import NoBranch, Snapshot, Taken

if TYPE_CHECKING:
    from cellwright.sandbox.private_folder import PrivateFolder

Output = dict[str, Any]

MOST_DISPLAYS = 1_000

Status = Literal["ok", "error", "interrupted", "timeout", "hung", "died", "too_much_output", "memory"]

_TICK_SECONDS = 0.1
_LOOK_SECONDS, _MEMORY_SECONDS = 0.5, 1.0

HUNG = (
    "This branch hangs in a lock: a library was used in the kernel with threads that a branch does not have (usual: "
    "polars). Run it again: your next call gets the variables that its code names by value, in a process where that works. "
    "If a variable does not go there, Python runs it in the kernel (asks the user)."
)
_ENDED = " The branch was ended with it; the next call begins with a new one."


class BranchOutputs:
    """Collects them; `on_output` gets each as it comes."""

    def __init__(self, on_output: Callable[[Output], None] | None) -> None:
        self._on_output = on_output
        self._outputs: list[Output] = []
        self._ids: list[str] = []
        self._text = self._displayed = self._displays = 0
        self._clear_before_next = False

    def add(self, event: Event) -> bool:
        """Take `event` in; False if that is more than one call may give."""
        match event:
            case Stream(name, text):
                self._text += len(text)
                self._put_text(name, text)
            case Shown():
                self._displayed += len(msgspec.json.encode([event.data, event.metadata]))
                self._displays += 1
                self._put_display(event)
            case Failed(ename, evalue, traceback):
                self._text += sum(map(len, traceback)) + len(evalue)
                error: Output = {"output_type": "error", "ename": ename, "evalue": evalue, "traceback": traceback}
                self._before_next()
                self._keep(error)
                self._report(error)
            case Cleared(wait):
                self._clear_before_next = wait
                if not wait:
                    self._clear()
                self._report({"output_type": "clear_output", "wait": wait})
            case _:
                pass
        # characters that one call prints, and bytes of its displays, pictures included
        return self._text <= 1_000_000 and self._displayed <= 32_000_000 and self._displays <= MOST_DISPLAYS

    def finished(self) -> list[Output]:
        """The outputs as a notebook keeps them."""
        return self._outputs

    def _put_text(self, name: str, text: str) -> None:
        self._before_next()
        last = self._outputs[-1] if self._outputs else {}
        if last.get("name") == name:
            last["text"] += text
        else:
            self._keep({"output_type": "stream", "name": name, "text": text})
        self._report({"output_type": "stream", "name": name, "text": text})

    def _put_display(self, shown: Shown) -> None:
        output: Output = {"output_type": "display_data", "data": shown.data, "metadata": shown.metadata}
        if shown.result:
            output |= {"output_type": "execute_result", "execution_count": None}
        told = {**output, "transient": {"display_id": shown.display_id}} if shown.display_id else output
        if not shown.update:
            self._before_next()
            self._keep(output, shown.display_id)
            self._report(told)
            return
        for index, display_id in enumerate(self._ids):
            if display_id == shown.display_id:
                self._outputs[index] = output
        self._report({**told, "output_type": "update_display_data"})

    def _keep(self, output: Output, display_id: str = "") -> None:
        self._outputs.append(output)
        self._ids.append(display_id)

    def _before_next(self) -> None:
        if self._clear_before_next:
            self._clear_before_next = False
            self._clear()

    def _clear(self) -> None:
        self._outputs.clear()
        self._ids.clear()

    def _report(self, output: Output) -> None:
        if self._on_output is not None:
            self._on_output(output)


class Patience(Struct, frozen=True):
    """Seconds. A branch hangs whose threads all wait for a lock for `hang`, and use no processor.

    `interrupt` is the time that code has to obey an interrupt of the user's or because it hangs, `timeout` the time when its
    own is over; then its branch is killed.
    """

    hang: float = 3.0
    interrupt: float = 0.4
    timeout: float = 2.0


class BranchResult(Struct, frozen=True):
    """The result of one call. `outputs`: nbformat outputs, bounded. `text`: one sentence for Claude, "" for ok and error."""

    outputs: list[dict[str, Any]]
    status: Status
    text: str
    seconds: float


class Branch:
    """One agent's copy of the kernel; its state stays between calls. For the agent's loop."""

    def __init__(
        self,
        owner: str,
        pid: int,
        channel: socket.socket,
        snapshot: Snapshot,
        folder: PrivateFolder,
        mark: int | None,
        look_at_memory: Callable[[], None],
        patience: Patience,
    ) -> None:
        self.owner = owner
        self.pid = pid
        self.began = time.time()
        self.running = False
        self._snapshot = snapshot
        self._folder = folder
        self._mark = mark
        self._look_at_memory = look_at_memory
        self._patience = patience
        self._channel = channel
        channel.setblocking(False)
        self._events = EventReader(channel)
        self._alive = True
        self._stopping: Status | None = None
        self._kill_at: float | None = None
        self._killed_at: float | None = None
        self._unfinished = False
        self._rests = False

    @property
    def taken(self) -> Taken:
        """The moment that it is a copy of."""
        return self._snapshot.taken

    @property
    def hung(self) -> bool:
        """True once a call of it hung in a lock."""
        return self._stopping == "hung"

    @property
    def alive(self) -> bool:
        """False once it has ended: the next call needs another one."""
        return self._alive

    async def ready(self, seconds: float) -> None:
        """Wait until it is confined. Raises `NoBranch`, and it is ended."""
        try:
            async with asyncio.timeout(seconds):
                event = await self._events.next()
        except (TimeoutError, ProtocolError) as error:
            await self.close()
            message = f"A branch of the kernel did not start within {seconds:g} s."
            raise NoBranch(message) from error
        problem = getattr(event, "problem", "it ended")
        if problem:
            await self.close()
            message = f"A branch of the kernel could not start: {problem}."
            raise NoBranch(message)

    async def run(
        self, code: str, *, timeout: float, on_output: Callable[[dict[str, Any]], None] | None = None
    ) -> BranchResult:
        """Run `code` as a cell, for at most `timeout` s; one call at a time. `on_output` gets each output as it comes."""
        began = time.monotonic()
        outputs = BranchOutputs(on_output)
        self.running = True
        done = await self._exchange({"code": code}, (), outputs, began + timeout)
        seconds = time.monotonic() - began
        ok = isinstance(done, Done) and done.ok
        status: Status = self._stopping or ("died" if done is None else "ok" if ok else "error")
        return BranchResult(outputs.finished(), status, await self._said(status, timeout), seconds)

    async def ask(self, function: str, arguments: object, descriptors: Sequence[int] = (), *, timeout: float) -> Any:
        """Call `function`, "module:name", with the shell, `arguments` and `descriptors` in the branch, between its calls.

        Code of Claude's may have changed what answers there: what comes back is plain data that nobody trusts. Raises
        `NoBranch` if no answer comes within `timeout` s, or the function raised.
        """
        request = {"function": function, "arguments": arguments}
        done = await self._exchange(request, descriptors, BranchOutputs(None), time.monotonic() + timeout)
        if isinstance(done, Answered) and not done.problem:
            return done.value
        if self._stopping is not None or done is None:
            raise NoBranch(await self._said(self._stopping or "died", timeout))
        raise NoBranch(done.problem if isinstance(done, Answered) else "The branch gave no answer.")

    async def _exchange(
        self, request: Mapping[str, object], descriptors: Sequence[int], outputs: BranchOutputs, deadline: float
    ) -> Done | Answered | None:
        """Send `request` and read until it is done; None if the branch is gone."""
        self.running = True
        try:
            if self._unfinished:  # a call that was cancelled is still at its end
                await self._until_done(BranchOutputs(None), time.monotonic())
            if not self._alive:
                return None
            if self._rests:
                self._signal(signal.SIGCONT)
            self._unfinished = True
            self._stopping = self._kill_at = None
            with contextlib.suppress(ConnectionError):
                if descriptors:  # few bytes, and the branch waits for them
                    send(self._channel, request, descriptors)
                else:
                    await asyncio.get_running_loop().sock_sendall(self._channel, sent(request))
            return await self._until_done(outputs, deadline)
        except asyncio.CancelledError:
            self.interrupt()
            raise
        finally:
            self.running = False

    async def _until_done(self, outputs: BranchOutputs, deadline: float) -> Done | Answered | None:
        """Read events until the code is done; None if the branch is gone."""
        next_event: asyncio.Task[Event | None] | None = None
        looks = _Looks(self.pid, self._patience.hang)
        try:
            while True:
                if next_event is None:
                    next_event = asyncio.ensure_future(self._events.next())
                await asyncio.wait({next_event}, timeout=self._seconds_to_look())
                if next_event.done():
                    event = next_event.result()
                    next_event = None
                    if event is None:
                        self._alive = False
                        return None
                    if isinstance(event, (Done, Answered)):
                        self._unfinished = False
                        return event
                    if not outputs.add(event):
                        self._kill("too_much_output")
                self._check(deadline, looks)
                # what it started may have its end of the channel, and lives on until it is found by its mark
                # for a second what a killed branch has sent is still read
                if self._killed_at is not None and time.monotonic() - self._killed_at > 1.0:
                    return None
        except ProtocolError:
            self._kill("died")
            return None
        finally:
            if next_event is not None:
                next_event.cancel()

    def _seconds_to_look(self) -> float:
        """The time until the next look at it; what is to be killed is not given a moment more."""
        if self._kill_at is None:
            return _TICK_SECONDS
        return min(max(self._kill_at - time.monotonic(), 0.001), _TICK_SECONDS)

    def _check(self, deadline: float, looks: _Looks) -> None:
        now = time.monotonic()
        if self._kill_at is not None:
            if now >= self._kill_at:
                self._kill(self._stopping or "interrupted")
        elif now > deadline:
            self._stop("timeout")
        elif looks.hangs(now):
            self._stop("hung")
        if looks.memory_is_due(now):
            self._look_at_memory()

    def interrupt(self) -> None:
        """Raise KeyboardInterrupt in the code that runs; what does not obey is killed. Does nothing if none runs."""
        if self._unfinished and self._kill_at is None:
            self._stop("interrupted")

    def _stop(self, status: Status) -> None:
        self._stopping = status
        patience = self._patience.timeout if status == "timeout" else self._patience.interrupt
        self._kill_at = time.monotonic() + patience
        self._signal(signal.SIGINT)

    def out_of_memory(self) -> None:
        """End it because memory runs short."""
        self._kill("memory")

    def _kill(self, status: Status) -> None:
        self._stopping = self._stopping or status
        self._alive = False
        if self._killed_at is None:
            self._killed_at = time.monotonic()
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        # the process that names the pid may have imported Claude's code: nobody's processes but its own are signalled
        if parent_of(self.pid) != self._snapshot.pid:
            return
        with contextlib.suppress(ProcessLookupError):
            if number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGCONT):
                with contextlib.suppress(ProcessLookupError):  # before it has a group
                    os.killpg(self.pid, number)
                    return
            os.kill(self.pid, number)

    async def rest(self) -> None:
        """Stand still until it is asked something: no code of it goes on, and what that started is ended."""
        self._rests = True
        self._signal(signal.SIGSTOP)  # first: it could start more
        if self._mark is not None:
            await asyncio.to_thread(end_marked, self._mark, self.pid)

    @property
    def rests(self) -> bool:
        """True once its code runs no more, and only its variables can be asked for."""
        return self._rests

    def memory(self) -> int:
        """Bytes that it has to itself."""
        return private_memory(self.pid)

    def is_of(self, snapshot: Snapshot | None) -> bool:
        """Return whether it was forked from `snapshot`."""
        return self._snapshot is snapshot

    async def close(self) -> None:
        """End it with all that it started, and remove its folder."""
        self._alive = False
        self._signal(signal.SIGKILL)
        with contextlib.suppress(NoBranch, TimeoutError):  # the snapshot is gone, and so is it; or a disk keeps it
            await self._reaped()
        self._channel.close()
        if self._mark is not None:  # what its code has started may have left its group
            await asyncio.to_thread(end_marked, self._mark)
        await asyncio.to_thread(self._folder.close)

    async def _reaped(self) -> int | None:
        async with asyncio.timeout(2):
            while (status := (await self._snapshot.ask({"kind": "reap", "pid": self.pid}))["status"]) is None:
                await asyncio.sleep(0.002)
        return int(status)

    async def _said(self, status: Status, timeout: float) -> str:
        ended = "" if self._alive else _ENDED
        match status:
            case "interrupted":
                return f"It was interrupted.{ended}"
            case "timeout":
                return f"It took longer than {timeout:g} s and was stopped.{ended}"
            case "hung":
                return HUNG + ended
            case "too_much_output":
                return f"It printed more than is kept of one call and was stopped.{_ENDED}"
            case "memory":
                return f"Memory ran short, and of the branches this was the youngest.{_ENDED}"
            case "died":
                return f"The copy of the kernel that ran it ended ({await self._end_of_it()}).{_ENDED}"
            case _:
                return ""

    async def _end_of_it(self) -> str:
        try:
            code = await self._reaped()
        except (NoBranch, TimeoutError):
            return "it is gone"
        if code is not None and code < 0:
            return signal.Signals(-code).name
        return f"exit code {code}"


class _Looks:
    """Looks at a branch now and then while it runs."""

    def __init__(self, pid: int, patience: float) -> None:
        self._pid = pid
        self._patience = patience
        self._next_look = time.monotonic() + _LOOK_SECONDS
        self._next_memory = time.monotonic() + _MEMORY_SECONDS
        self._still: Standstill | None = None
        self._since = 0.0

    def hangs(self, now: float) -> bool:
        """Return whether all its threads have waited for a lock for long. Also true of code that waits for an event."""
        if now < self._next_look:
            return False
        self._next_look = now + _LOOK_SECONDS
        still = standstill(self._pid)
        if still is None or still != self._still:
            self._still, self._since = still, now
            return False
        return now - self._since >= self._patience - _LOOK_SECONDS

    def memory_is_due(self, now: float) -> bool:
        if now < self._next_memory:
            return False
        self._next_memory = now + _MEMORY_SECONDS
        return True
