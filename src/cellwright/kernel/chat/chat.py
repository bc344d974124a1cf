"""The conversation of this kernel as panels take part in it: who is connected, what they ask for, what they are told.

`requests.py` lists what they can ask for. A prompt of the panel is a run like a cell's, but no cell waits for it: code that
it runs in the user's namespace begins when the kernel is idle (`run/ipykernel_api.py`), and its questions wait until
somebody answers, in whatever place.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import logging
import sys
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from cellwright.agent.prompt import SteeringText
from cellwright.agent.thread import AgentTask
from cellwright.commands.command import OWN_COMMAND, CommandCall, command_name
from cellwright.conversation.runs.kinds import RunRequest
from cellwright.conversation.runs.run import RunSurface
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.events import Event, Notice, Steered, TextDelta
from cellwright.kernel.chat.connections import PanelConnection
from cellwright.kernel.chat.conversation_log import LineLog, LoggedRun
from cellwright.kernel.chat.panel_state import ChatState, overview_or_none
from cellwright.kernel.chat.past_turns import PastTurns
from cellwright.kernel.chat.prompts import PanelPrompt, context_providers, read_prompt
from cellwright.kernel.output.protocol import AnswerMessage, Steer, StopAgent, WithdrawMessage, read_message
from cellwright.kernel.pages.comm import PROTOCOL, CommLink, optional, reply_to
from cellwright.kernel.run.questions import Questions
from cellwright.text import lazy_pattern
from cellwright.version import VERSION

if TYPE_CHECKING:
    from cellwright.commands.command import CommandPage
    from cellwright.kernel.chat.connections import PanelConnection
    from cellwright.kernel.conversation import NotebookConversation
    from cellwright.kernel.magic.options import Claude

_NUMBERED = lazy_pattern(r"cell (\[\d+\])")

logger = logging.getLogger(__name__)

Handler = Callable[[PanelConnection, Mapping[str, Any]], Awaitable[Any]]
"""Answers a panel's request of one method, on the agent's loop; the result goes out as JSON. See requests.py for errors."""


class PanelRuns:
    """Of all panels. On the agent's loop."""

    def __init__(self, notebook: NotebookConversation, config: Claude) -> None:
        self._notebook = notebook
        self._config = config
        self._numbers = itertools.count(1)
        self._prompts: OrderedDict[str, PanelPrompt] = OrderedDict()
        self._commands: dict[str, AgentTask[None]] = {}
        self._in_order: WeakKeyDictionary[PanelConnection, asyncio.Lock] = WeakKeyDictionary()

    async def prompt(self, panel: PanelConnection, params: Mapping[str, Any]) -> dict[str, str]:
        """Serves `prompt`: the id of the run. Raises CellwrightError for what cannot be sent."""
        in_order = self._in_order.setdefault(panel, asyncio.Lock())
        async with in_order:  # a picture takes time, and words would overtake it
            prompt = await read_prompt(params)
        await self._refuse_key(prompt)
        if (earlier := self._prompts.get(optional(params, "like", str) or "")) is not None:
            prompt = prompt.like(earlier)
        origin = "server" if panel.is_server else "sidebar"
        if prompt.action is None and self._is_command(prompt.text, of_program=panel.is_server):
            return {"run": self._command(prompt, origin)}
        # what a folder brings along is a person's to trust
        person = not panel.is_server or self._notebook.panels.is_watched
        run = self._start(prompt, origin, person=person)
        self._prompts[run] = prompt
        # with their attachments, to send them again
        while len(self._prompts) > 20:
            self._prompts.popitem(last=False)
        return {"run": run}

    async def _refuse_key(self, prompt: PanelPrompt) -> None:
        if "sk-ant-" in prompt.text:
            from cellwright.kernel.magic.sign_in import refuse_key  # few prompts name a key

            conversation, provider = self._notebook.conversation, prompt.options.provider
            await asyncio.to_thread(refuse_key, conversation, provider, prompt.text, "delete it here")

    def stop(self, run_id: str) -> None:
        """Interrupt the run; one that waits is taken out of the line."""
        if (command := self._commands.get(run_id)) is not None:
            command.cancel()
        for run in self._notebook.conversation.runs.active:
            if run.id == run_id:
                run.cancel()

    def _start(self, prompt: PanelPrompt, origin: str, *, person: bool) -> str:
        notebook, conversation, config = self._notebook, self._notebook.conversation, self._config
        options = replace(
            prompt.options,
            max_turns=prompt.options.max_turns or config.max_turns,
            code_context=prompt.context == "code",
            budget_usd=prompt.options.budget_usd or config.budget,
        )
        questions = self.questions()
        # the cell that an action is about, as runs name their places; "" if it has no number
        number = None if prompt.action is None else _NUMBERED.fullmatch(prompt.action.label)
        request = RunRequest(
            prompt=prompt.text,
            options=options,
            context=context_providers(
                prompt, notebook.kernel_context, notebook.notebooks.served, conversation.jobs, notebook.cells
            ),
            origin=("" if number is None else number[1]) or origin,
            background=True,
            cell_action=prompt.action,
        )
        # panels are told of events by the conversation's log, which observes it
        surface = RunSurface(can_use_tool=questions.can_use_tool, ask_user=questions.can_use_tool if person else None)
        run = conversation.start(request, surface)
        # nobody else waits for its end: what went wrong stands in the run
        run.future.add_done_callback(lambda done: done.cancelled() or done.exception())
        return run.id

    def questions(self) -> Questions:
        """Build what puts a run's questions to the user: nothing shows them but panels and proposal cards."""
        conversation = self._notebook.conversation
        return Questions(
            conversation.jobs,
            allows_input=False,
            widget=False,
            save_rules=conversation.in_force.save_rules,
            answer_seconds=conversation.in_force.settings.ask_user_question_seconds,
            mirror=self._notebook.mirror,
            is_watched=lambda: True,  # a panel that comes later sees them, too
        )

    def _is_command(self, text: str, *, of_program: bool) -> bool:
        name = command_name(text) if text.startswith(("/", "!")) else None
        if name is None or name == OWN_COMMAND:
            # what a program sends may be somebody else's words: it runs nothing unasked
            return name is not None and not of_program
        from cellwright.commands.registry import is_answered_here, is_command  # most prompts are none

        # what a program sends goes to Claude where it is no command; who types a wrong name is told so
        return is_command(name) if of_program else is_answered_here(text, self._notebook.conversation.features.skills)

    def _command(self, prompt: PanelPrompt, origin: str) -> str:
        """Begin the slash command; its questions are asked in the panel."""
        from cellwright.commands.registry import answer_of, command_of

        command, text = command_of(prompt.text)
        notebook, conversation = self._notebook, self._notebook.conversation
        run = LoggedRun(
            id=f"command-{next(self._numbers)}",
            prompt=prompt.text,
            origin=origin,
            kind="command",
            asked_at=time.time(),
            session=conversation.sessions.current.id,
            home=conversation.sessions.current.id,
            lines=LineLog() if notebook.log.keeps_lines else None,
        )
        questions = self.questions()

        def on_event(event: Event) -> None:
            run.on_event(event)
            if run.has_changed():
                notebook.log.run_changed(run)

        call = CommandCall(conversation, RunOptions(), text, on_event, questions.can_use_tool)
        notebook.log.begin(run)
        self._commands[run.id] = conversation.thread.submit(
            self._finish_command(run, functools.partial(answer_of, command, call))
        )
        return run.id

    async def _finish_command(self, run: LoggedRun, answered: Callable[[], Awaitable[CommandPage]]) -> None:
        error: BaseException | None = None
        answer = ""
        try:
            answer = (await answered()).markdown()
            run.emit_to_panels(TextDelta(answer))
        except asyncio.CancelledError:
            error = CellwrightError(ErrorCode.INTERRUPTED, "Interrupted.", recoverable=True)
        except Exception as raised:  # noqa: BLE001  nobody awaits it: a command that fails says so in its run
            error = raised
        self._commands.pop(run.id, None)
        self._notebook.log.end(run, error, answer)
        self._notebook.file_news.notify()


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
        self._past = PastTurns(
            self.conversation,
            self.log,
            is_needed=lambda: any(connection.view != "overview" for connection in self.connections.all),
        )
        self._handlers: dict[str, Handler] = {"ping": _pong}
        self._serving: set[asyncio.Task[None]] = set()  # asyncio keeps no task alive
        self.log.watch(self)
        self.runs = PanelRuns(notebook, config)

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

        def close() -> None:
            self.state.close()
            for connection in list(self.connections.all):
                connection.link.close()
                self.connections.remove(connection)

        self.conversation.thread.call(close)

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


async def _pong(_panel: PanelConnection, _params: Mapping[str, Any]) -> None:
    """The panel asks whether the kernel is there."""
