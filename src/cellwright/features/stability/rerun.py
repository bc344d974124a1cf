"""The feature of `/stability`: the calls that gave an answer's numbers run again on perturbed data, in copies of the kernel.

No run asks it anything: the test is made when the user asks for it. Each call runs in a new copy. Nothing is sent, no model
is asked, and the kernel's own variables stay as they are. All of it on the agent's loop.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from cellwright.conversation.kernel_copies import CannotRerun, Copies, KernelCode, Ran, Step
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.events import Number
from cellwright.features.numbers.answers import SeenNumbers
from cellwright.features.numbers.sources import Source
from cellwright.features.numbers.stale import lines_of
from cellwright.features.numbers.trace import trace
from cellwright.features.stability import perturb
from cellwright.features.stability.report import (
    Followed,
    Kind,
    NumberStability,
    Spread,
    StabilityReport,
    Stated,
    Texts,
    follow,
    judged,
    not_followed,
)
from cellwright.features.stability.steps import (
    Frame,
    best_frame,
    best_label,
    loaded_names,
    needed_cells,
    with_hook,
    with_seed,
)
from cellwright.sessions.api_messages import begins_turn
from cellwright.sessions.session import Session
from cellwright.text import lazy_pattern

RESAMPLES = 50
MOST_RESAMPLES = 1_000
SECONDS = 60.0
MOST_SECONDS = 3_600.0
FIRST_SEED = 1
MOST_SEED = 2**31 - 10_000
BASELINE_SECONDS = 120.0
"""The time for the first run, on unchanged data; each later one may take five times as long as that did."""
CODE_TOOLS = frozenset({"Branch", "Python"})

NO_NUMBERS = (
    "The last answer has no numbers that come from code: only results of Branch, Python and cells are run again."
)


class Wish(Struct, frozen=True):
    """The user's words: names of a frame, a label column and a column of groups, the number of resamples, the seconds.

    "" for what is to be chosen; a label "none" for no permutation. `answer`: words of an earlier answer, or its hash.
    """

    frame: str = ""
    label: str = ""
    by: str = ""
    resamples: int = RESAMPLES
    seconds: float = SECONDS
    seed: int = FIRST_SEED
    answer: str = ""


class Choice(Struct, frozen=True):
    """The data to perturb. `companions` are resampled in step with the frame; `others` are frames that could be meant."""

    frame: Frame
    label: str
    by: str = ""
    companions: tuple[str, ...] = ()
    others: tuple[Frame, ...] = ()


Confirm = Callable[[Choice, str], Awaitable[Choice | None]]
"""Asks the user about a choice; the words are those of the copies. None: nothing is to be run."""


class _Answer(Struct, frozen=True):
    """An answer's numbers, what was seen before it, and the steps that gave the numbers."""

    text: str
    numbers: Sequence[Number]
    sources: Sequence[Source]
    calls: Sequence[Step]


class _Job(Struct, frozen=True):
    kind: Kind
    part: int


class _Runs(Struct):
    """The outputs of the runs so far by kind and part, None of one that failed altogether."""

    texts: dict[Kind, dict[int, Texts | None]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


class Chooser:
    """The choice of what is perturbed, made once for a session."""

    def __init__(self) -> None:
        self._chosen: Choice | None = None
        self._of_session = ""

    async def choose(
        self,
        copies: Copies,
        session: Session,
        wish: Wish,
        cells: Sequence[Step],
        calls: Sequence[Step],
        confirm: Confirm,
    ) -> Choice | None:
        """Look at the frames that the code uses, and choose one."""
        names = list(loaded_names([*cells, *calls]))
        names = [*dict.fromkeys([*filter(None, (wish.frame, wish.label)), *names])][:200]
        describe = _code("describe", f"get_ipython().user_ns, {names!r}")
        ran = await copies.run([describe, *(step.code for step in calls), describe], BASELINE_SECONDS)
        if ran and ran[0].problem:
            raise CannotRerun(ran[0].problem)
        frames = {frame.name: frame for each in (ran[:1], ran[-1:]) for one in each for frame in _frames(one.text)}
        ranked = best_frame(list(frames.values()), cells, calls)
        if wish.frame and wish.frame not in frames:
            known = ", ".join(frame.name for frame in ranked[:8]) or "none"
            message = f"No frame or array {wish.frame!r} in this kernel. The code uses: {known}. Nothing was run."
            raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
        if not ranked:
            text = "The code that gave the numbers uses no pandas or polars frame and no array"
            problem = next((each.problem for each in ran if each.problem), "")
            failed = f" Run again, the code failed: {problem}" if problem else ""
            raise CannotRerun(f"{text}, so there are no rows to resample.{failed}")
        known_before = self._chosen if self._of_session == session.id else None
        if not wish.frame and known_before is not None and known_before.frame.name in frames:
            frame = frames[known_before.frame.name]
            return _choice(frame, wish, ranked, cells, calls, label=known_before.label or "none")
        choice = _choice(frames[wish.frame] if wish.frame else ranked[0], wish, ranked, cells, calls)
        if not wish.frame:
            confirmed = await confirm(choice, copies.words)
            if confirmed is None:
                return None
            if confirmed.frame != choice.frame:
                confirmed = _choice(confirmed.frame, wish, ranked, cells, calls)
            choice = confirmed
        self._chosen, self._of_session = choice, session.id
        return choice


class Stability:
    """The stability of the answers of one conversation. `kernel` gives what copies the kernel. On the agent's loop."""

    def __init__(self, kernel: Callable[[], KernelCode]) -> None:
        self._kernel = kernel
        self._chooser = Chooser()

    async def test(
        self,
        session: Session,
        wish: Wish,
        *,
        approve: Callable[[str, Sequence[Step]], Awaitable[bool]],
        confirm: Confirm,
        progress: Callable[[str], None],
    ) -> StabilityReport | None:
        """Test the numbers of the last answer, or of the one that `wish` names; None if the user does not want to.

        `approve` is asked if the code could do harm. `confirm` gets the choice that was guessed and says what is to be done;
        it is asked once a session, and not if the wish names a frame. Raises CannotRerun, and CellwrightError for names that
        are unknown.
        """
        kernel = self._kernel()
        cells = kernel.cells()
        answer = await asyncio.to_thread(_read, session, wish, {cell.id: cell for cell in cells})
        if not answer.calls:
            raise CannotRerun(NO_NUMBERS)
        async with kernel.copies([step.code for step in answer.calls]) as copies:
            if copies.asks and not await approve(copies.asks, answer.calls):
                return None
            progress(f"Looking at the data in {copies.words}…")
            choice = await self._chooser.choose(copies, session, wish, cells, answer.calls, confirm)
            if choice is None:
                return None
            steps = [*needed_cells(cells, answer.calls, choice.frame.name), *answer.calls]
            reruns = _Reruns(copies, wish, choice, steps)
            began = time.monotonic()
            runs = await reruns.run(progress)
            return _report(answer, runs, reruns, time.monotonic() - began)


def _choice(
    frame: Frame, wish: Wish, ranked: Sequence[Frame], cells: Sequence[Step], calls: Sequence[Step], label: str = ""
) -> Choice:
    """Return the choice of `frame` with its label: the one that is wished, `label`, or the likeliest."""
    used = [*needed_cells(cells, calls, frame.name), *calls]
    others = [other for other in ranked if other.name != frame.name]
    label = wish.label or label or best_label(frame, others, used)
    by_name = {other.name: other for other in others}
    if label == "none":
        label = ""
    elif label and label not in frame.columns and (label not in by_name or by_name[label].rows != frame.rows):
        known = ", ".join(frame.columns[:12]) or "none"
        message = f"{frame.name} has no column {label!r}, and no variable of that name has its rows. Columns: {known}."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, f"{message} Nothing was run.")
    if wish.by and wish.by not in frame.columns:
        message = f"{frame.name} has no column {wish.by!r} to keep together. Nothing was run."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    names = loaded_names(calls)
    companions = tuple(
        other.name for other in others if other.rows == frame.rows and (names[other.name] or other.name == label)
    )
    return Choice(frame, label, wish.by, companions, tuple(others))


class _Reruns:
    """Runs the steps on perturbed data until all is done or the time is over."""

    def __init__(self, copies: Copies, wish: Wish, choice: Choice, steps: Sequence[Step]) -> None:
        self.copies = copies
        self.wish = wish
        self.choice = choice
        self.steps = [replace(step, code=with_hook(step.code, choice.frame.name)) for step in steps]
        permuted = wish.resamples if choice.label else 0
        self.planned: dict[Kind, int] = {
            "bootstrap": wish.resamples,
            "permuted": permuted,
            "leave_out": 10,
            "seed": 5,
        }
        self.again: Ran | None = None

    async def run(self, progress: Callable[[str], None]) -> _Runs:
        """Return the outputs. The run on unchanged data comes first; the others are mixed, so each kind gets its share."""
        runs = _Runs()
        progress(f"Running {len(self.steps)} piece{'s' if len(self.steps) > 1 else ''} of code on unchanged data…")
        began = time.monotonic()
        texts = await self._one(None, BASELINE_SECONDS, runs)
        runs.texts = {kind: {} for kind in self.planned}
        self.baseline: Texts = texts or {}
        each = max(5.0, 5 * (time.monotonic() - began))
        jobs = sorted(
            ((part + 0.5) / count, kind, part) for kind, count in self.planned.items() for part in range(count)
        )
        waiting = [_Job(kind, part) for _, kind, part in reversed(jobs)]
        deadline = began + self.wish.seconds
        workers = min(4, os.cpu_count() or 1)  # copies that work at once
        done = 0
        told = 0

        async def work() -> None:
            nonlocal done, told
            while waiting and (left := deadline - time.monotonic()) > 0:
                job = waiting.pop()
                texts = await self._one(job, min(each, max(left, 1.0)), runs)
                if time.monotonic() > deadline:  # it was cut off: its output says nothing
                    return
                runs.texts[job.kind][job.part] = texts
                done += 1
                if (quarter := 4 * done // len(jobs)) > told and done < len(jobs):
                    told = quarter
                    progress(f"{done} of {len(jobs)} runs, {time.monotonic() - began:.0f} s")

        async with asyncio.TaskGroup() as group:
            for _ in range(workers):
                group.create_task(work())
        return runs

    async def _one(self, job: _Job | None, seconds: float, runs: _Runs) -> Texts | None:
        """Run all steps once; gives their outputs by the steps' ids, None if there are none."""
        seed = self.wish.seed + (0 if job is None or job.kind == "leave_out" else job.part)
        spec = {
            "kind": "none" if job is None else job.kind,
            "frame": self.choice.frame.name,
            "label": self.choice.label,
            "by": self.choice.by,
            "also": list(self.choice.companions),
            "seed": seed,
            "part": 0 if job is None else job.part,
        }
        begin = _code("begin", f"get_ipython().user_ns, {spec!r}")
        codes = [
            with_seed(step.code, seed + 1_000) if job is not None and job.kind == "seed" else step.code
            for step in self.steps
        ]
        ran = await self.copies.run([begin, *codes], seconds)
        for each in ran:
            if each.problem and len(runs.problems) < 3 and each.problem not in runs.problems:
                runs.problems.append(each.problem)
        if len(ran) < 2 or ran[0].problem:
            return None
        found: dict[str, str] = {}
        for step, result in zip(self.steps, ran[1:], strict=False):
            found[step.id] = f"{found[step.id]}\n{result.text}" if step.id in found else result.text
        return {step: lines_of(text) for step, text in found.items()}


def _code(function: str, arguments: str) -> str:
    """Return code that calls a function of `perturb` in a kernel that need not have it."""
    source = inspect.getsource(perturb)
    return (
        f"exec(compile({source!r}, '<stability>', 'exec'), (__cellwright_stability__ := {{'__name__': 'stability'}}))\n"
        f"__cellwright_stability__[{function!r}]({arguments})"
    )


def _frames(text: str) -> list[Frame]:
    """Return the frames that a copy describes. Its line is read as the words of a stranger."""
    line = next((line for line in reversed(text.split("\n")) if line.startswith(perturb.MARK)), "")
    try:
        entries: Any = json.loads(line.removeprefix(perturb.MARK))
    except (ValueError, RecursionError):
        return []
    found: list[Frame] = []
    for entry in entries if isinstance(entries, list) else ():
        match entry:
            case {"name": str(name), "rows": int(rows), "columns": list(columns), "times": bool(times)}:
                found.append(Frame(name, rows, tuple(str(column) for column in columns), times))
            case _:
                pass
    return found


def _report(answer: _Answer, runs: _Runs, reruns: _Reruns, seconds: float) -> StabilityReport:
    choice = reruns.choice
    numbers = [
        _number(number, follow(number, answer.text, answer.numbers, answer.sources), runs, reruns)
        for number in answer.numbers
        if number.source is not None and number.verdict in ("seen", "derived")
    ]
    notes = [f"In a run the code failed: {problem}" for problem in runs.problems[:1]]
    if choice.frame.times:
        notes.append(
            "The rows are a series in time: blocks of neighbouring rows were drawn, and each tenth is one block."
        )
    return StabilityReport(
        frame=choice.frame.name,
        rows_of_frame=choice.frame.rows,
        label=choice.label,
        by=choice.by,
        numbers=tuple(numbers),
        done={kind: len(runs.texts[kind]) for kind in reruns.planned},
        planned=dict(reruns.planned),
        seed=reruns.wish.seed,
        seconds=round(seconds, 1),
        copies=reruns.copies.words,
        unit=f"groups of {choice.by}" if choice.by else "blocks of rows" if choice.frame.times else "rows",
        ran=tuple(dict.fromkeys(step.name for step in reruns.steps)),
        notes=tuple(notes),
    )


def _number(number: Number, followed: Followed | None, runs: _Runs, reruns: _Reruns) -> NumberStability:
    assert number.source is not None
    source = number.source.words
    if followed is None or any(term.step not in {step.id for step in reruns.steps} for term in followed.terms):
        kind = "is no result of code" if number.source.kind not in ("output", "cell") else "cannot be followed"
        return not_followed(number.text, source, kind)
    spreads: list[Spread] = []
    for kind, texts in runs.texts.items():
        found = [None if each is None else followed.value(each) for _, each in sorted(texts.items(), key=itemgetter(0))]
        values = tuple(value for value in found if value is not None)
        spreads.append(Spread(kind, values, len(found) - len(values)))
    text = f"−{number.text}" if followed.then < 0 else number.text
    stated = Stated(text, number.value, number.resolution, source, followed.then)
    again = followed.value(reruns.baseline)
    return judged(stated, again, spreads, reruns.choice.frame.name, reruns.choice.label)


def _read(session: Session, wish: Wish, cells: Mapping[str, Step]) -> _Answer:
    """Return the answer's numbers and the code that gave them; in a worker thread, as a session may hold a million numbers.

    A call of Claude's may use what earlier calls of its turn have defined, so these are run again, too.
    """
    messages = list(session.story)
    end, text = _answer_in(messages, wish.answer)
    if not text:
        return _Answer("", (), (), ())
    sources = SeenNumbers().of(messages[:end])
    numbers = [number for number in trace(text, sources) if number.verdict in ("seen", "derived")]
    followed = (follow(number, text, numbers, sources) for number in numbers)
    wanted = {term.step for found in followed if found is not None for term in found.terms}
    steps: list[Step] = []
    of_turn: list[Step] = []
    last = 0
    number = 0
    failed: set[str] = set()
    for message in map(json.loads, messages[:end]):
        content = message["content"]
        if message["role"] == "user" and begins_turn(message):
            steps += of_turn[:last]
            of_turn, last = [], 0
        for block in content if isinstance(content, list) else ():
            if block.get("type") == "tool_use":
                number += 1
                if block["name"] in CODE_TOOLS and isinstance(code := block["input"].get("code"), str):
                    of_turn.append(Step(block["id"], f"{block['name']}, call {number}", code))
                    if block["id"] in wanted:
                        last = len(of_turn)
            elif block.get("type") == "tool_result" and block.get("is_error"):
                failed.add(block["tool_use_id"])
    steps += of_turn[:last]
    steps = [step for step in steps if step.id not in failed or step.id in wanted]
    # a cell that Claude ran or read comes as it ran last
    steps += [cells[step] for step in sorted(wanted) if step in cells and all(step != each.id for each in steps)]
    return _Answer(text, numbers, sources, steps)


def _answer_in(messages: Sequence[bytes], name: str) -> tuple[int, str]:
    """Return the last answer, or that with the words `name` or the hash `name`, and where its messages end."""
    for at in reversed(range(len(messages))):
        message = json.loads(messages[at])
        if message["role"] != "assistant":
            continue
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        texts = [block["text"] for block in blocks if block.get("type") == "text"]
        for text in ("\n\n".join(texts), "".join(texts)):
            if text and (
                _words(name) in _words(text) or hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:12] == name
            ):
                return at, text
    return 0, ""


def _words(text: str) -> str:
    """The words of `text` alone, as the button at an answer's numbers quotes them."""
    return " ".join(_WORD.findall(text))


_WORD = lazy_pattern(r"\w+")
