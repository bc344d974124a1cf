"""A file as the index sees it: its language, text with the places of a notebook's cells, facts, and what is searched.

The pieces that lexical search finds as one are told with the words that stand for them. An identifier stands for itself and
for the words that it is made of: `parseHTTPHeader` is also parse, http and header.

A second process reads some files beside the indexer: `python -m cellwright.codebase.source_file` gets lists of files and
answers each with what it read, as messages with their length before them. It ends with its input, and so with the indexer,
however that ends.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import subprocess
import sys
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath, PurePosixPath
from typing import IO

import msgspec
from msgspec import Struct

from cellwright.codebase.facts import FUNCTIONS, FileFacts, Symbol, facts_of
from cellwright.codebase.grammars import BASH, PYTHON, Grammar, grammar_of, is_installed
from cellwright.text import lazy_pattern

MAX_BYTES = 1_000_000
"""A larger file is generated, or data."""

MAX_LINE_BYTES = 5_000
"""A text whose lines are this long on average is minified."""

MARKDOWN = frozenset({".md", ".markdown", ".mdx", ".qmd"})
NOTEBOOK = ".ipynb"
PLAIN = frozenset(
    {
        *(".rst", ".txt", ".adoc", ".org", ".tex", ".rb", ".php", ".cs", ".kt", ".kts", ".swift", ".scala", ".lua"),
        *(".pl", ".pm", ".r", ".jl", ".sql", ".ex", ".exs", ".hs", ".m", ".mm", ".dart", ".vue", ".svelte", ".css"),
        *(".scss", ".less", ".html", ".xml", ".yaml", ".yml", ".toml", ".cfg", ".ini", ".proto", ".cmake", ".gradle"),
        *(".groovy", ".clj", ".erl", ".ml", ".mli", ".fs", ".zig", ".nim", ".v", ".sv", ".vhd", ".f90", ".f", ".asm"),
        *(".s", ".ps1", ".bat", ".fish", ".zsh", ".tf", ".graphql", ".pyx", ".pxd", ".jinja", ".j2", ".mk", ".in"),
        *(".el", ".vim", ".cu", ".cuh", ".metal", ".glsl", ".wgsl"),
    }
)
"""Other files whose words are kept: programs in languages without a grammar here, documents, configuration."""
PLAIN_NAMES = frozenset({"makefile", "dockerfile", "justfile", "rakefile", "gemfile", "cmakelists.txt", "jenkinsfile"})

WORD = lazy_pattern(rb"[A-Za-z_$\x80-\xff][\w$\x80-\xff]*")
_HEADING = lazy_pattern(r"(#{1,6})\s+(.+?)\s*#*\s*$")
_FENCE = lazy_pattern(r"\s*(`{3,}|~{3,})")
_MAGIC = lazy_pattern(r"^\s*[%!]")
_PROMPT = lazy_pattern(r"^\s*%{1,2}claude\b")
"""A question to Claude has the words that Claude would search by, and is no code of the project."""
_OTHER_CELL = lazy_pattern(r"\s*%%(?!(?:time|timeit|capture|prun|memit|mprun|lprun)\b)")
"""A cell whose magic takes its text for something else than Python: a prompt, a shell script, HTML."""

WINDOW_LINES = 60
UNIT_CHARS = 20_000

_WORD = lazy_pattern(r"[^\W\d]\w*")
_PIECE = lazy_pattern(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|[^\W\d_A-Za-z]+")

_LENGTH_BYTES = 8
"""Of the number before each message of the second reader."""


class SourceText(Struct, frozen=True):
    """A file's text (UTF-8). `cells`: of a notebook, the line of `text`, from 1, where each cell begins."""

    language: str
    text: bytes
    grammar: Grammar | None = None
    cells: tuple[int, ...] = ()

    @property
    def lines(self) -> int:
        """The number of its lines."""
        return self.text.count(b"\n") + (not self.text.endswith(b"\n") and bool(self.text))

    def lines_between(self, first: int, last: int) -> list[str]:
        """The lines from `first` to `last`, counted from 1."""
        return self.text.decode("utf-8", "replace").split("\n")[first - 1 : last]

    def facts(self) -> FileFacts:
        """Find what is defined, called and imported; headings of Markdown count as definitions."""
        if self.grammar is not None:
            return facts_of(self.grammar, self.text)
        return FileFacts(headings(self.text.decode("utf-8", "replace"))) if self.language == "Markdown" else FileFacts()

    def words(self) -> set[bytes]:
        """All that may be an identifier, those in comments and strings included."""
        return set(WORD.findall(self.text))


def language_of(path: PurePath) -> str:
    """The language of files of this name; "" for those that the index leaves out."""
    suffix = path.suffix.lower()
    if (grammar := grammar_of(path)) is not None:
        return grammar.name
    if suffix in MARKDOWN:
        return "Markdown"
    if suffix == NOTEBOOK:
        return "notebook"
    return "text" if suffix in PLAIN or path.name.lower() in PLAIN_NAMES else ""


def parser_of(path: PurePath) -> str:
    """The grammar that a file of this name is parsed with here, "" for none: it changes when an extra is installed."""
    grammar = PYTHON if path.suffix.lower() == NOTEBOOK else grammar_of(path)
    return grammar.name if grammar is not None and grammar is not BASH and is_installed(grammar) else ""


def largest_of(path: PurePath) -> int:
    """The size, in bytes, above which a file of this name is left out."""
    # of a notebook, whose outputs are not looked at
    return 20_000_000 if path.suffix.lower() == NOTEBOOK else MAX_BYTES


def source_text(path: PurePath, data: bytes) -> SourceText | None:
    """The text of a file that holds `data`; None for what is binary or minified, or no notebook."""
    language = language_of(path)
    if language == "notebook":
        return _notebook_text(data)
    if not language or b"\0" in data[:8192] or len(data) > MAX_LINE_BYTES * (data.count(b"\n") + 1):
        return None
    data = data.removeprefix(b"\xef\xbb\xbf")
    grammar = grammar_of(path)
    return SourceText(language, data, grammar if grammar is not None and parser_of(path) else None)


class _Cell(Struct, frozen=True):
    cell_type: str
    source: str | list[str]


class _LanguageInfo(Struct, frozen=True):
    name: str = "python"


class _Metadata(Struct, frozen=True):
    language_info: _LanguageInfo = _LanguageInfo()


class _Notebook(Struct, frozen=True):
    """All that is read of a notebook: its outputs, which may be megabytes, are passed over."""

    cells: list[_Cell]
    metadata: _Metadata = _Metadata()


def _notebook_text(data: bytes) -> SourceText | None:
    try:
        try:
            notebook = msgspec.json.decode(data.removeprefix(b"\xef\xbb\xbf"), type=_Notebook)
        except msgspec.ValidationError:
            return None
        except msgspec.DecodeError:  # NaN in an output, which Python alone writes and reads
            notebook = msgspec.convert(json.loads(data), type=_Notebook)
    except (ValueError, RecursionError):
        return None
    language = notebook.metadata.language_info.name.lower()
    texts = [(cell.cell_type, "".join(cell.source)) for cell in notebook.cells]
    lines: list[str] = []
    starts = []
    for kind, text in texts:
        starts.append(len(lines) + 1)
        own = text.split("\n")
        if kind == "code" and _PROMPT.match(text.lstrip()):
            lines += [""] * len(own)
        elif kind == "code" and not _OTHER_CELL.match(text):
            # magics are no Python
            lines += ["" if _PROMPT.match(line) else f"# {line}" if _MAGIC.match(line) else line for line in own]
        else:
            lines += [f"# {line}" for line in own]
    whole = "\n".join([*lines, ""]).encode("utf-8", "replace")
    return SourceText(
        "notebook", whole, PYTHON if language in ("python", "ipython", "python3") else None, tuple(starts)
    )


def place_in(cells: tuple[int, ...], line: int) -> str:
    """A line of a text as it is shown behind the file's name: `:12`, and in a notebook `#cell3:2`, cells from 1."""
    if not cells:
        return f":{line}"
    cell = max(bisect_right(cells, line), 1)
    return f"#cell{cell}:{line - cells[cell - 1] + 1}"


def headings(text: str) -> tuple[Symbol, ...]:
    """The headings of a Markdown text, each with the lines up to the next one of its rank."""
    found: list[tuple[int, int, str]] = []
    fence = ""
    lines = text.split("\n")
    for number, line in enumerate(lines, start=1):
        if mark := _FENCE.match(line):
            fence = "" if fence and mark[1].startswith(fence) else fence or mark[1]
        elif not fence and (heading := _HEADING.match(line)):
            found.append((number, len(heading[1]), heading[2]))
    symbols: list[Symbol] = []
    open_ranks: list[tuple[int, int]] = []
    for index, (line_number, rank, title) in enumerate(found):
        end = next((later for later, other, _ in found[index + 1 :] if other <= rank), len(lines) + 1) - 1
        while open_ranks and open_ranks[-1][0] >= rank:
            open_ranks.pop()
        parent = open_ranks[-1][1] if open_ranks else -1
        symbols.append(
            Symbol(title, title, "heading", line_number, max(end, line_number), parent, "#" * rank + " " + title)
        )
        open_ranks.append((rank, index))
    return tuple(symbols)


class Unit(Struct, frozen=True):
    """Lines of a file that are found together; `symbol` is the index of the definition that they are, -1 for none."""

    line: int
    end_line: int
    symbol: int = -1


@functools.lru_cache(maxsize=200_000)
def subtokens(word: str) -> str:
    """An identifier and the words in it."""
    pieces = _PIECE.findall(word)
    return word if len(pieces) < 2 else f"{word} {' '.join(pieces)}"


def searchable(text: str) -> str:
    """The words of a text, each identifier with those in it.

    >>> searchable("x = parseHTTPHeader(raw_line)")
    'x parseHTTPHeader parse HTTP Header raw_line raw line'
    """
    return " ".join(map(subtokens, _WORD.findall(text[:UNIT_CHARS])))


def units_of(source: SourceText, symbols: Sequence[Symbol]) -> Iterator[Unit]:
    """The units of a file with these definitions."""
    if not symbols:
        for line in range(1, source.lines + 1, WINDOW_LINES):
            yield Unit(line, min(line + WINDOW_LINES - 1, source.lines))
        return
    first = min(symbol.line for symbol in symbols)
    if first > 1:
        yield Unit(1, min(first - 1, WINDOW_LINES))
    children: dict[int, int] = {}
    for symbol in symbols:
        if symbol.parent >= 0:
            children[symbol.parent] = min(symbol.line, children.get(symbol.parent, symbol.line))
    for index, symbol in enumerate(symbols):
        if symbol.parent >= 0 and symbols[symbol.parent].kind in FUNCTIONS:
            continue  # it is in the text of the one around it
        if symbol.kind not in ("variable", "macro"):
            if symbol.kind in FUNCTIONS:
                last = min(symbol.end_line, symbol.line + 199)
            else:  # what is defined in a class has units of its own
                last = max(min(symbol.end_line, children.get(index, symbol.end_line + 1) - 1), symbol.line)
                last = last if symbol.kind == "heading" else min(last, symbol.line + 19)
            yield Unit(symbol.line, last, index)


class WantedFile(Struct, frozen=True, array_like=True):
    """A file to be read, unless its content still has the hash `known`; `folder` is the project's."""

    folder: str
    path: str
    known: bytes = b""


class FileContent(Struct, frozen=True, array_like=True):
    """A file that was read; `language` is "" for what is no text, or gone, and `facts` None for what is as it was."""

    hash: bytes
    language: str = ""
    lines: int = 0
    cells: tuple[int, ...] = ()
    words: str = ""
    facts: FileFacts | None = None


def read_content(wanted: WantedFile) -> FileContent:
    """Read a file."""
    path = PurePosixPath(wanted.path)
    try:
        data = (Path(wanted.folder) / path).read_bytes()
    except OSError:
        return FileContent(b"", facts=FileFacts())  # gone meanwhile, or not for us to read
    digest = hashlib.blake2b(data, digest_size=16).digest()
    if digest == wanted.known:
        return FileContent(digest)
    source = source_text(path, data)
    if source is None:
        return FileContent(digest, facts=FileFacts())
    try:
        facts = source.facts()
    except RecursionError:
        facts = FileFacts()
    return FileContent(digest, source.language, source.lines, source.cells, words_of(source), facts)


def words_of(source: SourceText) -> str:
    """All that may be an identifier, once, for the table of words."""
    return b" ".join(source.words()).decode("utf-8", "replace")


class SecondReader:
    """The second reader as the indexer sees it: one list is with it at a time."""

    def __init__(self) -> None:
        command = [sys.executable, "-P", "-m", "cellwright.codebase.source_file"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._given: Sequence[WantedFile] = ()

    def give(self, files: Sequence[WantedFile]) -> None:
        """Give it the next files."""
        self._given = files
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # ended: `take` reads them
            _write(self._process.stdin, msgspec.msgpack.encode(files))

    def take(self) -> list[FileContent]:
        """Return the contents of these, in their order, waiting for it; read here if it has ended before."""
        given, self._given = self._given, ()
        assert self._process.stdout is not None
        message = _read(self._process.stdout) if given else b""
        if message:
            return msgspec.msgpack.decode(message, type=list[FileContent])
        return [read_content(each) for each in given]

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._process.stdout.close()
        self._process.kill()
        self._process.wait()


def main() -> int:
    """Read what standard input asks for, until its end."""
    while message := _read(sys.stdin.buffer):
        wanted = msgspec.msgpack.decode(message, type=list[WantedFile])
        _write(sys.stdout.buffer, msgspec.msgpack.encode([read_content(each) for each in wanted]))
    return 0


def _write(stream: IO[bytes], message: bytes) -> None:
    stream.write(len(message).to_bytes(_LENGTH_BYTES) + message)
    stream.flush()


def _read(stream: IO[bytes]) -> bytes:
    """The next message; b"" at the end."""
    head = stream.read(_LENGTH_BYTES)
    message = stream.read(int.from_bytes(head)) if len(head) == _LENGTH_BYTES else b""
    return message if len(message) == int.from_bytes(head) else b""


if __name__ == "__main__":
    sys.exit(main())
