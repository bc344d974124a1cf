"""The options of the magics: the line of a `%%claude` or `%claude`, and their defaults, `%config Claude` and `c.Claude`.

On a line options come first, then the beginning of the prompt. `--schema NAME` is the type an answer has to be, found in
the user's namespace; `keep_result` puts its value in place. The settings among the defaults (model, mode, rules) are a
layer of the settings, above the files and below a cell's options.
"""

from __future__ import annotations

import ast
import builtins
import keyword
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from IPython.display import display
from traitlets import Bool, Enum, Float, Int, List, TraitError, Unicode, validate
from traitlets.config import Configurable

from cellwright.agent.recording.replay_modes import REPLAY_MODES
from cellwright.config.settings.option_table import BY_NAME, COUNT, FLAG, FORMATS, TEXT, Kind, Option, nested, one_of
from cellwright.config.settings.option_table import OPTIONS as TABLE
from cellwright.errors import CellwrightError, ErrorCode

if TYPE_CHECKING:
    from cellwright.agent.structured_output import AnswerType
    from cellwright.config.settings.option_table import How
    from cellwright.config.settings.settings_files import InlineSettings
    from cellwright.conversation.runs.run_options import Result
    from cellwright.kernel.magic.cell_prompt import MagicOptions


DEFAULT_FILE = "auto"
"""Record into the file beside the notebook."""

_CONTINUES = (
    "the cells of a notebook continue one conversation by themselves; `--resume ID` goes on with another, and "
    "`%claude /clear` begins a new one"
)
_MODE = "write `--mode MODE`"
_FORMAT = "write `--format json`, or json-lines"
_FILES = "settings are in files: `%claude /config` lists them, `%config Claude` holds those of this kernel"
_STDIN = "a cell has no stdin and stdout of its own; `%%claude --format json-lines` shows each event"
_SETUP = "Setup hooks are run by the command: `cellwright --init-only` in a terminal"
_VERBOSE = "`%claude /bug` collects what went wrong, and the command `cellwright --verbose` logs"

_OF_A_COMMAND = {
    "continue": _CONTINUES,
    "fork-session": "`%claude /fork` goes on in a copy of the conversation",
    "session-id": "a session has an id of its own, which `%claude /status` shows",
    "no-session": "`cellwright.ask(…, session=None)` keeps nothing on disk",
    "no-session-persistence": "`cellwright.ask(…, session=None)` keeps nothing on disk",
    "print": "a cell is one prompt, and its answer is shown below it",
    "help": "`%claude?` shows the options, `%claude /help` the commands",
    "version": "`%claude /status` shows the version",
    "permission-mode": _MODE,
    "dangerously-skip-permissions": "write `--mode bypassPermissions`",
    "permission-prompts": "write `--on-denied skip`, and nothing is asked",
    "permission-prompt-tool": "the cell asks you; `cellwright.ask(…, can_use_tool=…)` asks a function",
    "allowed-tools": "write `--allow RULE`, again for each rule",
    "allowedTools": "write `--allow RULE`, again for each rule",
    "disallowed-tools": "write `--deny RULE`, again for each rule",
    "disallowedTools": "write `--deny RULE`, again for each rule",
    "max-budget-usd": "write `--budget USD`",
    "json-schema": "write `--schema NAME`, with the name of a type or a schema in the notebook",
    "output-format": _FORMAT,
    "input-format": _STDIN,
    "include-partial-messages": _STDIN,
    "replay-user-messages": _STDIN,
    "settings": _FILES,
    "setting-sources": _FILES,
    "bare": _FILES,
    "safe-mode": _FILES,
    "strict-mcp-config": "`%claude /mcp` switches servers off",
    "plugin-dir": "plugins are installed first: `cellwright plugin install FOLDER`",
    "trust": "the first prompt in a folder asks whether you trust what it brings along",
    "init": _SETUP,
    "init-only": _SETUP,
    "maintenance": _SETUP,
    "verbose": _VERBOSE,
    "debug": _VERBOSE,
}

_LETTERS = {"c": "continue", "d": "debug", "h": "help", "n": "name", "p": "print", "v": "version", "w": "worktree"}

_RUN_DEFAULTS = ("max_turns", "budget")
_OF_A_CELL = (*_RUN_DEFAULTS, "context")
"""Options that hold for a cell that gives none, and are no layer of the settings."""


def _name(value: str) -> str:
    if not value.isidentifier() or keyword.iskeyword(value):
        raise ValueError("is not a name for a variable")
    return value


def _of_cells(name: str, kind: Kind, help: str, placeholder: str = "", **more: Any) -> Option:
    """Return an option that only a cell has."""
    told = kind._replace(placeholder=placeholder or kind.placeholder)
    return Option(name, "", told, help, cell=name.replace("_", "-"), flag=kind is FLAG, **more)


_OF_CELLS = (
    _of_cells("system_prompt_file", TEXT, "the system prompt from a file", "FILE"),
    _of_cells(
        "append_system_prompt_file", TEXT, "text added after the system prompt, from a file", "FILE", repeats=True
    ),
    _of_cells("new", FLAG, "start a new session instead of continuing this notebook's"),
    _of_cells("resume", TEXT, "continue the session with this id (its beginning is enough)", "ID"),
    _of_cells("quiet", FLAG, "show only the answer: no tools, no thinking, no cost"),
    _of_cells(
        "format",
        one_of(FORMATS, "OutputFormat", lambda value: value in FORMATS, "a format", "F"),
        "text (the default), json or json-lines, for programs",
    ),
    _of_cells(
        "out",
        TEXT._replace(read=_name),
        "put the result into the variable NAME; its text is NAME.text (with --schema: the value)",
        "NAME",
    ),
    _of_cells("dry_run", FLAG, "show what would be sent and how many tokens that is; send nothing"),
    _of_cells(
        "record", TEXT, "keep this turn in FILE; alone on the line: beside the notebook", "FILE", bare=DEFAULT_FILE
    ),
    _of_cells(
        "replay",
        TEXT,
        "play the turn from FILE without a request; auto, strict or off: `cellwright docs replay` explains them",
        "FILE",
        bare="auto",
    ),
    _of_cells("background", FLAG, "let the cell end at once; Claude keeps working in it while you use the kernel"),
    _of_cells("notebook", TEXT, "the file of this notebook, if no front end shows it (nbclient, papermill)", "PATH"),
)

OPTIONS: dict[str, Option] = {option.cell: option for option in (*TABLE, *_OF_CELLS) if option.cell}
"""The options of a line, by their names there."""

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
    if (match := re.match(r"-(\w)(?=\s|$)", rest)) and (why := why_no_short_flag(match[1])):
        raise _usage(f"-{match[1]} is a flag of the command, not of a cell: {why}.")
    from msgspec.structs import replace  # loading the extension needs none

    own = {name: value for name, value in given.items() if name in defaults.__struct_fields__}
    run = {**defaults.run, **{name: value for name, value in given.items() if name not in own}}
    options = replace(defaults, run=run, **own)
    flags = {option.name: f"--{option.cell}" for option in OPTIONS.values()}
    for one, other in _APART:
        if one in given and other in given:
            raise _usage(f"{flags[one]} and {flags[other]} do not go together.")
    return options, rest


def _parse_option(match: re.Match[str], rest: str, given: dict[str, Any]) -> str:
    flag = match["name"]
    option = OPTIONS.get(flag)
    if option is None:
        if why := why_no_option(flag):
            raise _usage(f"--{flag} is a flag of the command, not of a cell: {why}.")
        raise _usage(f"Option --{flag} was not found.{_similar(flag)}")
    name = option.name
    if name in given and not option.repeats:
        raise _usage(f"--{flag} is given twice.")
    if option.flag:
        if match["equals"] or (rest and not rest[0].isspace()):
            raise _usage(f"--{flag} takes no value.")
        given[name] = not option.default
        return rest
    value = re.match(_VALUE, rest) if match["equals"] or rest[:1].isspace() else None
    if option.bare is not None and (not rest.strip() or rest.lstrip().startswith("--")) and not match["equals"]:
        given[name] = option.bare
        return rest
    if value is None or (value["bare"] or "").startswith("--"):
        raise _usage(f"--{flag} needs a value: --{flag} {option.kind.placeholder}.")
    text = cast("str", next(group for group in value.group("double", "single", "bare") if group is not None))
    try:
        value_read = check_annotation(text) if name == "schema" else option.kind.read(text)
    except ValueError as error:
        raise _usage(f"--{flag}: {text!r} {error}.") from None
    given[name] = (*given.get(name, ()), value_read) if option.repeats else value_read
    return rest[value.end() :]


_APART = (
    *(("new", "resume"), ("record", "replay"), ("dry_run", "replay"), ("dry_run", "background")),
    *(("system_prompt", "system_prompt_file"), ("tools", "builtin_tools")),
)
"""Options of which only one of two may be given."""


def _similar(name: str) -> str:
    import difflib  # only for the sake of a typing error

    close = difflib.get_close_matches(name, OPTIONS, n=1)
    known = ", ".join(f"--{option}" for option in OPTIONS)
    return f" Did you mean --{close[0]}?" if close else f" The options are: {known}."


def _usage(problem: str) -> CellwrightError:
    return CellwrightError(ErrorCode.INVALID_PARAMETERS, f"{problem} `%claude?` shows them all. Nothing was sent.")


def help_text() -> str:
    """Return the help shown by `%claude?` and an empty `%%claude`."""
    names = {name: f"--{name} {option.kind.placeholder}".rstrip() for name, option in OPTIONS.items()}
    width = max(map(len, names.values())) + 1
    rows = [f"  {names[name]:<{width}} {option.help}" for name, option in OPTIONS.items()]
    return "\n".join([_USAGE, "", "Options, before the prompt:", *rows])


_USAGE = """\
Claude at work in this kernel.

  %%claude [options]              the rest of the cell is the prompt
  %claude [options] TEXT          the same on one line
  %claude fix [@cell:ID] [WORDS]  the error of this cell, or the last one: the fix comes as a change of its cell
  %claude demo                    a small project with a tour of five prompts; without a key a scripted model answers them
  %claude login                   enter a key for the API: it is kept outside the notebook

Cells share one conversation. Claude asks in the cell before it changes anything; Stop (or Ctrl-C) interrupts it.
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
    from cellwright.agent.structured_output import answer_type  # most cells have no schema

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
        display(result.value)


def why_no_short_flag(letter: str) -> str:
    """Say what to write in a cell in place of the flag `-letter`; "" for a letter that is no flag."""
    if letter == "r":
        return "write `--resume ID`"
    return why_no_option(_LETTERS[letter]) if letter in _LETTERS else ""


def why_no_option(name: str) -> str:
    """Say what to write in a cell in place of the flag `--name`, or why there is none; "" for a name that is no flag."""
    if why := _OF_A_COMMAND.get(name):
        return why
    from cellwright.terminal.claude_code.flags import FLAGS  # its table has the reasons of all that has no effect

    flag = FLAGS.get(f"--{name}")
    return "" if flag is None else flag.why


class _Whole(Int):  # type: ignore[type-arg]  # older traitlets, as of Colab, have no parameters
    """A whole number, also one of numpy's."""

    def validate(self, obj: Any, value: Any) -> Any:
        return super().validate(obj, COUNT.plain(value) if COUNT.fits(value) else value)


def _trait(option: Option) -> Any:
    """Return the trait of an option of the table."""
    kind, help = option.kind, f"{option.help[:1].upper()}{option.help[1:]}."
    match kind.trait:
        case "names" if option.name == "context":
            made: Any = Enum(kind.names, "auto", help=help)
        case "names":
            made = Enum(kind.names, None, allow_none=True, help=help)
        case "texts":
            made = List(Unicode(), help=help)
        case simple:
            made = {"text": Unicode, "whole": _Whole, "number": Float}[simple](None, allow_none=True, help=help)
    return made.tag(config=True)


class Claude(Configurable):
    """Defaults for `%%claude`; an option in the cell goes before them, None leaves it to the settings files."""

    # a trait for each option that may be said here
    vars().update({option.config: _trait(option) for option in TABLE if option.config})

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...

    session_budget = Float(None, allow_none=True, help="Stop before a session costs more.").tag(config=True)
    notebook_budget = Float(None, allow_none=True, help="Stop before this notebook costs more.").tag(config=True)
    daily_budget = Float(None, allow_none=True, help="Stop before a day costs more, in all kernels.").tag(config=True)
    record = Enum(("auto", "off"), "off", help="Keep each turn in NAME.cellwright.jsonl beside the notebook.").tag(
        config=True
    )
    replay = Enum(REPLAY_MODES, None, allow_none=True, help="Play recorded turns: auto, strict or off.").tag(
        config=True
    )
    recording = Unicode(None, allow_none=True, help="The recording, if not the one beside the notebook.").tag(
        config=True
    )
    quiet = Bool(False, help="Show only the answer.").tag(config=True)
    format = Enum(FORMATS, "text", help="How a run is displayed: text, json or json-lines.").tag(config=True)

    @validate(
        *(option.config for option in TABLE if option.config and option.kind.trait in ("text", "whole", "number"))
    )
    def _as_the_option_reads_it(self, proposal: dict[str, Any]) -> Any:
        name, value = proposal["trait"].name, proposal["value"]
        if value is None:
            return value
        try:
            return BY_NAME[name].kind.read(str(value))
        except ValueError as error:
            raise TraitError(f"{name}: {value!r} {error}.") from None

    @validate("add_dirs", "fallback_models", "recording")
    def _texts(self, proposal: dict[str, Any]) -> Any:
        value = proposal["value"]
        if not all(text.strip() for text in ([value] if isinstance(value, str) else value or ())):
            raise TraitError(f"{proposal['trait'].name}: {proposal['value']!r} holds an empty text.")
        return proposal["value"]

    @validate("session_budget", "notebook_budget", "daily_budget")
    def _amount(self, proposal: dict[str, Any]) -> Any:
        from cellwright.config.settings.known_settings import amount_of_money  # loading the extension needs no settings

        if proposal["value"] is not None and (expected := amount_of_money(proposal["value"])):
            raise TraitError(f"{proposal['trait'].name}: {proposal['value']!r} is not {expected}.")
        return proposal["value"]

    @validate("allow", "deny")
    def _rules(self, proposal: dict[str, Any]) -> Any:
        from cellwright.permissions.rules.rule import grant_problem, parse_rule  # loading the extension needs no rules

        for text in proposal["value"]:
            try:
                rule = parse_rule(text)
                problem = grant_problem(rule) if proposal["trait"].name == "allow" else None
            except CellwrightError as error:
                problem = error.message
            if problem:
                raise TraitError(problem)
        return proposal["value"]

    def inline_settings(self) -> tuple[InlineSettings, ...]:
        """Return what is set here of the settings, as a layer of them."""
        from cellwright.config.settings.layers import Layer  # not needed before there is a conversation

        of_table = {
            option.setting: getattr(self, option.config)
            for option in TABLE
            if option.config and option.setting and option.name not in _OF_A_CELL
        }
        budgets = {
            "cellwright.sessionBudget": self.session_budget,
            "cellwright.notebookBudget": self.notebook_budget,
            "cellwright.dailyBudget": self.daily_budget,
        }
        said = {name: list(value) if isinstance(value, list) else value for name, value in of_table.items()}
        values = nested({**{name: value for name, value in said.items() if value not in ("", [])}, **budgets})
        if not values:
            return ()
        here = Path.cwd()
        layer = Layer(scope="config", label="c.Claude or %config Claude", root=here, folder=here)
        return ((layer, values),)

    def options(self) -> MagicOptions:
        """The options of a cell that gives none, as far as they are no settings."""
        from cellwright.kernel.magic.cell_prompt import MagicOptions  # for prompts; loading the extension needs none

        return MagicOptions(
            run={name: value for name in _RUN_DEFAULTS if (value := getattr(self, name)) is not None},
            record=DEFAULT_FILE if self.record == "auto" else None,
            replay=self.replay,
            recording=self.recording,
            context=cast("How", self.context),
            quiet=self.quiet,
            format=self.format,
        )
