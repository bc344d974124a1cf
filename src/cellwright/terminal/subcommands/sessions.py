"""`cellwright sessions`: the sessions of this folder or of all, searched, shown, named, forked, exported, deleted.

They are listed as a table on a terminal, a few lines each on a narrow one, lines with tabs in a pipe.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from cellwright.commands.sessions.sessions import (
    ExportPlace,
    branch,
    free_path,
    price,
    secrets_replaced,
    when,
    write_export,
)
from cellwright.config.settings.settings_files import start_folder
from cellwright.config.trust.project_files import project_folder
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.sessions.catalog.catalog import Catalog, CatalogEntry, tree_of
from cellwright.sessions.catalog.index import HIT_BEGIN, HIT_END
from cellwright.sessions.catalog.metadata import shown_tags
from cellwright.sessions.claude_code import claude_code_sessions, first_words, import_session, named, read_entries
from cellwright.sessions.export import AnswerText, Exchange, Export, exchanges_of
from cellwright.sessions.transcripts.transcript import each_message, read_messages, said_lines
from cellwright.terminal.exit_codes import ExitCode
from cellwright.terminal.views.terminal_text import columns_of
from cellwright.text import visible_line

WORDS_CHARS = 160
_MORE = "There are more: --limit N, or search for words."


def print_entries(entries: Sequence[CatalogEntry], cwd: Path | None, *, more: bool, query: str) -> None:
    """The list. `cwd` is the folder they are of; None for all, and then each says its own."""
    if not entries:
        where = f" of {cwd}" if cwd is not None else ""
        hint = "" if cwd is None else " `--all` looks in all folders."
        print(f"There is no session{where}{f' that holds {query!r}' if query else ' yet'}.{hint}", file=sys.stderr)
    elif sys.stdout.isatty():
        # on a narrower screen a table has no room for titles
        show = _print_table if columns_of(sys.stdout, os.environ) >= 72 else _print_blocks
        show(entries, with_folder=cwd is None)
    else:
        for entry in entries:
            print("\t".join(_cells(entry, with_folder=cwd is None)))
    if more:
        print(_MORE, file=sys.stderr)


def print_entry(entry: CatalogEntry, exchanges: Sequence[Exchange]) -> None:
    """One session: facts, then its turns."""
    for name, value in _facts(entry):
        if value:
            print(f"{name:<8}{value}")
    for exchange in exchanges:
        print(f"\n{exchange.number}. {visible_line(exchange.words, WORDS_CHARS)}")
        calls = len(exchange.calls)
        answer = next((part.text for part in reversed(exchange.parts) if isinstance(part, AnswerText)), "")
        print(f"   {f'({calls} calls) ' if calls else ''}{visible_line(answer, WORDS_CHARS)}")


def _facts(entry: CatalogEntry) -> Iterator[tuple[str, str]]:
    yield "id", entry.id
    yield "title", entry.title
    yield "tags", shown_tags(entry.tags)
    yield "folder", _path(entry.cwd)
    yield "from", entry.forked_from
    yield "when", f"{when(entry.created)} to {when(entry.updated)}"
    yield "turns", f"{entry.turns}, {entry.model or 'no model yet'}, {price(entry.cost_usd)}, {entry.size:,} bytes"
    yield "state", ", ".join(_state(entry))
    yield "file", _path(entry.path)


def _state(entry: CatalogEntry) -> list[str]:
    states = (
        ("open elsewhere", entry.in_use),
        ("damaged", entry.damaged),
        ("its beginning is gone", entry.is_beginning_gone),
    )
    return [name for name, holds in states if holds]


def _cells(entry: CatalogEntry, *, with_folder: bool) -> list[str]:
    notes = "".join(f" ({state})" for state in _state(entry))
    title = " ".join(part for part in (branch(entry) + entry.title + notes, shown_tags(entry.tags)) if part)
    cells = [entry.id, when(entry.updated), str(entry.turns), price(entry.cost_usd), title]
    return [*cells, *([_path(entry.cwd)] if with_folder else []), *([_snippet(entry)] if entry.snippet else [])]


def _snippet(entry: CatalogEntry) -> str:
    """Make the snippet safe to print: what was said may hold what moves the cursor or retitles the window."""
    return visible_line(entry.snippet, 1_000)


def _path(path: Path | str) -> str:
    return visible_line(str(path), 5_000)


def _print_blocks(entries: Sequence[CatalogEntry], *, with_folder: bool) -> None:
    for entry in entries:
        session, updated, turns, cost, *rest = _cells(entry, with_folder=with_folder)
        title, *more = rest
        print(title)
        for line in (f"{updated}  {turns} turns  {cost}", *more, session):
            print(f"  {line}")


def _print_table(entries: Sequence[CatalogEntry], *, with_folder: bool) -> None:
    from rich.console import Console  # 60 ms, and a pipe needs no table
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_edge=False)
    table.add_column("title", overflow="fold")
    table.add_column("when", no_wrap=True)
    for name in ("turns", "cost"):
        table.add_column(name, justify="right", no_wrap=True)
    if with_folder:
        table.add_column("folder", overflow="fold")
    table.add_column("session", no_wrap=True)
    for entry in entries:
        session, *cells, title = _cells(entry, with_folder=False)[:5]
        about = Text(title, style="bold")
        if entry.snippet:
            about = Text.assemble(about, "\n", *_with_hits(_snippet(entry)))
        # as Text: what a session is called draws nothing
        folder = [Text(_path(entry.cwd))] if with_folder else []
        table.add_row(about, *map(Text, cells), *folder, Text(session))
    Console(highlight=False).print(table)


def _with_hits(snippet: str) -> Iterator[tuple[str, str]]:
    for number, part in enumerate(snippet.split(HIT_BEGIN)):
        hit, behind, rest = part.partition(HIT_END)
        if not number or not behind:
            yield part, "dim"
        else:
            yield hit, "reverse"
            yield rest, "dim"


DESCRIPTION = """\
The sessions of this folder. Without a command they are listed, the newest first; an ID may be cut short.

  cellwright sessions                           the list
  cellwright sessions search "tide gauge"       in what was said, in titles and tags
  cellwright sessions fork 20261103-14 --turn 3 a copy up to turn 3, to continue another way
  cellwright --resume ID "and now the plot"     continue a session"""

Do = Callable[[Catalog, argparse.Namespace], int]


def sessions(argv: Sequence[str]) -> int:
    """Do what `argv` says; gives the exit code. Raises `CellwrightError`."""
    options = _parser().parse_args(argv)
    do: Do = options.do
    return do(Catalog(), options)


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="cellwright sessions", description=DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    listing = argparse.ArgumentParser(add_help=False)
    for parser in (made, listing):
        # SUPPRESS: the command's own default must not overwrite what stood before the command's name
        parser.add_argument("--all", action="store_true", default=argparse.SUPPRESS, help="of all folders")
        parser.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="as JSON, for programs")
        parser.add_argument("--limit", metavar="N", type=_count, default=argparse.SUPPRESS, help="at most N")
    made.set_defaults(do=_list, all=False, json=False, limit=0, query=[])
    commands = made.add_subparsers(title="commands", metavar="COMMAND")

    def command(name: str, do: Do, help: str, *parents: argparse.ArgumentParser) -> argparse.ArgumentParser:
        parser = commands.add_parser(name, help=help, description=help, parents=parents, allow_abbrev=False)
        parser.set_defaults(do=do)
        return parser

    command("list", _list, "the sessions, the newest first", listing)
    search = command("search", _list, "the sessions that hold all words, the best first", listing)
    search.add_argument("query", metavar="WORD", nargs="+", help='words, or "several together"')
    show = command("show", _show, "show one session, turn by turn")
    rename = command("rename", _rename, "give a session a title; an empty one removes it")
    tag = command("tag", _tag, "give a session exactly these tags; a tagged session is not deleted because of its age")
    fork = command("fork", _fork, "a copy of a session, or of its first turns, to continue from")
    imported = command("import", _import, "Claude Code's sessions of this folder; or with an ID a copy of one")
    imported.add_argument(
        "id", metavar="ID", nargs="?", default="", help="the id of Claude Code's, or the beginning of it"
    )
    imported.add_argument("--json", action="store_true", help="the list as JSON, for programs")
    export = command(
        "export", _export, "a session as a file, secrets found in it replaced; to stdout unless --output says where"
    )
    delete = command("delete", _delete, "delete sessions that are not in use; this cannot be undone")
    command("rebuild", _rebuild, "rebuild the catalog of sessions from the transcripts")
    for each in (show, rename, tag, fork, export):
        each.add_argument("id", metavar="ID", help="the session's id, or the beginning of it")
    show.add_argument("--json", action="store_true", help="as JSON, for programs")
    rename.add_argument("title", metavar="TITLE", nargs="+")
    tag.add_argument("tags", metavar="TAG", nargs="*")
    fork.add_argument("--turn", metavar="N", type=_count, help="only what was said up to the end of turn N")
    export.add_argument("--format", choices=("markdown", "notebook", "json"), default="markdown")
    export.add_argument("--output", metavar="FILE", help="a file that is not there yet")
    delete.add_argument("ids", metavar="ID", nargs="+")
    delete.add_argument("--yes", action="store_true", help="do not ask")
    return made


def _list(catalog: Catalog, options: argparse.Namespace) -> int:
    cwd = None if options.all else start_folder(os.environ)
    limit = options.limit or (1_000 if options.json else 20)
    words: list[str] = options.query
    # a word of several stood in the shell's quotes: they are searched for together
    query = " ".join(f'"{word}"' if " " in word.strip() and len(words) > 1 else word for word in words)
    found = catalog.search(query, cwd, limit=limit + 1)
    shown = found[:limit]
    if options.json:
        print(json.dumps([entry.to_json() for entry in shown], indent=1, ensure_ascii=False))
        if len(found) > limit:
            print(_MORE, file=sys.stderr)
    else:
        shown = shown if options.query else tree_of(shown)
        print_entries(shown, cwd, more=len(found) > limit, query=" ".join(options.query))
    return ExitCode.OK


def _show(catalog: Catalog, options: argparse.Namespace) -> int:
    entry = catalog.entry(options.id)
    exchanges = [] if not entry.turns else exchanges_of(read_messages(entry.path))
    if options.json:
        turns = [{"turn": each.number, "prompt": each.words} for each in exchanges]
        print(json.dumps({**entry.to_json(), "path": str(entry.path), "prompts": turns}, indent=1, ensure_ascii=False))
    else:
        print_entry(entry, exchanges)
    return ExitCode.OK


def _rename(catalog: Catalog, options: argparse.Namespace) -> int:
    entry = catalog.rename(options.id, " ".join(options.title))
    print(f"{entry.id}: {entry.title}")
    return ExitCode.OK


def _tag(catalog: Catalog, options: argparse.Namespace) -> int:
    entry = catalog.tag(options.id, options.tags)
    print(f"{entry.id}: {shown_tags(entry.tags) or 'no tags'}")
    return ExitCode.OK


def _import(_catalog: Catalog, options: argparse.Namespace) -> int:
    cwd = start_folder(os.environ)
    if options.id:
        if (found := named(options.id, cwd, os.environ)) is None:
            message = (
                f"{options.id!r} is not one session of Claude Code's in {cwd}: `cellwright sessions import` lists them."
            )
            raise CellwrightError(ErrorCode.SESSION_NOT_FOUND, message)
        session = import_session(found, cwd)
        session.close()
        for notice in session.notices:
            print(notice, file=sys.stderr)
        print(session.id)
        print(f'cellwright --resume {session.id} "…" continues it', file=sys.stderr)
        return ExitCode.OK
    rows: list[dict[str, Any]] = []
    for each in claude_code_sessions(cwd, os.environ):
        entries = read_entries(each.path)
        title = visible_line(entries.title or first_words(entries), WORDS_CHARS)
        rows.append({"id": each.id, "title": title, "updated": each.updated, "size": each.size, "path": str(each.path)})
    if options.json:
        print(json.dumps(rows, indent=1, ensure_ascii=False))
    else:
        for row in rows:
            print(f"{row['id']}\t{when(row['updated'])}\t{row['title'] or '(nothing was said)'}")
        if not rows:
            print(f"Claude Code has no session of {cwd}.", file=sys.stderr)
    return ExitCode.OK


def _fork(catalog: Catalog, options: argparse.Namespace) -> int:
    session = catalog.fork(options.id, options.turn)
    session.close()
    for notice in session.notices:
        print(f"warning: {notice}", file=sys.stderr)
    print(session.id)
    print(f'cellwright --resume {session.id} "…" continues it, in {session.cwd}', file=sys.stderr)
    return ExitCode.OK


def _export(catalog: Catalog, options: argparse.Namespace) -> int:
    entry = catalog.entry(options.id)
    path = free_path(Path.cwd(), options.output, "") if options.output else None
    lines = said_lines(entry.path)
    if path is None:
        export = Export(
            options.format,
            lambda: each_message(lines),
            session=entry.id,
            model=entry.model,
            environ=os.environ,
            title=entry.title,
        )
        sys.stdout.writelines(export.pieces())
        removed = secrets_replaced(export)
    else:
        place = ExportPlace(path, project_folder(Path.cwd()))
        written, removed = write_export(
            place,
            options.format,
            lambda: each_message(lines),
            session=entry.id,
            model=entry.model,
            environ=os.environ,
            title=entry.title,
        )
        print(f"{path}: {written}")
    if removed:
        print(removed, file=sys.stderr)
    return ExitCode.OK


def _delete(catalog: Catalog, options: argparse.Namespace) -> int:
    entries = list(dict.fromkeys(catalog.entry(session_id) for session_id in options.ids))
    if not options.yes and not _confirmed(entries):
        print("Nothing was deleted.")
        return ExitCode.OK
    for entry in entries:
        catalog.delete(entry.id)
        print(f"{entry.id}: deleted ({entry.title})")
    return ExitCode.OK


def _confirmed(entries: Sequence[CatalogEntry]) -> bool:
    if not sys.stdin.isatty():
        message = (
            "Nobody can be asked here whether to delete that. Nothing was deleted; --yes deletes without a question."
        )
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    for entry in entries:
        print(f"{entry.id}  {entry.turns} turns  {entry.title}")
    try:
        return input("Delete for good? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:  # Ctrl-D
        print()
        return False


def _rebuild(catalog: Catalog, _options: argparse.Namespace) -> int:
    count = catalog.rebuild()
    print(f"{count} sessions, in {catalog.path}")
    return ExitCode.OK


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 up")
    return int(text)
