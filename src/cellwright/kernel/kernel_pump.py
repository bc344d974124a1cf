"""Widget clicks on ipykernel 6 while a cell is awaited.

That kernel has one queue for all requests and takes the next one when the cell has ended, clicks included. So the cell
takes them out of the queue itself. ipykernel 7 needs none of this: it has no such queue.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from cellwright.agent.thread import TICK_SECONDS

_COMM_TYPES = frozenset({"comm_open", "comm_msg", "comm_close"})
_DELIMITER = b"<IDS|MSG>"


def needs_pump(kernel: Any) -> bool:
    return hasattr(kernel, "msg_queue")


async def pump(kernel: Any) -> None:
    """Dispatch the comm messages that arrive, until cancelled; other requests keep their order and wait."""
    while True:
        await asyncio.sleep(TICK_SECONDS)
        for dispatch, args in _take_comm_messages(kernel):
            ident, parent = kernel._parent_ident["shell"], kernel.get_parent("shell")
            handler = kernel.saved_sigint_handler
            try:
                await dispatch(*args)
            finally:
                # dispatching made the message the parent of all output, and took our handler for the kernel's own
                kernel.set_parent(ident, parent, channel="shell")
                kernel.saved_sigint_handler = handler


def _take_comm_messages(kernel: Any) -> list[tuple[Any, Any]]:
    queue = kernel.msg_queue
    waiting = [queue.get_nowait() for _ in range(queue.qsize())]
    taken = []
    for item in waiting:
        _, dispatch, args = item
        if _message_type(args) in _COMM_TYPES:
            taken.append((dispatch, args))
        else:
            queue.put_nowait(item)
    return taken


def _message_type(args: Any) -> str:
    """The type in a request's header; read without the session, which takes a message only once."""
    frames = [bytes(getattr(frame, "buffer", frame)) for frame in (args[0] if args else ())]
    if _DELIMITER not in frames:
        return ""
    # after the delimiter: signature, header, parent header, metadata, content
    header = frames[frames.index(_DELIMITER) + 2]
    return str(json.loads(header).get("msg_type", ""))
