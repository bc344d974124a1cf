"""The requests that panels make of a conversation, by the functions that answer them; those of sessions and the start page.

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
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from cellwright.agent.context_usage import ContextContents, context_parts, context_tokens
from cellwright.commands.sessions.conversation import stop_task
from cellwright.commands.sessions.sessions import fork, go_on
from cellwright.config.credentials.entered_key import NO_KEY, key_source
from cellwright.config.credentials.stored_key import address_of
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.events import Event, RunEnd
from cellwright.features.conversation import Conversation
from cellwright.kernel.chat.completions import kernel_completions
from cellwright.kernel.chat.prompts import answer_text
from cellwright.kernel.chat.served_calls import serve_tool_calls
from cellwright.kernel.namespace.cell_log import type_name_of
from cellwright.kernel.pages.comm import PageError, optional, required
from cellwright.markdown.safe_markdown import safe_markdown
from cellwright.model.credentials import is_scripted
from cellwright.model.models import limits
from cellwright.sessions.catalog.catalog import Catalog, CatalogEntry, branches, tree_of
from cellwright.sessions.catalog.metadata import has_title, read_about, title_of
from cellwright.sessions.export import FORMATS, exported
from cellwright.sessions.session import Session
from cellwright.sessions.transcripts.transcript import read_messages
from cellwright.telemetry.log_file import last_lines

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from cellwright.conversation.runs.run import Run
    from cellwright.kernel.chat.chat import Chat
    from cellwright.kernel.chat.connections import PanelConnection

logger = logging.getLogger(__name__)

Json = Mapping[str, Any]

NO_VARIABLES = ("module", "function", "builtin_function_or_method", "type", "ABCMeta")
"""Types of names that nobody calls variables."""

LINES = 200
MAX_LINES = 2_000


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


def serve_start(chat: Chat) -> None:
    """Answer `start`."""
    catalog = Catalog()

    async def start(_panel: PanelConnection, _params: Mapping[str, Any]) -> dict[str, Any]:
        shell = chat.shell
        names = [name for name in list(shell.user_ns) if not name.startswith("_") and name not in shell.user_ns_hidden]
        typed = [(name, type_name_of(shell.user_ns.get(name))) for name in names]
        variables = [{"name": name, "type": kind} for name, kind in typed if kind not in NO_VARIABLES]
        # these look at files
        key = await asyncio.to_thread(_key, chat)
        earlier = await asyncio.to_thread(_earlier, chat, catalog)
        return {
            "key": key,
            "variables": variables[:30],
            "variable_count": len(variables),
            "earlier": None if earlier is None else earlier.to_json(),
        }

    chat.serve("start", start)


def _key(chat: Chat) -> dict[str, Any]:
    conversation = chat.conversation
    settings, environment = conversation.in_force.settings, conversation.in_force.environment
    source: str | None = key_source(settings, environment)
    if source == NO_KEY or is_scripted(environment):
        from cellwright.kernel.magic.demo import choose_model_in_demo  # most have a key

        choose_model_in_demo(conversation)
        environment = conversation.in_force.environment
        source = key_source(settings, environment)
        chat.on_loop(chat.state.changed)
    if source == NO_KEY:
        source = settings.provider if settings.provider != "api" else None
    return {
        "source": "given by the program" if conversation.model.is_given else source,
        "own_credentials": settings.own_credentials,
        "address": address_of(environment),
    }


def _earlier(chat: Chat, catalog: Catalog) -> CatalogEntry | None:
    """The conversation that this notebook had last, in another kernel or before a restart."""
    own = chat.notebooks.own()
    if own is None or (current := chat.conversation.sessions.current).encoded:
        return None
    # the newest sessions of the folder among which this notebook's is looked for
    for entry in catalog.entries(chat.conversation.cwd, limit=40):
        is_other = entry.id != current.id and not entry.in_use and not entry.damaged and entry.turns > 0
        if is_other and read_about(entry.path).notebook == own.path.name:
            return entry
    return None


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

    def changes() -> ModuleType:
        from cellwright.commands.extensions import manage_changes  # few panels ask for it

        return manage_changes

    async def report(panel: PanelConnection, _params: Mapping[str, Any]) -> dict[str, Any]:
        from cellwright.commands.extensions.manage_report import manage_report  # as above

        _check_person(panel)
        chat.conversation.in_force.refresh(session_has_begun=chat.conversation.sessions.current.has_begun)
        return await asyncio.to_thread(manage_report, chat.conversation)

    async def read(panel: PanelConnection, params: Mapping[str, Any]) -> Mapping[str, Any]:
        _check_person(panel)
        found: Mapping[str, Any] = await _named(changes().READS, params)(chat.conversation, params)
        return found

    async def change(panel: PanelConnection, params: Mapping[str, Any]) -> dict[str, Any]:
        _check_person(panel)
        acts = changes().ACTS
        do = _named({**changes().WRITES, **acts}, params)
        if params["what"] in acts:
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
