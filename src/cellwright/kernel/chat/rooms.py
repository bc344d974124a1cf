"""What panels can ask the kernel for besides prompts: one list of the modules that answer.

Each of them, a module `chat_<what>.py` of this folder, has one function `serve_<what>(chat: Chat) -> None`. It is called
once, on the agent's loop, when the first panel connects, and has its methods served:

    def serve_sessions(chat: Chat) -> None:
        async def sessions(panel: Connection, params: Mapping[str, Any]) -> Json:
            ...
        chat.serve("sessions", sessions)

A handler is awaited on the agent's loop, so what blocks goes to a worker thread (`asyncio.to_thread`); what it returns is
the reply's result, as JSON. It may raise `CellwrightError` (the reply has its code) and `PageError` with a code of its own,
`invalid` for params that make no sense (`chat/params.py` reads them); any other exception is a fault of ours: it is logged,
and the reply says `failed`. `panel` is the connection that asks, see connections.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from cellwright.kernel.chat.chat_context import serve_context
from cellwright.kernel.chat.chat_log_lines import serve_log
from cellwright.kernel.chat.choices import serve_choices
from cellwright.kernel.chat.completions import serve_completions
from cellwright.kernel.chat.runs import serve_prompts
from cellwright.kernel.chat.sessions import serve_sessions

if TYPE_CHECKING:
    from cellwright.kernel.chat.chat import Chat

ROOMS: Sequence[Callable[[Chat], None]] = (
    serve_prompts,
    serve_choices,
    serve_completions,
    serve_sessions,
    serve_context,
    serve_log,
)


def serve_rooms(chat: Chat) -> None:
    """Have everything answered that panels can ask for."""
    for serve in ROOMS:
        serve(chat)
