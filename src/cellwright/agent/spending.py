"""x"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import itertools
import math
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from cellwright.agent.run_errors import budget_spent, price_unknown
from cellwright.errors import CellwrightError
from cellwright.events import HookSpending, TextDelta, ThinkingDelta, ToolInputDelta
from cellwright.model.pricing import add_usage, cost_usd, worst_case_usd
from cellwright.model.provider import BlockEnd, MessageStart
from cellwright.sessions.session_lines import MIN_CHARS_PER_TOKEN
from cellwright.sessions.state_dir import PRIVATE_FILE, make_private_folder, state_folder, write_atomic
from cellwright.sessions.transcripts import transcript_lock

if TYPE_CHECKING:
    from cellwright.sessions.session import Session


SMALLEST_ANSWER = 256
"""Tokens: what a budget must still pay for, else the run stops before the request."""


MAX_BYTES = 32_768
"""A longer file is written anew as its sum."""


class PartialUsage:
    """Follows an answer from its `MessageStart`. The API says only at its end how much output was written."""

    def __init__(self) -> None:
        self._start: MessageStart | None = None
        self._chars = 0

    def begin(self, start: MessageStart) -> None:
        self._start, self._chars = start, 0

    def add(self, event: BlockEnd | TextDelta | ThinkingDelta | ToolInputDelta) -> None:
        if not isinstance(event, BlockEnd):  # which repeats what its deltas said
            self._chars += len(event.partial_json if isinstance(event, ToolInputDelta) else event.text)

    def end(self) -> None:
        """It arrived: its own usage says what it cost."""
        self._start = None

    @property
    def is_open(self) -> bool:
        """True when an answer has begun that has not ended."""
        return self._start is not None

    def so_far(self) -> tuple[dict[str, Any], float | None] | None:
        """Usage (its output estimated) and cost of the open answer as far as it came; None when none is open."""
        start = self._start
        if start is None:
            return None
        written = max(start.usage.get("output_tokens") or 0, math.ceil(self._chars / MIN_CHARS_PER_TOKEN))
        usage = {**start.usage, "output_tokens": written}
        return usage, cost_usd(start.model, usage)

    def lost(self) -> tuple[dict[str, Any], float | None] | None:
        """The same of an answer that broke off, told once."""
        lost, self._start = self.so_far(), None
        return lost


class Budget(Struct, frozen=True):
    """An amount in US dollars that `whose` spending ("day", "" for the run's own) must not pass; `set_by` says where."""

    usd: float
    whose: str = ""
    set_by: str = ""


class CountedFile(Struct, frozen=True):
    """A file in which a run counts what it spends, and the budget of all who count there."""

    file: SpendingFile
    budget: Budget | None = None


class SharedBudgets(Struct, frozen=True):
    """The budgets beyond the run: of its session, and of those that the `files` are for."""

    session: Budget | None = None
    files: tuple[CountedFile, ...] = ()


NO_SHARED_BUDGETS = SharedBudgets()


@dataclass(frozen=True, kw_only=True, eq=False)
class RunLimits:
    """The bounds of a run, and of its calls.

    `max_turns` bounds its requests, `budget_usd` its cost in US dollars, `shared_budgets` that of more than one run.
    `ends_when_denied`: if nobody can be asked, a call that needs it ends the run; else Claude is told of the denial and
    continues. `max_parallel_tools` calls that read run at the same time; `tool_timeout` (seconds) bounds every call,
    besides the tool's own limit.
    """

    max_turns: int | None = None
    budget_usd: float | None = None
    shared_budgets: SharedBudgets = NO_SHARED_BUDGETS
    ends_when_denied: bool = False
    max_parallel_tools: int = 10
    tool_timeout: float | None = None


USUAL_LIMITS = RunLimits()


class _Room(Struct, frozen=True):
    """The output tokens that the next request may have. `others` have set aside what would give it more."""

    tokens: int
    others: bool = False
    budget: Budget | None = None
    spent_usd: float = 0.0


class Spending:
    """The spending of one run on `model`, its tools' own requests, its agents' and lost answers included.

    `cost_usd` is None where a price is not known. `model` is the one that the next request goes to. `within` is the
    spending of the run that an agent works for: its budgets count for all of them together, so that requests at the same
    time may have to wait for each other.
    """

    def __init__(
        self,
        model: str,
        session: Session,
        budget_usd: float | None,
        within: Spending | None = None,
        shared: SharedBudgets = NO_SHARED_BUDGETS,
    ) -> None:
        self.usage: dict[str, Any] = {}
        self.cost_usd: float | None = 0.0
        self.requests = 0
        self.sent = 0
        """Requests that went out, those that were tried again among them."""
        self.side_requests = 0
        self.hook_models: dict[str, HookSpending] = {}
        self.budget_usd = budget_usd
        self.model = model
        self._session = session
        self._within = within
        self._shared = shared
        self._reserved: dict[Spending, float] = {}
        self._released = asyncio.Event()
        self._in_files: list[Reservation] = []
        self._answer = PartialUsage()
        self._chars_to_note = 0
        self._short: _Room | None = None
        self._least, self._more_tokens = SMALLEST_ANSWER, 0

    @property
    def whole(self) -> Spending:
        """The spending that this is part of, or itself: that of the run which the user began."""
        return self if self._within is None else self._within.whole

    def count(self, usage: Mapping[str, Any], cost_usd: float | None) -> None:
        """Count an answer that becomes a message of the session."""
        self.usage = add_usage(self.usage, usage)
        both = self.cost_usd is not None and cost_usd is not None
        self.cost_usd = self.cost_usd + cost_usd if both else None  # type: ignore[operator]
        if self._within is not None:
            self._within.count_side_request(usage, cost_usd)
        elif cost_usd:
            for counted in self._shared.files:
                counted.file.add(cost_usd)

    def count_side_request(self, usage: Mapping[str, Any], cost_usd: float | None) -> None:
        """Count an answer to a tool or a hook."""
        self.side_requests += 1
        self.count_lost(usage, cost_usd)

    def count_hook_request(self, model: str, usage: Mapping[str, Any], cost_usd: float | None) -> None:
        """Count an answer of `model` to a hook, and what its answers come to."""
        self.count_side_request(usage, cost_usd)
        before = self.hook_models.get(model, HookSpending())
        known = before.cost_usd is not None and cost_usd is not None
        both = before.cost_usd + cost_usd if known else None  # type: ignore[operator]
        self.hook_models[model] = HookSpending(add_usage(before.usage, usage), both)

    def count_lost(self, usage: Mapping[str, Any], cost_usd: float | None) -> None:
        """Count an answer that becomes no message; the session remembers it with its next line."""
        self.count(usage, cost_usd)
        self._session.spend(usage, cost_usd)

    def left(self) -> float | None:
        """US dollars; None without a budget."""
        whole = self.whole
        left = [] if whole.budget_usd is None else [whole.budget_usd - (whole.cost_usd or 0.0)]
        if (budget := whole._shared.session) is not None:
            left.append(budget.usd - (whole._session_usd() or 0.0))
        left += [
            each.budget.usd - each.file.spent().at_worst for each in whole._shared.files if each.budget is not None
        ]
        return max(min(left), 0.0) if left else None

    def affordable_tokens(self, most: int) -> int:
        """`most`, or as much less as the budgets still pay for in the worst case; 0 where that is no answer."""
        whole = self.whole
        rooms = [self._room_in_memory(most)]
        own = {reservation.file: reservation.id for reservation in self._in_files}
        for counted in whole._shared.files:
            if counted.budget is not None:
                spent = counted.file.spent(without=own.get(counted.file, ""))
                rooms.append(self._room(counted.budget, spent.usd, spent.open_usd, most))
        return min(room.tokens for room in rooms)

    async def reserve(
        self,
        most: int,
        on_wait: Callable[[], object] = lambda: None,
        *,
        least: int = SMALLEST_ANSWER,
        more_bytes: int = 0,
    ) -> int:
        """Set aside what a request may cost at worst, until `release`; gives the tokens that it may have, as above.

        Waits while what others have set aside leaves it less than there would be without them. `on_wait` is called once
        when these are other processes. An answer of fewer than `least` tokens is none; the request has `more_bytes` than
        the session.
        """
        self._least, self._more_tokens = least, more_bytes // 3
        whole = self.whole
        waited = False
        while True:
            room = self._room_in_memory(most)
            if room.tokens and not room.others:
                room = self._reserve_in_files(room)
                if room.others:
                    if not waited:
                        on_wait()
                    waited = True
                    # the time between two looks whether another process has come to the end of its request
                    await asyncio.sleep(0.3)  # nothing tells of what another process does
                    continue
            elif room.others:
                await whole._released.wait()
                continue
            break
        if not room.tokens:
            self._short = room
            self._release_files()
        elif whole._bounded:
            whole._reserved[self] = worst_case_usd(self.model, self._input_tokens(), room.tokens) or 0.0
        return room.tokens

    def release(self) -> None:
        """The request is over, and what it cost is counted."""
        whole = self.whole
        self._answer.end()
        self._release_files()
        if whole._reserved.pop(self, None) is not None:
            whole._released.set()
            whole._released = asyncio.Event()

    def streams(self, event: MessageStart | BlockEnd | TextDelta | ThinkingDelta | ToolInputDelta) -> None:
        """Follow the answer, so that what it has cost is known to others even if this process is killed."""
        if not self._in_files:
            return
        if isinstance(event, MessageStart):
            self._answer.begin(event)
            self._note()
            return
        self._answer.add(event)
        if not isinstance(event, BlockEnd):
            self._chars_to_note -= len(event.partial_json if isinstance(event, ToolInputDelta) else event.text)
        if self._chars_to_note < 0:
            self._note()

    def refusal(self) -> CellwrightError:
        """The error of a run whose next request its budgets do not pay for."""
        next_request = worst_case_usd(self.model, self._input_tokens(), self._least)
        room = self._short or self._room_in_memory(self._least)
        budget = room.budget or Budget(self.whole.budget_usd or 0.0)
        return budget_spent(budget.usd, room.spent_usd, next_request or 0.0, whose=budget.whose, set_by=budget.set_by)

    @property
    def _bounded(self) -> bool:
        shared = self._shared
        return self.budget_usd is not None or shared.session is not None or any(each.budget for each in shared.files)

    def _session_usd(self) -> float | None:
        """The cost of the session, and of those that it goes on from: a fork is no way around a budget."""
        own, before = self._session.cost_usd, self._session.cost_before_usd
        return None if own is None or before is None else own + before

    def _room_in_memory(self, most: int) -> _Room:
        """The room that the run's budget and the session's leave."""
        whole = self.whole
        reserved = sum(usd for who, usd in whole._reserved.items() if who is not self)
        rooms = [_Room(most)]
        if whole.budget_usd is not None:
            rooms.append(self._room(Budget(whole.budget_usd), whole.cost_usd, reserved, most))
        if (budget := whole._shared.session) is not None:
            rooms.append(self._room(budget, whole._session_usd(), reserved, most))
        return min(rooms, key=lambda room: room.tokens)

    def _reserve_in_files(self, room: _Room) -> _Room:
        """Set the request aside in the files that have a budget, in all of them or in none; gives the room it has then."""
        for counted in self.whole._shared.files:
            if (budget := counted.budget) is None:
                continue
            room_here = room

            def amounts(spent: Spent, budget: Budget = budget, most: int = room.tokens) -> tuple[float, float] | None:
                nonlocal room_here
                room_here = self._room(budget, spent.usd, spent.open_usd, most)
                if not room_here.tokens or room_here.others:
                    return None
                tokens = self._input_tokens()
                worst = worst_case_usd(self.model, tokens, room_here.tokens) or 0.0
                return worst, worst_case_usd(self.model, tokens, 0) or 0.0

            reservation = counted.file.reserve(amounts)
            room = room_here
            if reservation is None:
                self._release_files()
                return room
            self._in_files.append(reservation)
        return room

    def _room(self, budget: Budget, spent_usd: float | None, reserved_usd: float, most: int) -> _Room:
        def tokens_for(usd: float) -> int:
            tokens = affordable_tokens(self.model, self._input_tokens(), budget_usd=usd, spent_usd=spent_usd)
            return min(tokens, most) if tokens >= self._least else 0

        now = tokens_for(budget.usd - reserved_usd)
        return _Room(now, now < most and reserved_usd > 0 and now < tokens_for(budget.usd), budget, spent_usd or 0.0)

    def _input_tokens(self) -> int:
        return _input_tokens(self._session) + self._more_tokens

    def _note(self) -> None:
        # the part of an answer that may stream before it is noted again what it has cost
        self._chars_to_note = 2_000
        if (so_far := self._answer.so_far()) is not None and so_far[1] is not None:
            for reservation in self._in_files:
                reservation.costs_at_least(so_far[1])

    def _release_files(self) -> None:
        while self._in_files:
            self._in_files.pop().release()


def affordable_tokens(model: str, input_tokens: int, *, budget_usd: float, spent_usd: float | None) -> int:
    """Compute the output tokens left for the next request at worst; below 0 when its input is too dear already.

    Raises `CellwrightError` CONFIG_INVALID where the price is not known.
    """
    fixed, with_a_token = worst_case_usd(model, input_tokens, 0), worst_case_usd(model, input_tokens, 1)
    if fixed is None or with_a_token is None or spent_usd is None:
        raise price_unknown(model)
    # not the price of a token alone: a long prompt can make the output dearer too
    return int((budget_usd - spent_usd - fixed) / (with_a_token - fixed))


def _input_tokens(session: Session) -> int:
    """At most: three bytes a token is more than any text costs; the prefix was counted by the API already."""
    tokens = session.context_tokens + (session.uncounted_bytes + len(session.system)) // 3
    return tokens if session.context_tokens else tokens + len(session.tools) // 3


class Spent(Struct, frozen=True):
    """The content of the file: what was spent, and what requests that are open may cost, at worst."""

    usd: float
    open_usd: float

    @property
    def at_worst(self) -> float:
        return self.usd + self.open_usd


class SpendingFile:
    """Amounts in the file that `path` names when it is asked. Where it cannot be written, this process knows its own.

    All of it blocks on the disk for a moment. `begun` is called with a file that is to be made.
    """

    def __init__(self, path: Callable[[], Path], *, begun: Callable[[Path], object] = lambda _: None) -> None:
        self._path = path
        self._begun = begun
        self._own: dict[Path, float] = {}
        self._owner: transcript_lock.Lease | None = None
        self._numbers = itertools.count(1)

    def add(self, usd: float) -> None:
        """Count an amount."""
        path = self._path()
        self._own = {path: self._own.get(path, 0.0) + usd}
        self._write(path, f"{usd:.9f}")

    def usd(self) -> float:
        """Add up what was spent, open requests left out."""
        return self.spent().usd

    def spent(self, *, without: str = "") -> Spent:
        """Add up the file; the request `without` is left out."""
        path = self._path()
        return self._read(path, without)

    def reserve(self, usd_of: Callable[[Spent], tuple[float, float] | None]) -> Reservation | None:
        """Set aside what a request may cost: the worst and the least that `usd_of` gives for what is spent.

        None where it gives nothing. Nobody writes to the file between the two.
        """
        path = self._path()
        with self._locked(path):
            if (amounts := usd_of(self._read(path, ""))) is None:
                return None
            reservation = Reservation(self, path, f"{self._owner_id(path)}.{next(self._numbers)}")
            self._append(path, f"+{reservation.id} {amounts[0]:.9f} {amounts[1]:.9f}")
            return reservation

    def _write(self, path: Path, line: str) -> None:
        with self._locked(path):
            self._append(path, line)

    @contextlib.contextmanager
    def _locked(self, path: Path) -> Iterator[None]:
        held = None
        with contextlib.suppress(OSError):  # a file system without locks, or a full disk
            if not path.parent.exists() or not path.exists():
                make_private_folder(path.parent)
                self._begun(path)
            # the time that another process may take to write its line; then ours is written all the same
            held = transcript_lock.acquire(path.with_name(f"{path.name}.lock"), 2.0)
        try:
            yield
        finally:
            if held is not None:
                held.release()

    def _append(self, path: Path, line: str) -> None:
        with contextlib.suppress(OSError):  # it is known to this process
            descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, PRIVATE_FILE)
            with contextlib.closing(os.fdopen(descriptor, "r+b", buffering=0)) as file:
                size = file.seek(0, os.SEEK_END)
                # what a full disk left of a line must not run into this one
                torn = size and os.pread(descriptor, 1, size - 1) != b"\n" if hasattr(os, "pread") else False
                file.write(f"{chr(10) if torn else ''}{line}\n".encode())
            if size > MAX_BYTES:
                usd, requests = _lines(path)
                sums = [f"{usd:.9f}", *(f"+{id} {worst:.9f} {least:.9f}" for id, (worst, least) in requests.items())]
                write_atomic(path, "".join(f"{each}\n" for each in sums).encode(), PRIVATE_FILE)

    def _read(self, path: Path, without: str) -> Spent:
        usd, requests = _lines(path)
        open_usd = 0.0
        alive: dict[str, bool] = {}
        for id, (worst, least) in requests.items():
            if id == without:
                continue
            owner = id.partition(".")[0]
            if owner not in alive:
                alive[owner] = transcript_lock.is_held(_owner_path(path, owner))
            usd += 0.0 if alive[owner] else least
            open_usd += worst if alive[owner] else 0.0
        return Spent(max(usd, self._own.get(path, 0.0)), open_usd)

    def _owner_id(self, path: Path) -> str:
        """The name of this process, which holds a lock as long as it lives."""
        if self._owner is None or not self._owner.held:
            with contextlib.suppress(OSError):
                owners = _owner_path(path, "").parent
                make_private_folder(owners)
                # the locks of processes that are gone for good
                for file in owners.iterdir():
                    with contextlib.suppress(OSError):
                        if file.stat().st_mtime < time.time() - 7 * 86_400 and not transcript_lock.is_held(file):
                            file.unlink()
                self._owner = transcript_lock.acquire(_owner_path(path, secrets.token_hex(6)), 0)
        return "unknown" if self._owner is None else self._owner.path.name.removesuffix(".lock")


class Reservation(Struct, frozen=True):
    """The cost that one request may have, set aside in a file until `release`."""

    file: SpendingFile
    path: Path
    id: str

    def costs_at_least(self, usd: float) -> None:
        """Say what it has cost by now, for the case that this process does not live to count it."""
        self.file._write(self.path, f"={self.id} {usd:.9f}")

    def release(self) -> None:
        """The request is over, and what it cost is counted."""
        self.file._write(self.path, f"-{self.id}")


def day_spending(folder: Path, today: Callable[[], str] = lambda: time.strftime("%Y-%m-%d")) -> SpendingFile:
    """Return the spending of a day, the user's: one file for each in `folder`, those before yesterday are deleted."""

    def forget_earlier(path: Path) -> None:
        yesterday = (datetime.date.fromisoformat(path.name) - datetime.timedelta(days=1)).isoformat()
        for file in folder.iterdir():  # in another time zone it may still be yesterday
            if file.is_file() and file.name < yesterday:
                file.unlink(missing_ok=True)

    return SpendingFile(lambda: folder / today(), begun=forget_earlier)


def completion_spending() -> SpendingFile:
    """Return the user's daily spending on inline completion."""
    return day_spending(state_folder() / "completion-spending")


def _lines(path: Path) -> tuple[float, dict[str, tuple[float, float]]]:
    """The sum of the amounts, and the open requests' worst and least."""
    try:
        lines = path.read_text("ascii", "replace").splitlines()
    except OSError:
        lines = []
    usd, requests = 0.0, dict[str, tuple[float, float]]()
    for line in lines:
        match line[:1], line[1:].split():
            case "+", [id, worst, least]:
                requests[id] = (_amount(worst), _amount(least))
            case "=", [id, least] if id in requests:
                requests[id] = (requests[id][0], _amount(least))
            case "-", [id]:
                requests.pop(id, None)
            case _:
                usd += _amount(line)
    return usd, requests


def _amount(text: str) -> float:
    try:
        usd = float(text)
    except ValueError:  # a line that was cut off as the disk was full
        return 0.0
    return usd if 0 <= usd < 1e6 else 0.0


def _owner_path(path: Path, owner: str) -> Path:
    return path.parent / "owners" / f"{owner}.lock"
