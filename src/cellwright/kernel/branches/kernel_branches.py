"""The branches of one kernel: one snapshot a turn, taken when nothing computes, and for each agent a branch of it.

The same snapshot serves the undo of variables, if no code ran in the kernel since it was taken. For undo it is kept until
the next turn, or until memory runs short.

The kernel is never risked: if the moment to fork does not come within two seconds, there is no snapshot, and it is said.
"""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import functools
import os
import socket
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import Struct, structs

from cellwright.conversation.kernel_copies import NO_BRANCH_LEFT
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.kernel.branches.bounds import branch_bounds
from cellwright.kernel.branches.branch import Branch, Patience
from cellwright.kernel.branches.forked import BranchOrder, run_snapshot
from cellwright.kernel.branches.memory import PagesSince, memory, open_gpu, resident_memory
from cellwright.kernel.branches.messages import Outlet
from cellwright.kernel.branches.resets import RESETS, Forked, Reset, secrets_of
from cellwright.kernel.branches.snapshot import (
    FORK_SECONDS,
    Attempt,
    Forker,
    NoBranch,
    Snapshot,
    Taken,
    control_pair,
    end_child,
)
from cellwright.kernel.branches.taken_values import extent, take_from
from cellwright.kernel.branches.template import Template, ValueBranch, modules_of, start_template
from cellwright.sandbox.private_folder import PrivateFolder
from cellwright.sandbox.profile import confined_environment
from cellwright.sandbox.resolved_bounds import ConfinementError
from cellwright.tools.process.child_processes import MARK_NAME, child_processes
from cellwright.tools.process.runner import child_environment

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from cellwright.agent.calls.approval import Confinement

B = TypeVar("B", bound=Branch)

OnMain = Callable[[Callable[[], None]], Awaitable[None]]
"""Runs a function on the main thread while that stands still between two cells; cancelled before it began, it never does."""

HANDSHAKE_SECONDS, HANDSHAKES = 3.0, 3
LEAST_LEFT = 256 << 20
"""Bytes of memory that must be left; below, the youngest branch is ended and no snapshot is taken."""

TEMPLATE = "template"

CELL_RUNS = "A cell of the user's is running, so there is no moment to copy the kernel."
THREADS_COMPUTE = "Threads of the kernel compute without a pause, so there is no moment to copy it."
DOES_NOT_START = "A copy of the kernel did not start: something in it is locked."
DOES_NOT_FORK = "The kernel could not be copied: a library's preparation for the copy does not end."
NOT_HERE = "Branches of the kernel need Linux with processes that can be forked."
HANGS = "Code hung in a copy of the kernel."
NOTHING_TAKEN = "There is no snapshot of the kernel."
LET_GO = "The copy of the kernel from before Claude's code was ended, because memory became short."


class Listed(Struct, frozen=True):
    """A branch as `listing` gives it. `since`: unix time. `memory`: bytes that it has to itself."""

    owner: str
    since: float
    memory: int
    running: bool


def unsupported() -> str | None:
    """Return why this system has no branches; None if it has."""
    enabled = getattr(sys, "_is_gil_enabled", None)
    if sys.platform != "linux" or not Path("/proc/self/task").is_dir() or (enabled is not None and not enabled()):
        return NOT_HERE
    return None


class KernelBranches:
    """For one shell. Its methods are for the agent's loop.

    `restarted`: copies that hung at their start and were made again.
    """

    def __init__(
        self,
        shell: InteractiveShell,
        *,
        on_main: OnMain | None = None,
        cell: Callable[[], str] = lambda: "",
        secrets: Callable[[], Sequence[str | bytes]] = tuple,
        resets: Sequence[Reset] = RESETS,
        patience: Patience = Patience(),  # noqa: B008 - frozen
        cannot_fork: Callable[[], str | None] = unsupported,
        order: Callable[[], int] = lambda: 0,
        is_short: Callable[[], bool] = lambda: memory().left < LEAST_LEFT,
    ) -> None:
        """`on_main` reaches the main thread where the kernel's own loop would not (default: that loop).

        `cell` says before or after which cell a snapshot is taken. `secrets` must not be in the memory of a copy, besides
        those that the environment has. `cannot_fork` says why no kernel is copied here, None if it can be. `order` counts
        the runs of code in the kernel. `is_short`: memory is, so that what is kept for undo must go.
        """
        self._shell = shell
        self._on_main = on_main or functools.partial(_on_kernels_loop, shell)
        self._cell = cell
        self._secrets = secrets
        self._resets = resets
        self._patience = patience
        self._cannot_fork = cannot_fork
        self.restarted = 0
        self._forker: Forker | None = None
        self._fork_hangs = False
        self._runs = order
        self._is_short = is_short
        self._snapshot: Snapshot | None = None
        self._by_value: Taken | None = None
        """The kernel cannot be copied now: branches are those of the template."""
        self._hung: set[str] = set()
        """Those whose branch of this snapshot hung: their next is of the template."""
        self._templates: dict[Confinement | None, Template] = {}
        self._taken_at_order: int | None = None
        """The order at the present snapshot, while the turn that it was taken in lasts."""
        self._kept: Snapshot | None = None
        self._watching: asyncio.Task[None] | None = None
        self.let_go_because = ""
        """The reason why the snapshot that undo was to have is gone, as a sentence."""
        self._branches: dict[str, Branch] = {}
        self._ending: set[asyncio.Task[None]] = set()
        """Of snapshots that others have followed."""
        self._lock = asyncio.Lock()

    @property
    def taken(self) -> Taken | None:
        """The moment that the present snapshot is of, if there is one."""
        return self._by_value if self._snapshot is None else self._snapshot.taken

    async def snapshot(self, *, or_by_value: bool = False) -> Taken:
        """Copy the kernel as it is now; the old copy is ended, and its branches with it. Raises `NoBranch`.

        `or_by_value`: if the kernel cannot be copied, the branches are those of a process to which variables are given.
        """
        try:
            taken = await self._copied()
        except NoBranch as why:
            if not (or_by_value and why.by_value):
                raise
            async with self._lock:
                await self._end_snapshot()
            taken = self._by_value = Taken(time.time(), self._cell(), why.reason)
        modules = modules_of(self._shell.user_ns) if self._templates else ()
        for confinement, template in list(self._templates.items()):
            if not template.serves(modules):
                await self._end_template(confinement)
        return taken

    async def _copied(self) -> Taken:
        async with self._lock:
            order = self._runs()
            new = await self._make(for_branches=True)
            # gigabytes of page tables are given back beside what the new one is for
            ending = asyncio.ensure_future(_ended(*self._released()))
            self._ending.add(ending)
            ending.add_done_callback(self._ending.discard)
            self._snapshot, self._taken_at_order = new, order
            return new.taken

    async def keep(self) -> Taken:
        """Keep a snapshot of the kernel as it is now for undo: the present one if nothing ran since. Raises `NoBranch`."""
        async with self._lock:
            await self._let_go()
            kept = self._snapshot
            if kept is None or self._taken_at_order != self._runs() or not kept.is_alive():
                kept = await self._make(for_branches=False)
            self._kept, self.let_go_because = kept, ""
            self._watching = asyncio.get_running_loop().create_task(self._watch())
            return kept.taken

    def pages(self) -> PagesSince | None:
        """The word of the kernel's pages on the time since what is kept was forked."""
        return None if self._kept is None else self._kept.pages

    async def let_go(self) -> None:
        """End what is kept for undo, but not branches."""
        async with self._lock:
            self.let_go_because = ""
            await self._let_go()

    async def _let_go(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
        kept, self._kept, self._watching = self._kept, None, None
        if kept is not None and kept is not self._snapshot:
            await asyncio.to_thread(kept.end)

    async def _watch(self) -> None:
        """Let what is kept go when memory runs short and no branch can go instead."""
        while self._kept is not None:
            await asyncio.sleep(2.0)
            if self._is_short() and not self._end_youngest():
                async with self._lock:
                    if any(branch.alive for branch in self._branches.values()):  # made meanwhile: it goes first
                        continue
                    self.let_go_because, self._watching = LET_GO, None
                    if self._kept is self._snapshot:  # no branch lives in it
                        self._snapshot = None
                    await self._let_go()

    async def _make(self, *, for_branches: bool) -> Snapshot:
        self._refuse()
        for _ in range(HANDSHAKES):
            new = await self._fork(for_branches=for_branches)
            try:
                problem = await asyncio.to_thread(new.handshake, HANDSHAKE_SECONDS)
            except (OSError, ValueError):  # it hangs, or has died: the next one need not
                self.restarted += 1
                await asyncio.to_thread(new.end)
                continue
            except asyncio.CancelledError:
                new.end()
                raise
            if problem is not None:
                await asyncio.to_thread(new.end)
                message = f"A copy of the kernel could not be made safe ({problem})."
                raise NoBranch(message, by_value=True)
            return new
        raise NoBranch(DOES_NOT_START, by_value=True)

    def _refuse(self) -> None:
        reason = DOES_NOT_FORK if self._fork_hangs else self._cannot_fork()
        if reason is not None:
            raise NoBranch(reason, by_value=True)
        if device := open_gpu():
            message = f"The kernel has a GPU open ({device}), which a copy of it cannot share."
            raise NoBranch(message, by_value=True)
        now, own = memory(), resident_memory()
        if own > now.total / 2 or now.left < LEAST_LEFT + own / 8:
            message = (
                f"Memory is short for a copy of the kernel: it holds {own / 1e9:.1f} GB, "
                f"and {now.left / 1e9:.1f} of {now.total / 1e9:.1f} GB are left."
            )
            raise NoBranch(message)

    async def _fork(self, *, for_branches: bool) -> Snapshot:
        """Fork in the first moment in which nothing computes."""
        if self._forker is None:
            self._forker = Forker()
        # the time in which the moment to fork must come
        deadline = time.monotonic() + 2.0
        reason = CELL_RUNS
        while (left := deadline - time.monotonic()) > 0:
            ours, theirs = control_pair()
            attempt = Attempt(self._before_fork)
            forked_kernel = self._forked(theirs)
            child = functools.partial(run_snapshot, forked_kernel, self._resets, theirs, for_branches=for_branches)
            forked = self._forker.submit(functools.partial(attempt.fork, child, left))
            try:
                try:
                    await asyncio.wait_for(self._on_main(attempt.park), left)
                except TimeoutError:
                    if not attempt.has_begun:
                        raise
                done, _ = await asyncio.wait({asyncio.wrap_future(forked)}, timeout=FORK_SECONDS)
                if not done:
                    self._fork_hangs = True
                    self._forker = None  # its thread stays where it is: what it forked before lives on
                    reason = DOES_NOT_FORK
                    raise TimeoutError
                pid = forked.result()
            except TimeoutError:
                attempt.give_up()
                forked.add_done_callback(_end_late)
                raise NoBranch(reason, by_value=True) from None
            except OSError as error:  # of a system that promises no more memory than it has
                message = f"The kernel could not be copied: {error.strerror}."
                raise NoBranch(message) from error
            except BaseException:
                attempt.give_up()
                forked.add_done_callback(_end_late)
                raise
            finally:
                theirs.close()
            if pid is not None:
                return self._forked_off(pid, ours, attempt)
            ours.close()
            reason = THREADS_COMPUTE
            await asyncio.sleep(0.03)
        raise NoBranch(reason, by_value=True)

    def _before_fork(self) -> None:
        if (pages := self.pages()) is not None:
            pages.before_fork()

    def _forked_off(self, pid: int, control: socket.socket, attempt: Attempt) -> Snapshot:
        if (pages := self.pages()) is not None:
            pages.after_fork(pid, attempt.forks)
        pages = PagesSince(pid, attempt.forks)
        return Snapshot(pid, control, Taken(time.time(), self._cell()), attempt.parked_seconds, pages)

    def _all_secrets(self) -> list[bytes]:
        """The key that signs the kernel's messages, and what we were given."""
        kernel: Any = getattr(self._shell, "kernel", None)
        own = () if kernel is None else (kernel.session.key,)
        return secrets_of(os.environ, (*own, *self._secrets()))

    def _forked(self, control: socket.socket) -> Forked:
        """The things that the copy works on. Made here: imports and compiled patterns would be made anew in each copy."""
        return Forked(
            shell=self._shell,
            outlet=Outlet(),
            kept=(control.fileno(),),
            parent=os.getpid(),
            may_read=lambda _: True,  # a branch closes what it may not read
            environ=child_environment(os.environ),
            secrets=self._all_secrets(),
        )

    async def branch(self, owner: str, confinement: Confinement | None, writable: Sequence[str] = ()) -> Branch:
        """The branch of `owner`, made if there is none that lives; `confinement` None: nothing confines it.

        It may write in the folders `writable` besides its own. Raises `NoBranch`.
        """
        if (found := self._branches.get(owner)) is not None:
            if found.alive and (not found.hung or isinstance(found, ValueBranch)):
                return found
            if found.hung:
                self._hung.add(owner)
            await self._end_branch(owner)
        if self._by_value is not None or owner in self._hung:
            return await self._value_branch(owner, confinement, writable)
        async with self._lock:
            if (snapshot := self._snapshot) is None or not snapshot.is_alive():
                raise NoBranch(NOTHING_TAKEN)
            folder = await asyncio.to_thread(PrivateFolder)
            branch = None
            try:
                order = await asyncio.to_thread(self._order, confinement, folder, writable)
                branch = await self._start(owner, snapshot, order, folder, Branch)
            except ConfinementError as error:
                message = f"A branch cannot be confined here: {error}."
                raise NoBranch(message) from error
            finally:
                if branch is None:
                    await asyncio.to_thread(folder.close)
            await branch.ready(HANDSHAKE_SECONDS)
            self._branches[owner] = branch
            return branch

    async def _value_branch(self, owner: str, confinement: Confinement | None, writable: Sequence[str]) -> ValueBranch:
        """A branch of the template for `confinement`, which is started with the first one."""
        if writable:  # a preview is of all variables
            raise NoBranch(NOTHING_TAKEN if self._by_value is None else self._by_value.by_value)
        taken = self._by_value
        if taken is None:
            now = self.taken
            taken = Taken(time.time() if now is None else now.at, "" if now is None else now.cell, HANGS)
        async with self._lock:
            folder = branch = None
            try:
                template = await self._serving_template(confinement)
                folder = await asyncio.to_thread(PrivateFolder, template.folder.temporary)
                order = await asyncio.to_thread(self._order, confinement, folder, writable, template.folder)
                branch = await self._start(owner, template, order, folder, ValueBranch)
            except (
                ConfinementError,
                OSError,
            ) as error:  # imported code may move the folder that the branch's is made in
                message = f"A branch cannot be confined here: {error}."
                raise NoBranch(message) from error
            finally:
                if folder is not None and branch is None:
                    await asyncio.to_thread(folder.close)
            await branch.ready(HANDSHAKE_SECONDS)
            self._branches[owner] = branch
            return branch.with_values_of(self._shell.user_ns, self._on_main, taken, self._all_secrets)

    async def _serving_template(self, confinement: Confinement | None) -> Template:
        template = self._templates.get(confinement)
        if template is not None and template.is_alive():
            return template
        await self._end_template(confinement)  # one that has died makes room for this one, and no other has to go
        # two wait at most for branches to which variables are given: one confined, one that the user has allowed more
        for other in list(self._templates)[:-1]:
            await self._end_template(other)
        if self._forker is None:
            self._forker = Forker()
        modules = modules_of(self._shell.user_ns)
        starting = asyncio.ensure_future(asyncio.to_thread(start_template, confinement, modules, self._forker.submit))
        try:
            template = await asyncio.shield(starting)
        except asyncio.CancelledError:  # imports take seconds, and nobody would have it
            starting.add_done_callback(_end_late_template)
            raise
        self._templates[confinement] = template
        return template

    async def _end_template(self, confinement: Confinement | None) -> None:
        if (template := self._templates.pop(confinement, None)) is not None:
            await asyncio.to_thread(template.end)

    def _order(
        self,
        confinement: Confinement | None,
        folder: PrivateFolder,
        writable: Sequence[str],
        copies: PrivateFolder | None = None,
    ) -> BranchOrder:
        own = confined_environment(child_environment(os.environ), folder.temporary, folder.caches)
        cwd = os.getcwd()  # noqa: PTH109
        bounds = (
            None
            if confinement is None
            else branch_bounds(confinement, folder, cwd=cwd, writable=writable, copies=copies)
        )
        # killed, a kernel ends its branches, but not what their code has started
        mark = {MARK_NAME: child_processes().mark_for_others()}
        if backend := os.environ.get("MPLBACKEND"):
            mark["MPLBACKEND"] = backend  # it draws for the notebook, and a command does not
        if bounds is not None:
            bounds = structs.replace(bounds, environ={**bounds.environ, **mark})
        return BranchOrder(bounds, {**own, **mark}, max(LEAST_LEFT, memory().left * 3 // 4))

    async def _start(
        self, owner: str, snapshot: Snapshot, order: BranchOrder, folder: PrivateFolder, kind: type[B]
    ) -> B:
        with contextlib.ExitStack() as stack:
            ours, theirs = control_pair()
            stack.callback(theirs.close)
            files = [os.memfd_create(f"cellwright-{name}", os.MFD_CLOEXEC) for name in ("stdout", "stderr")]
            for file in files:
                stack.callback(os.close, file)
            request = {"kind": "branch", "order": msgspec.to_builtins(order)}
            try:
                answer = await snapshot.ask(request, (theirs.fileno(), *files))
            except BaseException:
                ours.close()
                raise
        mark = None if order.bounds is None else order.bounds.mark
        return kind(owner, answer["pid"], ours, snapshot, folder, mark, self._look_at_memory, self._patience)

    def _look_at_memory(self) -> None:
        """End the youngest branch if memory runs short."""
        if memory().left < LEAST_LEFT:
            self._end_youngest()

    def _end_youngest(self) -> bool:
        living = [branch for branch in self._branches.values() if branch.alive]
        if living:
            max(living, key=lambda branch: branch.began).out_of_memory()
        return bool(living)

    async def ask_snapshot(self, function: str, arguments: object, descriptors: Sequence[int] = ()) -> Any:
        """Call `function`, "module:name", with the shell, `arguments` and `descriptors` in the snapshot's process.

        `arguments` and what it gives back are plain data. Raises `NoBranch` if there is no snapshot, or it raised.
        """
        return await self._asked("call", self._snapshot, function, arguments, descriptors)

    async def ask_kept(self, function: str, arguments: object, descriptors: Sequence[int] = ()) -> Any:
        """As `ask_snapshot`, in what is kept for undo."""
        return await self._asked("undo", self._kept, function, arguments, descriptors)

    async def _asked(
        self, kind: str, snapshot: Snapshot | None, function: str, arguments: object, descriptors: Sequence[int]
    ) -> Any:
        if snapshot is None:
            raise NoBranch(self.let_go_because or NOTHING_TAKEN)
        request = {"kind": kind, "function": function, "arguments": arguments}
        return (await snapshot.ask(request, descriptors)).get("value")

    def listing(self) -> list[Listed]:
        """The branches that live."""
        living = [branch for branch in self._branches.values() if branch.alive]
        return [Listed(each.owner, each.began, each.memory(), each.running) for each in living]

    def templates(self) -> list[Listed]:
        """The processes from which branches by value are forked."""
        named = {name: self._templates[confinement] for name, confinement in self._templates_by_name().items()}
        return [Listed(name, each.taken.at, each.memory(), running=False) for name, each in named.items()]

    def _templates_by_name(self) -> dict[str, Confinement | None]:
        return {
            TEMPLATE if number == 1 else f"{TEMPLATE}-{number}": confinement
            for number, confinement in enumerate(self._templates, 1)
        }

    async def end(self, name: str) -> None:
        """End the branch of the owner `name`, or the template of that name with its branches, if there is one."""
        if name in self._branches:
            await self._end_branch(name)
            return
        templates = self._templates_by_name()
        if name not in templates:
            return
        async with self._lock:
            confinement = templates[name]
            template = self._templates.get(confinement)
            for owner in [owner for owner, branch in self._branches.items() if branch.is_of(template)]:
                await self._end_branch(owner)
            await self._end_template(confinement)

    async def turn_ended(self, resting: str = "") -> None:
        """End all branches but that of `resting`, whose variables can be taken until it is ended.

        The snapshot stays for that one, and for undo; its pages are given back if neither needs them.
        """
        async with self._lock:
            self._taken_at_order = None  # the next turn's undo begins anew
            await self._end_branches(resting)
            if not self._branches:
                await self._end_snapshot()

    async def _end_branches(self, resting: str = "") -> None:
        for owner, branch in list(self._branches.items()):
            # a branch that rests may hold so small a part of the memory that is left
            if owner == resting and branch.alive and branch.memory() < memory().left // 4:
                await branch.rest()
            else:
                await self._end_branch(owner)

    async def take(self, owner: str, name: str, new_name: str) -> str:
        """Give the kernel the variable `name` of `owner`'s branch as `new_name`; return how large it is.

        Raises CellwrightError EXECUTION_ERROR if it cannot, or the kernel has such a variable.
        """
        self._refuse_name(new_name)
        try:
            value = await self.value(owner, name)
            # a cell may have run meanwhile
            binding = self.bind({new_name: value}, before=lambda: self._refuse_name(new_name))
            # the time in which the kernel must be free for a variable that is taken
            await asyncio.wait_for(binding, 10.0)
        except NoBranch as error:
            raise CellwrightError(ErrorCode.EXECUTION_ERROR, error.reason) from error
        except TimeoutError:
            message = f"{name} was not taken: a cell of yours is running. Take it when that has ended."
            raise CellwrightError(ErrorCode.EXECUTION_ERROR, message) from None
        return extent(value)

    async def value(self, owner: str, name: str) -> Any:
        """The variable `name` of `owner`'s branch, made anew of data (`taken_values.py`). Raises `NoBranch`."""
        branch = self._branches.get(owner)
        if branch is None or not branch.alive:
            raise NoBranch(NO_BRANCH_LEFT)
        rested = branch.rests
        try:
            return await take_from(branch, name)
        finally:
            if rested and branch.alive:
                await branch.rest()

    async def bind(self, values: Mapping[str, Any], *, before: Callable[[], None] = lambda: None) -> None:
        """Bind `values` in the kernel after `before`, as soon as no cell runs. Raises what that raises."""

        def bound() -> None:
            before()
            self._shell.user_ns.update(values)

        await self._on_main(bound)

    def _refuse_name(self, name: str) -> None:
        if name in self._shell.user_ns or hasattr(builtins, name):
            message = (
                f"Your kernel has {name} already: take it under another name, as /branches keep {name} as {name}_2."
            )
            raise CellwrightError(ErrorCode.EXECUTION_ERROR, message)

    async def _end_branch(self, owner: str) -> None:
        await self._branches.pop(owner).close()

    async def drop_snapshot(self) -> None:
        """End the snapshot and its branches: memory is short, or it is switched off."""
        async with self._lock:
            await self._end_snapshot()

    async def _end_snapshot(self) -> None:
        await _ended(*self._released())
        await asyncio.gather(*self._ending)

    def _released(self) -> tuple[Sequence[Branch], Snapshot | None]:
        """The snapshot and its branches, from now on nobody's: whoever gets them ends them."""
        branches, snapshot = list(self._branches.values()), self._snapshot
        self._branches.clear()
        self._snapshot = self._by_value = None
        self._hung.clear()
        return branches, None if snapshot is self._kept else snapshot

    async def close(self) -> None:
        """End everything."""
        await self.drop_snapshot()
        for confinement in list(self._templates):
            await self._end_template(confinement)
        await self.let_go()
        if self._forker is not None:
            self._forker.close()
            self._forker = None


async def _ended(branches: Sequence[Branch], snapshot: Snapshot | None) -> None:
    for branch in branches:
        await branch.close()
    if snapshot is not None:
        await asyncio.to_thread(snapshot.end)


def _end_late(forked: Future[int | None]) -> None:
    """End what was forked when nobody waited for it any more."""
    if not forked.cancelled() and forked.exception() is None and (pid := forked.result()) is not None:
        end_child(pid)


def _end_late_template(started: asyncio.Future[Template]) -> None:
    if not started.cancelled() and started.exception() is None:
        asyncio.get_running_loop().run_in_executor(None, started.result().end)


async def _on_kernels_loop(shell: InteractiveShell, work: Callable[[], None]) -> None:
    """Run `work` on the loop of the kernel's main thread, between two requests or while a cell awaits."""
    done: Future[None] = Future()

    def run() -> None:
        if done.set_running_or_notify_cancel():
            try:
                work()
            except BaseException as error:
                done.set_exception(error)
                raise
            done.set_result(None)

    kernel: Any = getattr(shell, "kernel", None)
    if kernel is None:
        raise NoBranch(CELL_RUNS)
    kernel.io_loop.asyncio_loop.call_soon_threadsafe(run)
    await asyncio.wrap_future(done)
