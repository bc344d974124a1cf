"""What a fault does to an answer: before its head, or in the middle of its stream."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace

from cellwright.testing.rules.api_error import MESSAGE_OF_TYPE, TYPE_OF_STATUS, error_json
from cellwright.testing.server.http_connection import Answer
from cellwright.testing.server.script import Fault

STATUS_OF_TYPE = {error_type: status for status, error_type in reversed(TYPE_OF_STATUS.items())}
BREAKING = ("cut", "close", "stall")
MALFORMED_DATA = b'{"type":"content_block_delta","index":0,"delta":{"type":"text_del'


def comes_before_head(fault: Fault, *, first: bool) -> bool:
    """Whether the client sees nothing of the answer; `first`: the fault is the first part of its turn."""
    return fault.kind == "status" or (fault.kind in BREAKING and first and fault.after is None)


async def break_off(fault: Fault, answer: Answer) -> None:
    """End the connection without an end of the body; a stall is silent first."""
    if fault.kind == "stall":
        await silence(fault)
    if fault.kind == "close":
        answer.close()
    else:
        answer.reset()


async def strike_before_head(fault: Fault, answer: Answer, headers: dict[str, str], request_id: str) -> None:
    if fault.kind == "status":
        await _answer_with_status(fault, answer, headers, request_id)
    else:
        await break_off(fault, answer)


async def _answer_with_status(fault: Fault, answer: Answer, headers: dict[str, str], request_id: str) -> None:
    error_type = fault.error_type or TYPE_OF_STATUS.get(fault.status, "api_error")
    message = fault.message or MESSAGE_OF_TYPE.get(error_type, error_type)
    body = error_json(error_type, message, request_id) if fault.body is None else fault.body
    content_type = "application/json" if fault.body is None else "text/html"
    head = {**headers, "content-type": content_type, **fault.headers, "content-length": str(len(body))}
    await answer.start(fault.status, head)
    await answer.write(body)
    await answer.end()


async def silence(fault: Fault) -> None:
    """Nothing happens while the fault lasts: for its seconds, until its gate opens, else until the client is gone."""
    waiting = fault.gate.passage() if fault.gate is not None else asyncio.Event().wait()
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(waiting, fault.seconds)


def error_event_data(fault: Fault, request_id: str) -> bytes:
    error_type = fault.error_type or "overloaded_error"
    message = fault.message or MESSAGE_OF_TYPE.get(error_type, error_type)
    return error_json(error_type, message, request_id)


async def answer_whole(
    fault: Fault | None, answer: Answer, headers: dict[str, str], request_id: str, body: bytes
) -> bool:
    """An answer that is not streamed, or what the fault leaves of it; whether it was sent whole."""
    if fault is not None and fault.kind == "error_event":
        status = STATUS_OF_TYPE.get(fault.error_type or "overloaded_error", 500)
        await _answer_with_status(replace(fault, status=status), answer, headers, request_id)
        return False
    await answer.start(200, {**headers, "content-length": str(len(body))})
    if fault is None:
        await answer.write(body)
    elif fault.kind == "malformed":
        await answer.write(body.replace(b'"', b"'"))
    else:
        await answer.write(body[: len(body) // 2])
        await break_off(fault, answer)
        return False
    await answer.end()
    return fault is None
