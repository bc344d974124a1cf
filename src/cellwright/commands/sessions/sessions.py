"""`/sessions`, `/resume`, `/fork`, `/rename`, `/tag` and `/clear`: which there are, which one goes on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from cellwright.commands.command import CommandCall, CommandPage, Row, Section
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.features.conversation import Conversation
from cellwright.sessions.catalog.catalog import Catalog, CatalogEntry, tree_of
from cellwright.sessions.catalog.metadata import shown_tags, title_of, write_tags, write_title
from cellwright.sessions.claude_code import ClaudeCodeSession, named
from cellwright.sessions.session import Session
from cellwright.text import dollars

RESUME = "[ID | WORDS]"
SESSIONS = "[WORDS]"
FORK = "[ID] [TURN]"
RENAME = "[TITLE]"
TAG = "[TAG …]"

SHOWN = 20
INDENT = "\u2003"
"""A wide space: in a table's cell others are run together."""


async def sessions_page(call: CommandCall) -> CommandPage:
    """The sessions of this folder, or those in which words are found."""
    found = await asyncio.to_thread(Catalog().search, call.text, call.conversation.cwd, limit=SHOWN + 1)
    return CommandPage([_listed(found, call, as_tree=not call.text)])


async def resume_page(call: CommandCall) -> CommandPage:
    """Go on with another session: by its id, or by words if they are found in one alone; without either the list."""
    conversation = call.conversation
    if not call.text:
        return await sessions_page(call)
    conversation.runs.refuse_while_running()
    entry = await asyncio.to_thread(_only_one, call.text, conversation.cwd, conversation.in_force.environment)
    if isinstance(entry, CatalogEntry | ClaudeCodeSession):
        await go_on(conversation, partial(conversation.sessions.find, entry.id))
        return _now_in("Resumed", conversation.sessions.current)
    section = _listed(entry, call)
    return CommandPage(
        [Section(section.title, section.rows, f"{section.text} Several hold these words: /resume ID takes one.")]
    )


async def fork_page(call: CommandCall) -> CommandPage:
    """Go on in a copy of this session or of another, or of its first turns."""
    conversation = call.conversation
    words = call.text.split()
    turn = int(words.pop()) if words and words[-1].isdecimal() else None
    if len(words) > 1:
        message = f"/fork takes {FORK}, and not {call.text!r}. Turns count from 1. Nothing was forked."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    session_id = words[0] if words else _started_session(conversation).id
    await fork(conversation, session_id, turn)
    before = conversation.sessions.current.forked_from
    return _now_in("Forked", conversation.sessions.current, f"The session {before} stays as it was.")


async def rename_page(call: CommandCall) -> CommandPage:
    """Name this session; without a title the small model does, for one small request."""
    session = call.conversation.sessions.current
    path = _kept(session)
    if call.text:
        title = await asyncio.to_thread(write_title, path, call.text)
        call.conversation.observers.session_changed(session)
        return CommandPage([Section("Renamed", text=f"This session is “{title}” now.")])
    cost_before = session.cost_usd
    title = await call.conversation.features.titles.make(session)
    await asyncio.to_thread(write_title, path, "")  # the user has asked for the model's
    call.conversation.observers.session_changed(session)
    cost = None if session.cost_usd is None or cost_before is None else session.cost_usd - cost_before
    price = "its cost is unknown" if cost is None else f"it cost {dollars(cost)}"
    return CommandPage([Section("Renamed", text=f"This session is “{title}” now. The small model named it; {price}.")])


async def tag_page(call: CommandCall) -> CommandPage:
    """Give this session tags; without any it loses those it has."""
    tags = await asyncio.to_thread(
        write_tags, _kept(call.conversation.sessions.current), call.text.replace(",", " ").split()
    )
    text = (
        f"Tags of this session: {shown_tags(tags)}. It is not deleted for its age." if tags else "It has no tags now."
    )
    return CommandPage([Section("Tagged", text=text)])


def clear_page(call: CommandCall) -> CommandPage:
    """Go on with a new session."""
    conversation = call.conversation
    before = conversation.sessions.started
    conversation.sessions.start_new()
    kept = before is not None and before.path is not None and before.encoded
    text = f"`/resume {before.id}` returns to the one before." if kept and before is not None else ""
    return CommandPage([Section("A new session", text=text)])


async def go_on(conversation: Conversation, find: Callable[[], Session | None]) -> None:
    """Go on with the session that `find` gives, on a thread of its own; None: with the one that is used already.

    Raises `CellwrightError` while a run goes on or waits, and what `find` raises.
    """
    conversation.runs.refuse_while_running()
    session = await asyncio.to_thread(find)
    if session is None:
        return
    try:
        conversation.sessions.use(session)
    except CellwrightError:  # a run has begun meanwhile
        session.close()
        raise


async def fork(conversation: Conversation, session_id: str, turn: int | None) -> None:
    """Go on in a fork of the session of this id, or of its first turns. Raises as `go_on`."""
    current = conversation.sessions.started
    mode = current.mode if current is not None and current.id == session_id else None

    def forked() -> Session:
        session = Catalog().fork(session_id, turn, conversation.cwd)
        session.mode = mode
        return session

    await go_on(conversation, forked)


def _only_one(
    text: str, cwd: Path, environ: Mapping[str, str]
) -> CatalogEntry | ClaudeCodeSession | Sequence[CatalogEntry]:
    """The session that is meant, or those that may be. Raises `CellwrightError` where none is."""
    catalog = Catalog()
    try:
        return catalog.entry(text, cwd)
    except CellwrightError as error:
        if error.code != ErrorCode.SESSION_NOT_FOUND:
            raise
        if (foreign := named(text, cwd, environ)) is not None:
            return foreign
        if not (found := catalog.search(text, cwd, limit=SHOWN + 1)):
            raise
    titled = [entry for entry in found if entry.title.casefold() == text.casefold()]
    return titled[0] if len(titled) == 1 else found[0] if len(found) == 1 else found


def _started_session(conversation: Conversation) -> Session:
    session = conversation.sessions.current
    if session.path is None or not session.encoded:
        message = "There is nothing to fork yet: this conversation has no messages. /fork ID takes another session."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    return session


def _kept(session: Session) -> Path:
    if session.path is None or not session.path.exists():
        message = "This session is not kept on disk yet: it is with the first prompt. Nothing was changed."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    return session.path


def _listed(found: Sequence[CatalogEntry], call: CommandCall, *, as_tree: bool = False) -> Section:
    if not found:
        what = f"that holds {call.text!r}" if call.text else "yet"
        return Section("Sessions", text=f"No session of {call.conversation.cwd} {what}.")
    current = call.conversation.sessions.started
    here = current.id if current is not None else ""
    head: Row = ("title", "when", "turns", "cost", "id")
    shown = tree_of(found[:SHOWN]) if as_tree else found[:SHOWN]
    rows = [head, *(_row(entry, here) for entry in shown)]
    more = " There are more: say words that were said in it." if len(found) > SHOWN else ""
    return Section("Sessions", rows, f"/resume ID continues one.{more}")


def _row(entry: CatalogEntry, here: str) -> Row:
    marks = ("current",) if entry.id == here else ("open elsewhere",) if entry.in_use else ()
    damaged = ("its beginning is gone",) if entry.is_beginning_gone else ("damaged",) if entry.damaged else ()
    notes = "".join(f" ({mark})" for mark in (*marks, *damaged))
    words = " · ".join(
        part for part in (branch(entry) + entry.title + notes, shown_tags(entry.tags), entry.snippet) if part
    )
    return words, when(entry.updated), str(entry.turns), price(entry.cost_usd), entry.id


def branch(entry: CatalogEntry) -> str:
    """The lines that put a fork below its session; "" for one that stands by itself."""
    return f"{INDENT * (entry.depth - 1)}└ " if entry.depth else ""


def when(updated: float) -> str:
    """A time in the user's own time zone, to the minute."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(updated))


def price(cost_usd: float | None) -> str:
    """A cost for people."""
    return "?" if cost_usd is None else dollars(cost_usd)


def _now_in(title: str, session: Session, more: str = "") -> CommandPage:
    rows = [("title", "session"), (title_of(session), session.id)]
    return CommandPage([Section(title, rows, more)])
