"""A bash command taken apart: the simple commands it can run, each with its words, redirects and folder.

`reading.py` reads it; this follows bash's grammar of lists, pipelines, groups, subshells, conditions and loops.
`Analysis.problem` says why a command could not be followed; nothing but a rule for all of Bash allows it then.

The folder after a `cd` is followed as far as the text tells it. Programs that only run the command behind them are
seen through when every flag of theirs is known.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from cellwright.permissions.paths import normalised
from cellwright.permissions.shell.reading import (
    ASSIGNMENT,
    FOLLOWED_KEYWORDS,
    MAX_LENGTH,
    PIPE_FILE,
    RESERVED_WORDS,
    Token,
    Unreadable,
    Word,
    parses,
    read_tokens,
)
from cellwright.text import lazy_pattern

# Paths are strings here: this runs for each call, and Path is several times slower.
# ruff: noqa: PTH111, PTH118, PTH206


Folders = tuple[str, ...] | None
"""The folders the shell may be in; None where that is not known."""

MOVERS = frozenset({"cd", "pushd", "popd", "builtin", "command", "eval", "source", ".", "exec", "trap", "time"})
"""Programs that may take the shell elsewhere, or hide one that does."""


def moved(words: Sequence[Word], assignments: Sequence[Word], folders: Folders) -> Folders:
    """The folders the shell may be in after the simple command `words` succeeded."""
    if not words:
        return folders
    program = words[0]
    if program.dynamic or program.globs:
        return None
    if program.text not in MOVERS:
        return folders
    target = folder_named(words)
    if target is None or folders is None or assignments:
        return None
    found = [_joined(folder, target) for folder in folders]
    return None if None in found else tuple(place for place in found if place is not None)


def folder_named(words: Sequence[Word]) -> str | None:
    """The folder that `cd` or `pushd` names, `~` expanded; None where it shows only when it runs."""
    program, *rest = words
    if program.text not in ("cd", "pushd"):
        return None
    if rest and rest[0].text in ("--", "-L"):
        rest = rest[1:]
    if not rest and program.text == "cd":
        return os.path.expanduser("~")
    if len(rest) != 1 or rest[0].dynamic or rest[0].globs:
        return None
    return named_path(rest[0]) if not rest[0].text.startswith(("-", "+")) and rest[0].text else None


_TILDE_IN_ASSIGNMENT = lazy_pattern(ASSIGNMENT.pattern + r"(?:.*:)?~", re.ASCII | re.DOTALL)


def named_path(word: Word) -> str | None:
    """The path that a word is for the program that gets it: `~` expanded where bash expands it; None for `~user`, `~+`.

    What looks like an assignment (`a=~/x`, `a=b:~/x`) bash expands among arguments, too, unless it is in POSIX mode.
    """
    if _TILDE_IN_ASSIGNMENT.match(word.raw):
        return None
    if not word.raw.startswith("~"):
        return word.text
    if word.raw == "~" or word.raw.startswith("~/"):
        return os.path.expanduser("~") + word.text[1:]
    return None


def _joined(folder: str, target: str) -> str | None:
    path = os.path.join(folder, target)
    place = normalised(path)
    # bash takes `link/..` for the folder of the link, the system for the parent of what it leads to
    if os.pardir in target.split(os.sep) and os.path.realpath(path) != os.path.realpath(place):
        return None
    return place


LOOP = "for"
"""The program of the part that stands for the words of a loop. As a reserved word it is no other part's, and no rule's."""
MAX_COMMANDS = 100


class Redirect(Struct, frozen=True):
    """The redirection of a command's input or output. `target` is a file unless it is text or a descriptor.

    `number`: the descriptor that it is written for, "" for the usual one.
    """

    operator: str
    target: Word
    number: str = ""

    @property
    def writes(self) -> bool:
        return ">" in self.operator and not self.is_descriptor

    @property
    def reads(self) -> bool:
        return self.operator in ("<", "<>")

    @property
    def is_descriptor(self) -> bool:
        text = self.target.text.removesuffix("-")
        return self.operator in (">&", "<&") and not self.target.dynamic and (not text or text.isdecimal())

    @property
    def opened(self) -> int:
        """The descriptor above the standard ones that it opens; 0 for none."""
        opens = self.number != "" and self.target.text != "-" and int(self.number) > STANDARD_ERROR
        return int(self.number) if opens else 0

    @property
    def used(self) -> int:
        """The descriptor above the standard ones that it copies; 0 for none."""
        text = self.target.text.removesuffix("-")
        return int(text) if self.is_descriptor and text and int(text) > STANDARD_ERROR else 0


class SimpleCommand(Struct, frozen=True):
    """A program with its arguments. `folders`: where it may run, None where that is not known.

    `until`: all commands in front of this index, and no others, may run before this one ends. `settled`: none of them
    may have changed what its names lead to. `background`: it may run on when the whole command has ended. `opened`: the
    descriptors above the standard ones that the command has opened for it.
    """

    words: tuple[Word, ...]
    assignments: tuple[Word, ...]
    redirects: tuple[Redirect, ...]
    folders: Folders
    until: int = 0
    settled: bool = True
    background: bool = False
    opened: frozenset[int] = frozenset()

    @property
    def foreign_descriptor(self) -> int:
        """The descriptor that it uses and the command has not opened; 0 for none."""
        opened = set(self.opened)
        for redirect in self.redirects:
            if redirect.used and redirect.used not in opened:
                return redirect.used
            opened.add(redirect.opened)
        return 0

    @property
    def text(self) -> str:
        """The command as it was written, without its redirects."""
        return " ".join(word.raw for word in (*self.assignments, *self.words))


class Analysis(Struct, frozen=True):
    """The commands that a command can run, in order; none where there is a `problem` (a verb phrase about it)."""

    commands: tuple[SimpleCommand, ...] = ()
    problem: str = ""
    parses: bool = True


def _looked_up(command: SimpleCommand) -> int:
    # for how many words one with wildcards counts: a folder is listed for it
    words = len(command.words) + len(command.redirects) + 20 * sum(1 for word in command.words if word.globs)
    return words * len(command.folders or "-")


def analyse(command: str, folder: str) -> Analysis:
    """Take `command` apart, which starts in `folder` (absolute). Never fails."""
    try:
        commands = _Walker(read_tokens(command)).follow((folder,))
        # words, counted for each folder that they may be meant from, of commands that are followed
        if sum(map(_looked_up, commands)) > 600:
            raise Unreadable("names more files than are looked at")
    except Unreadable as why:
        return Analysis(problem=str(why), parses=len(command) <= MAX_LENGTH and parses(command))
    if not commands:
        return Analysis(problem="is empty")
    return Analysis(tuple(commands))


class _ShellState(Struct, frozen=True):
    """The folders the shell may be in after a command that succeeded, and after one that failed."""

    success: Folders
    failure: Folders

    @property
    def either(self) -> Folders:
        return _united(self.success, self.failure)


def _united(one: Folders, other: Folders) -> Folders:
    if one is None or other is None:
        return None
    both = tuple(dict.fromkeys((*one, *other)))
    # folders that a command may be in, depending on which `cd` before it failed
    return both if len(both) <= 8 else None


class _Walker:
    """The position that following the tokens has come to, and the commands found."""

    def __init__(self, tokens: Sequence[Token], commands: list[SimpleCommand] | None = None) -> None:
        self.tokens = tokens
        self.at = 0
        self.commands: list[SimpleCommand] = [] if commands is None else commands
        self.opened: frozenset[int] = frozenset()

    def follow(self, folders: Folders) -> list[SimpleCommand]:
        self._list(folders, until=())
        if self.at < len(self.tokens):
            raise Unreadable(f"has `{self.tokens[self.at].text}` where it is not expected")
        return self.commands

    def _next(self) -> str:
        """Return what comes next: a reserved word, an operator, ";", "word", "redirect"; "" at the end."""
        if self.at >= len(self.tokens):
            return ""
        token = self.tokens[self.at]
        match token.kind:
            case "end":
                return ";"
            case "keyword" | "operator":
                return token.text
            case kind:
                return kind

    def _expect(self, *texts: str) -> None:
        if self._next() not in texts:
            raise Unreadable(f"lacks `{texts[0]}`")
        self.at += 1

    def _skip_ends(self) -> None:
        while self._next() == ";":
            self.at += 1

    def _list(self, folders: Folders, until: tuple[str, ...]) -> _ShellState:
        """Pipelines joined by `&&`, `||`, `;`, `&` and line ends, up to one of the words of `until`."""
        after = _ShellState(folders, folders)
        self._skip_ends()
        while self._next() and self._next() not in (*until, ")"):
            before = after.either
            start = len(self.commands)
            after = self._and_or(before)
            if self._next() == "&":
                self.at += 1
                self._overlap(start, MAX_COMMANDS)
                self._mark(start, background=True)
                after = _ShellState(before, before)  # what runs in the background is in a shell of its own
            elif self._next() not in (";", "", ")", *until):
                raise Unreadable(f"has `{self.tokens[self.at].text}` where it is not expected")
            self._skip_ends()
        return after

    def _and_or(self, folders: Folders) -> _ShellState:
        after = self._pipeline(folders)
        while self._next() in ("&&", "||"):
            operator = self._next()
            self.at += 1
            self._skip_ends()
            if operator == "&&":
                second = self._pipeline(after.success)
                after = _ShellState(second.success, _united(after.failure, second.failure))
            else:
                second = self._pipeline(after.failure)
                after = _ShellState(_united(after.success, second.success), second.failure)
        return after

    def _pipeline(self, folders: Folders) -> _ShellState:
        if self._next() == "!":
            self.at += 1
            after = self._pipeline(folders)
            return _ShellState(after.failure, after.success)
        start = len(self.commands)
        after = self._command(folders)
        if self._next() not in ("|", "|&"):
            return after
        while self._next() in ("|", "|&"):
            self.at += 1
            self._skip_ends()
            self._command(folders)  # each in a shell of its own
        self._overlap(start, len(self.commands))
        return _ShellState(folders, folders)

    def _command(self, folders: Folders) -> _ShellState:
        start = len(self.commands)
        match self._next():
            case "(":
                self.at += 1
                if self._next() == "(":
                    raise Unreadable("calculates (`((`), or has parentheses in each other")
                self._list(folders, until=())
                self._expect(")")
                after = _ShellState(folders, folders)
            case "{":
                self.at += 1
                after = self._list(folders, until=("}",))
                self._expect("}")
            case "if":
                after = self._condition(folders)
            case "while" | "until" | "for":
                after = self._loop(folders)
            case "word" | "redirect":
                after = self._simple(folders)
            case other:
                raise Unreadable(f"has `{other}` where it is not expected" if other else "ends too early")
        redirects = self._redirects(folders)
        if redirects:
            self._mark(start, opened=_opened(redirects))
            self._add(SimpleCommand((), (), redirects, folders))
        self._check_behind_words()
        return after

    def _check_behind_words(self) -> None:
        """Behind a command nothing is a reserved word before the next operator, whatever the grammar says."""
        if self._next() in FOLLOWED_KEYWORDS:
            raise Unreadable("can be read in more than one way")

    def _check_first_word(self) -> None:
        """Refuse a reserved word that is not followed at the beginning of a command, where bash takes it for one."""
        text = self.tokens[self.at].text
        if self._next() == "word" and text in RESERVED_WORDS and text != "time":
            raise Unreadable(f"uses the shell's `{text}`")

    def _condition(self, folders: Folders) -> _ShellState:
        self.at += 1
        tested = self._list(folders, until=("then",))
        self._expect("then")
        result = self._list(tested.success, until=("elif", "else", "fi")).either
        match self._next():
            case "elif":
                result = _united(result, self._condition(tested.failure).either)
                return _ShellState(result, result)
            case "else":
                self.at += 1
                result = _united(result, self._list(tested.failure, until=("fi",)).either)
            case _:
                result = _united(result, tested.failure)
        self._expect("fi")
        return _ShellState(result, result)

    def _loop(self, folders: Folders) -> _ShellState:
        start = len(self.commands)
        if self._next() == "for":
            self.at += 1
            if self._next():
                self._check_first_word()
            self._expect("word")
            if self._next() == "in":
                self.at += 1
                start += self._looped_words(folders)
                self._check_behind_words()
            self._skip_ends()
        else:
            self.at += 1
            self._stays(folders, self._list(folders, until=("do",)))
        self._expect("do")
        self._stays(folders, self._list(folders, until=("done",)))
        self._expect("done")
        self._overlap(start, len(self.commands))
        return _ShellState(folders, folders)

    def _looped_words(self, folders: Folders) -> int:
        """Follow what a loop goes through; gives how many commands were added that are over before the loop begins.

        To expand wildcards there the shell lists folders.
        """
        first, start = self.at, len(self.commands)
        while self._next() == "word":
            self.at += 1
        tokens = self.tokens[first : self.at]
        wild = [token.word for token in tokens if token.word is not None and token.word.globs]
        if any(word.dynamic for word in wild):
            raise Unreadable("goes through files of a folder that shows only when it runs")
        if wild:
            self._add(SimpleCommand((Word(LOOP, raw=LOOP), *wild), (), (), folders))
        for token in tokens:
            self._substitutions(token, folders)
        self._overlap(start, len(self.commands))
        return 1 if wild else 0

    def _stays(self, folders: Folders, after: _ShellState) -> None:
        if after.either != folders:
            raise Unreadable("changes its folder in a loop")

    def _simple(self, folders: Folders) -> _ShellState:
        words: list[Word] = []
        assignments: list[Word] = []
        redirects: list[Redirect] = []
        self._check_first_word()
        while self._next() in ("word", "redirect"):
            token = self.tokens[self.at]
            word = token.word
            assert word is not None
            self._substitutions(token, folders)
            if token.kind == "redirect":
                redirects.append(_redirect(token, word))
            elif not words and (assigned := ASSIGNMENT.match(word.raw)):
                if "[" in assigned[0]:
                    raise Unreadable("sets an element of an array")
                assignments.append(word)
            else:
                words.append(word)
            self.at += 1
        if self._next() == "(":
            raise Unreadable("has a parenthesis in a word, or defines a function")
        _check_time(words)
        command = SimpleCommand(tuple(words), tuple(assignments), tuple(redirects), folders)
        self._add(command)
        if len(words) == 1 and words[0].text == "exec":
            self.opened |= _opened(redirects)
        return _ShellState(moved(words, assignments, folders), folders)

    def _redirects(self, folders: Folders) -> tuple[Redirect, ...]:
        redirects = []
        while self._next() == "redirect":
            token = self.tokens[self.at]
            assert token.word is not None
            self._substitutions(token, folders)
            redirects.append(_redirect(token, token.word))
            self.at += 1
        return tuple(redirects)

    def _substitutions(self, token: Token, folders: Folders) -> None:
        start = len(self.commands)
        for inner in token.inner:
            _Walker(inner, self.commands).follow(folders)
        if token.word is not None and token.word.text == PIPE_FILE:
            self._overlap(start, MAX_COMMANDS)

    def _add(self, command: SimpleCommand) -> None:
        if len(self.commands) >= MAX_COMMANDS:
            raise Unreadable(f"runs more than {MAX_COMMANDS} commands")
        self.commands.append(replace(command, until=len(self.commands), opened=self.opened))

    def _mark(self, start: int, *, background: bool = False, opened: frozenset[int] = frozenset()) -> None:
        """Note of the commands from `start` on that they run in the background, or which descriptors they are given."""
        for index in range(start, len(self.commands)):
            command = self.commands[index]
            self.commands[index] = replace(
                command, background=command.background or background, opened=command.opened | opened
            )

    def _overlap(self, start: int, until: int) -> None:
        """Note that the commands from `start` on may run while others up to `until` do."""
        for index in range(start, len(self.commands)):
            command = self.commands[index]
            self.commands[index] = replace(command, until=max(command.until, until))


STANDARD_ERROR = 2


def _redirect(token: Token, word: Word) -> Redirect:
    operator = token.text.lstrip("0123456789")
    return Redirect(operator, word, token.text.removesuffix(operator))


def _opened(redirects: Sequence[Redirect]) -> frozenset[int]:
    return frozenset(redirect.opened for redirect in redirects) - {0}


def _check_time(words: Sequence[Word]) -> None:
    """`time` is a reserved word with a command of any kind behind it; what is followed here is a program."""
    if words and words[0].raw == "time":
        timed = next((word.raw for word in words[1:] if word.raw != "-p"), "")
        if not timed or timed in RESERVED_WORDS:
            raise Unreadable("measures something with `time` that is no program")


_DURATION = r"\d+(\.\d+)?[smhd]?"
_FLAGS = {
    "timeout": rf"(?:(?:--foreground|--preserve-status|-v|--verbose|-k {_DURATION}|--kill-after={_DURATION}"
    rf"|-s \w+|--signal=\w+) )*{_DURATION}",
    "time": r"(?:-p)?",
    "nice": r"(?:-n ?-?\d+|--adjustment=-?\d+|-\d+)?",
    "nohup": r"",
    "stdbuf": r"(?:-[ioe] ?(?:L|0|\d+[KM]?)(?: |$))+",
    "command": r"",
    "builtin": r"",
}
SAFE_ASSIGNMENT = lazy_pattern(
    r"(?:(?:LANG|LANGUAGE|LC_[A-Z]+|NO_COLOR|FORCE_COLOR|CLICOLOR|CLICOLOR_FORCE|COLUMNS|LINES|NODE_ENV|CI|GOOS|GOARCH"
    r"|PYTHONUNBUFFERED|PYTHONDONTWRITEBYTECODE|RUST_BACKTRACE)=[\w.@:+-]*|TZ=[\w+-]*(?:/[\w+-]+)*)"
)
"""Variables that cannot make a program run, load or write something else."""


class UnwrappedCommand(Struct, frozen=True):
    """The command behind wrappers. `gets_more`: `xargs` adds arguments that show only when it runs."""

    words: tuple[Word, ...]
    gets_more: bool = False


def unwrapped(words: Sequence[Word]) -> UnwrappedCommand:
    """`words` without the wrappers in front of them; as they are where a wrapper has a flag that is not known."""
    left = tuple(words)
    gets_more = False
    # wrappers around each other that are seen through
    for _ in range(10):
        if not left:
            break
        program, *rest = left
        if program.text == "xargs" and rest and _is_program(rest[0]):
            left, gets_more = tuple(rest), True
            continue
        behind = _behind(program.text, rest) if program.text in _FLAGS else None
        if behind is None:
            break
        left = behind
    return UnwrappedCommand(left, gets_more)


def _behind(wrapper: str, rest: Sequence[Word]) -> tuple[Word, ...] | None:
    """The command behind the longest run of flags that `wrapper` is known to take."""
    for count in range(min(8, len(rest) - 1), -1, -1):
        flags = rest[:count]
        if any(word.dynamic or word.globs for word in flags):
            continue
        if re.fullmatch(_FLAGS[wrapper], " ".join(word.text for word in flags)) and _is_program(rest[count]):
            return tuple(rest[count:])
    return None


def _is_program(word: Word) -> bool:
    return not (word.dynamic or word.globs or word.text.startswith("-") or not word.text)
