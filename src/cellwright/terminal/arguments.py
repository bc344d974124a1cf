"""The command line of `cellwright`: its options, those that do not go together, and the prompt.

The prompt of a command is its words, then what is piped in.
"""

from __future__ import annotations

import argparse
import json
import select
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from cellwright.conversation.runs.output_format import FORMATS
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.model.models import EFFORTS
from cellwright.permissions.modes import LISTED_MODES
from cellwright.terminal.exit_codes import MEANINGS
from cellwright.version import VERSION

DESCRIPTION = """\
Claude at work in this folder: it reads and edits files, runs commands and answers. It asks before it changes anything;
where nobody can be asked (no terminal), what would need a question is denied, with the rule that would allow it.

  cellwright "why does test_parse fail?"        one prompt
  git diff | cellwright -p "review this"        the piped text comes after the prompt
  cellwright                                    an interactive session (Ctrl-C interrupts, Ctrl-D leaves)
  cellwright --continue "and now the docs"      go on with the newest session of this folder
  cellwright sessions                           what was said in this folder: list, search, fork, export, delete
  cellwright demo                               a demonstration that needs no key and no network"""


def parser() -> argparse.ArgumentParser:
    """The parser of everything but the subcommands."""
    codes = "\n".join(f"  {code.value:<5}{meaning}" for code, meaning in MEANINGS.items())
    made = argparse.ArgumentParser(
        prog="cellwright",
        usage="cellwright [options] [PROMPT …]",
        description=DESCRIPTION,
        epilog=f"exit codes:\n{codes}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("prompt", nargs="*", metavar="PROMPT", help="what Claude is to do; else it is read from stdin")
    made.add_argument("-p", "--print", action="store_true", help="answer this one prompt, never start a session")
    made.add_argument("--version", action="version", version=f"cellwright {VERSION}")
    _add_run_options(made.add_argument_group("the run"))
    _add_permission_options(made.add_argument_group("permissions"))
    _add_session_options(made.add_argument_group("session"))
    _add_output_options(made.add_argument_group("output"))
    return made


def _add_run_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--model", metavar="M", help="the model, for example claude-sonnet-5-5")
    group.add_argument("--effort", choices=EFFORTS, help="how hard the model thinks")
    group.add_argument("--max-turns", metavar="N", type=_count, help="at most N requests to the model")
    group.add_argument("--max-tokens", metavar="N", type=_count, help="at most N tokens for one answer")
    group.add_argument("--budget", metavar="USD", type=_amount, help="stop before the run costs more than this")
    group.add_argument("--max-parallel-tools", metavar="N", type=_count, help="reading tools that run at once (10)")
    group.add_argument("--tool-timeout", metavar="SECONDS", type=_amount, help="stop every tool call after this long")


def _add_permission_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--permission-mode", choices=LISTED_MODES, help="what is asked for, allowed or denied where no rule says"
    )
    rules = "a rule, or several with commas: Edit, Bash(pytest *), Read(~/notes/**); may be repeated"
    group.add_argument(
        "--allowed-tools", metavar="RULES", action="append", default=[], help=f"allow without asking: {rules}"
    )
    group.add_argument("--disallowed-tools", metavar="RULES", action="append", default=[], help="deny; rules as above")


def _add_session_options(group: argparse._ArgumentGroup) -> None:
    which = group.add_mutually_exclusive_group()
    which.add_argument(
        "--continue", dest="resume_newest", action="store_true", help="go on with the newest session here"
    )
    which.add_argument("--resume", metavar="ID", help="go on with this session (the beginning of its id is enough)")
    which.add_argument("--no-session", action="store_true", help="keep nothing of this conversation on disk")
    recording = group.add_mutually_exclusive_group()
    recording.add_argument("--record", metavar="FILE", type=Path, help="keep the turns of this run in FILE")
    recording.add_argument(
        "--replay", metavar="FILE", type=Path, help="play the turns in FILE again, without a request"
    )


def _add_output_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--output-format", choices=FORMATS, default="text", help="json and json-lines are for programs")
    group.add_argument(
        "--schema", metavar="FILE", type=_schema, help="have the answer as JSON that fits the JSON schema in FILE"
    )
    group.add_argument("--quiet", action="store_true", help="the answer alone on stdout; stderr for errors only")
    group.add_argument(
        "--dry-run", action="store_true", help="show what would be sent and about how many tokens; send nothing"
    )
    group.add_argument("--verbose", action="store_true", help="log to stderr what happens inside (secrets taken out)")


def parse(argv: Sequence[str]) -> argparse.Namespace:
    """The options of `argv`. Leaves the process with exit code 2 and a message when they make no sense."""
    made = parser()
    options = made.parse_intermixed_args(argv)
    options.prompt = " ".join(options.prompt)
    options.allowed_tools = split_rules(options.allowed_tools)
    options.disallowed_tools = split_rules(options.disallowed_tools)
    if options.dry_run and options.replay is not None:
        made.error("--dry-run and --replay do not go together")
    return options


def split_rules(values: Sequence[str]) -> tuple[str, ...]:
    """Rules out of comma-separated lists; a comma inside a rule's parentheses is part of it."""
    rules: list[str] = []
    for value in values:
        depth, start = 0, 0
        for index, character in enumerate(value):
            if character == "," and depth == 0:
                rules.append(value[start:index])
                start = index + 1
            depth += (character == "(") - (character == ")" and depth > 0)
        rules.append(value[start:])
    return tuple(rule.strip() for rule in rules if rule.strip())


def _schema(name: str) -> tuple[dict[str, Any], str]:
    """The schema in the file, and its name for messages."""
    try:
        schema = json.loads(Path(name).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"{name!r} cannot be read as JSON: {error}") from None
    if not isinstance(schema, dict):
        raise argparse.ArgumentTypeError(f"{name!r} holds no JSON schema, which is an object")
    return schema, Path(name).name


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 up")
    return int(text)


def _amount(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return number


WAIT_SECONDS = 3.0
"""The time something may take to come by pipe, when there are words besides: a pipe may be inherited and idle."""

MAX_BYTES = 10_000_000


def read_prompt(words: str, stdin: TextIO) -> str:
    """`words`, then what is piped in. Raises `CellwrightError` INVALID_PARAMETERS when there is neither, or no text."""
    piped = _piped(stdin, wait_seconds=WAIT_SECONDS if words else None) if is_piped(stdin) else ""
    parts = [part for part in (words, piped) if part.strip()]
    if not parts:
        message = 'There is no prompt. Give one, as in cellwright "what is this project?", or pipe one in.'
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    return "\n\n".join(parts)


def is_piped(stdin: TextIO | None) -> bool:
    """Return whether something other than a keyboard is there to be read."""
    return stdin is not None and not stdin.isatty()


def _piped(stdin: TextIO, wait_seconds: float | None) -> str:
    # Windows can wait for sockets only
    if sys.platform != "win32" and wait_seconds is not None:
        ready, _, _ = select.select([stdin], [], [], wait_seconds)
        if not ready:
            print(f"Nothing came through stdin for {wait_seconds:g} s; going on without it.", file=sys.stderr)
            return ""
    data = stdin.buffer.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        message = f"More than {MAX_BYTES // 1_000_000} MB were piped in. Save them in a file and name it in the prompt."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    if b"\0" in data:
        message = "What was piped in is no text. Save it in a file and name it in the prompt."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    return data.decode("utf-8", "replace")
