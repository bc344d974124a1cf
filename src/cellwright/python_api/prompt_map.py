"""`cellwright.map`: a list of prompts, or a column of them, each asked by itself, several at a time.

How many are asked at once: additive increase, multiplicative decrease, as TCP does it (Chiu and Jain, 1989): half as many
after a refusal, one more after as many answers as there are places.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import hashlib
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError, Executor
from pathlib import Path
from typing import Any, Unpack

from msgspec import Struct

from cellwright.agent.agent_setup import AgentSetup
from cellwright.agent.run_errors import budget_spent, price_unknown
from cellwright.agent.structured_output import AnswerProblem, AnswerType
from cellwright.agent.thread import is_agent_code
from cellwright.agent.tool import Tool
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.features.conversation import Conversation
from cellwright.features.process_conversation import registered
from cellwright.model.models import limits
from cellwright.model.pricing import BATCH_FACTOR, worst_case_usd
from cellwright.python_api.ask import process_conversation
from cellwright.python_api.ask_option_types import PromptOptions
from cellwright.python_api.ask_options import CONCURRENCY, MAP_DEFAULTS, OF_ALL_PROMPTS, checked_options, spelled_out
from cellwright.python_api.map_requests import (
    SYSTEM,
    MapOptions,
    Progress,
    ask_in_batches,
    ask_in_worker,
    ask_one,
    map_agent,
    progress_for,
)
from cellwright.python_api.map_result import Answer, AnswerStore, MapResult, MapRow, default_store, error_of
from cellwright.sessions.state_dir import state_folder

USERS_TO_MEND = (ErrorCode.API_KEY_MISSING, ErrorCode.API_KEY_INVALID, ErrorCode.CONFIG_INVALID)
"""Errors that each further prompt would meet."""


class Concurrency:
    """At most `most` at once. Used on one event loop."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.limit = most
        self.taken = 0
        self._answered = 0
        self._changed = asyncio.Event()

    @contextlib.asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Wait for a place, and have it for the time of the block."""
        while self.taken >= self.limit:
            self._changed.clear()
            await self._changed.wait()
        self.taken += 1
        try:
            yield
        finally:
            self.taken -= 1
            self._changed.set()

    def refused(self) -> None:
        """The API answers that there were too many requests, or that it is overloaded."""
        self.limit = max(1, min(self.limit, self.taken) // 2)
        self._answered = 0

    def answered(self) -> None:
        """The API has answered a prompt."""
        self._answered += 1
        if self._answered >= self.limit and self.limit < self.most:
            self.limit += 1
            self._answered = 0
            self._changed.set()


class MapBudget:
    """US dollars; each prompt sets aside what it may cost at worst. `places` are asked at once. Used on one event loop."""

    def __init__(self, budget_usd: float | None, *, model: str, max_tokens: int, fixed_bytes: int, places: int) -> None:
        self.budget_usd = budget_usd
        self.spent_usd = 0.0
        self._model = model
        self._max_tokens = max_tokens
        self._fixed_bytes = fixed_bytes
        self._places = places
        self._reserved: dict[str, float] = {}
        self._released = asyncio.Event()

    def worst_case(self, prompt: str) -> float:
        """The most that one answer to `prompt` can cost. Raises `CellwrightError` where the price is not known."""
        return self._usd(prompt, self._max_tokens)

    def _usd(self, prompt: str, max_tokens: int) -> float:
        # no text takes fewer bytes a token: what is sent is counted at its dearest
        tokens = (len(prompt.encode(errors="replace")) + self._fixed_bytes) // 3 + 1
        usd = worst_case_usd(self._model, tokens, max_tokens)
        if usd is None:
            raise price_unknown(self._model)
        return usd

    def _refusal(self, prompts: Sequence[str], needed: float, factor: float = 1.0) -> CellwrightError:
        """The error where asking `prompts` at once is too dear, with the `max_tokens` with which it is not."""
        assert self.budget_usd is not None
        # a token's price depends on the length of its prompt
        fixed = sum(self._usd(prompt, 0) for prompt in prompts) * factor
        each = sum(self._usd(prompt, 1) for prompt in prompts) * factor - fixed
        fitting = int((self.budget_usd - self.spent_usd - fixed) / each)
        return budget_spent(self.budget_usd, self.spent_usd, needed, fitting_tokens=fitting)

    async def reserve(self, key: str, prompt: str) -> float | None:
        """Set aside what `prompt` may spend, and return it; None without a budget. Waits while others hold what it needs.

        Raises `CellwrightError` BUDGET_EXCEEDED where the rest does not pay for it.
        """
        if self.budget_usd is None:
            return None
        needed = self.worst_case(prompt)
        while (left := self.budget_usd - self.spent_usd - sum(self._reserved.values())) < needed:
            if not self._reserved:
                raise self._refusal([prompt], needed)
            self._released.clear()
            await self._released.wait()
        # what goes on after the output limit, or asks once more for a valid answer, has a fair part
        share = max(needed, left / max(1, self._places - len(self._reserved)))
        self._reserved[key] = share
        return share

    def release(self, key: str, cost_usd: float | None) -> None:
        """The prompt has come to its end, and has cost this."""
        reserved = self._reserved.pop(key, 0.0)
        self.spent_usd += reserved if cost_usd is None else cost_usd
        self._released.set()

    def check_all(self, prompts: Sequence[str], factor: float) -> None:
        """Raises `CellwrightError` BUDGET_EXCEEDED where asking all `prompts` at once could cost more than there is."""
        if self.budget_usd is None:
            return
        needed = sum(self.worst_case(each) for each in prompts) * factor
        if needed > self.budget_usd - self.spent_usd:
            raise self._refusal(prompts, needed, factor)


@spelled_out(MAP_DEFAULTS)
def map(
    prompts: Iterable[str] | Mapping[Any, str],
    *,
    system: str | None = None,
    schema: Any = None,
    tools: Sequence[Tool | str] = (),
    budget: float | None = None,
    concurrency: int = 8,
    store: str | Path | None = None,
    executor: Executor | None = None,
    batch: bool = False,
    progress: bool = True,
    **options: Unpack[PromptOptions],
) -> MapResult:
    """Ask Claude each of `prompts` by itself, `concurrency` at a time, and give back a row for each; blocks.

    `prompts` are texts: a list, a Series, a column, or a dict. They are asked without the conversation and its tools;
    `tools` are `Tool` objects or names of built-in ones, and what would ask for permission is denied unless `allow` has a
    rule for it. `system` replaces the few words that Claude is told besides. `schema` is as in `ask`. `budget` is in US
    dollars, for all prompts together, and is not passed. The other options are as in `ask`, for each prompt; `max_tokens` is
    4,000 by default. While the API refuses, fewer are asked at once.

    Each answer is in the file `store` before it is counted. What is called again with the same prompts and options asks
    only for those that are missing. Without `store` the file is Cellwright's own, and is kept until all are answered.
    `executor` is any `concurrent.futures.Executor` whose workers have Cellwright and a key; a prompt whose worker died is
    asked again, three times in all. `batch=True` uses the Message
    Batches API: half the price, an answer within a day. `progress=False` shows no bar.

    A prompt that fails is a row with an `error`. Raises `CellwrightError` for what each prompt would meet (no key, no
    network, the budget), `KeyboardInterrupt` when it was interrupted; the answers that came are kept.

    >>> import cellwright
    >>> result = cellwright.map({"north": "Which tables are here?"}, max_tokens=500)
    >>> result[0].index, result[0].text
    ('north', 'There is one: sales.csv.')
    """
    if is_agent_code():
        message = "Code that Claude runs cannot ask Claude. Call `map` from a cell of your own."
        raise CellwrightError(ErrorCode.EXECUTION_ERROR, message)
    numbers = checked_options({CONCURRENCY.name: concurrency, "budget": budget}, OF_ALL_PROMPTS)
    concurrency, budget = numbers[CONCURRENCY.name] or CONCURRENCY.default, numbers["budget"]
    of_each = MapOptions(
        system=SYSTEM if system is None else system,
        schema=schema,
        tools=tuple(tools),
        run={**MAP_DEFAULTS, **checked_options(options, MAP_DEFAULTS)},
    )
    _check(of_each, batch=batch, executor=executor)
    conversation = process_conversation().conversation
    agent = map_agent(conversation, of_each)
    asked = _prompts_of(prompts, _fingerprint(agent, of_each))
    work = PromptMap(
        conversation=conversation,
        options=of_each,
        agent=agent,
        prompts=asked,
        path=default_store([prompt.key for prompt in asked]) if store is None else Path(store).expanduser().absolute(),
        keeps_store=store is not None,
        concurrency=Concurrency(concurrency),
        budget=MapBudget(
            budget,
            model=agent.model,
            max_tokens=min(agent.model_settings.max_tokens, limits(agent.model).max_output),
            fixed_bytes=len(json.dumps([*agent.system, *agent.tool_params])) + 2_000,
            places=concurrency,
        ),
        executor=executor,
        batch=batch,
        progress=progress_for(len(asked), shown=progress, in_notebook=registered() is not None),
    )
    return work.result()


class MapPrompt(Struct, frozen=True):
    """One prompt: its label, its text, and the `key` of its answer. `problem` says why it cannot be asked."""

    index: Any
    key: str
    text: str
    problem: str = ""


class _WorkerFailed(Exception):
    """A prompt has no answer, for a reason that is its worker's or the executor's: another try may have one."""


def _failed(key: str, why: object) -> Answer:
    """The answer of a prompt that the executor has none for; on the way to the model, so many in a row end the call."""
    message = f"The executor failed: {why}"
    return Answer(key=key, cost_usd=None, error_code=str(ErrorCode.EXECUTION_ERROR), error=message, recoverable=True)


@dataclasses.dataclass(kw_only=True)
class PromptMap:
    """One call of `map` at work."""

    conversation: Conversation
    options: MapOptions
    agent: AgentSetup
    prompts: Sequence[MapPrompt]
    path: Path
    keeps_store: bool
    concurrency: Concurrency
    budget: MapBudget
    executor: Executor | None
    batch: bool
    progress: Progress
    answers: dict[str, Answer] = dataclasses.field(default_factory=dict)
    kept: frozenset[str] = frozenset()
    failures_in_a_row: int = 0
    ended_by: CellwrightError | None = None

    def result(self) -> MapResult:
        """Ask, and wait on this thread. Raises as `map`."""
        task = self.conversation.thread.submit(self._work())
        jobs = self.conversation.jobs
        try:
            jobs.work_until_done(task)
        except KeyboardInterrupt:
            task.cancel()
            jobs.work_until_done(task)
        try:
            task.result()
        except CancelledError:
            raise KeyboardInterrupt(f"interrupted: {self._how_far()}") from None
        except CellwrightError as error:
            self.ended_by = error
        if (why := self.ended_by) is not None:
            message = f"{why.message} {self._how_far()}"
            raise CellwrightError(why.code, message, details=why.details, recoverable=why.recoverable)
        answer_type = self.options.answer_type
        return MapResult([self._row(prompt, answer_type) for prompt in self.prompts])

    def _how_far(self) -> str:
        answered = sum(not answer.error for answer in self.answers.values())
        how_far = f"{answered:,} of {len(self.prompts):,} prompts are answered"
        if not answered:
            return f"{how_far[0].upper()}{how_far[1:]}."
        return f"{how_far} and kept in {self.path}: call it again with the same arguments to continue."

    async def _work(self) -> None:
        store = await asyncio.to_thread(self._open_store)
        try:
            # the same prompt may have failed before: it is asked again
            good = {key: answer for key, answer in store.answers.items() if not answer.error}
            self.kept = frozenset(prompt.key for prompt in self.prompts) & good.keys()
            self.answers = {key: good[key] for key in self.kept}
            self.progress.keep(len(self.kept))
            missing = [prompt for prompt in self.prompts if prompt.key not in self.kept and not prompt.problem]
            self.progress.keep(len(self.prompts) - len(self.kept) - len(missing))
            self.progress.show(at_once=True)
            if self.batch:
                await self._ask_in_batches(missing, store)
            else:
                await self._ask_all(missing, store)
        finally:
            self.progress.end()
            complete = len(self.answers) + sum(bool(p.problem) for p in self.prompts) == len(self.prompts)
            failed = any(answer.error for answer in self.answers.values())
            store.close(discard=complete and not failed and not self.keeps_store)

    def _open_store(self) -> AnswerStore:
        _forget_old_stores(self.conversation.in_force.settings.cleanup_period_days)
        return AnswerStore(self.path)

    async def _ask_all(self, missing: Sequence[MapPrompt], store: AnswerStore) -> None:
        async with asyncio.TaskGroup() as tasks:
            for prompt in missing:
                started = asyncio.Event()
                tasks.create_task(self._ask(prompt, store, started))
                # the next one is made when this one has its place: a million prompts are no million tasks
                await started.wait()
                if self.ended_by is not None:
                    return

    async def _ask(self, prompt: MapPrompt, store: AnswerStore, started: asyncio.Event) -> None:
        try:
            async with self.concurrency.place():
                failed: _WorkerFailed | None = None
                # a prompt is given to an executor so often; what its last worker raises is its row's error
                for attempt in range(3):
                    if self.ended_by is not None:
                        return
                    try:
                        budget_usd = await self.budget.reserve(prompt.key, prompt.text)
                    except CellwrightError as error:
                        self.ended_by = self.ended_by or error
                        return
                    started.set()
                    answer: Answer | None = None
                    try:
                        answer = await self._answer(prompt, budget_usd, attempt)
                    except _WorkerFailed as error:
                        failed = error
                        continue
                    finally:  # what a worker has spent before it died is not known
                        self.budget.release(prompt.key, None if answer is None else answer.cost_usd)
                    await self._keep(store, answer)
                    return
                await self._keep(store, _failed(prompt.key, failed))
        finally:
            started.set()

    async def _answer(self, prompt: MapPrompt, budget_usd: float | None, attempt: int) -> Answer:
        if self.executor is None:
            agent = dataclasses.replace(
                self.agent, limits=dataclasses.replace(self.agent.limits, budget_usd=budget_usd)
            )
            log = self.conversation.features.tool_log.beside()
            asking = ask_one(
                agent,
                self.conversation.cwd,
                prompt.key,
                prompt.text,
                on_refused=self.concurrency.refused,
                on_event=log.add,
            )
            return await asking
        try:
            future = self.executor.submit(ask_in_worker, self.options, prompt.key, prompt.text, budget_usd, attempt)
        except Exception as error:  # noqa: BLE001  whatever it is: the executor takes nothing any more
            message = f"The executor takes no more prompts: {type(error).__name__}: {error}"
            self.ended_by = self.ended_by or CellwrightError(ErrorCode.EXECUTION_ERROR, message)
            return _failed(prompt.key, message)
        try:
            answer = await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and not task.cancelling():  # by the executor, which has lost its worker
                raise _WorkerFailed("The executor has given it up.") from None
            future.cancel()
            raise
        except CellwrightError as error:
            return Answer(
                key=prompt.key, error_code=str(error.code), error=error.message, recoverable=error.recoverable
            )
        except Exception as error:  # a worker that died, options that cannot be pickled
            raise _WorkerFailed(f"{type(error).__name__}: {error}") from error
        for _ in range(answer.rate_limited):
            self.concurrency.refused()
        return answer

    async def _keep(self, store: AnswerStore, answer: Answer) -> None:
        await asyncio.shield(asyncio.to_thread(store.add, answer))
        self.answers[answer.key] = answer
        if answer.error:
            of_the_way = answer.recoverable or answer.error_code.startswith("API_")
            self.failures_in_a_row = self.failures_in_a_row + 1 if of_the_way else 0
            # prompts that fail one after another on the way to the model: no more are asked
            lost = self.failures_in_a_row >= max(10, self.concurrency.most)
            if self.ended_by is None and (lost or answer.error_code in USERS_TO_MEND):
                self.ended_by = error_of(answer.error_code, answer.error, recoverable=answer.recoverable)
        else:
            self.failures_in_a_row = 0
            self.concurrency.answered()
        self.progress.count(answer.cost_usd, failed=bool(answer.error))

    async def _ask_in_batches(self, missing: Sequence[MapPrompt], store: AnswerStore) -> None:
        sent = {key for batch in store.batches for key in batch.keys}
        self.budget.check_all([prompt.text for prompt in missing if prompt.key not in sent], BATCH_FACTOR)
        asked = [(prompt.key, prompt.text) for prompt in missing]

        async def keep(store: AnswerStore, answer: Answer) -> None:
            if answer.cost_usd:  # no run counts it
                for counted in self.agent.limits.shared_budgets.files:
                    counted.file.add(answer.cost_usd)
            await self._keep(store, answer)

        await ask_in_batches(self.agent, asked, store, self.progress, keep)

    def _row(self, prompt: MapPrompt, answer_type: AnswerType | None) -> MapRow:
        if prompt.problem:
            error = CellwrightError(ErrorCode.INVALID_PARAMETERS, prompt.problem)
            return MapRow(prompt.index, prompt.text, error=error)
        answer = self.answers[prompt.key]
        value, failure = None, None
        if answer.error:
            failure = error_of(answer.error_code, answer.error, recoverable=answer.recoverable)
        elif answer_type is not None:
            try:
                value = answer_type.read(answer.text)
            except AnswerProblem as problem:  # a batch asks once
                message = f"The answer is not a valid {answer_type.name}: {problem}."
                failure = CellwrightError(ErrorCode.EXECUTION_ERROR, message)
        return MapRow(
            prompt.index,
            prompt.text,
            text=answer.text,
            value=value,
            error=failure,
            stop_reason=answer.stop_reason,
            usage=answer.usage,
            cost_usd=answer.cost_usd,
            seconds=answer.seconds,
            kept=prompt.key in self.kept,
        )


def _check(options: MapOptions, *, batch: bool, executor: Executor | None) -> None:
    if batch and (options.tools or executor is not None):
        message = (
            "A batch asks each prompt once, at the API: it has neither `tools` nor an `executor`. Nothing was sent."
        )
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)


def _prompts_of(prompts: Any, fingerprint: str) -> list[MapPrompt]:
    """The prompts with their labels; the same text twice is asked twice."""
    if isinstance(prompts, str) or hasattr(prompts, "columns"):
        what = "one text" if isinstance(prompts, str) else "a whole table"
        message = f"`prompts` is {what}; give a list of texts or one column. Nothing was sent."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    if isinstance(prompts, Mapping):
        pairs: list[tuple[Any, Any]] = list(prompts.items())
    elif hasattr(prompts, "index") and hasattr(prompts, "to_list"):  # a pandas Series
        pairs = list(zip(prompts.index, prompts.to_list(), strict=True))
    else:
        pairs = list(enumerate(prompts))
    seen: Counter[str] = Counter()
    found: list[MapPrompt] = []
    for index, text in pairs:
        digest = hashlib.sha256(f"{fingerprint}\n{text}".encode(errors="surrogatepass")).hexdigest()[:40]
        key = f"{digest}-{seen[digest]}"
        seen[digest] += 1
        if isinstance(text, str) and text.strip():
            found.append(MapPrompt(index, key, text))
        else:
            problem = "The prompt is empty." if isinstance(text, str) else f"The prompt is {text!r}, not a text."
            found.append(MapPrompt(index, key, str(text), f"{problem} It was not sent."))
    return found


def _fingerprint(agent: AgentSetup, options: MapOptions) -> str:
    """A hash of all that an answer depends on besides its prompt."""
    answer_type = agent.final_answer.type
    facts = {
        "model": agent.model,
        "system": options.system,
        "schema": None if answer_type is None else answer_type.schema,
        "tools": agent.tool_params,
        "rules": [options.run["allow"], options.run["deny"], options.run["mode"]],
        "limits": [
            options.run["max_tokens"],
            options.run["max_turns"],
            *agent.model_settings.chosen.values(),
            agent.model_settings.thinking,
        ],
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()


def _forget_old_stores(days: int) -> None:
    folder = state_folder() / "maps"
    oldest = time.time() - days * 86_400
    with contextlib.suppress(OSError):
        for file in folder.iterdir():
            if file.stat().st_mtime < oldest:
                file.unlink()
