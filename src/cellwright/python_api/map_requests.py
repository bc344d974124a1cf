"""The prompts of a map asked: one as an agent's run in a session of its own, or many by the Message Batches API.

A run is made here or in another process. A batch costs half, is answered within a day, and needs no process that waits.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from msgspec import Struct, field
from msgspec.structs import replace

from cellwright.agent.agent_setup import NO_CHECKPOINTS, NO_FEATURES, AgentSetup
from cellwright.agent.loop import run_agent
from cellwright.agent.structured_output import AnswerType, answer_type
from cellwright.agent.tool import Tool
from cellwright.config.settings.settings_files import start_folder
from cellwright.conversation.core import Host
from cellwright.conversation.runs.run_options import RunOptions, options_of
from cellwright.errors import ApiError, CellwrightError, ErrorCode
from cellwright.events import Event, Retrying
from cellwright.features.conversation import Conversation
from cellwright.model.anthropic import AnthropicProvider, encode
from cellwright.model.message_batches import MAX_BYTES, MAX_REQUESTS, BatchResult, MessageBatch, MessageBatches
from cellwright.model.models import limits
from cellwright.model.pricing import cost_usd, usage_of
from cellwright.model.provider import Request
from cellwright.python_api.ask_options import own_tools
from cellwright.python_api.map_result import Answer, AnswerStore, Sending, SentBatch
from cellwright.sessions.session import Session
from cellwright.text import dollars

SYSTEM = (
    "You answer one of many prompts that are asked unattended: nobody can answer a question of yours. "
    "Give the answer alone, without an introduction."
)

REFUSALS = (ErrorCode.API_RATE_LIMITED, ErrorCode.API_OVERLOADED)

Keep = Callable[[AnswerStore, Answer], Awaitable[None]]

BAR_CELLS = 24


class MapOptions(Struct, frozen=True, kw_only=True):
    """The options that each prompt is asked with; other processes get them pickled. `schema` is as the user gave it."""

    system: str = SYSTEM
    schema: Any = None
    tools: tuple[Tool | str, ...] = ()
    run: Mapping[str, Any] = field(default_factory=dict)
    """The others, by their names in the table of options."""

    @property
    def answer_type(self) -> AnswerType | None:
        return None if self.schema is None else answer_type(self.schema)

    def run_options(self) -> RunOptions:
        # unless its user says more, for each answer sets its worst case aside; what is cut off goes on
        given = {"max_tokens": 4_000, **{name: value for name, value in self.run.items() if value is not None}}
        return replace(
            options_of({**given, "on_denied": "skip", "system_prompt": self.system}),
            tools=own_tools(self.tools),
            tool_names=tuple(tool for tool in self.tools if isinstance(tool, str)),
            builtin_tools=False,
            answer_type=self.answer_type,
        )


def map_agent(conversation: Conversation, options: MapOptions) -> AgentSetup:
    """The agent that asks each prompt. Raises `CellwrightError` for what is wrong with the options or the credentials."""
    # what many runs do at the same time is no turn that could be taken back; they are not told the place and instructions
    # of the conversation, neither behind a summary nor with the files that they read
    agent = conversation.agent(options.run_options())
    return dataclasses.replace(agent, checkpoints=NO_CHECKPOINTS, features=NO_FEATURES)


async def ask_one(
    agent: AgentSetup,
    cwd: Path,
    key: str,
    prompt: str,
    *,
    on_refused: Callable[[], None],
    on_event: Callable[[Event], None],
) -> Answer:
    """Ask `prompt`; what goes wrong is the answer's error."""
    refused = 0

    def emit(event: Event) -> None:
        nonlocal refused
        if isinstance(event, Retrying) and event.code in REFUSALS:
            refused += 1
            on_refused()
        on_event(event)

    began = time.perf_counter()
    end = await run_agent(agent, prompt, Session.create(cwd, None), emit)
    error = end.error or {}
    return Answer(
        key=key,
        text=end.text,
        stop_reason=end.stop_reason,
        usage=end.usage,
        cost_usd=end.cost_usd,
        seconds=round(time.perf_counter() - began, 3),
        error_code=str(error.get("code", "")),
        error=str(error.get("message", "")),
        recoverable=bool(error.get("recoverable")),
        rate_limited=refused,
    )


def ask_in_worker(options: MapOptions, key: str, prompt: str, budget_usd: float | None, _attempt: int) -> Answer:
    """Ask `prompt` in this process, whichever it is: an executor's worker, perhaps on another machine.

    `_attempt` sets a call apart from those before it: Dask gives the same arguments the same outcome.
    """
    conversation = _worker_conversation()
    agent = map_agent(conversation, options)
    agent = dataclasses.replace(agent, limits=dataclasses.replace(agent.limits, budget_usd=budget_usd))
    asking = ask_one(
        agent, conversation.cwd, key, prompt, on_refused=lambda: None, on_event=conversation.features.tool_log.add
    )
    return conversation.thread.submit(asking).future.result()


_of_process: dict[int, Conversation] = {}


def _worker_conversation() -> Conversation:
    # a forked worker has none of its parent's threads, and so not its conversation either
    if os.getpid() not in _of_process:
        _of_process.clear()
        _of_process[os.getpid()] = Conversation(
            Host(cwd=start_folder(os.environ), interface="a worker of `cellwright.map`")
        )
    return _of_process[os.getpid()]


async def ask_in_batches(
    agent: AgentSetup, prompts: Sequence[tuple[str, str]], store: AnswerStore, progress: Progress, keep: Keep
) -> None:
    """Have all `prompts` (key and text) answered; what was sent before and has no answer yet is only waited for.

    Raises `CellwrightError`; a batch that was created goes on, and the next call with the same store finds it.
    """
    if not isinstance(agent.provider, AnthropicProvider):
        raise CellwrightError(ErrorCode.CONFIG_INVALID, "This model's provider has no batches. Leave `batch` out.")
    batches = agent.provider.batches()
    await _confirm(batches, store)
    sent = {key for batch in store.batches for key in batch.keys if key not in store.answers}
    bodies = [(key, _body(agent, prompt)) for key, prompt in prompts if key not in sent]
    for chunk in _chunks(bodies):
        await _send(batches, chunk, store)
    wanted = {key for key, _ in prompts}
    for batch in list(store.batches):
        if open_keys := wanted & {key for key in batch.keys if key in sent or key not in store.answers}:
            await _collect(batches, await batches.get(batch.id), agent.model, open_keys, store, progress, keep)


async def _confirm(batches: MessageBatches, store: AnswerStore) -> None:
    """Find out what became of a batch whose creation was not answered."""
    if (sending := store.unconfirmed) is None:
        return
    known = {batch.id for batch in store.batches}
    # by how much the API's clock may be behind ours
    found = await batches.find(len(sending.keys), sending.since - 300.0)
    candidates = [batch for batch in found if batch.id not in known]
    if len(candidates) > 1:
        names = ", ".join(batch.id for batch in candidates)
        message = f"One of the batches {names} holds these prompts, but which one is unknown. Nothing was sent."
        raise CellwrightError(
            ErrorCode.EXECUTION_ERROR, f"{message} Cancel those that are not, or give another `store`."
        )
    store.unconfirmed = None
    if candidates:
        store.add(SentBatch(candidates[0].id, sending.keys))


async def _send(batches: MessageBatches, chunk: Sequence[tuple[str, bytes]], store: AnswerStore) -> None:
    keys = [key for key, _ in chunk]
    store.add(Sending(keys, time.time()))
    try:
        batch = await batches.create(chunk)
    except ApiError as error:
        if error.code != ErrorCode.API_NETWORK_ERROR:
            store.unconfirmed = None  # it was refused
            raise
        await _confirm(batches, store)
        if not store.batches or store.batches[-1].keys != keys:
            raise
    else:
        store.add(SentBatch(batch.id, keys))


async def _collect(
    batches: MessageBatches,
    batch: MessageBatch,
    model: str,
    keys: set[str],
    store: AnswerStore,
    progress: Progress,
    keep: Keep,
) -> None:
    async for state in batches.ended(batch):
        progress.note = f"{state.id}: {state.status.replace('_', ' ')}"
        progress.show()
    progress.note = ""
    for result in await batches.results(batch):
        if result.custom_id in keys:
            await keep(store, _answer(result, model))


def _answer(result: BatchResult, model: str) -> Answer:
    message = result.message
    if message is None:
        problem = f"Not answered: {result.problem}."
        return Answer(key=result.custom_id, error_code=str(ErrorCode.API_REQUEST_INVALID), error=problem)
    text = "".join(str(block["text"]) for block in message["content"] if block.get("type") == "text")
    usage = {**usage_of(message["usage"]), "service_tier": "batch"}
    cost = cost_usd(str(message.get("model") or model), usage)
    answer = Answer(
        key=result.custom_id, text=text, stop_reason=str(message["stop_reason"]), usage=usage, cost_usd=cost
    )
    problem, code = _PROBLEMS.get(answer.stop_reason, ("", ""))
    return replace(answer, error=problem, error_code=code)


_PROBLEMS = {
    "refusal": ("Claude has refused to answer.", "REFUSED"),
    "max_tokens": ("The answer was cut off at `max_tokens`.", "EXECUTION_ERROR"),
    "model_context_window_exceeded": ("The answer met the end of the context window.", "CONTEXT_TOO_LONG"),
}


def _body(agent: AgentSetup, prompt: str) -> bytes:
    message = {"role": "user", "content": [{"type": "text", "text": prompt}]}
    request = Request(
        model=agent.model,
        system=json.dumps([{"type": "text", "text": block["text"]} for block in agent.system]).encode(),
        tools=b"[]",
        messages=[json.dumps(message, ensure_ascii=False).encode("utf-8", "replace")],
        max_tokens=min(agent.model_settings.max_tokens, limits(agent.model).max_output),
        # `max_tokens` is for the answer alone: there is no budget besides
        options=agent.model_settings.accepted_by(agent.model, is_own=False),
        output_format=None if agent.final_answer.type is None else agent.final_answer.type.output_format,
        cache_whole=False,
    )
    return encode(request, streams=False)


def _chunks(bodies: Sequence[tuple[str, bytes]]) -> list[list[tuple[str, bytes]]]:
    """The requests in as many batches as their size takes."""
    chunks: list[list[tuple[str, bytes]]] = []
    size = MAX_BYTES
    for key, body in bodies:
        size += len(key) + len(body) + 50
        if size > MAX_BYTES or len(chunks[-1]) == MAX_REQUESTS:
            chunks.append([])
            size = len(key) + len(body) + 50
        chunks[-1].append((key, body))
    return chunks


class Progress:
    """Counts answers, and says on `stream` how many there are; None: nowhere.

    `overwrites`: where it writes, a carriage return begins the line anew.
    """

    def __init__(
        self, total: int, stream: TextIO | None, *, overwrites: bool, now: Callable[[], float] = time.monotonic
    ) -> None:
        self.total = total
        self.done = 0
        self.failed = 0
        self.cost_usd: float | None = 0.0
        self.note = ""
        self._stream = stream
        self._overwrites = overwrites
        self._now = now
        self._began = now()
        self._asked = 0
        self._shown_at = float("-inf")
        self._width = 0

    def keep(self, answers: int) -> None:
        """These were answered before."""
        self.done += answers

    def count(self, cost_usd: float | None, *, failed: bool) -> None:
        """One more prompt has come to its end."""
        self.done += 1
        self._asked += 1
        self.failed += failed
        both = self.cost_usd is not None and cost_usd is not None
        self.cost_usd = self.cost_usd + cost_usd if both else None  # type: ignore[operator]
        self.show()

    def show(self, *, at_once: bool = False) -> None:
        """Write the line, unless that was done just now."""
        # in a log, where a line cannot be written over
        pause = 0.25 if self._overwrites else 10.0
        if not at_once and self._now() - self._shown_at < pause:
            return
        self._shown_at = self._now()
        line = self.line()
        if self._overwrites:
            self._write("\r" + line.ljust(self._width))
            self._width = len(line)
        else:
            self._write(f"{line}\n")

    def end(self) -> None:
        """Write the line for the last time."""
        self.show(at_once=True)
        if self._overwrites:
            self._write("\n")

    def line(self) -> str:
        """The progress so far, as far as it is known."""
        filled = BAR_CELLS * self.done // self.total if self.total else BAR_CELLS
        parts = [f"{'━' * filled}{'─' * (BAR_CELLS - filled)} {self.done:,} of {self.total:,}"]
        if self.failed:
            parts.append(f"{self.failed:,} failed")
        if self.cost_usd:
            parts.append(dollars(self.cost_usd))
        if left := self._left():
            parts.append(left)
        if self.note:
            parts.append(self.note)
        return " · ".join(parts)

    def _left(self) -> str:
        remaining = self.total - self.done
        if not (remaining and self._asked):
            return ""
        seconds = (self._now() - self._began) / self._asked * remaining
        return f"about {seconds:.0f} s left" if seconds < 100 else f"about {seconds / 60:.0f} min left"

    def _write(self, text: str) -> None:
        if self._stream is not None:
            self._stream.write(text)
            self._stream.flush()


def progress_for(total: int, *, shown: bool, in_notebook: bool) -> Progress:
    """The progress of `total` prompts: in the cell, on the terminal, or line by line in a log."""
    stream = sys.stdout if in_notebook else sys.stderr
    return Progress(total, stream if shown else None, overwrites=in_notebook or stream.isatty())
