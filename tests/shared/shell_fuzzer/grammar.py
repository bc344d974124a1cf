"""Commands made by chance: what people write, made odd in the ways by which a reader and bash have come to differ.

Programs and their options are those that the policy knows, so that much is allowed, and those that the programs on this
machine say of themselves, so that what nobody thought of is tried as well. The same seed makes the same commands.
"""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from random import Random

from cellwright.permissions.shell.flags import Flags
from cellwright.permissions.shell.git import SUBCOMMANDS
from cellwright.permissions.shell.plain_commands import READERS
from shell_fuzzer import vocabulary as known

_OPTION = re.compile(r"(?<![\w-])(--[a-z0-9][\w-]*=?|-[A-Za-z0-9](?![\w-]))")
_SHELL_ITSELF = frozenset({"type", "pwd", "true", "false", ":"})
_OFTEN = ("cat", "ls", "grep", "head", "sort", "wc", "diff", "tail")
_OFTEN_OF_GIT = ("log", "diff", "status", "show", "grep", "branch", "ls-files")
_LANGUAGES = (
    "echo",
    "printf",
    "test",
    "[",
    "date",
    "find",
    "find",
    "sed",
    "sed",
    "awk",
    "awk",
    "jq",
    "cd",
    "command",
    "file",
)


@functools.cache
def options_of(program: str) -> tuple[str, ...]:
    """The options that `program` says it has; those of `git x` where it is two words."""
    asked = [*program.split(), "--git-completion-helper-all"] if program.startswith("git ") else [program, "--help"]
    if shutil.which(asked[0]) is None:
        return ()
    try:
        told = subprocess.run(asked, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL, check=False)
    except subprocess.TimeoutExpired:
        return ()
    return tuple(sorted(set(_OPTION.findall(told.stdout + told.stderr))))


@functools.cache
def programs() -> tuple[str, ...]:
    """The programs of the policy that this machine has."""
    return tuple(sorted(name for name in READERS if name in _SHELL_ITSELF or shutil.which(name)))


class Grammar:
    """A source of commands: `command` makes the next one. `changes`: many of them change files."""

    def __init__(self, chance: Random, *, changes: bool) -> None:
        self._chance = chance
        self._changes = changes

    def command(self) -> str:
        """Make a command in which `{PROJECT}` and `{OUTSIDE}` stand for folders of the world."""
        text = self._list() if self._happens(0.55) else self._simple()
        while self._happens(0.08):
            text = self._with_change(text)
        return text

    def _happens(self, share: float) -> bool:
        return self._chance.random() < share

    def _one(self, values: Sequence[str]) -> str:
        return self._chance.choice(values)

    def _mostly(self, plain: Sequence[str], odd: Sequence[str], share: float = 0.6) -> str:
        return self._one(plain if self._happens(share) else odd)

    def _some(self, make: Callable[[], str], most: int) -> list[str]:
        return [make() for _ in range(self._chance.choice((0, 1, 1, 1, 2, most)))]

    # lists, loops, pipes

    def _list(self) -> str:
        forms: Sequence[tuple[Callable[[], str], int]] = (
            *((self._pipeline, 6), (self._sequence, 6), (self._after_cd, 5), (self._wrapped, 3), (self._redirected, 3)),
            *((self._with_assignment, 2), (self._loop, 2), (self._condition, 1), (self._group, 1)),
            *((self._with_substitution, 2), (self._fed, 1), (self._here_document, 1)),
        )
        make = self._chance.choices([form for form, _ in forms], [weight for _, weight in forms])[0]
        return make()

    def _part(self) -> str:
        return self._list() if self._happens(0.15) else self._simple()

    def _pipeline(self) -> str:
        return f"{self._part()} {self._one(('|', '|', '|', '|&', '| '))} {self._one(known.FILTERS)}"

    def _sequence(self) -> str:
        return self._part() + self._one((" && ", "; ", " || ", "\n", " & ", ";", "&&", " ;\n")) + self._part()

    def _after_cd(self) -> str:
        rest = self._part()
        if self._happens(0.3):
            again = self._mostly(known.FOLDERS, ("..", "..", "-", *known.ODD_FOLDERS), 0.4)
            rest = f"cd {again}{self._one((' && ', '; ', ' || '))}{rest}"
        folder = self._mostly(known.FOLDERS, known.ODD_FOLDERS, 0.7)
        then = self._one((" && ", " && ", "; ", " || ", " | ", " & ", "\n"))
        return f"{self._one(known.MOVERS)} {folder}{then}{rest}"

    def _wrapped(self) -> str:
        return f"{self._mostly(known.PLAIN_WRAPPERS, known.ODD_WRAPPERS)} {self._simple()}"

    def _redirected(self) -> str:
        redirect = self._mostly(known.PLAIN_REDIRECTS, known.ODD_REDIRECTS)
        return f"{redirect} {self._part()}" if self._happens(0.15) else f"{self._simple()} {redirect}"

    def _with_assignment(self) -> str:
        return f"{self._mostly(known.PLAIN_ASSIGNMENTS, known.ODD_ASSIGNMENTS)} {self._simple()}"

    def _loop(self) -> str:
        if self._happens(0.2):
            return f"{self._one(('while', 'until'))} {self._part()}; do {self._part()}; break; done"
        words = " ".join(self._some(self._operand, 3)) or "1"
        body = self._part() if self._happens(0.5) else self._one(known.LOOP_BODIES)
        return f"for f in {words}; do {body}; done"

    def _condition(self) -> str:
        otherwise = f"else {self._part()}; " if self._happens(0.5) else ""
        return f"if {self._part()}; then {self._part()}; {otherwise}fi"

    def _group(self) -> str:
        kind = self._chance.randrange(3)
        if kind == 0:
            return f"{{ {self._part()}; }}"
        return f"({self._part()})" if kind == 1 else f"({self._after_cd()}); {self._part()}"

    def _with_substitution(self) -> str:
        inner = self._one(known.SUBSTITUTIONS).replace("@", self._part())
        return f"{self._one(('echo', 'echo', 'printf %s', 'cat', 'ls', 'wc -l', 'test -n'))} {inner}"

    def _fed(self) -> str:
        flag = self._one(("", "-n1 ", "-0 ", "-I{} ", "-r "))
        return f"{self._simple()} | xargs {flag}{self._one(('cat', 'ls', 'echo', 'wc -l', 'head', 'rm'))}"

    def _here_document(self) -> str:
        mark = self._one(("E", "'E'", "\\E", '"E"'))
        return f"{self._simple()} <<{mark}\n{self._one(known.HERE_TEXTS)}\nE"

    # one program with its arguments

    def _simple(self) -> str:
        if self._changes and self._happens(0.5):
            return self._change()
        kind = self._chance.random()
        if kind < 0.22:
            return self._git()
        if kind < 0.40:
            return self._of_language()
        program = self._mostly(programs(), _OFTEN)
        options = self._some(lambda: self._option(program, READERS[program][0]), 3)
        operands = self._some(self._operand, 3)
        if program.endswith("grep") or program in ("rg", "tr"):
            operands.insert(0, self._one(known.PATTERNS))
        return " ".join([program, *self._laid_out(options, operands)])

    def _laid_out(self, options: list[str], operands: list[str]) -> list[str]:
        words = [*options, *operands]
        if self._happens(0.15):
            self._chance.shuffle(words)
        if self._happens(0.12):
            words.insert(self._chance.randint(0, len(words)), "--")
        return words

    def _option(self, program: str, flags: Flags) -> str:
        kind = self._chance.random()
        if kind >= 0.72 and program in known.DANGEROUS and kind < 0.84:
            return self._one(known.DANGEROUS[program])
        own = options_of(program) if kind >= 0.72 else ()
        return self._with_value(self._one(own)) if own else self._known_option(flags)

    def _with_value(self, option: str) -> str:
        return option + self._value() if option.endswith("=") else option

    def _known_option(self, flags: Flags) -> str:
        """Write an option that the policy knows, rightly spelled or nearly so."""
        valued = sorted(flags.valued)
        if flags.letters and self._happens(0.5 if valued else 0.8):
            return "-" + "".join(self._chance.choice(flags.letters) for _ in range(self._chance.choice((1, 1, 2, 3))))
        if valued and self._happens(0.6):
            name = self._one(valued)
            value = self._fitting(flags.valued[name])
            if name.startswith("--"):
                return self._cut(name) + self._one(("=", "=", " ", "")) + value
            return name + self._one(("", " ")) + value
        if not flags.long:
            return self._one(("-1", "-n1", "--", "-x"))
        name = self._cut(self._one(sorted(flags.long)))
        return f"{name}={self._value()}" if self._happens(0.04) else name

    def _cut(self, name: str) -> str:
        return name[: self._chance.randint(3, len(name))] if self._happens(0.1) else name

    def _fitting(self, kind: str) -> str:
        if self._happens(0.15):
            return self._value()
        if kind.endswith("number"):
            return self._one(known.NUMBERS[:3])
        return self._operand() if kind.endswith("file") else self._one(("x", "1", "','", "one", "short", "2"))

    def _value(self) -> str:
        return self._operand() if self._happens(0.25) else self._one(known.VALUES)

    def _operand(self) -> str:
        kinds = (known.FILES, known.FOLDERS, known.ODD_FILES, known.HIDDEN_FILES, known.OUTSIDE_FILES)
        word = self._one(self._chance.choices(kinds, (52, 14, 10, 11, 13))[0])
        return self._respelled(word) if self._happens(0.12) else word

    def _respelled(self, word: str) -> str:
        """Write `word` in another way that bash, or a careless reader, may take for the same."""
        at = self._chance.randrange(len(word))
        if word[at] in "/'\"\\{}$~[]" or "{" in word[:at]:
            return word
        return word[:at] + self._one(known.FORMS_OF_A_CHARACTER).replace("@", word[at]) + word[at + 1 :]

    def _with_change(self, text: str) -> str:
        """Put something in or take something out anywhere in a whole command."""
        at = self._chance.randint(0, len(text))
        until = min(len(text), at + self._chance.choice((0, 0, 1, 2)))
        return text[:at] + self._one(known.INSERTED) + text[until:]

    def _change(self) -> str:
        if self._happens(0.35):
            return self._one(known.CHANGES)
        program = self._one(known.CHANGERS)
        operands = [self._place() for _ in range(self._chance.choice((1, 2, 2, 2, 3)))]
        own = options_of(program.split()[0])
        options = [self._with_value(self._one(own))] if own and self._happens(0.12) else []
        return " ".join([program, *self._laid_out(options, operands)])

    def _place(self) -> str:
        word = self._mostly(known.PLAIN_PLACES, known.ODD_PLACES, 0.7)
        return self._respelled(word) if self._happens(0.08) else word

    def _git(self) -> str:
        subcommand = self._mostly(sorted(SUBCOMMANDS), _OFTEN_OF_GIT, 0.5)
        options = self._some(lambda: self._git_option(subcommand), 3)
        operands = self._some(self._git_operand, 2)
        if subcommand == "grep":
            operands.insert(0, self._one(known.PATTERNS))
        elif subcommand in known.SCRIPTS and self._happens(0.8):
            operands = [self._script(subcommand, lambda: self._one(known.REVISIONS))]
        before = [self._one(known.BEFORE_GIT)] if self._happens(0.08) else []
        return " ".join(["git", *before, subcommand, *self._laid_out(options, operands)])

    def _git_option(self, subcommand: str) -> str:
        kind = self._chance.random()
        if kind < 0.75:
            return self._known_option(SUBCOMMANDS[subcommand])
        if kind < 0.87:
            return self._one(known.DANGEROUS_GIT)
        return self._with_value(self._one(options_of(f"git {subcommand}") or ("-x",)))

    def _git_operand(self) -> str:
        kind = self._chance.random()
        if kind < 0.4:
            return self._one(known.REVISIONS)
        return f"-- {self._operand()}" if kind < 0.6 else self._operand()

    def _of_language(self) -> str:
        program = self._one(_LANGUAGES)
        if program in known.DANGEROUS and self._happens(0.1):
            return " ".join([program, self._one(known.DANGEROUS[program]), *self._some(self._operand, 2)])
        match program:
            case "echo":
                return " ".join(["echo", *self._some(self._text, 3)])
            case "[":
                return f"[ {self._script('test', self._operand)} ]"
            case "find":
                return self._find()
            case "cd":
                return f"cd {self._mostly(known.FOLDERS, known.ODD_FOLDERS)}"
            case "file":
                return " ".join(["file", *self._some(self._operand, 2)])
            case "test" | "date":
                return f"{program} {self._script(program, self._operand)}"
            case _:
                operands = self._some(self._text if program == "printf" else self._operand, 2)
                return " ".join([program, self._script(program, self._operand), *operands])

    def _script(self, name: str, operand: Callable[[], str]) -> str:
        return re.sub("@", lambda _: operand(), self._one(known.SCRIPTS[name]))

    def _text(self) -> str:
        return self._one(known.TEXTS) if self._happens(0.7) else self._operand()

    def _find(self) -> str:
        first = self._one(("", "", "", "", "-H", "-P", "-L", "-D tree", "-O1"))
        starts = self._some(self._operand, 2)
        tests = self._some(lambda: self._mostly(known.TESTS_OF_FIND, known.ODD_TESTS_OF_FIND, 0.7), 3)
        return " ".join(filter(None, ["find", first, *starts, *tests]))
