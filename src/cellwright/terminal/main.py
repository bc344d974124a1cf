"""The command `cellwright`: one prompt, or an interactive session, in a terminal or a pipe.

The composition root of its process: reads the command line and builds the conversation.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import logging
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cellwright.errors import CellwrightError, ErrorCode, fault, log_fault
from cellwright.terminal.arguments import parse
from cellwright.terminal.exit_codes import ExitCode, OutputLost, exit_code_of, said_of, stop_requests_raise
from cellwright.terminal.subcommands.subcommand_names import find_subcommand
from cellwright.terminal.views.terminal_text import print_line

if TYPE_CHECKING:
    import argparse

    from cellwright.terminal.views.choose_view import Streams


_NO_ROOM = (errno.ENOSPC, errno.EFBIG, errno.EIO)


def main(argv: Sequence[str] | None = None, program: str | None = None) -> int:
    """Run the command with these arguments, called by this name (default: the process's); gives the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    _open_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # what a terminal cannot show must not end the run
            stream.reconfigure(errors="backslashreplace")
    try:
        name = sys.argv[0] if program is None else program
        if (subcommand := find_subcommand(arguments[:1], name)) is not None:
            return _done(subcommand, arguments[1:])
        return _command(parse(arguments, name))
    except CellwrightError as error:
        print_line(said_of(error.code, error.message), sys.stderr)
        return exit_code_of(error.code)
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        _forget_stdout()
        return ExitCode.BROKEN_PIPE
    except OutputLost as lost:
        _forget_stdout()
        print(f"{ErrorCode.FILE_ACCESS_ERROR}: {lost}", file=sys.stderr)
        return exit_code_of(ErrorCode.FILE_ACCESS_ERROR)


def _done(subcommand: Callable[[Sequence[str]], int], arguments: Sequence[str]) -> int:
    """Run `subcommand` and flush what it printed; return its exit code. Raises `BrokenPipeError`, `OutputLost`."""
    try:
        code = subcommand(arguments)
        sys.stdout.flush()
    except OSError as error:
        if error.errno in _NO_ROOM and error.filename is None:
            raise OutputLost(f"The output could not be written ({error}).") from error
        raise
    return code


def _open_closed_streams() -> None:
    """A stream that the caller closed (`>&-`) is None; from here on it is one that holds nothing."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115  open to the end


def _forget_stdout() -> None:
    # at exit Python would flush what cannot be written, and complain
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _command(options: argparse.Namespace) -> int:
    from cellwright.terminal.views.choose_view import (
        Streams,  # from here on things cost time; --help and errors need none of it
    )

    if options.verbose:
        log_to_stderr(os.environ)
    for remark in options.remarks:
        print(f"warning: {remark}", file=sys.stderr)
    streams = Streams(stdin=sys.stdin, stdout=sys.stdout, stderr=sys.stderr, environ=os.environ)
    try:
        return _conversation(options, streams)
    except (OSError, OutputLost):
        raise
    except CellwrightError as error:
        _tell_stdout(error, options, streams)
        raise
    except Exception as error:  # a fault of ours, or of a hook's or plugin's: programs read of it as people do
        log_fault(logging.getLogger(__name__), "the command failed")
        problem = fault(error)
        _tell_stdout(problem, options, streams)
        raise problem from error


def _tell_stdout(error: CellwrightError, options: argparse.Namespace, streams: Streams) -> None:
    if options.output_format != "text":
        _tell_program(error, options, streams)
    elif options.as_claude:  # scripts read there what kept it from an answer
        print(error.message, file=sys.stdout)


def _conversation(options: argparse.Namespace, streams: Streams) -> int:
    from cellwright.features.process_conversation import starting_up

    with starting_up():
        from cellwright.config.settings.settings_files import start_folder
        from cellwright.conversation.core import Host
        from cellwright.conversation.runs.run_options import existing_folder
        from cellwright.features.conversation import Conversation
        from cellwright.terminal.arguments import is_piped, read_prompt
        from cellwright.terminal.interactive.interact import interact
        from cellwright.terminal.terminal_conversation import (
            TerminalCommand,
            inline_settings,
            refuse_trust,
            setting_scopes,
        )
    gc.freeze()  # modules stay, and a collection need not look at them again

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


def _tell_program(error: CellwrightError, options: argparse.Namespace, streams: Streams) -> None:
    """Tell what kept the run from starting, in the format that the program reads."""
    from cellwright.events import RunEnd
    from cellwright.terminal.claude_code.flags import CLAUDE_FORMATS
    from cellwright.terminal.views.choose_view import make_view

    claude = None
    if options.output_format in CLAUDE_FORMATS:
        from cellwright.terminal.claude_code.messages import ClaudeOutput

        claude = ClaudeOutput(out=streams.stdout, facts=dict)
    end = RunEnd("error", "", {}, 0.0, 0.0, 0, 0, 0, error=error.to_json(), at=time.time())
    make_view(streams, options.output_format, quiet=True, claude=None if claude is None else lambda: claude).emit(end)


if __name__ == "__main__":
    sys.exit(main())


class Redacting(logging.Formatter):
    """Takes out what looks like a secret, and the values of the environment's secrets wherever they stand."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        from cellwright.redaction.redaction import redaction_of  # for `--verbose` alone

        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._redaction = redaction_of(environ)

    def format(self, record: logging.LogRecord) -> str:
        return self._redaction.clean(super().format(record)).text


def log_to_stderr(environ: Mapping[str, str]) -> None:
    """Show everything that is logged, by us and by the libraries."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Redacting(environ))
    logging.basicConfig(level=logging.DEBUG, handlers=[handler])
