"""A command read for its programs' names, so that nothing is started in a sandbox that could but fail there.

tree-sitter's grammar is enough here: what it overlooked would be refused by the sandbox, not by this. So loops, `case`,
functions, `[[`, arithmetic, backticks and all expansions are read, and programs are seen behind `xargs`, `find -exec`,
`env`, `timeout` and `bash -c "…"`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from msgspec import Struct

from cellwright.permissions.confined.program_use import Arguments, Use, makes_files, use_of
from cellwright.permissions.shell.command_paths import is_harmless
from cellwright.permissions.shell.reading import MAX_LENGTH, tree_of
from cellwright.text import lazy_pattern, unseen_characters

if TYPE_CHECKING:
    from tree_sitter import Node


_SHELLS = frozenset({"bash", "sh", "dash"})
_ODD_VARIABLE = lazy_pattern(
    r"PATH|LD_\w+|DYLD_\w+|BASH\w*|ENV|SHELLOPTS|PS4|PROMPT_COMMAND|CDPATH|GLOBIGNORE|HOME|TMPDIR|PWD|OLDPWD"
    r"|(PYTHON(?!UNBUFFERED|DONTWRITEBYTECODE|IOENCODING|UTF8|WARNINGS)|PERL|RUBY|NODE_(?!ENV)|GIT_|LESS|PIP_|NPM_|npm_|JAVA_)\w*"
    r"|\w*PAGER|EDITOR|VISUAL|BROWSER|SHELL|\w+_(PROXY|proxy)|MANOPT|TAR_OPTIONS|GREP_OPTIONS|RIPGREP_CONFIG_PATH|CELLWRIGHT\w*"
)
"""Variables that decide what programs run, load or write."""

_RANK: tuple[Use, ...] = ("reads", "changes", "runs", "unknown")


class ProgramUse(Struct, frozen=True):
    """The use that a command makes of one program. `text`: its words, "" where these show only when it runs."""

    use: Use
    text: str = ""


class CommandUse(Struct, frozen=True):
    """The use that a command makes of its programs. `words` have a fixed value; to `targets` it redirects its output.

    `runs_git`: a repository belongs to what it reads. `is_readable`: it is bash, of a usual length, and all of it is seen.
    `changes`: it is known to make or change files, whatever else it does. `stays`: it leaves something in the background.
    `hides_status`: its exit status may say nothing about a program in it that fails.
    """

    use: Use
    words: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    runs_git: bool = False
    is_readable: bool = True
    changes: bool = False
    stays: bool = False
    hides_status: bool = False
    programs: tuple[ProgramUse, ...] = ()


_UNREADABLE = CommandUse("unknown", is_readable=False)


@lru_cache(maxsize=64)
def command_use(command: str) -> CommandUse:
    """Read `command`. Never fails."""
    if len(command) > MAX_LENGTH or unseen_characters(command):
        return _UNREADABLE
    reader = _Reader()
    try:
        reader.read(command, 0)
    except _Unreadable:
        return _UNREADABLE
    uses = [program.use for program in reader.programs]
    uses += ["changes"] if reader.writes else []
    return CommandUse(
        max(uses, key=_RANK.index, default="unknown"),
        tuple(dict.fromkeys(reader.words)),
        tuple(dict.fromkeys(reader.targets)),
        reader.runs_git,
        changes=reader.writes or "changes" in uses,
        stays=reader.stays,
        hides_status=reader.hides_status,
        programs=tuple(reader.programs),
    )


class _Unreadable(Exception):
    """A command that is no bash, or too much of it."""


class _Reader:
    """The findings of reading a command so far."""

    def __init__(self) -> None:
        self.programs: list[ProgramUse] = []
        self.writes = False
        self.words: list[str] = []
        self.targets: list[str] = []
        self.functions: set[str] = set()
        self.runs_git = False
        self.stays = False
        self.hides_status = False

    def read(self, text: str, depth: int) -> None:
        """Add what the script `text` does. Raises _Unreadable."""
        tree = tree_of(text)
        if tree is None or tree.root_node.has_error:
            raise _Unreadable
        found = list(_nodes(tree.root_node))
        if len(found) > 20_000:
            raise _Unreadable
        for node in found:
            if node.type == "function_definition" and (name := node.child_by_field_name("name")):
                self.functions.add(_text(name, text))
        for node in found:
            self._node(node, text, depth)

    def _node(self, node: Node, text: str, depth: int) -> None:
        self.stays |= "&" in text and any(child.type == "&" for child in node.children)
        self.hides_status |= _hides_status(node)
        match node.type:
            case "command":
                name = node.child_by_field_name("name")
                if name is not None:
                    words = [name.named_children[0] if name.named_children else name]
                    words += node.children_by_field_name("argument")
                    self._program([_value(word, text) for word in words], depth)
            case "variable_assignment":
                name = node.child_by_field_name("name")
                odd = name is None or _ODD_VARIABLE.fullmatch(_text(name, text).partition("[")[0])
                self._add("runs" if odd else "reads")
            case "file_redirect":
                self._redirect(node, text)
            case "declaration_command":
                named = any(child.type in ("variable_assignment", "variable_name") for child in node.named_children)
                self._add("reads" if named else "runs")  # alone it shows all variables
            case "test_command" | "unset_command":
                self._add("reads")

    def _add(self, use: Use, words: Sequence[str | None] = ()) -> None:
        self.programs.append(ProgramUse(use, "" if None in words[:1] else " ".join(word or "" for word in words)))

    def _redirect(self, node: Node, text: str) -> None:
        operator = next((child.type for child in node.children if not child.is_named), "")
        target = node.child_by_field_name("destination")
        if target is None:
            return
        value = _value(target, text)
        if value is not None and value.startswith(("/dev/tcp/", "/dev/udp/")):
            self._add("unknown")
        if ">" not in operator:
            self.words += [value] if value is not None else []
            return
        if operator in (">&", "<&") and value is not None and re.fullmatch(r"\d*-?", value):
            return
        if value is not None and is_harmless(value):
            return
        self.writes = True
        if value is not None:
            self.targets.append(value)

    def _program(self, words: Sequence[str | None], depth: int) -> None:
        """Add what the program does that stands first in `words`, and those that it runs."""
        # programs that run others, scripts that hold scripts: `nice timeout 5 bash -c "bash -c …"`
        if depth > 10:
            raise _Unreadable
        program, *arguments = words
        self.words += [word for word in arguments if word is not None]
        if program is None:
            self._add("runs")  # its name shows only when it runs
        elif program in self.functions:
            return
        elif program in _SHELLS:
            self._script(arguments, depth)
        elif program in _WRAPPERS:
            self._wrapped(program, arguments, depth)
        elif program == "find":
            self._find(arguments, depth)
        else:
            self.runs_git |= program == "git"
            use = use_of(program, arguments)
            self.writes |= use == "runs" and makes_files(program, arguments)
            self._add(use, words)

    def _script(self, arguments: Arguments, depth: int) -> None:
        left = list(arguments)
        while left and left[0] in ("-e", "-u", "-x", "-eu", "-o", "pipefail", "-euo", "--norc", "--noprofile"):
            left.pop(0)
        flag, script = (*left, None, None)[:2]
        if flag in ("--version", "--help") and len(left) == 1:
            self._add("reads")
            return
        if flag is None or script is None or not re.fullmatch(r"-[eux]*c", flag):
            self._add("runs", ["bash", *arguments])
        else:
            self.read(script, depth + 1)

    def _wrapped(self, wrapper: str, arguments: Arguments, depth: int) -> None:
        if wrapper == "command" and arguments[:1] in (["-v"], ["-V"]):
            self._add("reads")
            return
        left = list(arguments)
        valued, own = _WRAPPERS[wrapper]
        while left and left[0] is not None and left[0].startswith("-"):
            flag = left.pop(0)
            if flag == "--":
                break
            if flag in ("--version", "--help") and not left:
                self._add("reads")
                return
            if flag in valued and left:
                left.pop(0)
        if wrapper == "env":
            while left and left[0] is not None and "=" in left[0]:
                if _ODD_VARIABLE.fullmatch(str(left.pop(0)).partition("=")[0]):
                    self._add("runs")
        del left[:own]
        if left:
            self._program(left, depth + 1)
        else:
            self._add("reads" if wrapper == "xargs" else "runs")  # alone `xargs` is `echo`

    def _find(self, arguments: Arguments, depth: int) -> None:
        kept: list[str | None] = []
        left = list(arguments)
        while left:
            word = left.pop(0)
            if word not in ("-exec", "-execdir", "-ok", "-okdir"):
                kept.append(word)
                continue
            run: list[str | None] = []
            while left and left[0] not in (";", "+"):
                run.append(left.pop(0))
            if left:
                left.pop(0)
            self._program(run or [None], depth + 1)
        self._add(use_of("find", kept), ["find", *kept])


_WRAPPERS = {
    "xargs": (
        frozenset({"-n", "-L", "-P", "-I", "-d", "-s", "-a", "-E", "--max-args", "--max-procs", "--delimiter"}),
        0,
    ),
    "env": (frozenset({"-u", "--unset", "-C", "--chdir"}), 0),
    "timeout": (frozenset({"-k", "-s", "--kill-after", "--signal"}), 1),
    "time": (frozenset({"-f"}), 0),
    "nice": (frozenset({"-n"}), 0),
    "ionice": (frozenset({"-c", "-n"}), 0),
    "stdbuf": (frozenset({"-i", "-o", "-e"}), 0),
    "nohup": (frozenset[str](), 0),
    "command": (frozenset[str](), 0),
    "builtin": (frozenset[str](), 0),
}
"""Programs that run the one behind them: their flags with a value of its own, and how many operands come before it."""


_HIDES_STATUS = frozenset(
    {"pipeline", "if_statement", "while_statement", "for_statement", "negated_command"}
    | {"command_substitution", "process_substitution"}
)


def _hides_status(node: Node) -> bool:
    """Return whether a program in `node` may fail, and the script that it is in succeeds."""
    if node.type == "list":
        return any(child.type == "||" for child in node.children)
    return node.type in _HIDES_STATUS or (node.type == "program" and len(node.named_children) > 1)


def _nodes(root: Node) -> Iterator[Node]:
    """Yield all named nodes below `root`, in no order."""
    left = [root]
    while left:
        node = left.pop()
        yield node
        left.extend(node.named_children)


def _text(node: Node, whole: str) -> str:
    return whole[node.start_byte : node.end_byte]


_ESCAPED = lazy_pattern(r"\\(.)", re.DOTALL)
_ESCAPED_IN_QUOTES = lazy_pattern(r'\\(["\\$`\n])')


def _value(node: Node, whole: str) -> str | None:
    """The value of a word of the script `whole`; None where the shell makes it when the command runs."""
    text = _text(node, whole)
    match node.type:
        case "word" | "number" | "command_name" | "variable_name" | "test_operator" | "regex":
            if node.named_children:
                return None
            return _ESCAPED.sub(r"\1", text) if "\\" in text else text
        case "raw_string":
            return text[1:-1]
        case "string":
            if any(child.type != "string_content" for child in node.named_children):
                return None
            return _ESCAPED_IN_QUOTES.sub(r"\1", text[1:-1]) if "\\" in text else text[1:-1]
        case "concatenation":
            values = [_value(child, whole) for child in node.children]
            return None if None in values else "".join(value or "" for value in values)
        case "{" | "}" | "[" | "]" | ",":
            return text
        case _:
            return None
