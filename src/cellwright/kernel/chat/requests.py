"""The requests that panels make of a conversation, by the functions that answer them.

`ROOMS` lists the functions that answer what panels can ask for. Each of them, in a module of this folder, is a
`serve_<what>(chat: Chat) -> None`. It is called once, on the agent's loop, when the first panel connects, and has its
methods served:

    def serve_sessions(chat: Chat) -> None:
        async def sessions(panel: PanelConnection, params: Mapping[str, Any]) -> Json:
            ...

        chat.serve("sessions", sessions)

A handler is awaited on the agent's loop, so what blocks goes to a worker thread (`asyncio.to_thread`); what it
returns is the reply's result, as JSON. It may raise `CellwrightError` (the reply has its code) and `PageError` with a
code of its own, `invalid` for params that make no sense (`kernel/pages/comm.py` reads them); any other exception is a
fault of ours: it is logged, and the reply says `failed`. `panel` is the connection that asks, see connections.py.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cellwright.agent.context.context_usage import ContextContents, context_parts, context_tokens
from cellwright.commands.tasks import stop_task
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.kernel.chat.cell_actions import answer_text
from cellwright.kernel.chat.completions import kernel_completions
from cellwright.kernel.chat.served_calls import serve_tool_calls
from cellwright.kernel.chat.sessions import serve_sessions
from cellwright.kernel.chat.start_page import serve_start
from cellwright.kernel.pages.comm import PageError, optional, required
from cellwright.markdown.safe_markdown import safe_markdown
from cellwright.model.models import limits
from cellwright.telemetry.log_file import last_lines

if TYPE_CHECKING:
    from cellwright.kernel.chat.chat import Chat
    from cellwright.kernel.chat.connections import PanelConnection

LINES = 200
MAX_LINES = 2_000


def serve_prompts(chat: Chat) -> None:
    """Serve `prompt`."""
    chat.serve("prompt", chat.runs.prompt)


def serve_answer_markdown(chat: Chat) -> None:
    """Serve `answer_markdown`."""

    async def answer_markdown(_panel: PanelConnection, params: Mapping[str, Any]) -> dict[str, Any]:
        logged = chat.log.runs.get(optional(params, "run", str) or "")
        if logged is None:
            raise CellwrightError(ErrorCode.INVALID_PARAMETERS, "This answer is no longer available.")
        text = answer_text(logged.log)
        return {
            "markdown": await asyncio.to_thread(safe_markdown, text),
            "asked": logged.prompt,
            "session": logged.session,
        }

    chat.serve("answer_markdown", answer_markdown)


def serve_choices(chat: Chat) -> None:
    """Serve `set`."""

    async def choose(_panel: PanelConnection, params: Mapping[str, Any]) -> None:
        chat.state.choices.set(params)
        chat.state.changed()

    chat.serve("set", choose)


def serve_completions(chat: Chat) -> None:
    """Serve `complete`."""
    chat.serve("complete", kernel_completions(chat.shell, chat.notebooks, chat.conversation).complete)


def serve_context(chat: Chat) -> None:
    """Answer `context`."""

    async def context(_panel: PanelConnection, _params: Mapping[str, Any]) -> dict[str, Any]:
        session = chat.conversation.sessions.current
        model = limits(session.last_model or chat.state.choices.model)
        tokens, contents = context_tokens(session), ContextContents.of(session)
        parts = await asyncio.to_thread(context_parts, contents)
        return {
            "parts": [{"name": part.name, "tokens": part.tokens} for part in parts],
            "tokens": tokens if parts else 0,
            "window": model.context_window if model.known else None,
        }

    chat.serve("context", context)


def serve_log(chat: Chat) -> None:
    """Answer `log`."""

    async def log(_panel: PanelConnection, params: Mapping[str, Any]) -> dict[str, Any]:
        limit = optional(params, "limit", int) or LINES
        return {"lines": await asyncio.to_thread(last_lines, max(1, min(limit, MAX_LINES)))}

    chat.serve("log", log)


def serve_overview(chat: Chat) -> None:
    """Serve `stop_task`."""

    async def stop(_panel: PanelConnection, params: Mapping[str, Any]) -> None:
        task_id = required(params, "id", str)
        chat.runs.stop(task_id)
        if not any(run.id == task_id for run in chat.log.runs.values()):
            await stop_task(chat.conversation, task_id)
        chat.state.changed()

    chat.serve("stop_task", stop)


def serve_manage(chat: Chat) -> None:
    """Serve `manage`, `manage_read` and `manage_change`: the screen "Manage".

    A person's page alone may ask for it. A change counts as the user's own, also while a run goes on.
    """
    one_at_a_time = asyncio.Lock()

    async def report(panel: PanelConnection, _params: Mapping[str, Any]) -> dict[str, Any]:
        from cellwright.commands.extensions.manage_report import manage_report  # few panels ask for it

        _check_person(panel)
        chat.conversation.in_force.refresh(session_has_begun=chat.conversation.sessions.current.has_begun)
        return await asyncio.to_thread(manage_report, chat.conversation)

    async def read(panel: PanelConnection, params: Mapping[str, Any]) -> Mapping[str, Any]:
        from cellwright.commands.extensions.manage_changes import READS  # as above

        _check_person(panel)
        found: Mapping[str, Any] = await _named(READS, params)(chat.conversation, params)
        return found

    async def change(panel: PanelConnection, params: Mapping[str, Any]) -> dict[str, Any]:
        from cellwright.commands.extensions.manage_changes import ACTS, WRITES  # as above

        _check_person(panel)
        do = _named({**WRITES, **ACTS}, params)
        if params["what"] in ACTS:
            done = await do(chat.conversation, params)
        else:
            async with one_at_a_time:
                # what changes meanwhile counts as the user's: so nothing here waits for anything but the disk
                with chat.conversation.in_force.users_change():
                    done = await do(chat.conversation, params)
        chat.state.changed()
        return {**done, "report": await report(panel, {})}

    chat.serve("manage", report)
    chat.serve("manage_read", read)
    chat.serve("manage_change", change)


def _check_person(panel: PanelConnection) -> None:
    if panel.is_server:
        raise PageError("PERMISSION_DENIED", "Settings are changed by a person in a panel, not by a program.")


def _named(table: Mapping[str, Any], params: Mapping[str, Any]) -> Any:
    what = required(params, "what", str)
    if what not in table:
        raise PageError("invalid", f"Unknown change {what!r}.")
    return table[what]


def serve_undo(chat: Chat) -> None:
    """Serve `undo_turns` and `undo_turn`."""
    chat.serve("undo_turns", chat.notebook.undo.turns)
    chat.serve("undo_turn", chat.notebook.undo.turn)


ROOMS: Sequence[Callable[[Chat], None]] = (
    serve_prompts,
    serve_answer_markdown,
    serve_choices,
    serve_completions,
    serve_sessions,
    serve_context,
    serve_start,
    serve_log,
    serve_overview,
    serve_manage,
    serve_tool_calls,
    serve_undo,
)


def serve_requests(chat: Chat) -> None:
    """Have everything answered that panels can ask for."""
    for serve in ROOMS:
        serve(chat)
