"""One file of instructions: its text as Claude reads it, and what it imports."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from cellwright.config.front_matter import read_front_matter, texts
from cellwright.markdown.code_ranges import without_code
from cellwright.text import lazy_pattern

MemoryScope = Literal["managed", "user", "project", "local", "auto"]

MAX_BYTES = 4 * 1024 * 1024
"""A larger file is not read, as in Claude Code."""

MAX_CHARS = 100_000
"""The part of one file that Claude is told: about 25,000 tokens of every request."""

NOTES_LINES = 200
NOTES_BYTES = 25_000
"""The part of the index of Claude's own notes that is told, as in Claude Code."""

_IMPORT = lazy_pattern(r"(?:^|(?<=[\s(\[{\"'*_“‘>|]))@(?P<path>(?:[^\s\\]|\\ )+)", re.MULTILINE)
AFTER_A_PATH = ".,;:!?)]}\"'`*_”’|"
DOCUMENTS = (".md", ".mdc", ".mdx", ".markdown", ".txt", ".rst")
"""Of a name with one of these somebody meant a file."""

_COMMENT = lazy_pattern(r"^ {0,3}<!--", re.MULTILINE)


class MemoryFile(Struct, frozen=True, kw_only=True):
    """A file of instructions. `paths` are globs below `base`: with some, it counts only for files that match one.

    `imported_by` is the file that names this one with `@`; `notice` is for the user, of what was left out.
    """

    path: Path
    scope: MemoryScope
    text: str
    base: Path
    paths: tuple[str, ...] = ()
    imported_by: Path | None = None
    notice: str = ""


def read_memory_file(
    path: Path, scope: MemoryScope, base: Path, *, imported_by: Path | None = None
) -> MemoryFile | None:
    """Read one file; None where there is none, or nothing that can be read as text. Never raises."""
    try:
        facts = path.stat()
        if not stat.S_ISREG(facts.st_mode):
            return None
        if facts.st_size > MAX_BYTES:
            return _left_out(path, scope, base, f"it has {facts.st_size:,} bytes, and {MAX_BYTES:,} are the most")
        content = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    except OSError as error:
        return _left_out(path, scope, base, error.strerror or str(error)) if imported_by is None else None
    if b"\0" in content:
        return _left_out(path, scope, base, "it is not text") if imported_by is None else None
    front = read_front_matter(_decoded(content))
    text = without_comments(front.body).strip()
    notice = ""
    if len(text) > MAX_CHARS:
        notice = f"{path}: only the first {MAX_CHARS:,} of {len(text):,} characters were sent."
        text = text[: text.rfind("\n", 0, MAX_CHARS) + 1 or MAX_CHARS]
    return MemoryFile(
        path=path,
        scope=scope,
        text=text,
        base=base,
        paths=tuple(_glob(glob) for glob in texts(front.values.get("paths"))),
        imported_by=imported_by,
        notice=notice,
    )


def read_notes(path: Path) -> MemoryFile | None:
    """Read the index of Claude's own notes, as far as it is told; it imports nothing. Never raises."""
    file = read_memory_file(path, "auto", path.parent)
    if file is None or not file.text:
        return file
    lines = file.text.splitlines(keepends=True)
    told = "".join(lines[:NOTES_LINES])
    if len(told.encode("utf-8", "surrogatepass")) > NOTES_BYTES:
        told = told.encode("utf-8", "surrogatepass")[:NOTES_BYTES].decode("utf-8", "ignore")
        told = told[: told.rfind("\n") + 1 or len(told)]
    if told == file.text:
        return file
    rest = (
        f"\n[Only the first {NOTES_LINES} lines, at most {NOTES_BYTES // 1000} KB, are sent. Keep the index shorter.]"
    )
    return replace(file, text=f"{told.rstrip()}{rest}")


def _decoded(content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        from cellwright.tools.files.formats.encodings import NotText, decode  # most files are UTF-8

        try:
            return decode(content)[0]
        except NotText:
            return content.decode("utf-8", "replace")


def _left_out(path: Path, scope: MemoryScope, base: Path, why: str) -> MemoryFile:
    return MemoryFile(path=path, scope=scope, text="", base=base, notice=f"{path} was not read: {why}.")


def _glob(glob: str) -> str:
    """`glob` so that a folder's name alone means everything below it."""
    return f"{glob}**" if glob.endswith("/") else glob


def imports(file: MemoryFile) -> Iterator[Path | str]:
    """The files that `file` imports: `@docs/style.md`, `@~/notes.md`, `@./with\\ space.md`, outside code.

    One that does not exist comes as it is written, if it must have been meant as a file: `@types/node` need not be.
    """
    if "@" not in file.text:
        return
    for found in _IMPORT.finditer(without_code(file.text)):
        name = found["path"].replace("\\ ", " ")
        plain = name.rstrip(AFTER_A_PATH)
        for spelling in dict.fromkeys((name, plain, name.partition("#")[0])):
            if spelling and (path := _existing(file.path.parent, spelling)) is not None:
                yield path
                break
        else:
            if plain.partition("#")[0].lower().endswith(DOCUMENTS) or plain.startswith(("./", "../", "~/")):
                yield plain


def _existing(folder: Path, name: str) -> Path | None:
    try:
        path = Path(name).expanduser()
        path = path if path.is_absolute() else folder / path
        return path if path.is_file() else None
    except (OSError, ValueError, RuntimeError):  # no name that a file could have
        return None


def without_comments(markdown: str) -> str:
    """`markdown` without HTML comments that begin a line: they are notes for people. In code they stay."""
    if "<!--" not in markdown:
        return markdown
    markdown = markdown.replace("\r\n", "\n").replace("\r", "\n")
    prose = without_code(markdown)
    kept, at = [], 0
    while (opened := _COMMENT.search(prose, at)) is not None:
        closed = markdown.find("-->", opened.end())
        if closed < 0:
            break
        kept.append(markdown[at : opened.start()])
        end = markdown.find("\n", closed)
        rest = markdown[closed + 3 : end if end >= 0 else None]
        at = closed + 3 if rest.strip() else (end + 1 if end >= 0 else len(markdown))
    return "".join([*kept, markdown[at:]])
