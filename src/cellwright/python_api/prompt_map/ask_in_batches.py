"""A map by the Message Batches API: at half the price, within a day, whether or not this process goes on."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Sequence

from msgspec.structs import replace

from cellwright.agent.agent_setup import AgentSetup
from cellwright.errors import ApiError, CellwrightError, ErrorCode
from cellwright.model.anthropic import AnthropicProvider, encode
from cellwright.model.message_batches import MAX_BYTES, MAX_REQUESTS, BatchResult, MessageBatch, MessageBatches
from cellwright.model.models import limits
from cellwright.model.pricing import cost_usd, usage_of
from cellwright.model.provider import Request
from cellwright.python_api.prompt_map.answer_store import Answer, AnswerStore, Sending, SentBatch
from cellwright.python_api.prompt_map.progress import Progress

CLOCK_SKEW_SECONDS = 300.0
"""By how much the API's clock may be behind ours."""

Keep = Callable[[AnswerStore, Answer], Awaitable[None]]


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
    found = await batches.find(len(sending.keys), sending.since - CLOCK_SKEW_SECONDS)
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
