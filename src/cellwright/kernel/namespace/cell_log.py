"""The log of everything run in this kernel since the extension was loaded, and the origin of each variable's value.

IPython tells of every cell; the log keeps its text and ids, never an object of the user's, and calls nothing of
theirs. It costs microseconds a cell, however large the namespace is: what takes longer (which names a source binds) is
worked out when somebody asks.
"""

from __future__ import annotations

import hashlib
import itertools
import re
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from cellwright.agent.thread import agent_code_running

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from cellwright.kernel.execute.traceback import CellFailure

RUNS_KEPT = 2_000
SOURCE_CHARS = 20_000
"""A source that is longer is kept up to here; `sha256` is of the whole."""

SOURCES_CHARS = 2_000_000
"""The sources of all runs together; the oldest are let go."""

SOURCES_READ = 150
"""Of the sources that ran since somebody asked last, the newest are read for the names they bind: who asks waits for it."""

SAMPLE = 500
_WORD = r"[^\W\d]\w*"

Author = Literal["user", "claude", "other"]
"""Whose doing: a cell the user ran, Claude, or neither (a thread, a widget's callback, a front end's silent request)."""

_PROMPT = ("%%claude", "%claude")


class RanCell(NamedTuple):  # a third of a dataclass's time, where each load of the extension pays it
    """One run of a cell. Runs are ordered by `order`, which rises with everything that happens in the kernel.

    `source` is None where it was let go, and bounded; `sha256` (hexadecimal) is of the whole text as the front end sent it.
    `started` and `ended` are seconds since the epoch, 0.0 where not known; `success` is None while it runs, and for cells
    that ran before the log began. `new`, `rebound` and `deleted` are names of the namespace.
    """

    order: int
    cell_id: str | None
    source: str | None
    sha256: str
    execution_count: int | None
    by: Author = "user"
    started: float = 0.0
    ended: float = 0.0
    success: bool | None = None
    error: CellFailure | None = None
    new: tuple[str, ...] = ()
    rebound: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()

    @property
    def is_prompt(self) -> bool:
        """True when the cell asks Claude."""
        text = (self.source or "").lstrip()
        while text.startswith("#"):
            text = text.partition("\n")[2].lstrip()
        return text.startswith(_PROMPT)


class Binding(NamedTuple):
    """The origin of a name's value: whose doing, when (`order`), and by which run where it was a cell."""

    name: str
    order: int
    by: Author
    cell_id: str | None


def sha256_of(source: str) -> str:
    """The hash by which the source of a cell is compared, as hexadecimal."""
    return hashlib.sha256(source.encode("utf-8", "surrogatepass")).hexdigest()


def type_name_of(value: object) -> str:
    """The name of a value's type, without asking the value or its metaclass."""
    return str(type.__dict__["__name__"].__get__(type(value)))


class CellLog:
    """The log of one shell, from `start` to `stop`. It is written on the thread that runs the cells, and read from any."""

    def __init__(self, shell: InteractiveShell) -> None:
        self._shell = shell
        self._order = 0
        self._runs: deque[RanCell] = deque(maxlen=RUNS_KEPT)
        self._open: list[tuple[object, RanCell]] = []
        self._entered: RanCell | None = None
        self._last_by_cell: dict[str, RanCell] = {}
        self._bindings: dict[str, Binding] = {}
        self._ids: dict[str, int] = {}
        self._sampled: Iterator[str] = iter(())
        self._source_chars = 0
        self._first_count = 1
        self._reading = threading.Lock()
        self._read_up_to = 0
        self._bound: dict[str, Binding] = {}
        self._changed: dict[str, int] = {}

    def start(self) -> None:
        """Begin to listen. What ran before is known from the shell's history alone."""
        self._first_count = self._shell.execution_count
        self._ids = self._ids_now()
        self._shell.events.register("pre_run_cell", self._before)
        self._shell.events.register("post_run_cell", self._after)

    def stop(self) -> None:
        """Listen no more."""
        self._shell.events.unregister("pre_run_cell", self._before)
        self._shell.events.unregister("post_run_cell", self._after)

    @property
    def order(self) -> int:
        """The order of the latest thing that happened: what is above it later is news."""
        return self._order

    def runs(self, since: int = 0) -> tuple[RanCell, ...]:
        """The runs whose order is above `since`, oldest first; those that still go on are among them."""
        running = (run for _, run in tuple(self._open))
        runs = (run for run in (*self._earlier(), *tuple(self._runs), *running) if run.order > since)
        return tuple(sorted(runs, key=lambda run: run.order))

    def running(self) -> tuple[RanCell, ...]:
        """The cells that are running."""
        return tuple(run for _, run in tuple(self._open))

    def last_run(self, cell_id: str) -> RanCell | None:
        """The latest run of a cell, known also when it is no longer among `runs`."""
        return self._last_by_cell.get(cell_id)

    def bindings(self) -> dict[str, Binding]:
        """Every name that got a value since the log began and still has one, and what gave it.

        An object may be made where another just was: besides the objects' identities, the sources say what they bind.
        """
        known = dict(self._bindings)
        names = self._ids
        with self._reading:
            self._read_sources()
            for name, binding in self._bound.items():
                before = known.get(name)
                if name in names and (before is None or before.order < binding.order):
                    known[name] = binding
        return known

    def stored(self) -> dict[str, int]:
        """The latest order at which a cell that the user ran stored into each name (`df["a"] = 1`)."""
        with self._reading:
            self._read_sources()
            return dict(self._changed)

    def _read_sources(self) -> None:
        from cellwright.kernel.namespace.cell_names import cell_names  # parsing is for those who ask

        runs = [run for run in tuple(self._runs) if run.order > self._read_up_to]
        for run in runs[-SOURCES_READ:]:
            if run.source is None or run.is_prompt:
                continue
            names = cell_names(run.source)
            if run.by == "user":
                self._changed |= dict.fromkeys(names.changed, run.order)
            if run.success:
                bound = (name for name in names.bound if not is_hidden(name))
                self._bound |= {name: Binding(name, run.order, run.by, run.cell_id) for name in bound}
        self._read_up_to = max((run.order for run in runs), default=self._read_up_to)

    def begin(self, cell_id: str | None, source: str, *, by: Author = "claude") -> None:
        """A cell of the notebook is run by other means than the front end's. `end` follows, on the same thread."""
        self._note_changes("other", None)
        self._entered = self._new_run(cell_id, source, None, by)

    def end(self, error: BaseException | None = None, execution_count: int | None = None) -> RanCell:
        """End the run that `begin` began."""
        assert self._entered is not None, "end without begin"
        run, self._entered = self._entered, None
        return self._finish(run._replace(execution_count=execution_count), error)

    # ------------------------------------------------------------------ what IPython tells

    def _before(self, info: Any) -> None:
        if self._entered is not None:
            return
        self._note_changes("other", None)
        if _is_cell(info):
            count = self._shell.execution_count if info.store_history else None
            run = self._new_run(info.cell_id, info.raw_cell, count, _author())
            self._open.append((info, run))

    def _after(self, result: Any) -> None:
        """`result` is None for an awaited cell that was interrupted."""
        if self._entered is not None:
            return
        info = None if result is None else result.info
        if info is not None and not _is_cell(info):
            self._note_changes("claude" if agent_code_running.get() else "other", None)
            return
        run = None
        if self._open:
            # the innermost one where it cannot be told (IPython makes a new `info` after an error)
            index = next((i for i, (begun, _) in enumerate(self._open) if begun is info), len(self._open) - 1)
            run = self._open.pop(index)[1]
        if run is None:
            if info is None:
                return
            # the cell that loaded the extension; where counts rise as cells begin, it is in the history already
            self._first_count = min(self._first_count, result.execution_count or self._first_count)
            run = self._new_run(info.cell_id, info.raw_cell, None, _author())._replace(started=0.0)
        if result is None:
            self._finish(run, KeyboardInterrupt())
        else:
            error = result.error_before_exec or result.error_in_exec
            self._finish(run._replace(execution_count=result.execution_count or run.execution_count), error)

    def _new_run(self, cell_id: str | None, source: str, count: int | None, by: Author) -> RanCell:
        self._order += 1
        return RanCell(
            order=self._order,
            cell_id=cell_id or None,
            source=source[:SOURCE_CHARS],
            sha256=sha256_of(source),
            execution_count=count,
            by=by,
            started=time.time(),
        )

    def _finish(self, run: RanCell, error: BaseException | None) -> RanCell:
        described = None
        if error is not None:
            from cellwright.kernel.execute.traceback import describe_error  # most cells have none

            described = describe_error(error, self._shell, run.source or "")
        new, rebound, deleted = self._note_changes(run.by, run.cell_id, run.order, run.source or "")
        run = run._replace(
            ended=time.time(),
            success=error is None,
            error=described,
            new=new,
            rebound=rebound,
            deleted=deleted,
        )
        self._keep(run)
        return run

    def _keep(self, run: RanCell) -> None:
        if len(self._runs) == RUNS_KEPT:
            self._source_chars -= len(self._runs[0].source or "")
        self._runs.append(run)
        self._source_chars += len(run.source or "")
        if self._source_chars > SOURCES_CHARS:
            self._let_sources_go()
        if run.cell_id is not None:
            self._last_by_cell.pop(run.cell_id, None)
            self._last_by_cell[run.cell_id] = run._replace(source=None)
            if len(self._last_by_cell) > RUNS_KEPT:
                del self._last_by_cell[next(iter(self._last_by_cell))]

    def _let_sources_go(self) -> None:
        for index, run in enumerate(self._runs):
            if self._source_chars <= SOURCES_CHARS // 2:
                return
            self._source_chars -= len(run.source or "")
            self._runs[index] = run._replace(source=None)

    # ------------------------------------------------------------------ the namespace

    def _ids_now(self) -> dict[str, int]:
        # a copy, because other threads may bind names meanwhile
        namespace = self._shell.user_ns.copy()
        return dict(zip(namespace, map(id, namespace.values()), strict=True))

    def _note_changes(
        self, by: Author, cell_id: str | None, order: int | None = None, source: str = ""
    ) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
        """Find out what is new, rebound and deleted since the last look, and write it down as the doing of `by`.

        `source` is what ran meanwhile; "" for what nobody knows, and then a large namespace is sampled.
        """
        # of more names, those in the cell's source are looked at, new ones, and a sample
        changes = self._changes_in_part(source) if len(self._shell.user_ns) > 3_000 else None
        new, rebound, deleted = self._changes() if changes is None else changes
        if (new or rebound or deleted) and order is None:
            self._order += 1
        at = self._order if order is None else order
        for name in (*new, *rebound):
            self._bindings[name] = Binding(name, at, by, cell_id)
        for name in deleted:
            self._bindings.pop(name, None)
        return new, rebound, deleted

    def _changes(self) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
        before, now = self._ids, self._ids_now()
        self._ids = now
        changed = [name for name, known in now.items() if before.get(name) != known and not is_hidden(name)]
        deleted = [name for name in before if name not in now and not is_hidden(name)]
        new = tuple(name for name in changed if name not in before)
        return new, tuple(name for name in changed if name in before), tuple(deleted)

    def _changes_in_part(self, source: str) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]] | None:
        """The changes among few names of a large namespace; None where others must have changed, too."""
        namespace, known = self._shell.user_ns, self._ids
        looked = dict.fromkeys(re.findall(_WORD, source) if source else self._sample())
        changed = [name for name in looked if name in known and known[name] != id(namespace.get(name, known))]
        deleted = [name for name in changed if name not in namespace]
        new: list[str] = []
        try:
            for name in reversed(namespace):  # what is new is last
                if name in known:
                    break
                new.append(name)
        except RuntimeError:  # another thread binds names
            return None
        if len(known) + len(new) - len(deleted) != len(namespace):
            return None
        for name in deleted:
            del known[name]
        for name in (*reversed(new), *changed):
            if name in namespace:
                known[name] = id(namespace[name])
        shown = [[name for name in names if not is_hidden(name)] for names in (reversed(new), changed, deleted)]
        return tuple(shown[0]), tuple(name for name in shown[1] if name not in deleted), tuple(shown[2])

    def _sample(self) -> list[str]:
        """The next names in turn."""
        found = list(itertools.islice(self._sampled, SAMPLE))
        if not found:
            self._sampled = iter(list(self._ids))
            found = list(itertools.islice(self._sampled, SAMPLE))
        return found

    def _earlier(self) -> Iterator[RanCell]:
        """Cells that ran before the log began, as far as IPython's history has them; their orders are not above 0."""
        history = self._shell.history_manager
        sources = tuple(history.input_hist_raw)[1 : self._first_count] if history is not None else ()
        for count, source in enumerate(sources, start=1):
            if source:
                order = count - self._first_count
                yield RanCell(order, None, source[:SOURCE_CHARS], sha256_of(source), count)


def _is_cell(info: Any) -> bool:
    """Return whether it is a cell that runs: Claude's own code and front ends' requests leave the history alone."""
    return bool(info.store_history) and not (agent_code_running.get() and info.cell_id is None)


def _author() -> Author:
    return "claude" if agent_code_running.get() else "user"


def is_hidden(name: str) -> bool:
    """Return whether it is a name of IPython's or one that its owner keeps for himself."""
    return name.startswith("_") or name in ("In", "Out")
