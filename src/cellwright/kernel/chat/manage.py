"""The screen "Manage" of a panel: what is configured here, and changes by clicks.

A person's page alone may ask for it. A change counts as the user's own, also while a run goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from cellwright.kernel.pages.comm import PageError, required

if TYPE_CHECKING:
    from cellwright.kernel.chat.chat import Chat
    from cellwright.kernel.chat.connections import PanelConnection


def serve_manage(chat: Chat) -> None:
    """Serve `manage`, `manage_read` and `manage_change`."""
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
