"""A search in Python for where there is no ripgrep: a program that takes rg's arguments, as far as we give any.

It answers in rg's format. What it does not know of rg's: patterns that only Rust's regular expressions have, most file
types, UTF-32. It is slower by a factor of three to twenty.

Which files a search looks at when there is no ripgrep: what the folders' ignore files and the given globs leave.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from pathspec import GitIgnoreSpec

from cellwright.tools.search.glob_patterns import glob_matcher

# Paths are strings here: this runs for each file, and Path is several times slower.
# ruff: noqa: PTH110, PTH113, PTH118, PTH120, PTH123


Verdict = bool | None
"""True: ignored; False: wanted in spite of others; None: says nothing."""


@dataclass(frozen=True, slots=True)
class Filters:
    """What the arguments say about files. `globs` are rg's: `!x` leaves out, others let in whatever the folder ignores."""

    globs: Sequence[str] = ()
    ignore_files: Sequence[str] = ()
    names: Sequence[str] = ()
    """Globs of which a file's name must match one (a file type's); none: all names."""
    no_ignore: bool = False
    hidden: bool = True


class IgnoreFile:
    """One ignore file; its patterns are relative to `base`."""

    def __init__(self, path: str, base: str) -> None:
        self.base = base
        with open(path, encoding="utf-8", errors="surrogateescape") as lines:
            self._spec = GitIgnoreSpec.from_lines(lines)

    def verdict(self, path: str, is_folder: bool) -> Verdict:
        relative = path[len(self.base) :].lstrip("/")
        return self._spec.check_file(relative + "/" if is_folder else relative).include


class GivenFile:
    """An ignore file given by name. Its patterns are relative to the searched folder, and each is for what it names."""

    def __init__(self, path: str, root: str) -> None:
        with open(path, encoding="utf-8") as lines:
            patterns = [line.rstrip("\n") for line in lines]
        self._root = root
        self._rules = [
            (glob_matcher(pattern.removeprefix("!").rstrip("/")), pattern.endswith("/"), not pattern.startswith("!"))
            for pattern in patterns
        ]

    def verdict(self, path: str, is_folder: bool) -> Verdict:
        relative = path[len(self._root) :].lstrip("/")
        for matches, for_folders, ignores in reversed(self._rules):
            if (is_folder or not for_folders) and matches(relative):
                return ignores
        return None


@dataclass(slots=True)
class Walk:
    """Goes through a folder in the order of names, as `rg --sort=path` does."""

    root: str
    filters: Filters
    explicit: Sequence[GivenFile] = field(init=False)
    _globs: list[tuple[Callable[[str], bool], bool]] = field(init=False)
    _names: list[Callable[[str], bool]] = field(init=False)

    def __post_init__(self) -> None:
        given = self.filters.globs
        self._globs = [(glob_matcher(glob.removeprefix("!")), glob.startswith("!")) for glob in given]
        self._names = [glob_matcher(glob) for glob in self.filters.names]
        self.explicit = [GivenFile(path, self.root) for path in self.filters.ignore_files]

    def files(self) -> Iterator[str]:
        """The paths of the files, below `root`."""
        in_repository = any(os.path.exists(os.path.join(folder, ".git")) for folder in _parents(self.root))
        chain = [] if self.filters.no_ignore else _of_parents(self.root)
        if self._ignored(self.root, True, chain):
            # a folder that is named itself is searched; that it is ignored says nothing about what is in it
            chain = []
        yield from self._below(self.root, "", chain, in_repository)

    def _below(self, folder: str, prefix: str, above: list[list[IgnoreFile]], in_repository: bool) -> Iterator[str]:
        in_repository = in_repository or os.path.exists(os.path.join(folder, ".git"))
        chain = above if self.filters.no_ignore else [*above, _of_folder(folder, in_repository)]
        try:
            with os.scandir(folder) as scan:
                entries = sorted(scan, key=lambda entry: os.fsencode(entry.name))
        except OSError:
            return
        for entry in entries:
            relative = prefix + entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            if (not is_folder and not entry.is_file(follow_symlinks=False)) or not self._wanted(
                entry.path, relative, is_folder, chain
            ):
                continue
            if is_folder:
                yield from self._below(entry.path, f"{relative}/", chain, in_repository)
            else:
                yield relative

    def _wanted(self, path: str, relative: str, is_folder: bool, chain: list[list[IgnoreFile]]) -> bool:
        name = relative.rpartition("/")[2]
        if not is_folder and self._names and not any(matches(name) for matches in self._names):
            return False
        for matches, leaves_out in reversed(self._globs):
            if matches(relative):
                return not leaves_out
        if not is_folder and any(not leaves_out for _, leaves_out in self._globs):
            return False
        if not self.filters.hidden and name.startswith("."):
            return False
        return not self._ignored(path, is_folder, chain)

    def _ignored(self, path: str, is_folder: bool, chain: list[list[IgnoreFile]]) -> bool:
        files: list[IgnoreFile | GivenFile] = [file for level in reversed(chain) for file in level]
        for file in (*files, *self.explicit):
            verdict = file.verdict(path, is_folder)
            if verdict is not None:
                return verdict
        return False


def _of_folder(folder: str, in_repository: bool) -> list[IgnoreFile]:
    """A folder's own ignore files; git's count in a repository only, as for rg."""
    names = [".rgignore", ".ignore", *([".gitignore"] if in_repository else [])]
    paths = [os.path.join(folder, name) for name in names]
    files = [IgnoreFile(path, folder) for path in paths if os.path.isfile(path)]
    if os.path.isfile(exclude := os.path.join(folder, ".git", "info", "exclude")):
        files.append(IgnoreFile(exclude, folder))
    return files


def _of_parents(root: str) -> list[list[IgnoreFile]]:
    users = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")  # noqa: PTH111
    everywhere = os.path.join(users, "git", "ignore")
    chain = [[IgnoreFile(everywhere, root)]] if os.path.isfile(everywhere) else []
    in_repository = False
    for folder in reversed(_parents(root)):
        in_repository = in_repository or os.path.exists(os.path.join(folder, ".git"))
        chain.append(_of_folder(folder, in_repository))
    return chain


def _parents(folder: str) -> list[str]:
    """The folders above, the nearest first."""
    parents = []
    while (above := os.path.dirname(folder)) != folder:
        parents.append(above)
        folder = above
    return parents


# Paths are strings here: this runs for each file, and Path is several times slower.
# ruff: noqa: PTH112, PTH118, PTH123


MAX_SECONDS = 150
"""Longer than any search may take; who started it may be gone."""

MULTILINE_BYTES = 64 * 2**20
LINE_BYTES = 2**20
"""A longer line is searched in pieces."""

TYPES = {
    "c": ["*.[chH]", "*.cats"],
    "cpp": ["*.[ChH]", "*.cc", "*.[ch]pp", "*.[ch]xx", "*.hh", "*.inl"],
    "css": ["*.css", "*.scss"],
    "go": ["*.go"],
    "html": ["*.htm", "*.html", "*.ejs"],
    "java": ["*.java", "*.jsp", "*.properties"],
    "js": ["*.js", "*.jsx", "*.vue", "*.cjs", "*.mjs"],
    "json": ["*.json", "composer.lock", "*.sarif"],
    "markdown": ["*.markdown", "*.md", "*.mdown", "*.mkdn", "*.mdx"],
    "py": ["*.py", "*.pyi"],
    "rust": ["*.rs"],
    "sh": ["*.sh", "*.bash", "*.zsh", ".bashrc", ".zshrc", ".profile"],
    "sql": ["*.sql", "*.psql"],
    "toml": ["*.toml", "Cargo.lock"],
    "ts": ["*.ts", "*.tsx", "*.cts", "*.mts"],
    "txt": ["*.txt"],
    "xml": ["*.xml", "*.xsd", "*.xsl", "*.xslt"],
    "yaml": ["*.yaml", "*.yml"],
}
TYPES |= {"md": TYPES["markdown"], "python": TYPES["py"], "typescript": TYPES["ts"]}

_POSIX_CLASSES = {
    "[:alnum:]": "a-zA-Z0-9",
    "[:alpha:]": "a-zA-Z",
    "[:digit:]": "0-9",
    "[:lower:]": "a-z",
    "[:space:]": r"\s",
    "[:upper:]": "A-Z",
    "[:word:]": r"\w",
    "[:xdigit:]": "0-9a-fA-F",
}
BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))


class UnsupportedSearch(Exception):
    """The search cannot be made; the message is for who asked."""


def main(arguments: Sequence[str]) -> int:
    """Search, and give rg's exit codes: 0 found, 1 nothing found, 2 something went wrong."""
    if hasattr(signal, "alarm"):
        # ends it even inside a regular expression, where no Python code runs
        signal.alarm(MAX_SECONDS)
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    options = _options(arguments)
    try:
        found = _list_files(options) if options.files else Search(options).run()
    except (UnsupportedSearch, ValueError) as error:
        print(f"rg: {error}", file=sys.stderr)
        return 2
    except Exception as error:  # noqa: BLE001  an uncaught one exits with 1, which would say "nothing found"
        print(f"rg: {type(error).__name__}: {error}", file=sys.stderr)
        return 2
    sys.stdout.flush()
    return 0 if found else 1


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="rg", allow_abbrev=False)
    for flag in ("files", "hidden", "no-ignore", "null", "no-heading", "with-filename", "max-columns-preview"):
        parser.add_argument(f"--{flag}", action="store_true")
    for flag in ("ignore-case", "multiline", "multiline-dotall", "files-with-matches", "count", "line-number"):
        parser.add_argument(f"--{flag}", action="store_true")
    parser.add_argument("--only-matching", action="store_true")
    parser.add_argument("--glob", action="append", default=[])
    parser.add_argument("--ignore-file", action="append", default=[])
    for flag in ("color", "sort", "type", "encoding", "context-separator"):
        parser.add_argument(f"--{flag}")
    for flag in ("before-context", "after-context", "max-columns"):
        parser.add_argument(f"--{flag}", type=int, default=0)
    parser.add_argument("given", nargs="+")
    return parser.parse_args(arguments)


def _walk(options: argparse.Namespace, target: str) -> Iterator[str]:
    """The files below `target`, as rg would print them."""
    if options.type is not None and options.type not in TYPES:
        raise UnsupportedSearch(
            f"unrecognized file type: {options.type} (without ripgrep there are: {', '.join(TYPES)})"
        )
    names = TYPES[options.type] if options.type else ()
    filters = Filters(options.glob, options.ignore_file, names, options.no_ignore, options.hidden)
    if not os.path.isdir(target):
        yield target
        return
    for path in Walk(os.path.realpath(target), filters).files():
        yield os.path.join(target, path)


def _list_files(options: argparse.Namespace) -> bool:
    found = False
    for path in _walk(options, options.given[-1]):
        found = True
        sys.stdout.buffer.write(os.fsencode(path) + b"\0")
    return found


def python_pattern(pattern: str) -> str:
    """A pattern in Rust's syntax as Python's `re` takes it, as far as the two can be brought together."""
    for name, members in _POSIX_CLASSES.items():
        pattern = pattern.replace(name, members)
    pattern = re.sub(r"\\x\{([0-9A-Fa-f]+)\}", lambda found: re.escape(chr(int(found[1], 16))), pattern)
    return re.sub(r"\(\?<(?=[A-Za-z_])", "(?P<", pattern).replace(r"\z", r"\Z")


class Search:
    """One search: the pattern, what is printed of its matches."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._named = not os.path.isdir(options.given[-1])
        flags = re.IGNORECASE if options.ignore_case else 0
        flags |= re.MULTILINE if options.multiline else 0
        flags |= re.DOTALL if options.multiline_dotall else 0
        try:
            self._pattern = re.compile(python_pattern(options.given[0]), flags)
        except (re.error, OverflowError) as error:
            message = str(error).replace("unterminated subpattern", "unclosed group")
            raise UnsupportedSearch(
                f"regex parse error (Python's syntax, since ripgrep is not there): {message}"
            ) from error
        self._codec = options.encoding or "utf-8"
        self._out = sys.stdout.buffer
        self._printed = False

    def run(self) -> bool:
        """Search all files; whether anything was found."""
        found = False
        for path in _walk(self._options, self._options.given[-1]):
            try:
                found |= self._search_file(path)
            except OSError as error:
                print(f"rg: {path}: {error.strerror} (os error {error.errno})", file=sys.stderr)
        return found

    def _search_file(self, path: str) -> bool:
        with open(path, "rb") as file:
            head = file.read(8192)
            file.seek(0)
            encoding = next((name for mark, name in BOMS if head.startswith(mark)), "")
            if b"\0" in head and not encoding.startswith("utf-16"):
                return self._named and self._binary(path, file.read(MULTILINE_BYTES))
            if encoding.startswith("utf-16") or self._options.multiline:
                lines = self._whole(path, file.read(MULTILINE_BYTES + 1), encoding)
            else:
                lines = self._line_by_line(iter(lambda: file.readline(LINE_BYTES), b""))
            return self._print(path, lines)

    def _binary(self, path: str, data: bytes) -> bool:
        found = self._pattern.search(self._text(data))
        if found:
            place = data.find(b"\0")
            message = f': binary file matches (found "\\0" byte around offset {place})\n'
            self._out.write(os.fsencode(path) + message.encode())
        return found is not None

    def _line_by_line(self, lines: Iterable[bytes]) -> Iterator[tuple[str, list[str] | None]]:
        """Each line, with what matches in it; None where nothing does."""
        for number, data in enumerate(lines):
            line = self._text(data.removeprefix(b"\xef\xbb\xbf") if number == 0 else data).removesuffix("\n")
            yield line, self._matches(line)

    def _whole(self, path: str, data: bytes, encoding: str) -> Iterator[tuple[str, list[str] | None]]:
        if len(data) > MULTILINE_BYTES:
            raise OSError(27, "File too large to be searched over several lines without ripgrep")
        text = data.decode(encoding, "replace").removeprefix("\ufeff") if encoding else self._text(data)
        if not self._options.multiline:
            yield from ((line, self._matches(line)) for line in text.splitlines())
            return
        spans = [(found.start(), max(found.end() - 1, found.start())) for found in self._pattern.finditer(text)]
        start = 0
        for line in text.splitlines(keepends=True):
            end = start + len(line)
            parts = [
                text[max(first, start) : min(last + 1, end)] for first, last in spans if first < end and last >= start
            ]
            yield line.rstrip("\n"), [part.rstrip("\n") for part in parts] or None
            start = end

    def _matches(self, line: str) -> list[str] | None:
        if self._options.only_matching:
            return [found[0] for found in self._pattern.finditer(line) if found[0]] or None
        return [line] if self._pattern.search(line) else None

    def _print(self, path: str, lines: Iterator[tuple[str, list[str] | None]]) -> bool:
        if self._options.files_with_matches:
            found = any(matches is not None for _, matches in lines)
            if found:
                self._out.write(os.fsencode(path) + b"\0")
            return found
        if self._options.count:
            count = sum(matches is not None for _, matches in lines)
            if count:
                self._out.write(b"%b\0%d\n" % (os.fsencode(path), count))
            return count > 0
        return self._print_lines(os.fsencode(path), lines)

    def _print_lines(self, path: bytes, lines: Iterator[tuple[str, list[str] | None]]) -> bool:
        before: deque[tuple[int, str]] = deque(maxlen=self._options.before_context)
        last, after, found = 0, 0, False
        for number, (line, matches) in enumerate(lines, 1):
            if matches is None and after:
                self._line(path, number, b"-", line)
                last, after = number, after - 1
            elif matches is None:
                before.append((number, line))
            else:
                first = before[0][0] if before else number
                if self._separated(last, first):
                    self._out.write(self._options.context_separator.encode().replace(rb"\x00", b"\0") + b"\n")
                for earlier, text in before:
                    self._line(path, earlier, b"-", text)
                before.clear()
                for part in matches if self._options.only_matching else [line]:
                    self._line(path, number, b":", part)
                last, after, found = number, self._options.after_context, True
        return found

    def _separated(self, last: int, first: int) -> bool:
        context = self._options.before_context or self._options.after_context
        return bool(context) and self._printed and (last == 0 or first > last + 1)

    def _line(self, path: bytes, number: int, sign: bytes, text: str) -> None:
        self._printed = True
        most = self._options.max_columns
        data = text.encode("utf-8", "surrogateescape")
        if most and len(data) > most:
            data = text[:most].encode("utf-8", "surrogateescape") + b" [... omitted end of long line]"
        self._out.write(b"%b\0%d%b%b\n" % (path, number, sign, data))

    def _text(self, data: bytes) -> str:
        # what cannot be UTF-8 stays as it is, so that it is printed as it was
        return data.decode(self._codec, "surrogateescape")
