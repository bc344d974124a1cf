"""The command line of `cellwright`: its options, those that do not go together, and the prompt.

The prompt of a command is its words, then what is piped in.
"""

from __future__ import annotations

import argparse
import json
import re
import select
import sys
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO

from cellwright.config.settings.option_table import EMPTY, FORMATS, OPTIONS, Kind, Option
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.terminal.claude_code.flags import CLAUDE_FORMATS, is_claude, translated
from cellwright.terminal.exit_codes import MEANINGS
from cellwright.terminal.subcommands.subcommand_names import refuse_command_words
from cellwright.version import VERSION, documented

DESCRIPTION = """\
Claude at work in this folder: it reads and edits files, runs commands and answers. It asks before it changes anything;
without a terminal it cannot ask: such calls are denied, with the rule that would allow them.

  cellwright "why does test_parse fail?"        one prompt
  git diff | cellwright -p "review this"        the piped text comes after the prompt
  cellwright                                    an interactive session (Ctrl-C interrupts, Ctrl-D leaves)
  cellwright --continue "and now the docs"      continue the newest session of this folder
  cellwright sessions                           the conversations of this folder: list, search, fork, export, delete
  cellwright demo                               a demonstration that needs no key and no network"""


def parser(*, as_claude: bool = False) -> argparse.ArgumentParser:
    """The parser of everything but the subcommands; `as_claude` gives the version in Claude Code's shape."""
    codes = "\n".join(f"  {code.value:<5}{meaning}" for code, meaning in MEANINGS.items())
    made = argparse.ArgumentParser(
        prog="cellwright",
        usage="cellwright [options] [PROMPT …]",
        description=DESCRIPTION,
        epilog=f"exit codes:\n{codes}\n\ndocumentation: {documented()}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("prompt", nargs="*", metavar="PROMPT", help="what Claude is to do; else it is read from stdin")
    made.add_argument("-p", "--print", action="store_true", help="answer this one prompt and exit")
    version = f"{VERSION} (Cellwright)" if as_claude else f"cellwright {VERSION}"
    made.add_argument("--version", action="version", version=version)
    for title, add in (
        ("the run", _add_files_of_prompts),
        ("permissions", _add_permission_options),
        ("session", _add_session_options),
        ("output", _add_output_options),
    ):
        group = made.add_argument_group(title)
        for option in OPTIONS:
            if option.terminal and option.terminal_group == group.title and option.name != "setup":
                group.add_argument(f"--{option.terminal}", dest=option.name, **_said(option))
        add(group)
        for action in group._group_actions:
            if action.nargs is None and action.choices is None and action.dest not in _MAY_BE_EMPTY:
                action.type = _given(action.type)
    return made


_MAY_BE_EMPTY = ("tools", "setting_sources", "system_prompt", "append_system_prompt", "resume")
"""Of these an empty text means none; that no session has an empty id is said with the ids that there are."""


def _given(read: Any) -> Callable[[str], Any]:
    """Return `read` with empty texts refused."""

    def take(text: str) -> Any:
        if not text.strip():
            raise argparse.ArgumentTypeError(EMPTY)
        return text if read is None else read(text)

    return take


def _said(option: Option) -> dict[str, Any]:
    """Return how argparse reads an option."""
    kind, told = option.kind, {"help": option.terminal_help or option.help}
    if option.flag:
        return {**told, "action": "store_false" if option.default else "store_true"}
    if names := option.terminal_names or kind.names:
        return {**told, "choices": names, **({"metavar": "MODE"} if option.name == "mode" else {})}
    told["metavar"] = option.terminal_placeholder or kind.placeholder
    if option.with_commas:
        return {**told, "type": _names}
    if option.name in _FILES:
        return {**told, **_FILES[option.name]}
    if option.repeats:
        return {**told, "action": "append", "default": []}
    return {**told, "type": _reader(kind)} if kind.trait in ("whole", "number") else told


def _reader(kind: Kind) -> Callable[[str], Any]:
    def read(text: str) -> Any:
        try:
            return kind.read(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(f"{text!r} {error}") from None

    return read


def _add_files_of_prompts(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--system-prompt-file", metavar="FILE", type=_text_of, dest="system_prompt", help=argparse.SUPPRESS
    )
    group.add_argument(
        "--append-system-prompt-file",
        metavar="FILE",
        type=_text_of,
        action="append",
        dest="append_system_prompt",
        help=argparse.SUPPRESS,
    )


def _add_permission_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--permission-prompts", choices=("none", "host"), help=argparse.SUPPRESS)
    group.add_argument(
        "--permission-prompt-tool",
        metavar="TOOL",
        type=_answering_tool,
        help="a tool of an MCP server, mcp__SERVER__TOOL, that is asked in your place, as Claude Code asks it",
    )
    group.add_argument(
        "--trust", action="store_true", help="trust what this folder brings along, for this command alone"
    )
    group.add_argument(
        "--settings",
        metavar="FILE-OR-JSON",
        type=_settings,
        action="append",
        default=[],
        help="settings above those of the files",
    )
    group.add_argument(
        "--plugin-dir",
        metavar="DIR",
        action="append",
        default=[],
        help="a plugin in a folder, besides those that are installed; may be repeated",
    )
    group.add_argument("--strict-mcp-config", action="store_true", help="only the servers of --mcp-config")
    group.add_argument(
        "--setting-sources",
        metavar="NAMES",
        type=_names,
        help="the files that count: user, project, local; with commas",
    )


def _add_session_options(group: argparse._ArgumentGroup) -> None:
    which = group.add_mutually_exclusive_group()
    which.add_argument(
        "-c", "--continue", dest="resume_newest", action="store_true", help="continue the newest session here"
    )
    which.add_argument("-r", "--resume", metavar="ID", help="continue this session (the beginning of its id is enough)")
    which.add_argument("--no-session", action="store_true", help="keep nothing of this conversation on disk")
    group.add_argument("--session-id", metavar="UUID", type=_uuid, help="the id of the new session")
    group.add_argument(
        "--fork-session",
        action="store_true",
        help="with --continue or --resume: continue in a copy, with its own id",
    )
    setup = group.add_mutually_exclusive_group()
    setup.add_argument(
        "--init", dest="setup", action="store_const", const="init", default="", help="run the Setup hooks (init) first"
    )
    setup.add_argument(
        "--maintenance",
        dest="setup",
        action="store_const",
        const="maintenance",
        help="run the Setup hooks (maintenance) first",
    )
    setup.add_argument(
        "--init-only", action="store_true", help="run the Setup and SessionStart hooks, and ask Claude nothing"
    )
    recording = group.add_mutually_exclusive_group()
    recording.add_argument("--record", metavar="FILE", type=Path, help="keep the turns of this run in FILE")
    recording.add_argument(
        "--replay", metavar="FILE", type=Path, help="play the turns in FILE again, without a request"
    )


def _add_output_options(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--output-format",
        choices=(*FORMATS, *CLAUDE_FORMATS),
        default="text",
        help="json and json-lines are for programs; claude-json and stream-json are what Claude Code writes",
    )
    group.add_argument(
        "--input-format",
        choices=("text", "stream-json"),
        default="text",
        help="stream-json: each line of stdin is a user message as Claude Code reads it",
    )
    group.add_argument(
        "--include-partial-messages", action="store_true", help="with stream-json: the answer as it is written, too"
    )
    group.add_argument(
        "--replay-user-messages", action="store_true", help="with stream-json in and out: say which message is answered"
    )
    group.add_argument("--json-schema", metavar="JSON", type=_schema_text, dest="schema", help=argparse.SUPPRESS)
    group.add_argument("--quiet", action="store_true", help="only the answer on stdout, only errors on stderr")
    group.add_argument(
        "--dry-run", action="store_true", help="show what would be sent and about how many tokens; send nothing"
    )
    group.add_argument("--verbose", action="store_true", help="log internals to stderr (without secrets)")


def parse(argv: Sequence[str], program: str = "cellwright") -> argparse.Namespace:
    """The options of `argv`, for the command called as `program`.

    Leaves the process with exit code 2 and a message when they make no sense. Raises `CellwrightError` for a flag of Claude
    Code's that is refused.
    """
    as_claude = is_claude(program)
    made = parser(as_claude=as_claude)
    words, remarks = translated(argv, as_claude=as_claude)
    options = made.parse_intermixed_args(words)
    options.as_claude, options.remarks = as_claude, remarks
    # scripts for Claude Code send `claude -p "Continue" --resume …`; its commands come first in the line
    is_scripts_prompt = as_claude and options.print
    if options.prompt and "--" not in argv and not is_scripts_prompt:
        refuse_command_words(options.prompt)
    options.prompt = "" if options.prompt == ["-"] else " ".join(options.prompt)
    options.allow, options.deny = split_rules(options.allow), split_rules(options.deny)
    options.append_system_prompt = "\n\n".join(options.append_system_prompt)
    if as_claude and is_piped(sys.stdin):
        options.print = True  # nobody sits there
    if options.permission_prompt_tool == "stdio":
        options.permission_prompt_tool = None
        options.remarks.append("--permission-prompt-tool stdio has no effect here: programs are not asked over stdin.")
    if options.permission_prompts == "none" or (as_claude and options.print and not options.permission_prompt_tool):
        options.on_denied = options.on_denied or "skip"
    _take_as_claude(options)
    _check_together(made, options)
    return options


def _take_as_claude(options: argparse.Namespace) -> None:
    """Settle what the same words mean under the two names of the command."""
    output = options.output_format
    if output == "claude-stream-json":
        options.output_format = "stream-json"
    elif options.as_claude and output == "json":
        options.output_format = "claude-json"
    # there it is wanted with stream-json, and says how much is written; here it logs
    options.all_messages = options.verbose
    if options.as_claude and options.print and output == "text":
        options.quiet = not options.verbose
    if options.as_claude or options.output_format in CLAUDE_FORMATS:
        options.verbose = False


def _check_together(made: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    resumes = options.resume_newest or options.resume is not None
    streams = options.output_format == "stream-json"
    for wrong, problem in (
        (options.dry_run and options.replay is not None, "--dry-run and --replay do not go together"),
        (not options.builtin_tools and options.tools is not None, "--no-tools and --tools do not go together"),
        (options.fork_session and not resumes, "--fork-session needs --continue or --resume"),
        (
            options.session_id and resumes and not options.fork_session,
            "--session-id with --continue or --resume needs --fork-session: a session keeps its id",
        ),
        (
            options.input_format == "stream-json" and not streams,
            "--input-format stream-json needs --output-format stream-json",
        ),
        (
            options.include_partial_messages and not streams,
            "--include-partial-messages needs --output-format stream-json",
        ),
        (
            options.replay_user_messages and options.input_format != "stream-json",
            "--replay-user-messages needs --input-format stream-json",
        ),
    ):
        if wrong:
            made.error(problem)


def split_rules(values: Sequence[str]) -> tuple[str, ...]:
    """Rules out of lists with commas or spaces between; inside a rule's parentheses both are part of it."""
    rules: list[str] = []
    for value in values:
        depth, start = 0, 0
        for index, character in enumerate(value):
            if (character == "," or character.isspace()) and depth == 0:
                rules.append(value[start:index])
                start = index + 1
            depth += (character == "(") - (character == ")" and depth > 0)
        rules.append(value[start:])
    return tuple(rule.strip() for rule in rules if rule.strip())


def _schema(name: str) -> tuple[dict[str, Any], str]:
    """The schema in the file, and its name for messages."""
    return _object(_text_of(name), name, "holds no JSON schema, which is an object"), Path(name).name


def _schema_text(text: str) -> tuple[dict[str, Any], str]:
    return _object(text, text, "is not a JSON schema, which is an object"), "--json-schema"


def _settings(given: str) -> tuple[dict[str, Any], str]:
    """The settings that are given as JSON or in a file, and the name of the place they are in."""
    if given.lstrip().startswith("{"):
        return _object(given, given, "is not a JSON object"), "--settings"
    return _object(_text_of(given), given, "holds no JSON object"), given


def _servers(given: str) -> tuple[dict[str, Any], str]:
    """The MCP servers that are given as JSON or in a file, and the name of the place they are in."""
    values, name = _settings(given)
    servers = values.get("mcpServers", values)
    if not isinstance(servers, dict):
        raise argparse.ArgumentTypeError(f"{given!r} has `mcpServers` that are no object")
    return servers, "--mcp-config" if name == "--settings" else name


def _agents(given: str) -> Mapping[str, Any]:
    """The agents that are given as JSON or in a file, by their names."""
    from cellwright.conversation.runs.run_options import given_agents  # most commands name none

    def bad(name: str, problem: str) -> argparse.ArgumentTypeError:
        return argparse.ArgumentTypeError(f"the agent {name!r} cannot be used: {problem}")

    return given_agents(_settings(given)[0], bad)


def _object(text: str, name: str, otherwise: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{name!r} cannot be read as JSON: {error}") from None
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"{name!r} {otherwise}")
    return value


def _text_of(name: str) -> str:
    try:
        return Path(name).expanduser().read_text("utf-8")
    except (OSError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"{name!r} cannot be read: {error}") from None


def _folder(name: str) -> Path:
    folder = Path(name).expanduser().absolute()
    if not folder.is_dir():
        raise argparse.ArgumentTypeError(f"{name!r} is not a folder")
    return folder


def _answering_tool(text: str) -> str:
    if text != "stdio" and not re.fullmatch(r"mcp__.+?__.+", text):
        raise argparse.ArgumentTypeError(f"{text!r} is no tool of an MCP server: mcp__SERVER__TOOL")
    return text


def _names(text: str) -> tuple[str, ...]:
    return split_rules([text])


def _uuid(text: str) -> str:
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a UUID") from None


_FILES: dict[str, dict[str, Any]] = {
    "add_dirs": {"type": _folder, "action": "append", "default": []},
    "agents": {"type": _agents, "default": {}},
    "mcp_servers": {"type": _servers, "action": "append", "default": []},
    "schema": {"type": _schema},
}
"""The options whose values are looked up on the disk."""

MAX_BYTES = 10_000_000


def read_prompt(words: str, stdin: TextIO) -> str:
    """`words`, then what is piped in. Raises `CellwrightError` INVALID_PARAMETERS when there is neither, or no text."""
    # with words besides, a pipe may be inherited and idle
    piped = _piped(stdin, wait_seconds=3.0 if words else None) if is_piped(stdin) else ""
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
            print(f"Nothing came through stdin for {wait_seconds:g} s; continuing without it.", file=sys.stderr)
            return ""
    data = stdin.buffer.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        message = f"More than {MAX_BYTES // 1_000_000} MB were piped in. Save them in a file and name it in the prompt."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    if b"\0" in data:
        message = "What was piped in is not text. Save it in a file and name it in the prompt."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    return data.decode("utf-8", "replace")
