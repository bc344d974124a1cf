"""The command's conversation: each prompt is run, shown and, if asked for, recorded; what comes of it is an exit code."""

from __future__ import annotations

import argparse
import functools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from cellwright.agent.recording.replay_drift import describe_drift
from cellwright.agent.structured_output.answer import AnswerType, answer_type
from cellwright.commands.command import CommandCall, CommandPage
from cellwright.commands.registry import NEED_SESSIONS, answer_of, command_name, command_of
from cellwright.conversation.conversation import Conversation
from cellwright.conversation.runs.request import ReplayDecision, RunRequest, TrustCheck, ignore_run
from cellwright.conversation.runs.run import Run
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.events import RunEnd
from cellwright.model.provider import Provider
from cellwright.sessions.session import Session
from cellwright.terminal.exit_codes import ExitCode, exit_code_of
from cellwright.terminal.plain_view import Unseen
from cellwright.terminal.run import TerminalRun
from cellwright.terminal.views import Streams, asker_maker, confirmed, make_view
from cellwright.version import VERSION

if TYPE_CHECKING:
    from cellwright.agent.recording.recorder import Recorder, TurnListener
    from cellwright.agent.recording.replay import Replay, ReplayedTurn


def _no_remarks() -> list[str]:
    return []


@dataclass(frozen=True)
class _FixedReplay:
    """A run that is played: the user has confirmed what there was to confirm."""

    played: ReplayedTurn
    trust_checks: Sequence[TrustCheck] = ()

    def turn(self) -> ReplayedTurn:
        return self.played


@dataclass(frozen=True, kw_only=True)
class _PromptPlan:
    """A run's way: by the model, recorded, or played from a recording. `finish` gives what the user should know."""

    provider: Provider | None = None
    replay: ReplayDecision | None = None
    belongs_to: Callable[[Run], object] = ignore_run
    finish: Callable[[], list[str]] = _no_remarks


@dataclass(eq=False)
class TerminalCommand:
    """One conversation in the terminal, as the options of the command line want it."""

    options: argparse.Namespace
    conversation: Conversation
    streams: Streams
    _unsaved: Session | None = field(default=None, init=False)

    def open(self, prompt: str = "") -> None:
        """Find the session to go on with, and get ready to ask the model `prompt`. Raises `CellwrightError`."""
        options, conversation = self.options, self.conversation
        if options.no_session:
            self._unsaved = Session.create(conversation.cwd, None)
        elif options.resume is not None:
            conversation.sessions.resume(options.resume)
        elif options.resume_newest and not conversation.sessions.resume_newest():
            notice = "There is no session of this folder to go on with: this is a new one."
            conversation.sessions.current.notices.append(notice)
        if not options.dry_run and options.replay is None and command_name(prompt) is None:
            self._connect()

    @property
    def _session(self) -> Session:
        return self._unsaved or self.conversation.sessions.current

    @functools.cached_property
    def _answer_type(self) -> AnswerType | None:
        """Build the type that each answer has to be of. Raises `CellwrightError` for a schema that cannot be had."""
        return None if self.options.schema is None else answer_type(*self.options.schema)

    @property
    def title(self) -> str:
        """The words with which an interactive session introduces itself."""
        return f"Cellwright {VERSION} in {self.conversation.cwd}"

    def _connect(self) -> None:
        from cellwright.model.anthropic import AnthropicProvider  # brings httpx2 with it

        provider = self.conversation.model.provider
        if isinstance(provider, AnthropicProvider):
            # setting up TLS takes as long as everything else until the first request
            self.conversation.thread.submit(provider.prepare())

    def run(self, prompt: str) -> int:
        """Run `prompt` and show it; gives the exit code. Raises what kept it from starting."""
        if (name := command_name(prompt)) is not None:
            return self._show_page(name, self._do(prompt))
        if self.options.dry_run:
            return self._dry_run(prompt)
        output_format, quiet = self.options.output_format, self.options.quiet
        plan = self._plan(prompt)
        run = TerminalRun(
            functools.partial(make_view, self.streams, output_format, quiet=quiet),
            asker_maker(self.streams, output_format, quiet=quiet),
            self.conversation.in_force.save_rules,
        )
        with run.signals():
            surface = replace(run.surface, belongs_to=plan.belongs_to)
            end = run.until_end(self.conversation.start(self._request(prompt, plan), surface))
        for notice in plan.finish():
            print(f"warning: {notice}", file=self.streams.stderr)
        return self._exit_code(end, run.signal_number)

    def _do(self, prompt: str) -> CommandPage:
        command, text = command_of(prompt)
        if self.options.no_session and command_name(prompt) in NEED_SESSIONS:
            message = (
                f"--no-session keeps this conversation in memory alone: there is no /{command_name(prompt)} in it."
            )
            raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)

        asker = asker_maker(self.streams, self.options.output_format, quiet=self.options.quiet)
        run = TerminalRun(Unseen, asker, self.conversation.in_force.save_rules)
        with run.signals():
            options, surface = run_options(self.options), run.surface
            call = CommandCall(self.conversation, options, text, surface.emit, surface.ask_user)
            return run.result_of(self.conversation.thread.submit(answer_of(command, call)))

    def _show_page(self, name: str, page: CommandPage) -> int:
        text = page.plain() if self.options.output_format == "text" else json.dumps({name: page.markdown()})
        print(text, file=self.streams.stdout)
        return ExitCode.OK

    def _request(self, prompt: str, plan: _PromptPlan) -> RunRequest:
        answer_type = None if self.options.dry_run else self._answer_type
        return RunRequest(
            prompt=prompt,
            options=replace(run_options(self.options), answer_type=answer_type),
            session=self._unsaved,
            provider=plan.provider,
            replay=plan.replay,
        )

    def _exit_code(self, end: RunEnd, signal_number: int) -> int:
        if end.error is None:
            return ExitCode.OK
        print(f"{end.error['code']}: {end.error['message']}", file=self.streams.stderr)
        code = exit_code_of(end.error["code"])
        return 128 + signal_number if code == ExitCode.INTERRUPTED and signal_number else code

    def _plan(self, prompt: str) -> _PromptPlan:
        if self.options.record is not None:
            return self._recorded(self._recorder, prompt)
        if self.options.replay is not None:
            from cellwright.agent.recording.replay import UntrustedRecording

            try:
                turn = self._replay.turn(prompt)
            except UntrustedRecording as error:
                if not confirmed(self.streams, f"{error.message}\nPlay it?"):
                    raise
                self._replay.trust()
                turn = self._replay.turn(prompt)
            return _PromptPlan(replay=_FixedReplay(turn), finish=lambda: describe_drift(turn.drift))
        return _PromptPlan()

    def _recorded(self, recorder: Recorder, prompt: str) -> _PromptPlan:
        listening: list[TurnListener] = []

        def belongs_to(run: Run) -> None:
            listening.append(recorder.listen(prompt))
            run.bus.subscribe(listening[-1].on_event)

        return _PromptPlan(belongs_to=belongs_to, finish=lambda: recorder.save(listening[-1]))

    @functools.cached_property
    def _recorder(self) -> Recorder:
        from cellwright.agent.recording.recorder import Recorder  # few runs are recorded

        return Recorder(self.options.record, self.conversation.cwd)

    @functools.cached_property
    def _replay(self) -> Replay:
        from cellwright.agent.recording.replay import Replay  # or played

        return Replay(self.options.replay, self.conversation.cwd)

    def _dry_run(self, prompt: str) -> int:
        from cellwright.conversation.dry_run import DryRun, shown, unsaved_copy

        dry_run = DryRun()
        self._unsaved = self._unsaved or unsaved_copy(self.conversation.sessions.current)
        run = TerminalRun(Unseen, None, list)
        with run.signals():
            end = run.until_end(
                self.conversation.start(self._request(prompt, _PromptPlan(provider=dry_run)), run.surface)
            )
        if end.error is None:
            summary = dry_run.summary(self._answer_type)
            text = shown(summary) if self.options.output_format == "text" else json.dumps(summary)
            print(text, file=self.streams.stdout)
        return self._exit_code(end, run.signal_number)


def run_options(options: argparse.Namespace) -> RunOptions:
    """The command line's options as the conversation takes them."""
    return RunOptions(
        model=options.model,
        mode=options.permission_mode,
        max_turns=options.max_turns,
        budget_usd=options.budget,
        effort=options.effort,
        max_tokens=options.max_tokens,
        max_parallel_tools=options.max_parallel_tools,
        tool_timeout=options.tool_timeout,
        allow=options.allowed_tools,
        deny=options.disallowed_tools,
    )
