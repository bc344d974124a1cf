"""The conversation of this kernel as panels take part in it: who is connected, what they ask for, what they are told.

`requests.py` lists what they can ask for.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from cellwright.agent.steering import SteeringText
from cellwright.errors import CellwrightError
from cellwright.events import Notice, Steered
from cellwright.kernel.chat.connections import PanelConnection
from cellwright.kernel.chat.conversation_log import LoggedRun
from cellwright.kernel.chat.panel_state import ChatState, overview_or_none
from cellwright.kernel.chat.past_turns import PastTurns
from cellwright.kernel.chat.runs import PanelRuns
from cellwright.kernel.output.protocol import AnswerMessage, Steer, StopAgent, WithdrawMessage, read_message
from cellwright.kernel.pages.comm import PROTOCOL, CommLink, reply_to
from cellwright.version import VERSION

if TYPE_CHECKING:
    from cellwright.kernel.conversation import NotebookConversation
    from cellwright.kernel.magic.config import Claude


logger = logging.getLogger(__name__)

Handler = Callable[[PanelConnection, Mapping[str, Any]], Awaitable[Any]]
"""Answers a panel's request of one method, on the agent's loop; the result goes out as JSON. See requests.py for errors."""


class Chat:
    """The parts of `kernel/chat/`, for its rooms. All on the agent's loop, but `connect`, `on_loop` and `close`.

    `notebook` is the kernel's conversation with all that belongs to a kernel, `config` what `%config Claude` sets.
    """

    def __init__(self, notebook: NotebookConversation, config: Claude) -> None:
        self.notebook = notebook
        self.config = config
        self.conversation = notebook.conversation
        self.notebooks = notebook.notebooks
        self.pages = notebook.pages
        self.shell = notebook.shell
        self.questions = notebook.questions
        self.log = notebook.log
        self.connections = notebook.panels
        self.state = ChatState(notebook, config, self.on_loop)
        self._past = PastTurns(self.conversation, self.log, self._is_shown)
        self._handlers: dict[str, Handler] = {"ping": _pong}
        self._serving: set[asyncio.Task[None]] = set()  # asyncio keeps no task alive
        self.log.watch(self)
        self.runs = PanelRuns(notebook, config)

    def _is_shown(self) -> bool:
        return any(connection.view != "overview" for connection in self.connections.all)

    def serve(self, method: str, handler: Handler) -> None:
        """Have `handler` answer the panels' requests of this method."""
        self._handlers[method] = handler

    def connect(self, link: CommLink, hello: Mapping[str, Any]) -> PanelConnection:
        """Take in a panel that has opened its comm; from any thread."""
        connection = PanelConnection(link, hello, self.log)
        self.on_loop(self._connected, connection)
        return connection

    def on_loop(self, call: Callable[..., object], *args: Any) -> None:
        """Have `call` called on the agent's loop; from any thread."""
        # the loop is closed when the extension was unloaded while a panel was there
        with contextlib.suppress(RuntimeError):
            self.conversation.thread.loop.call_soon_threadsafe(call, *args)

    def on_message(self, connection: PanelConnection, piece: object) -> None:
        """A piece of a message from a panel."""
        if connection.closed or not connection.link.is_from_page(piece):
            return
        message = connection.link.joined(piece)
        connection.mark_alive()
        match message:
            case None:
                pass
            case {"type": "bye"}:
                self.connections.remove(connection)
            case {"type": "request", "id": str(request_id), "method": str(method), "params": dict(params)}:
                serving = asyncio.get_running_loop().create_task(self._serve(connection, request_id, method, params))
                self._serving.add(serving)
                serving.add_done_callback(self._serving.discard)
            case {"type": "reply"}:
                pass  # it is there, which was the question
            case {"type": "stop", "run": str(run_id)}:
                self.runs.stop(run_id)
            case {"type": "again", "run": str(run_id), "have": int(have)} if have >= 0:
                connection.resend(run_id, have)
            case _:
                self._handle(connection, message)

    def close(self) -> None:
        """End all connections; from any thread, while the loop is there."""
        self.conversation.thread.call(self._close)

    def _connected(self, connection: PanelConnection) -> None:
        self.connections.add(connection)
        if connection.view == "lines":
            self.log.keep_lines()
        welcome = {
            "type": "welcome",
            "protocol": PROTOCOL,
            "version": VERSION,
            "log": self.log.id,
            "executable": sys.executable,
        }
        if connection.view == "overview":
            now = overview_or_none(self.state.overview)
            connection.begin([welcome, *([now] if now else [])])
            return
        connection.begin([welcome, self.state.message()])
        self._past.refresh()

    def _handle(self, connection: PanelConnection, message: Mapping[str, Any]) -> None:
        match read_message(message):
            case AnswerMessage() as answer:
                # a program's yes is none where a person has to say it
                self.questions.take(answer, "callback" if connection.is_server else "sidebar")
                connection.send({"type": "ack", "question": answer.question})
            case Steer() as steer:
                self._steer(steer, message.get("run"))
            case StopAgent(agent_id):
                self.conversation.features.subagents.stop_one(agent_id)
            case WithdrawMessage(text_id):
                self.conversation.runs.withdraw(text_id)
            case _:
                logger.warning("not a message of the chat protocol: %.200r", message)

    def _steer(self, steer: Steer, run_id: object) -> None:
        runs = self.conversation.runs
        if not isinstance(run_id, str):
            run_id = None if runs.current is None else runs.current.id
        try:
            runs.steer(SteeringText(steer.id, steer.text, steer.how), run_id)
        except CellwrightError as error:
            logged = None if run_id is None else self.log.runs.get(run_id)
            if logged is not None and not logged.has_ended:
                logged.emit_to_panels(Steered(steer.id, steer.text, "withdrawn", steer.how))
                logged.emit_to_panels(Notice(error.message, "warning"))

    async def _serve(
        self, connection: PanelConnection, request_id: str, method: str, params: Mapping[str, Any]
    ) -> None:
        handler = self._handlers.get(method)
        reply = await reply_to(method, None if handler is None else functools.partial(handler, connection, params))
        if request_id and not connection.closed:
            connection.send({"type": "reply", "id": request_id, **reply})

    def run_changed(self, run: LoggedRun) -> None:
        """Show the panels what is new of a run."""
        self.state.changed()
        self.connections.run_changed(run)

    def runs_removed(self, ids: Sequence[str]) -> None:
        """Take runs out of the panels."""
        self.connections.runs_removed(ids)

    def moved(self) -> None:
        """Show the panels the conversation as it stands now."""
        self._past.refresh()
        self.state.changed()

    def _close(self) -> None:
        self.state.close()
        for connection in list(self.connections.all):
            connection.link.close()
            self.connections.remove(connection)


async def _pong(_panel: PanelConnection, _params: Mapping[str, Any]) -> None:
    """The panel asks whether the kernel is there."""
