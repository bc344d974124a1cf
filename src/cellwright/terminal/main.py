"""The command `cellwright`: one prompt, or an interactive session, in a terminal or a pipe.

The composition root of its process: reads the command line and builds the conversation.
"""

from __future__ import annotations

import errno
import gc
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from cellwright.errors import CellwrightError, ErrorCode, fault, log_fault
from cellwright.terminal.arguments import parse
from cellwright.terminal.exit_codes import ExitCode, OutputLost, exit_code_of, said_of
from cellwright.terminal.subcommands.subcommand_names import find_subcommand
from cellwright.terminal.views.streams import Streams, print_line

if TYPE_CHECKING:
    import argparse


_NO_ROOM = (errno.ENOSPC, errno.EFBIG, errno.EIO)


def main(argv: Sequence[str] | None = None, program: str | None = None) -> int:
    """Run the command with these arguments, called by this name (default: the process's); gives the exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        # one that the caller closed (`>&-`) is None; from here on it holds nothing
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115  open to the end
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


def _forget_stdout() -> None:
    # at exit Python would flush what cannot be written, and complain
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _command(options: argparse.Namespace) -> int:
    # from here on things cost time; --help and errors need none of it
    from cellwright.features.process_conversation import starting_up
    from cellwright.terminal.views.choose_view import tell_program

    if options.verbose:
        log_to_stderr(os.environ)
    for remark in options.remarks:
        print(f"warning: {remark}", file=sys.stderr)
    streams = Streams(stdin=sys.stdin, stdout=sys.stdout, stderr=sys.stderr, environ=os.environ)

    def tell(error: CellwrightError) -> None:
        if options.output_format != "text":
            tell_program(error, options.output_format, streams)
        elif options.as_claude:  # scripts read there what kept it from an answer
            print(error.message, file=sys.stdout)

    try:
        with starting_up():
            from cellwright.terminal.terminal_conversation import converse
        gc.freeze()  # modules stay, and a collection need not look at them again
        return converse(options, streams)
    except (OSError, OutputLost):
        raise
    except CellwrightError as error:
        tell(error)
        raise
    except Exception as error:  # a fault of ours, or of a hook's or plugin's: programs read of it as people do
        log_fault(logging.getLogger(__name__), "the command failed")
        problem = fault(error)
        tell(problem)
        raise problem from error


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


if __name__ == "__main__":
    sys.exit(main())
