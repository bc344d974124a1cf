"""Sessions for the eye: a table on a terminal, a few lines each on a narrow one, lines with tabs in a pipe."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from cellwright.commands.sessions import price, when
from cellwright.sessions.catalog.catalog import Entry
from cellwright.sessions.catalog.metadata import shown_tags
from cellwright.sessions.catalog.search import HIT_BEGIN, HIT_END
from cellwright.sessions.export.exchanges import Exchange, Said
from cellwright.terminal.screen import columns_of
from cellwright.text import visible_line

WORDS_CHARS = 160
SNIPPET_CHARS = 1_000
PATH_CHARS = 5_000

TABLE_COLUMNS = 72
"""On a screen that is narrower a table has no room for titles."""


def print_entries(entries: Sequence[Entry], cwd: Path | None, *, more: bool, query: str) -> None:
    """The list. `cwd` is the folder they are of; None for all, and then each says its own."""
    if not entries:
        where = f" of {cwd}" if cwd is not None else ""
        hint = "" if cwd is None else " `--all` looks in all folders."
        print(f"There is no session{where}{f' that holds {query!r}' if query else ' yet'}.{hint}", file=sys.stderr)
    elif sys.stdout.isatty():
        show = _print_table if columns_of(sys.stdout, os.environ) >= TABLE_COLUMNS else _print_blocks
        show(entries, with_folder=cwd is None)
    else:
        for entry in entries:
            print("\t".join(_cells(entry, with_folder=cwd is None)))
    if more:
        print("There are more: --limit N, or search for words.", file=sys.stderr)


def print_entry(entry: Entry, exchanges: Sequence[Exchange]) -> None:
    """One session: facts, then its turns."""
    for name, value in _facts(entry):
        if value:
            print(f"{name:<8}{value}")
    for exchange in exchanges:
        print(f"\n{exchange.number}. {visible_line(exchange.words, WORDS_CHARS)}")
        calls = len(exchange.calls)
        said = next((part.text for part in reversed(exchange.parts) if isinstance(part, Said)), "")
        print(f"   {f'({calls} calls) ' if calls else ''}{visible_line(said, WORDS_CHARS)}")


def _facts(entry: Entry) -> Iterator[tuple[str, str]]:
    yield "id", entry.id
    yield "title", entry.title
    yield "tags", shown_tags(entry.tags)
    yield "folder", _path(entry.cwd)
    yield "from", entry.forked_from
    yield "when", f"{when(entry.created)} to {when(entry.updated)}"
    yield "turns", f"{entry.turns}, {entry.model or 'no model yet'}, {price(entry.cost_usd)}, {entry.size:,} bytes"
    yield "state", ", ".join(_state(entry))
    yield "file", _path(entry.path)


def _state(entry: Entry) -> list[str]:
    return [name for name, holds in (("in use", entry.in_use), ("damaged", entry.damaged)) if holds]


def _cells(entry: Entry, *, with_folder: bool) -> list[str]:
    notes = "".join(f" ({state})" for state in _state(entry))
    title = " ".join(part for part in (entry.title + notes, shown_tags(entry.tags)) if part)
    cells = [entry.id, when(entry.updated), str(entry.turns), price(entry.cost_usd), title]
    return [*cells, *([_path(entry.cwd)] if with_folder else []), *([_snippet(entry)] if entry.snippet else [])]


def _snippet(entry: Entry) -> str:
    """What was said may hold what moves the cursor or retitles the window."""
    return visible_line(entry.snippet, SNIPPET_CHARS)


def _path(path: Path | str) -> str:
    return visible_line(str(path), PATH_CHARS)


def _print_blocks(entries: Sequence[Entry], *, with_folder: bool) -> None:
    for entry in entries:
        session, updated, turns, cost, *rest = _cells(entry, with_folder=with_folder)
        print(session)
        for line in (f"{updated}  {turns} turns  {cost}", *rest):
            print(f"  {line}")


def _print_table(entries: Sequence[Entry], *, with_folder: bool) -> None:
    from rich.console import Console  # 60 ms, and a pipe needs no table
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_edge=False)
    for name in ("session", "when"):
        table.add_column(name, no_wrap=True)
    for name in ("turns", "cost"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("title", overflow="fold")
    if with_folder:
        table.add_column("folder", overflow="fold")
    for entry in entries:
        *cells, title = _cells(entry, with_folder=False)[:5]
        about = Text(title, style="bold")
        if entry.snippet:
            about = Text.assemble(about, "\n", *_with_hits(_snippet(entry)))
        # as Text: what a session is called draws nothing
        table.add_row(*map(Text, cells), about, *([Text(_path(entry.cwd))] if with_folder else []))
    Console(highlight=False).print(table)


def _with_hits(snippet: str) -> Iterator[tuple[str, str]]:
    for number, part in enumerate(snippet.split(HIT_BEGIN)):
        hit, behind, rest = part.partition(HIT_END)
        if not number or not behind:
            yield part, "dim"
        else:
            yield hit, "reverse"
            yield rest, "dim"
