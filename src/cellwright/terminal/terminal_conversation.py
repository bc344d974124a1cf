"""The command's conversation: each prompt is run, shown and, if asked for, recorded; what comes of it is an exit code."""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import secrets
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from cellwright.agent.prompt import Prompt, SteeringText
from cellwright.agent.recording.recordings import prompt_key
from cellwright.agent.recording.replay_drift import check_drift, describe_drift, describe_unchecked
from cellwright.agent.recording.replay_modes import process_replay_mode
from cellwright.agent.structured_output import AnswerType, answer_type
from cellwright.commands.command import OWN_COMMAND, CommandCall, CommandPage, command_name
from cellwright.config.settings.layers import SCOPES, Layer, Scope
from cellwright.config.settings.option_table import OPTIONS, nested
from cellwright.config.settings.settings_files import InlineSettings, start_folder
from cellwright.config.trust.trust import refusal_text
from cellwright.conversation.core import Host
from cellwright.conversation.resolve_options import model_of
from cellwright.conversation.runs import kinds
from cellwright.conversation.runs.kinds import RunRequest
from cellwright.conversation.runs.run import Run, ignore_run
from cellwright.conversation.runs.run_options import RunOptions, existing_folder, options_of
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.events import RunEnd
from cellwright.features.conversation import Conversation
from cellwright.model.models import model_name
from cellwright.sessions.api_messages import begins_turn_encoded
from cellwright.sessions.session import Session
from cellwright.terminal.arguments import is_piped, read_prompt
from cellwright.terminal.claude_code.flags import CLAUDE_FORMATS
from cellwright.terminal.exit_codes import STOP_REQUESTS, ExitCode, exit_code_of, said_of, stop_requests_raise
from cellwright.terminal.interactive.interact import interact
from cellwright.terminal.interactive.keys import KeysAtWork, reads_keys
from cellwright.terminal.run import TerminalRun
from cellwright.terminal.views.choose_view import asker_maker, make_view
from cellwright.terminal.views.plain_view import Unseen, View
from cellwright.terminal.views.streams import Streams, confirmed, line_writer
from cellwright.terminal.views.terminal_text import Look, columns_of, look_of
from cellwright.tools.paths import home_path
from cellwright.version import VERSION

if TYPE_CHECKING:
    from cellwright.agent.recording.recorder import Recorder, TurnListener
    from cellwright.agent.recording.replay import Replay
    from cellwright.terminal.claude_code.messages import ClaudeOutput
    from cellwright.terminal.question import Asker


class _PromptPlan(Struct, frozen=True, kw_only=True):
    """A run's way: by the model, recorded, or played from a recording. `finish` gives what the user should know."""

    kind: kinds.RunKind = kinds.LIVE
    belongs_to: Callable[[Run], object] = ignore_run
    finish: Callable[[], list[str]] = list


@dataclass(eq=False)
class TerminalCommand:
    """One conversation in the terminal, as the options of the command line want it."""

    options: argparse.Namespace
    conversation: Conversation
    streams: Streams
    interactive: bool = False
    """Somebody types the prompts: then `!command` is a command. What is piped in may be anybody's words."""
    _keys: KeysAtWork | None = field(default=None, init=False)
    _details: bool = field(default=False, init=False)
    _background: str = field(default="", init=False)
    """Of an interactive session's terminal, "dark" or "light", once it has said so."""
    _view: View | None = field(default=None, init=False)
    """The view of the last run: what it has folded can be unfolded at the prompt."""
    _unsaved: Session | None = field(default=None, init=False)
    _read: Replay | None = field(default=None, init=False)
    _asked: Counter[str] = field(default_factory=Counter, init=False)

    def open(self, prompt: str = "") -> None:
        """Find the session to go on with, and get ready to ask the model `prompt`. Raises `CellwrightError`."""
        options, conversation = self.options, self.conversation
        if options.no_session:
            self._unsaved = Session.create(conversation.cwd, None, options.session_id or "")
        elif options.resume is not None:
            conversation.sessions.resume(options.resume)
        elif options.resume_newest and not conversation.sessions.resume_newest():
            notice = "No earlier session in this folder; started a new one."
            conversation.sessions.current.notices.append(notice)
        if options.fork_session:
            conversation.sessions.fork_current(options.session_id or "")
        elif options.session_id is not None and not options.no_session:
            conversation.sessions.start_as(options.session_id)
        plays = options.replay is not None or (self._recording is not None and self._replay_way in ("auto", "strict"))
        if not options.dry_run and not plays and not self._is_answered_here(prompt):
            try:
                self._connect()
            except CellwrightError as error:
                if error.code != ErrorCode.API_KEY_MISSING or not self.interactive:
                    raise
                from cellwright.terminal.subcommands.auth import OTHER_WAYS, ask_for_key  # once in a user's life

                self.complain(OTHER_WAYS)
                if not ask_for_key():
                    raise CellwrightError(error.code, "No key was entered.") from None
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
        """The name and folder with which an interactive session introduces itself, and the model if no line names it."""
        cwd, effective = self.conversation.cwd, self.conversation.in_force
        model = ""
        with contextlib.suppress(CellwrightError):  # the first prompt says what is wrong
            model = (
                ""
                if self._keys is not None
                else model_name(model_of(self._run_options(), effective.settings, effective.environment))
            )
        return " · ".join(filter(None, (f"Cellwright {VERSION}", model, home_path(cwd))))

    def show_last_turn(self) -> None:
        """Draw the last turn of a session that goes on, if the terminal can be drawn on."""
        encoded = self._session.encoded
        begins = [number for number, message in enumerate(encoded) if begins_turn_encoded(message)]
        if begins and self.streams.draws_on(self.streams.stdout):
            from cellwright.terminal.views.page_view import draw_turn  # rich

            draw_turn(encoded[begins[-1] :], len(begins) - 1, self.streams.stdout, self._look)

    def _connect(self) -> None:
        # setting up TLS takes as long as everything else until the first request
        if (preparing := self.conversation.model.prepare()) is not None:
            self.conversation.thread.submit(preparing)

    def set_up(self) -> int:
        """Run the Setup and SessionStart hooks, and nothing else; gives the exit code. Raises `CellwrightError`."""
        said = self.conversation.set_up("init")
        for message in said.messages:
            print(message, file=self.streams.stdout)
        for problem in said.problems:
            print(f"warning: {problem}", file=self.streams.stderr)
        refusal = said.stop or (said.reason if said.block else "")
        if refusal:
            print(f"A hook objects: {refusal}", file=self.streams.stderr)
        return ExitCode.FAILED if refusal or said.problems else ExitCode.OK

    def run_messages(self) -> int:
        """Run each message of stdin, in their order, until it ends; gives the last one's exit code."""
        from cellwright.terminal.claude_code.messages import (
            user_messages,  # a stream of messages is rare
            write_message,
        )

        code: int = ExitCode.OK
        for message in user_messages(self.streams.stdin, self.streams.stdout):
            if self.options.replay_user_messages:
                write_message({**message.line, "session_id": self._session.id, "isReplay": True}, self.streams.stdout)
            code = self.run(message.prompt)
        return code

    def run(self, prompt: Prompt) -> int:
        """Run `prompt` and show it; gives the exit code. Raises what kept it from starting."""
        words = prompt if isinstance(prompt, str) else ""
        if self._is_answered_here(words):
            before = self._session.id
            code = self._show_page(str(command_name(words)), self._do(words))
            if self.interactive and self._session.id != before:
                self.show_last_turn()
            return code
        if self.options.dry_run:
            return self._dry_run(prompt)
        plan = self._plan(words)
        run = self._terminal_run(self._make_view)
        with run.signals():
            surface = replace(run.surface, belongs_to=plan.belongs_to)
            if (tool := self.options.permission_prompt_tool) is not None:
                from cellwright.terminal.claude_code.messages import answers_of  # few commands name one

                surface = replace(surface, can_use_tool=answers_of(tool, self.conversation.features.mcp.call_for_text))
            try:
                end = run.until_end(self.conversation.start(self._request(prompt, plan), surface))
            except (CellwrightError, KeyboardInterrupt):
                if run.signal_number not in STOP_REQUESTS:
                    raise
                return 128 + run.signal_number
        for notice in plan.finish():
            print(f"warning: {notice}", file=self.streams.stderr)
        return self._exit_code(end, run.signal_number)

    def complain(self, line: str) -> None:
        """Show on stderr what kept a prompt or a command from being done."""
        line_writer(self.streams, self.streams.stderr, self._look)(line, "")

    def prompt_line(self) -> Callable[[], str] | None:
        """The line that prompts are typed in; None on a terminal that cannot be drawn on."""
        streams = self.streams
        if not (reads_keys(streams.stdin) and streams.draws_on(streams.stdout)):
            return None
        from cellwright.terminal.interactive.prompt_line import SessionLine  # prompt_toolkit takes a tenth of a second

        def toggle() -> Callable[[], None] | None:
            # what draws the details that the last run has folded, if they are shown from now on
            shown = self._toggle_details()
            return functools.partial(self._view.show_details, shown) if shown and self._view is not None else None

        self._keys = KeysAtWork(streams.stdin)
        line = SessionLine(
            self.conversation,
            options=self._run_options,
            page_of=self._do,
            keys=self._keys,
            toggle_details=toggle,
            details=lambda: self._details,
            keep_history=not self.options.no_session,
            look=self._look,
        )
        return line.read

    def _toggle_details(self) -> bool:
        self._details = not self._details
        return self._details

    def _terminal_run(self, make_view: Callable[[], View]) -> TerminalRun:
        return TerminalRun(
            make_view,
            self._asker,
            self.conversation.in_force.save_rules,
            keys=self._keys,
            steer=self._steer,
            toggle_details=self._toggle_details,
        )

    def _steer(self, text: str) -> None:
        """Tell Claude of `text` while it works. Raises `CellwrightError` for what is the next prompt's: it stays typed."""
        if command_name(text) is not None:
            message = "A command runs when Claude has finished."
            raise CellwrightError(ErrorCode.EXECUTION_ERROR, message, recoverable=True)
        self.conversation.runs.steer(SteeringText(secrets.token_hex(8), text, "steer"))

    def _make_view(self) -> View:
        options = self.options
        claude = self._claude_output if options.output_format in CLAUDE_FORMATS else None
        output_format, all_messages = options.output_format, options.all_messages
        self._view = make_view(
            self.streams,
            output_format,
            quiet=options.quiet,
            claude=claude,
            all_messages=all_messages,
            details=self._details,
            in_session=self._keys is not None,
            look=self._look,
        )
        return self._view

    @property
    def _asker(self) -> Callable[[], Asker] | None:
        """Return the maker of the one who asks; None where nobody can be asked, or is to be."""
        options = self.options
        if (options.on_denied or "ask") != "ask":
            return None
        seconds = self.conversation.in_force.settings.ask_user_question_seconds
        return asker_maker(
            self.streams, options.output_format, quiet=options.quiet, answer_seconds=seconds, look=self._look
        )

    @property
    def _look(self) -> Look:
        return look_of(self.conversation.in_force.settings, self.streams.environ, self._background)

    def _claude_output(self) -> ClaudeOutput:
        from cellwright.terminal.claude_code.messages import ClaudeOutput

        return ClaudeOutput(
            out=self.streams.stdout,
            facts=self._claude_facts,
            answer_type=self._answer_type,
            partial_messages=self.options.include_partial_messages,
        )

    def _claude_facts(self) -> dict[str, object]:
        """The facts that Claude Code's first message gives of the conversation, besides the model and the mode."""
        from cellwright.commands.session_facts import session_facts  # the request is on its way by now

        return session_facts(self.conversation, self._run_options())

    def _is_answered_here(self, prompt: str) -> bool:
        name = command_name(prompt)
        if name is None or name == OWN_COMMAND:
            return name is not None and self.interactive
        from cellwright.commands.registry import is_answered_here  # most prompts are none

        return is_answered_here(prompt, self.conversation.features.skills)

    def _do(self, prompt: str) -> CommandPage:
        from cellwright.commands.registry import NEED_SESSIONS, answer_of, command_of

        command, text = command_of(prompt)
        if self.options.no_session and command_name(prompt) in NEED_SESSIONS:
            message = (
                f"--no-session keeps this conversation in memory alone: there is no /{command_name(prompt)} in it."
            )
            raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)

        run = self._terminal_run(Unseen)
        if command_name(prompt) != OWN_COMMAND:
            run.keys = None  # the line that it is typed in has the keyboard
        with run.signals():
            options, surface = self._run_options(), run.surface
            call = CommandCall(self.conversation, options, text, surface.emit, surface.ask_user)
            return run.result_of(self.conversation.thread.submit(answer_of(command, call)))

    def _run_options(self) -> RunOptions:
        return self.conversation.choices.over(run_options(self.options))

    def _show_page(self, name: str, page: CommandPage) -> int:
        match self.options.output_format:
            case "text":
                stdout = self.streams.stdout
                if self.streams.draws_on(stdout):
                    from cellwright.commands.registry import OTHER_NAMES
                    from cellwright.terminal.views.page_view import draw_fresh_page, draw_page  # rich

                    begins = OTHER_NAMES.get(name, name) == "clear" and self._keys is not None
                    draw = draw_fresh_page if begins else draw_page
                    draw(page, stdout, self._look)
                    return ExitCode.OK
                text = page.plain(columns_of(stdout, self.streams.environ) if stdout.isatty() else None)
            case "json" | "json-lines":
                text = json.dumps({name: page.markdown()})
            case _:
                from cellwright.terminal.claude_code.messages import write_page  # as above

                write_page(page.plain(), self._session.id, self.streams.stdout)
                return ExitCode.OK
        print(text, file=self.streams.stdout)
        return ExitCode.OK

    def _request(self, prompt: Prompt, plan: _PromptPlan) -> RunRequest:
        answer_type = None if self.options.dry_run else self._answer_type
        return RunRequest(
            prompt=prompt,
            options=replace(self._run_options(), answer_type=answer_type),
            session=self._unsaved,
            kind=plan.kind,
        )

    def _exit_code(self, end: RunEnd, signal_number: int) -> int:
        stopped = 128 + signal_number if signal_number in STOP_REQUESTS else 0
        if end.error is None:
            return stopped or ExitCode.OK
        if self.options.as_claude and self.options.output_format == "text":
            # scripts read there what kept it from an answer
            print(end.error["message"], file=self.streams.stdout)
        said = said_of(end.error["code"], end.error["message"])
        if self._keys is not None and self._view is not None:
            pass  # it stands above the answer's last line
        elif self.interactive:
            self.complain(said)
        else:
            print(said, file=self.streams.stderr)
        code = exit_code_of(end.error["code"])
        return stopped or code

    @property
    def _recording(self) -> Path | None:
        """The recording that this command writes or plays."""
        named = self.options.record or self.options.replay or self.streams.environ.get("CELLWRIGHT_RECORDING")
        return self.conversation.cwd / named if named else None

    @functools.cached_property
    def _replay_way(self) -> str | None:
        return process_replay_mode(self.streams.environ)

    def _plan(self, prompt: str) -> _PromptPlan:
        path, way = self._recording, self._replay_way
        if path is None:
            return _PromptPlan()
        key = prompt_key(prompt, self.conversation.cwd)
        self._asked[key] += 1
        nth = self._asked[key]
        if (
            self.options.replay is not None
            or way == "strict"
            or (way == "auto" and path.exists() and self._replay.holds(prompt, nth=nth))
        ):
            return self._played(prompt, nth, strict=way == "strict")
        return _PromptPlan() if self.options.record is None else self._recorded(self._recorder, prompt, nth)

    def _played(self, prompt: str, nth: int, *, strict: bool) -> _PromptPlan:
        from cellwright.agent.recording.replay import UntrustedRecording

        replay = self._replay
        try:
            turn = replay.turn(prompt, nth=nth)
        except UntrustedRecording as error:
            if not confirmed(self.streams, f"{error.message}\nPlay it?"):
                raise
            replay.trust()
            turn = replay.turn(prompt, nth=nth)

        def finish() -> list[str]:
            if strict:
                check_drift(turn.drift)
            return [*describe_drift(turn.drift), *filter(None, [describe_unchecked(turn.unchecked)])]

        def belongs_to(run: Run) -> None:
            run.bus.subscribe(turn.on_event)

        return _PromptPlan(kind=kinds.Replay(turn), belongs_to=belongs_to, finish=finish)

    def _recorded(self, recorder: Recorder, prompt: str, nth: int) -> _PromptPlan:
        listening: list[TurnListener] = []

        def belongs_to(run: Run) -> None:
            listening.append(recorder.listen(prompt, nth=nth))
            run.bus.subscribe(listening[-1].on_event)

        return _PromptPlan(belongs_to=belongs_to, finish=lambda: recorder.save(listening[-1]))

    @functools.cached_property
    def _recorder(self) -> Recorder:
        from cellwright.agent.recording.recorder import Recorder  # few runs are recorded

        return Recorder(self.options.record, self.conversation.cwd)

    @property
    def _replay(self) -> Replay:
        assert self._recording is not None
        if self._read is None or self._read.is_outdated():
            from cellwright.agent.recording.replay import Replay  # or played

            self._read = Replay(self._recording, self.conversation.cwd)
        return self._read

    def _dry_run(self, prompt: Prompt) -> int:
        dry_run = kinds.DryRun()
        self._unsaved = self._unsaved or kinds.unsaved_copy(self.conversation.sessions.current)
        run = TerminalRun(Unseen, None, list)
        with run.signals():
            end = run.until_end(self.conversation.start(self._request(prompt, _PromptPlan(kind=dry_run)), run.surface))
        if end.error is None:
            summary = dry_run.summary(self._answer_type)
            text = kinds.shown(summary) if self.options.output_format == "text" else json.dumps(summary)
            print(text, file=self.streams.stdout)
        return self._exit_code(end, run.signal_number)


def converse(options: argparse.Namespace, streams: Streams) -> int:
    """Do what the command line asks for: one prompt, the messages of a program, or a session; gives the exit code."""
    one_prompt = any(
        (options.prompt, options.print, options.dry_run, options.init_only, options.output_format != "text")
    )
    interactive = not one_prompt and sys.stdin.isatty() and sys.stdout.isatty()
    streamed = options.input_format == "stream-json"
    words = ""
    if not (interactive or streamed or options.init_only or is_piped(streams.stdin)):
        words = read_prompt(options.prompt, streams.stdin)
    cwd = start_folder(os.environ)
    given = inline_settings(options, cwd)
    conversation = Conversation(
        Host(
            cwd=cwd,
            interface="a terminal",
            inline_settings=lambda: given,
            setting_scopes=setting_scopes(options),
            trusts_folder=options.trust,
            plugin_folders=[existing_folder(each) for each in options.plugin_dir],
            one_prompt=not (interactive or streamed),
        )
    )
    # of two with one name the last counts
    named = [(label, servers) for servers, label in reversed(options.mcp_servers)]
    conversation.features.mcp.add_named(named, only=options.strict_mcp_config)
    conversation.features.agents.of_run = options.agents  # `/agents` and @agent- know them before the first prompt
    try:
        refuse_trust(options, conversation)
        command = TerminalCommand(options, conversation, streams, interactive)
        if options.init_only:
            return command.set_up()
        command.open(words or options.prompt)
        if interactive:
            with stop_requests_raise():
                return interact(command)
        if streamed:
            return command.run_messages()
        return command.run(words or read_prompt(options.prompt, streams.stdin))
    finally:
        for line in () if options.quiet else conversation.still_at_work("this command"):
            print(f"warning: {line}", file=streams.stderr)
        with contextlib.suppress(TimeoutError):  # a tool that cannot be stopped does not keep the process
            conversation.close()


def run_options(options: argparse.Namespace) -> RunOptions:
    """The command line's options as the conversation takes them; servers and types have ways of their own."""
    given = {option.name: getattr(options, option.name) for option in OPTIONS if option.terminal and not option.layer}
    return options_of({name: value for name, value in given.items() if name not in ("mcp_servers", "schema")})


def inline_settings(options: argparse.Namespace, cwd: Path) -> tuple[InlineSettings, ...]:
    """The settings of the command line: those of `--settings`, `--provider`, and the folders of `--add-dir`."""
    found: list[InlineSettings] = []
    for values, name in options.settings:
        # a rule's `/x` starts at the folder of the file it stands in
        folder = cwd if name == "--settings" else Path(name).expanduser().absolute().parent
        found.append((Layer(scope="options", label=name, root=folder, folder=folder), values))
    for option in OPTIONS:
        if option.layer and (value := getattr(options, option.name)):
            layer = Layer(scope="options", label=f"--{option.terminal}", root=cwd, folder=cwd)
            said = [str(each) for each in value] if isinstance(value, list) else value
            found.append((layer, nested({option.setting: said})))
    return tuple(found)


def setting_scopes(options: argparse.Namespace) -> tuple[Scope, ...]:
    """The files of settings that count. Raises `CellwrightError` for one that there is not."""
    names: tuple[str, ...] | None = options.setting_sources
    if names is None:
        return SCOPES
    if unknown := set(names) - {"user", "project", "local"}:
        message = f"--setting-sources: {', '.join(sorted(unknown))} is none of user, project, local."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    return tuple(scope for scope in SCOPES if scope in names)


def refuse_trust(options: argparse.Namespace, conversation: Conversation) -> None:
    """Raises `CellwrightError` PERMISSION_DENIED for a `--trust` that the administrator does not let count."""
    trust = conversation.in_force.trust
    if options.trust and trust.refused:
        raise CellwrightError(ErrorCode.PERMISSION_DENIED, f"--trust: {refusal_text(trust.folder)} Nothing was sent.")
