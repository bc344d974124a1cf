"""The undo of a turn's variables: compared with a copy of the kernel from before the turn, and brought back from it.

Only names that Claude's code of the turn reads or writes are looked at, and those that share parts with them.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec
from msgspec import Struct

from cellwright.conversation.kernel_copies import STAY, VariableChange, VariablesPlan
from cellwright.kernel.branches.memory import PagesSince
from cellwright.kernel.branches.snapshot import NoBranch, control_pair
from cellwright.kernel.branches.undo_values import (
    CannotReturn,
    Look,
    Send,
    Value,
    Wanted,
    ask,
    difference,
    look_at,
    restore,
)
from cellwright.kernel.namespace.cell_names import CellNames, cell_names
from cellwright.kernel.run.interrupts import EndableWait

if TYPE_CHECKING:
    from cellwright.agent.thread import CallerJobs
    from cellwright.kernel.namespace.cell_log import CellLog

HELPER_SECONDS = 60.0
"""The time that the copy may take for all values; gigabytes take seconds."""

BUSY = "a cell is running. Try again when it has ended"
STANDS_STILL = f"looking at them took longer than {HELPER_SECONDS:g} s"

_MODULE = __name__.rpartition(".")[0] + ".undo_values"


class _KernelBusy(Exception):
    """The main thread does something else, or what it was given does not end; the text says which."""


class Engine(Protocol):
    """The part of a kernel's snapshots that undo needs (`kernel_branches.py`)."""

    async def keep(self) -> object: ...
    async def ask_kept(self, function: str, arguments: object, descriptors: Sequence[int] = ()) -> Any: ...
    def pages(self) -> PagesSince | None: ...
    async def let_go(self) -> None: ...


class _Plan(VariablesPlan, frozen=True):
    """A plan with what is asked of the copy: `removed` are names that were not there.

    `read`: the bytes of large arrays and frames that were read in the kernel to find the changes.
    """

    wanted: Wanted = Wanted((), {}, {})
    removed: tuple[str, ...] = ()
    read: int = 0


class ComparedNames(Struct, frozen=True):
    """The names of the turn: bound by its code, and all that it reads or writes; and those that the user's cells changed."""

    bound: Set[str]
    named: Set[str]
    by_user: Set[str]


class _ComparingProcess(NamedTuple):
    """A process forked from the copy, and the end of a socket that it serves."""

    pid: int
    channel: socket.socket


class _NoRun:
    """The owner of jobs that no run waits for: the cell of a command works them off, without one the idle main thread."""

    background = True


class UndoneInKernel:
    """The variables of one kernel. `jobs` are run on the main thread, between two cells."""

    def __init__(
        self,
        namespace: dict[str, Any],
        cells: CellLog,
        engine: Engine,
        jobs: CallerJobs,
    ) -> None:
        self._namespace = namespace
        self._cells = cells
        self._engine = engine
        self._jobs = jobs
        self._sources: list[CellNames] = []
        self._since = 0
        self._waiting: asyncio.Task[_ComparingProcess | None] | None = None
        """The helper of the next question: its fork copies the page tables of all that the kernel holds."""
        self._ending: set[asyncio.Task[None]] = set()
        self._is_there = False
        self.why_not = ""

    async def begin(self) -> None:
        """Another turn begins: the copy of the last one goes."""
        self._sources, self.why_not, self._is_there = [], "", False
        await self.close()

    async def before_code(self, source: str) -> None:
        """Code of the turn is about to run: the first of it waits until the copy is made, or cannot be."""
        if not self._sources:
            await self._jobs.call(lambda: None)  # as the code itself does: a cell of the user's may be running
            self._since = self._cells.order
            try:
                await self._engine.keep()
                self._is_there = True
                self._waiting = asyncio.ensure_future(self._helper_if_there())
            except NoBranch as error:
                self.why_not = error.reason
        self._sources.append(cell_names(source))

    async def ready(self) -> None:
        """Wait until the next comparison finds the copy at work for it."""
        if self._waiting is not None:
            await asyncio.wait({self._waiting})

    async def plan(self, *, force: bool) -> VariablesPlan:
        """Compare the variables with the copy; with `force` those that the user's cells changed since come back, too."""
        if not self._is_there:
            return VariablesPlan(note=f"{STAY} {self.why_not}".strip())
        names = self._names()
        pages = self._engine.pages()
        looking = asyncio.ensure_future(self._now(names.named, pages))  # beside the copy, another process
        try:
            try:
                before, now = await self._compared(names.named, pages, looking)
            except OSError:  # the helper was ended, as one is where memory is short: another, or the reason for none
                before, now = await self._compared(names.named, pages, looking)
        except _KernelBusy as why:
            return VariablesPlan(note=f"Variables were not compared: {why}.")
        except (NoBranch, CannotReturn, OSError) as error:
            text = str(error).rstrip(".")
            # whoever is asked again, as the commands do, waits no second time
            self._is_there, self.why_not = False, f"{text[:1].upper()}{text[1:]}."
            return VariablesPlan(note=f"{STAY} {self.why_not}")
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)
        plan = compare(before, now, names, force=force)
        if plan.changes and self._waiting is None:  # the user says yes next
            self._waiting = asyncio.ensure_future(self._helper_if_there())
        return plan

    async def _compared(
        self, named: Set[str], pages: PagesSince | None, looking: Awaitable[dict[str, Value]]
    ) -> tuple[dict[str, Value], dict[str, Value]]:
        """The variables `named`, and those that shared parts with them: before, and now.

        Of large buffers only the pages that were written are read. Where pages do not tell, all is read.
        """
        async with self._helper() as channel:
            before = await _looked(channel, Look(tuple(sorted(named)), with_sharing=True, large=()))
            now = await looking
            if others := before.keys() - named:
                now |= await self._now(others, pages)
            tell = pages is not None and pages.tell()
            alike = [
                name
                for name in before.keys() & now.keys()
                if now[name].large and before[name].digest == now[name].digest
            ]
            whole = {name for name in alike if not (tell and before[name].has_buffers_of(now[name]))}
            if written := {name for name in alike if now[name].pages} - whole:
                large = tuple(buffer for name in written for buffer in now[name].large)
                before |= await _looked(channel, Look(tuple(sorted(written)), large=large))
            if whole:
                before |= await _looked(channel, Look(tuple(sorted(whole))))
                now |= await self._now(whole, None)
            return before, now

    async def _now(self, names: Iterable[str], pages: PagesSince | None) -> dict[str, Value]:
        by_pages = None if pages is None else pages.written
        found: dict[str, Value] = await self._between_cells(lambda: look_at(self._namespace, names, by_pages))
        return found

    async def _between_cells(self, work: Callable[[], Any]) -> Any:
        """Do `work`, which runs what the user's classes define, on the main thread. Raises _KernelBusy and what it raises.

        A class may wait for a lock that nobody releases: an interrupt ends that, and so does the end of the time.
        """
        begun, wait = threading.Event(), EndableWait()

        def do() -> Any:
            with wait.entered():
                begun.set()
                return work()

        with self._jobs.owned_by(_NoRun()):
            doing = asyncio.ensure_future(self._jobs.call(do))
            try:
                # the time in which the kernel must be free for the comparison, and for what comes back
                await asyncio.wait({doing}, timeout=10.0)
                if begun.is_set():
                    await asyncio.wait({doing}, timeout=HELPER_SECONDS)
                if not doing.done():
                    raise _KernelBusy(STANDS_STILL if begun.is_set() else BUSY)
                return doing.result()
            finally:
                if not doing.done():
                    wait.end()
                    doing.cancel()

    async def apply(self, plan: VariablesPlan) -> list[str]:
        """Bring back what was planned; gives what could not be done: nothing has changed then."""
        assert isinstance(plan, _Plan), "a plan of somebody else's"
        try:
            data = b""
            if plan.wanted.names:
                async with self._helper() as channel:
                    data = await asyncio.to_thread(ask, channel, Send(plan.wanted))
            await self._between_cells(lambda: restore(self._namespace, plan.wanted, data, plan.removed))
        except Exception as error:  # noqa: BLE001 - unpickling runs what the user's classes define
            return [f"Variables were not restored: {error}."]
        return []

    async def close(self) -> None:
        """Let the copy go, and its helpers with it."""
        if (waiting := await self._from_waiting()) is not None:
            self._end(waiting)
        await asyncio.gather(*self._ending)
        await self._engine.let_go()

    @contextlib.asynccontextmanager
    async def _helper(self) -> AsyncIterator[socket.socket]:
        helper = await self._from_waiting() or await self._forked_helper()
        try:
            yield helper.channel
        finally:
            self._end(helper)

    async def _from_waiting(self) -> _ComparingProcess | None:
        """The helper that waits, from now on the caller's; None if there is none, or it has ended with the copy."""
        waiting, self._waiting = self._waiting, None
        helper = None if waiting is None else await waiting
        if helper is None:
            return None
        end = select.poll()
        end.register(helper.channel, select.POLLIN)
        if not end.poll(0):  # it says nothing of its own accord
            return helper
        helper.channel.close()
        return None

    async def _helper_if_there(self) -> _ComparingProcess | None:
        with contextlib.suppress(NoBranch, OSError):  # whoever needs one asks again, and hears why
            return await self._forked_helper()
        return None

    async def _forked_helper(self) -> _ComparingProcess:
        ours, theirs = control_pair()
        with theirs:
            try:
                pid = await self._engine.ask_kept(f"{_MODULE}:start_helper", None, (theirs.fileno(),))
            except BaseException:
                ours.close()
                raise
        ours.settimeout(HELPER_SECONDS)
        return _ComparingProcess(pid, ours)

    def _end(self, helper: _ComparingProcess) -> None:
        # a thread may still wait for it, and Python's end for that thread
        with contextlib.suppress(OSError):
            helper.channel.shutdown(socket.SHUT_RDWR)
        helper.channel.close()
        # nobody waits: it gives back the page tables of all that the kernel holds
        ending = asyncio.ensure_future(self._end_helper(helper.pid))
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    async def _end_helper(self, pid: int) -> None:
        with contextlib.suppress(NoBranch):
            await self._engine.ask_kept(f"{_MODULE}:end_helper", pid)

    def _names(self) -> ComparedNames:
        runs = [run for run in self._cells.runs(self._since) if run.by == "user" and run.source and not run.is_prompt]
        by_user = [cell_names(run.source or "") for run in runs]
        return ComparedNames(
            bound=frozenset[str]().union(*(each.bound for each in self._sources)),
            named=frozenset[str]().union(
                *(each.bound | each.changed | each.deleted | each.used for each in self._sources)
            ),
            by_user=frozenset[str]().union(*(each.bound | each.changed | each.deleted for each in by_user)),
        )


async def _looked(channel: socket.socket, request: Look) -> dict[str, Value]:
    return msgspec.json.decode(await asyncio.to_thread(ask, channel, request), type=dict[str, Value])


def compare(
    before: Mapping[str, Value], now: Mapping[str, Value], names: ComparedNames, *, force: bool = False
) -> VariablesPlan:
    """Plan how the variables of `now` become those of `before` again."""
    changes: list[VariableChange] = []
    back: list[str] = []
    removed: list[str] = []
    kept: dict[str, int] = {}
    for name in sorted({*before, *(now.keys() & names.bound)}):
        was, is_now = before.get(name), now.get(name)
        if _is_unchanged(was, is_now):
            if was is not None and is_now is not None and was.address == is_now.address and not was.plain:
                kept[name] = was.address
            continue
        if is_now is not None and was is None and is_now.kind == "module":
            continue  # an import stays: nothing depends on its not being there
        refused, text = _refused(was, is_now, named=name in names.named), _words(name, was, is_now)
        if refused is None:
            continue
        conflict = not refused and name in names.by_user and not force
        if conflict:
            refused = "your cells have changed it since"
        changes.append(VariableChange(name, text, refused, conflict))
        if not refused:
            (back if was is not None else removed).append(name)
    in_place = {name: before[name].address for name in back if name in now and _stays(before[name], now[name])}
    wanted = Wanted(tuple(back), in_place, kept)
    return _Plan(tuple(changes), "", wanted, tuple(removed), sum(each.read for each in now.values()))


def _is_unchanged(was: Value | None, is_now: Value | None) -> bool:
    if was is None or is_now is None:
        return was is is_now
    return bool(was.digest) and (was.digest, was.pages) == (is_now.digest, is_now.pages)


def _refused(was: Value | None, is_now: Value | None, *, named: bool) -> str | None:
    """Say why a variable cannot come back; "" if it can, None if it is not known to have changed."""
    if was is None:
        return ""
    if was.kind == "type":
        return "a class cannot be restored; run its cell again"
    if was.digest:
        return ""
    if is_now is not None and is_now.address == was.address and not named:
        return None
    return f"a {was.kind} cannot be compared or restored ({was.error})"


def _stays(was: Value, is_now: Value) -> bool:
    """Return whether the object is the same, and can get its former contents."""
    same = was.address == is_now.address and was.kind == is_now.kind and is_now.in_place and was.in_place
    return same and (was.kind != "ndarray" or (was.rows, was.columns) == (is_now.rows, is_now.columns))


def _words(name: str, was: Value | None, is_now: Value | None) -> str:
    """Say what becomes of a variable.

    >>> table = Value(1, "x", "DataFrame", rows=70112, columns=3)
    >>> _words("df", table, Value(2, "y", "DataFrame", rows=68846, columns=3))
    '`df`: 68,846 rows → 70,112 as before'
    >>> _words("model", Value(1, "x", "Ridge"), Value(1, "y", "Ridge"))
    '`model`: as before'
    """
    if was is None:
        return f"`{name}`: new, will be removed"
    if is_now is None:
        return f"`{name}`: was deleted, will be back"
    words = difference(is_now, was)
    return f"`{name}`: {words} as before" if words else f"`{name}`: as before"
