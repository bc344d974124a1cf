"""A run that was asked for, until it begins: whose turn it is, what has to be asked first, what it is given."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from cellwright.agent.calls.approval import CanUseTool
from cellwright.agent.prompt import Prompt
from cellwright.agent.turn_record import NO_CHECKPOINTS
from cellwright.config.settings.settings_in_force import TrustQuestion
from cellwright.conversation.prompt import gather_context, mentioned_files, with_surroundings
from cellwright.conversation.resolve_options import Asking, Playing, ask_all, nobody_was_asked
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.conversation.runs.run_queue import ConversationRun, Work
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.events import RunEnd
from cellwright.model.provider import Provider
from cellwright.permissions.rules.rule import grant_problem, parse_rule, restriction_problem
from cellwright.sessions.session import Session
from cellwright.tools.process.children import child_processes

if TYPE_CHECKING:
    from cellwright.conversation.conversation import Conversation


def nothing_at_turn() -> None:
    """What is done at the turn of most runs."""


def belongs_nowhere(_run: ConversationRun) -> None:
    """Where nobody needs to know which run it is that shows itself."""


@dataclass(frozen=True)
class StartingRun:
    """What `Conversation.start` was given, and the run that it becomes."""

    conversation: Conversation
    run: ConversationRun
    prompt: Prompt
    options: RunOptions
    can_use_tool: CanUseTool | None
    ask_user: CanUseTool | None
    given_session: Session | None
    given_provider: Provider | None
    playing: Playing | None
    at_turn: Callable[[], object]

    def prepare(self) -> Work:
        """The run, ready to go, its turn having come."""
        self.at_turn()
        conversation = self.conversation
        session = self.given_session or conversation.session
        conversation.in_force.refresh(session_has_begun=bool(session.encoded))
        asking = [*conversation.asking, *(self.playing.asking if self.playing is not None else ())]
        questions = [question for each in asking if (question := each.question()) is not None]
        if questions and self.ask_user is not None:
            return functools.partial(self._after_questions, asking, self.ask_user, session)
        for question in questions:
            self._tell_unasked(question, session)
        return functools.partial(self._held, self._begin())

    async def _after_questions(self, asking: list[Asking], ask_user: CanUseTool, session: Session) -> RunEnd:
        """The run, when the user has been asked what has to be asked before."""
        unasked = functools.partial(self._tell_unasked, session=session)
        if await ask_all(asking, ask_user, session, self.run.bus.publish, unasked) and not session.encoded:
            self.conversation.forget_tools()  # made when less was known to be allowed
        return await self._held(await asyncio.to_thread(self._begin))  # a key helper may take its time

    def _tell_unasked(self, question: TrustQuestion, session: Session) -> None:
        """Where nobody can be asked the run goes on without, if it can."""
        if question.required:
            raise CellwrightError(ErrorCode.PERMISSION_DENIED, nobody_was_asked(question))
        self.conversation.tell(session, [nobody_was_asked(question)])

    async def _held(self, work: Work) -> RunEnd:
        """A run cannot loosen the settings that it runs under."""
        in_force = self.conversation.in_force
        in_force.run_begins()
        try:
            return await work()
        finally:
            in_force.run_ends(goes_on=child_processes().running)

    def _begin(self) -> Work:
        conversation, options = self.conversation, self.options
        turn = self.playing.turn() if self.playing is not None else None
        agent = conversation.agent(options, self.given_provider or turn or conversation.provider, self.can_use_tool)
        if self.given_provider is not None:
            agent = replace(agent, checkpoints=NO_CHECKPOINTS)  # a dry run changes nothing
        if turn is not None:
            from cellwright.conversation.replay import replay_place  # few runs are played

            place = replay_place(
                conversation.cwd, conversation.file_state, conversation.open_notebooks, conversation.checkpoints
            )
            agent = turn.played_by(agent, place)
            self.run.steering.close("This run plays a recording: what Claude says in it is known already.")
        own_tools = bool(options.tools) or not options.builtin_tools
        session = conversation.sessions.with_tools(agent.tool_params, self.given_session, own=own_tools)
        if options.mode is not None:
            session.mode = None  # what the user says now goes before what the session came to
        self._tell_notices(session)
        conversation.tool_log.path = conversation.settings.tool_log
        full = with_surroundings(
            self.prompt, session, agent, conversation.cwd, conversation.face, conversation.settings.language
        )
        if turn is None:  # what is played again is told nothing new
            undone = conversation.checkpoints.tell_what_was_undone
            tellings = (undone, mentioned_files(conversation.cwd), *options.telling)
            full = gather_context(full, tellings, self.prompt, agent, session, conversation.tools(RunOptions()))
        return functools.partial(conversation.hooks.run, agent, full, session, self.run.bus.publish, self.run.steering)

    def _tell_notices(self, session: Session) -> None:
        conversation, options = self.conversation, self.options
        if self.given_provider is None:  # a dry run shows nothing of what it is told
            conversation.tell(session, [*conversation.settings.notices, *conversation.retention.at_run(session)])
        grants = [problem for rule in options.allow if (problem := grant_problem(parse_rule(rule)))]
        restrictions = [problem for rule in options.deny if (problem := restriction_problem(parse_rule(rule)))]
        conversation.tell(session, [*grants, *restrictions, *conversation.tool_notices])
