"""Sessions for panels: list, search, go on with one, fork, name, tag, delete, export; and this session's title."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from cellwright.commands.sessions.sessions import fork, go_on
from cellwright.errors import CellwrightError
from cellwright.events import Event, RunEnd
from cellwright.features.conversation import Conversation
from cellwright.kernel.pages.comm import PageError, optional, required
from cellwright.sessions.catalog.catalog import Catalog, CatalogEntry, branches, tree_of
from cellwright.sessions.catalog.metadata import has_title, title_of
from cellwright.sessions.export import FORMATS, exported
from cellwright.sessions.session import Session
from cellwright.sessions.transcripts.transcript import read_messages

if TYPE_CHECKING:
    from collections.abc import Callable

    from cellwright.conversation.runs.run import Run
    from cellwright.kernel.chat.chat import Chat
    from cellwright.kernel.chat.connections import PanelConnection

logger = logging.getLogger(__name__)

Json = Mapping[str, Any]


class SessionRequests:
    """Serves the requests; on the agent's loop. Sessions of other folders are none of this conversation's."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._catalog = Catalog()

    async def list(self, _panel: object, params: Json) -> Json:
        limit = min(max(optional(params, "limit", int) or 50, 1), 200)
        offset = max(optional(params, "offset", int) or 0, 0)
        query = optional(params, "query", str) or ""
        cwd = self._conversation.cwd
        found = await asyncio.to_thread(self._catalog.search, query, cwd, limit=limit + 1, offset=offset)
        # of what is searched for the best comes first
        shown = found[:limit] if query.strip() else tree_of(found[:limit])
        return {"sessions": [entry.to_json() for entry in shown], "more": len(found) > limit}

    async def new(self, _panel: object, _params: Json) -> None:
        self._conversation.sessions.start_new()

    async def resume(self, _panel: object, params: Json) -> None:
        await go_on(self._conversation, partial(self._conversation.sessions.find, _id(params)))

    async def fork(self, _panel: object, params: Json) -> None:
        await fork(self._conversation, _id(params), optional(params, "turn", int))

    async def branches(self, _panel: object, _params: Json) -> Json:
        session = self._conversation.sessions.started
        if session is None or session.path is None:
            return {"turns": {}}
        found = await asyncio.to_thread(branches, self._catalog, session.id, self._conversation.cwd)
        return {"turns": {str(turn): ids for turn, ids in found.items()}}

    async def rename(self, _panel: object, params: Json) -> Json:
        title = required(params, "title", str)
        entry = await asyncio.to_thread(self._catalog.rename, _id(params), title, self._conversation.cwd)
        return entry.to_json()

    async def tag(self, _panel: object, params: Json) -> Json:
        tags = required(params, "tags", list)
        if not all(isinstance(tag, str) for tag in tags):
            raise PageError("invalid", "The param 'tags' has to be a list of texts.")
        entry = await asyncio.to_thread(self._catalog.tag, _id(params), tags, self._conversation.cwd)
        return entry.to_json()

    async def delete(self, _panel: object, params: Json) -> None:
        await asyncio.to_thread(self._catalog.delete, _id(params), self._conversation.cwd)

    async def export(self, _panel: object, params: Json) -> Json:
        form = required(params, "format", str)
        entry = await asyncio.to_thread(self._catalog.entry, _id(params), self._conversation.cwd)
        return await asyncio.to_thread(_export, form, entry, self._conversation.in_force.environment)


def _id(params: Json) -> str:
    session_id = required(params, "id", str)
    if not session_id:
        raise PageError("invalid", "The param 'id' has to name a session.")
    return session_id


def _export(form: str, entry: CatalogEntry, environ: Mapping[str, str]) -> Json:
    messages = read_messages(entry.path)
    export = exported(form, messages, session=entry.id, model=entry.model, environ=environ, title=entry.title)
    name = f"claude-{entry.id}{FORMATS[form].ending}"
    return {"name": name, "media_type": FORMATS[form].media_type, "text": export.text}


class SessionTitle:
    """Keeps the title of the conversation's session as panels show it; has the small model make one where that is set.

    A follower of the conversation. `show` is called on the agent's loop with each title.
    """

    def __init__(self, conversation: Conversation, on_loop: Callable[..., None], show: Callable[[str], object]) -> None:
        self._conversation = conversation
        self._on_loop = on_loop
        self._show = show
        self._work: set[asyncio.Task[None]] = set()  # asyncio keeps no task alive

    def refresh(self) -> None:
        """Look again what the session is called. On the agent's loop."""
        if (session := self._conversation.sessions.started) is not None:
            self._start(session, ask=False)

    def run_added(self, run: Run) -> None:
        """A run that has been asked for has said nothing yet."""

    def on_event(self, run: Run, event: Event) -> None:
        if isinstance(event, RunEnd) and (session := self._conversation.sessions.started) is not None:
            # a turn that was played from a recording asked nobody, and one in another session is not this one's
            self._start(session, ask=event.error is None and bool(event.usage) and event.session_id == session.id)

    def run_ended(self, run: Run) -> None:
        """Its last event was heard."""

    def session_changed(self, session: Session) -> None:
        self._on_loop(self.refresh)

    def _start(self, session: Session, *, ask: bool) -> None:
        work = asyncio.get_running_loop().create_task(self._send_title(session, ask=ask))
        self._work.add(work)
        work.add_done_callback(self._work.discard)

    async def _send_title(self, session: Session, *, ask: bool) -> None:
        if ask and self._conversation.in_force.settings.session_titles == "model":
            await self._generate_title(session)
        title = await asyncio.to_thread(title_of, session)
        if session is self._conversation.sessions.started:
            self._show(title)

    async def _generate_title(self, session: Session) -> None:
        if session.path is None or await asyncio.to_thread(has_title, session.path):
            return
        try:
            await self._conversation.features.titles.make(session)
        except CellwrightError as error:  # a title is worth no more than one request
            logger.warning("the session %s was not named: %s", session.id, error)


def serve_sessions(chat: Chat) -> None:
    """Serve the `session…` methods, and keep the title in the state."""
    requests = SessionRequests(chat.conversation)

    title = SessionTitle(chat.conversation, chat.on_loop, chat.state.show_title)
    chat.conversation.observers.add(title)
    title.refresh()

    async def rename(panel: PanelConnection, params: Json) -> Json:
        renamed = await requests.rename(panel, params)
        title.refresh()
        return renamed

    chat.serve("sessions", requests.list)
    chat.serve("session_new", requests.new)
    chat.serve("session_resume", requests.resume)
    chat.serve("session_fork", requests.fork)
    chat.serve("session_branches", requests.branches)
    chat.serve("session_rename", rename)
    chat.serve("session_tag", requests.tag)
    chat.serve("session_delete", requests.delete)
    chat.serve("session_export", requests.export)
