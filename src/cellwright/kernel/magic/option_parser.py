"""The line of a `%%claude` or `%claude` magic: options first, then the beginning of the prompt.

`--schema NAME` is the type an answer has to be, found in the user's namespace; `keep_result` puts its value in place.
"""

from __future__ import annotations

import ast
import builtins
import keyword
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from cellwright.conversation.runs.option_values import FORMATS, ON_DENIED
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.model.models import EFFORTS, PROVIDERS
from cellwright.permissions.modes import LISTED_MODES
from cellwright.this_process.late_imports import importing

if TYPE_CHECKING:
    from cellwright.agent.structured_output.typed_answer import AnswerType
    from cellwright.conversation.runs.run_options import Result
    from cellwright.kernel.magic.options import MagicOptions

CONTEXTS = ("none", "auto", "code", "cells", "full")
DEFAULT_FILE = "auto"
"""Record into the file beside the notebook."""


def _text(value: str) -> str:
    if not value:
        raise ValueError("is empty")
    return value


def _one_of(*names: str) -> Callable[[str], str]:
    def check(value: str) -> str:
        if value not in names:
            raise ValueError(f"is not one of {', '.join(names)}")
        return value

    return check


def _count(value: str) -> int:
    if not value.isdecimal() or int(value) < 1:
        raise ValueError("is not a whole number of at least 1")
    return int(value)


def _dollars(value: str) -> float:
    try:
        amount = float(value.removeprefix("$"))
    except ValueError:
        amount = 0.0
    if not 0 < amount < 1e6:
        raise ValueError("is not an amount of US dollars above 0")
    return amount


def _seconds(value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = 0.0
    if not 0 < number < 1e9:
        raise ValueError("is not a number of seconds above 0")
    return number


def _names(value: str) -> tuple[str, ...]:
    return tuple(name for name in value.replace(",", " ").split() if name)


def _name(value: str) -> str:
    if not value.isidentifier() or keyword.iskeyword(value):
        raise ValueError("is not a name for a variable")
    return value


def _annotation(value: str) -> str:

    return check_annotation(value)


class Option:
    """One option of the magic: how its value is read (None: it takes none), and its line in the help.

    `bare` is its value where nothing follows it on the line; None: it needs one. `repeats`: it may be given again, and has
    all of its values then.
    """

    def __init__(
        self,
        placeholder: str,
        read: Callable[[str], Any] | None,
        help: str,
        bare: str | None = None,
        *,
        repeats: bool = False,
    ) -> None:
        self.placeholder = placeholder
        self.read = read
        self.help = help
        self.bare = bare
        self.repeats = repeats


OPTIONS: dict[str, Option] = {
    "model": Option("M", _text, "the model, for example claude-sonnet-5-5"),
    "mode": Option("MODE", _one_of(*LISTED_MODES), f"permission mode: {', '.join(LISTED_MODES)}"),
    "allow": Option("RULE", _text, "allow this without asking, in this run: 'Bash(pytest *)'", repeats=True),
    "deny": Option("RULE", _text, "deny this in this run; may be given again, as --allow and --add-dir", repeats=True),
    "add-dir": Option("DIR", _text, "another folder to work in, besides the notebook's, in this run", repeats=True),
    "on-denied": Option(
        "HOW",
        _one_of(*ON_DENIED),
        "a call that needs permission: ask, skip it and continue, or end the run with an error",
    ),
    "new": Option("", None, "start a new session instead of continuing this notebook's"),
    "resume": Option("ID", _text, "continue the session with this id (its beginning is enough)"),
    "max-turns": Option("N", _count, "at most N requests to the model"),
    "budget": Option("USD", _dollars, "stop before the run costs more than this"),
    "max-tokens": Option("N", _count, "at most N tokens for one answer"),
    "max-parallel-tools": Option("N", _count, "reading tools that run at once (10)"),
    "tool-timeout": Option("SECONDS", _seconds, "stop every tool call after this long"),
    "effort": Option("E", _one_of(*EFFORTS), f"how hard the model thinks: {', '.join(EFFORTS)}"),
    "provider": Option("P", _one_of(*PROVIDERS), "ask the model over the API (api), or through claude-code"),
    "fallback-model": Option(
        "M", _text, "continue with this model if the other is overloaded or unavailable", repeats=True
    ),
    "agent": Option("NAME", _text, "let this agent work itself: with its prompt, tools and model (/agents lists them)"),
    "agents": Option("FILE", _text, "more agents: a JSON file with a description and a prompt for each name"),
    "mcp-config": Option("FILE", _text, "MCP servers besides those of the settings, from a file such as .mcp.json"),
    "tools": Option("NAMES", _names, 'the only tools Claude has, separated by commas; "" for none, default for all'),
    "system-prompt": Option("TEXT", _text, "the system prompt, instead of Cellwright's own"),
    "system-prompt-file": Option("FILE", _text, "the same, from a file"),
    "append-system-prompt": Option("TEXT", _text, "text added after the system prompt", repeats=True),
    "append-system-prompt-file": Option("FILE", _text, "the same, from a file", repeats=True),
    "quiet": Option("", None, "show only the answer: no tools, no thinking, no cost"),
    "format": Option("F", _one_of(*FORMATS), "text (the default), json or json-lines, for programs"),
    "out": Option(
        "NAME", _name, "put the result into the variable NAME; its text is NAME.text (with --schema: the value)"
    ),
    "schema": Option(
        "NAME", _annotation, "return the answer as a value: a model, TypedDict, list[Model] or JSON schema"
    ),
    "dry-run": Option("", None, "show what would be sent and how many tokens that is; send nothing"),
    "record": Option("FILE", _text, "keep this turn in FILE; alone on the line: beside the notebook", DEFAULT_FILE),
    "replay": Option(
        "FILE", _text, "play the turn from FILE without a request; auto, strict or off: as the docs say", "auto"
    ),
    "background": Option("", None, "let the cell end at once; Claude keeps working in it while you use the kernel"),
    "no-tools": Option(
        "", None, "let Claude answer without tools; blocks named lang:path are offered as files to write"
    ),
    "context": Option(
        "HOW",
        _one_of(*CONTEXTS),
        "what Claude is told: none, auto (what changed in the notebook), code (that, and the project's code that fits the "
        "prompt), cells or full (all of the notebook's code, or of its cells)",
    ),
    "notebook": Option("PATH", _text, "the file of this notebook, if no front end shows it (nbclient, papermill)"),
}

# loading the extension compiles none
_OPTION = r"--(?P<name>[A-Za-z][\w-]*)(?P<equals>=)?"
_VALUE = r"""\s*(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<bare>\S+))(?=\s|$)"""


def parse_line(line: str, defaults: MagicOptions) -> tuple[MagicOptions, str]:
    """The options at the beginning of `line`, over `defaults`, and the text that follows them.

    Raises `CellwrightError` INVALID_PARAMETERS for an option that is unknown, lacks its value or does not fit another.
    """
    given: dict[str, Any] = {}
    rest = line.strip()
    while match := re.match(_OPTION, rest):
        rest = _parse_option(match, rest[match.end() :], given).lstrip()
    from msgspec.structs import replace  # loading the extension needs none

    options = replace(defaults, **given)
    _check_together(given)
    return options, rest


def _parse_option(match: re.Match[str], rest: str, given: dict[str, Any]) -> str:
    name = match["name"]
    option = OPTIONS.get(name)
    if option is None:
        raise _usage(f"Option --{name} was not found.{_similar(name)}")
    attribute = name.replace("-", "_")
    if attribute in given and not option.repeats:
        raise _usage(f"--{name} is given twice.")
    if option.read is None:
        if match["equals"] or (rest and not rest[0].isspace()):
            raise _usage(f"--{name} takes no value.")
        given[attribute] = True
        return rest
    value = re.match(_VALUE, rest) if match["equals"] or rest[:1].isspace() else None
    if option.bare is not None and (not rest.strip() or rest.lstrip().startswith("--")) and not match["equals"]:
        given[attribute] = option.bare
        return rest
    if value is None or (value["bare"] or "").startswith("--"):
        raise _usage(f"--{name} needs a value: --{name} {option.placeholder}.")
    text = cast("str", next(group for group in value.group("double", "single", "bare") if group is not None))
    try:
        value_read = option.read(text)
        given[attribute] = (*given.get(attribute, ()), value_read) if option.repeats else value_read
    except ValueError as error:
        raise _usage(f"--{name}: {text!r} {error}.") from None
    return rest[value.end() :]


_APART = (
    *(("new", "resume"), ("record", "replay"), ("dry_run", "replay"), ("dry_run", "background")),
    *(("system_prompt", "system_prompt_file"), ("tools", "no_tools")),
)
"""Options of which only one of two may be given."""


def _check_together(given: dict[str, Any]) -> None:
    for one, other in _APART:
        if one in given and other in given:
            names = f"--{one.replace('_', '-')} and --{other.replace('_', '-')}"
            raise _usage(f"{names} do not go together.")


def _similar(name: str) -> str:
    import difflib  # only for the sake of a typing error

    close = difflib.get_close_matches(name, OPTIONS, n=1)
    known = ", ".join(f"--{option}" for option in OPTIONS)
    return f" Did you mean --{close[0]}?" if close else f" The options are: {known}."


def _usage(problem: str) -> CellwrightError:
    return CellwrightError(ErrorCode.INVALID_PARAMETERS, f"{problem} `%claude?` shows them all. Nothing was sent.")


def help_text() -> str:
    """Return the help shown by `%claude?` and an empty `%%claude`."""
    width = max(len(name) + len(option.placeholder) for name, option in OPTIONS.items()) + 4
    rows = [f"  {f'--{name} {option.placeholder}':<{width}} {option.help}" for name, option in OPTIONS.items()]
    return "\n".join([_USAGE, "", "Options, before the prompt:", *rows])


_USAGE = """\
Claude at work in this kernel.

  %%claude [options]              the rest of the cell is the prompt
  %claude [options] TEXT          the same on one line
  %claude fix [@cell:ID] [WORDS]  the error of this cell, or the last one: the fix comes as a change of its cell
  %claude demo                    a small project with a tour of five prompts; without a key a scripted model answers them
  %claude login                   enter a key for the API: it is kept outside the notebook

Cells go on with one conversation. Claude asks in the cell before it changes anything; Stop (or Ctrl-C) interrupts it.
`%claude /help` lists the slash commands; `%config Claude` shows and sets the defaults of the options."""


_OF_ANNOTATIONS = (
    ast.Expression,
    ast.Name,
    ast.Attribute,
    ast.Subscript,
    ast.Tuple,
    ast.List,
    ast.BinOp,
    ast.BitOr,
    ast.UnaryOp,
    ast.USub,
    ast.Constant,
    ast.Load,
)


def check_annotation(text: str) -> str:
    """`text`, if it reads as a name or an annotation; nothing is evaluated. Raises ValueError that says what it is not."""
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        tree = None
    named = tree is not None and isinstance(tree.body, ast.Name | ast.Attribute | ast.Subscript | ast.BinOp)
    if tree is None or not named or not all(isinstance(node, _OF_ANNOTATIONS) for node in ast.walk(tree)):
        raise ValueError("is not the name of a model, nor an annotation such as list[Model]")
    return text


def named_type(text: str, namespace: Mapping[str, Any]) -> AnswerType:
    """The type that `text` (a name or annotation) stands for in the user's `namespace`.

    Raises `CellwrightError` INVALID_PARAMETERS where a name is not there, or is nothing that an answer can be.
    """
    from cellwright.agent.structured_output.typed_answer import answer_type  # most cells have no schema

    known = {**vars(builtins), **namespace}
    code = compile(text, "<--schema>", "eval")
    try:
        # an annotation of the user's own cell: names, subscripts and `|` are all that it holds
        given = eval(code, {"__builtins__": {}}, known)
    except NameError as error:
        message = (
            f"--schema {text}: there is no {error.name} in this kernel. Run the cell that defines it. Nothing was sent."
        )
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message) from None
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        message = f"--schema {text}: {type(error).__name__}: {error}. Nothing was sent."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message) from None
    return answer_type(given, text)


def keep_result(result: Result, options: MagicOptions, namespace: dict[str, Any]) -> None:
    """Put the result where the options want it: with a type its value alone, shown where no name was given for it."""
    typed = options.schema is not None
    if options.out is not None:
        namespace[options.out] = result.value if typed else result
    # in the other formats the answer is there as JSON already; of the background it would land in another cell
    elif typed and options.format == "text" and not options.background:
        with importing:
            from IPython.display import display

        display(result.value)
