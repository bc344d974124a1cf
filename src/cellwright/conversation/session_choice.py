"""The choice of a conversation's session: a new one, an earlier one, or a fork where the tools change."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cellwright.agent.agent_setup import AgentSetup
from cellwright.agent.tool import TOOL_SEARCH, Tool
from cellwright.config.settings.settings_in_force import SettingsInForce
from cellwright.conversation.runs.run import RunQueue
from cellwright.conversation.tools.toolset import ConversationTools
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.model.models import limits
from cellwright.sessions.session import Session
from cellwright.sessions.state_dir import find_sessions, sessions_folder
from cellwright.text import counted
from cellwright.tools.files.atomic_write import recover_changes
from cellwright.tools.mcp.server_entry import TOOL_PREFIX, of_servers


class ConversationSessions:
    """One session at a time, of the project that `in_force` holds for.

    None is exchanged while one of `runs` goes on or waits. With another one, `tools` forget what was read: files must be
    read again. `left(session, because)` is called with the one before, `changed(session)` with the one that it is now.
    """

    def __init__(
        self,
        in_force: SettingsInForce,
        runs: RunQueue,
        tools: ConversationTools,
        *,
        left: Callable[[Session, str], object],
        changed: Callable[[Session], object],
    ) -> None:
        self._cwd = in_force.cwd
        self._in_force = in_force
        self._runs = runs
        self._tools = tools
        self._left = left
        self._changed = changed
        self._session: Session | None = None
        self._own_tools: Session | None = None
        self._beginning = threading.Lock()
        self._notices_given: set[str] = set()

    @property
    def started(self) -> Session | None:
        """The session, if one was asked for yet."""
        return self._session

    @property
    def current(self) -> Session:
        """The session that the next run goes on with; a new one, kept on disk, when there is none yet."""
        with self._beginning:  # a panel asks on the agent's thread while a cell begins on its own
            if self._session is None:
                self._session = Session.create(self._cwd, sessions_folder(self._cwd))
            return self._session

    def use(self, session: Session, *, because: str = "resume") -> None:
        """Go on with `session`; the one before is closed. `because` is what SessionEnd hooks are told.

        Raises `CellwrightError` while a run goes on or waits.
        """
        with self._runs.held_off():  # a cell could begin just now, in the session that is closed here
            if self._session is not None and self._session is not session:
                self._left(self._session, because)
                self._session.close()
            is_other = self._session is not session
            self._session = session
            if is_other:
                self._changed(session)
            self._tools.forget()

    def start_new(self) -> None:
        """Go on with a session of its own; the one before stays on disk. Raises as `use`."""
        session = Session.create(self._cwd, sessions_folder(self._cwd))
        if self._session is not None and self._session.encoded:
            session.started_by = "clear"
        self.use(session, because="clear")
        self._in_force.ask_again()

    def resume(self, session_id: str) -> None:
        """Go on with the session of this id (or the start of one) that was held in this folder.

        Raises as `use`, and SESSION_NOT_FOUND, SESSION_CORRUPTED.
        """
        self._runs.refuse_while_running()
        if (session := self.find(session_id)) is not None:
            self.use(session)

    def resume_newest(self) -> bool:
        """Go on with the newest session of this folder; False, and a new one, when there is none. Raises as `use`.

        Of one that is damaged with what can be read of it; the session's notices say so.
        """
        self._runs.refuse_while_running()
        newest, notices = self._newest()
        if newest is None:
            self.start_new()
        elif newest is not self._session:
            self.use(newest)
        self.current.notices += notices
        return newest is not None

    def add_notices(self, session: Session, notices: Sequence[str]) -> None:
        """Tell each of `notices` with the run that begins in `session`, once in this conversation."""
        session.notices += [notice for notice in dict.fromkeys(notices) if notice not in self._notices_given]
        self._notices_given.update(notices)

    def find(self, session_id: str) -> Session | None:
        """The session of this id (or the start of one) that was held in this folder; None for the one that is used.

        Raises `CellwrightError` SESSION_NOT_FOUND, SESSION_CORRUPTED.
        """
        if session_id and self._session is not None and self._session.id.startswith(session_id):
            return None
        found = _named(sessions_folder(self._cwd), session_id) if session_id else []
        if not found:
            from cellwright.sessions.claude_code import (  # few sessions are brought along
                import_session,
                named,
            )

            if (foreign := named(session_id, self._cwd, self._in_force.environment)) is not None:
                return import_session(foreign, self._cwd)
        if len(found) != 1:
            what = "matches more than one session" if found else "is no session"
            known = ", ".join(path.stem for path in (found[::-1] or find_sessions(self._cwd))[:5]) or "none"
            message = f"{session_id!r} {what} of {self._cwd}. The newest here: {known}."
            raise CellwrightError(ErrorCode.SESSION_NOT_FOUND, message)
        recover_changes()
        return Session.load(found[0])

    def _newest(self) -> tuple[Session | None, list[str]]:
        """The session of this folder that was written last and can be read, and what is to be said of it.

        The session that is used is given as it is.
        """
        notices: list[str] = []
        for path in find_sessions(self._cwd):
            if self._session is not None and self._session.path == path:
                return self._session, notices
            try:
                recover_changes()
                return Session.load(path), notices
            except CellwrightError as error:
                if error.code not in (ErrorCode.SESSION_CORRUPTED, ErrorCode.SESSION_NOT_FOUND):
                    raise
                notices.append(f"The session {path.stem} was passed over: {error.message}")
        return None, notices

    def with_tools(self, tools: Sequence[Tool], given: Session | None, *, own: bool) -> Session:
        """The session, or a fork of it when the tools are others: a session's tools stay what they were.

        `own`: the run brings tools of its own, or leaves the usual ones out. When a run without such options follows, the
        usual tools are back, in a fork again. `given` stands in for the conversation's session.
        """
        session = given or self.current
        may_differ = not session.is_fresh and (own or self._own_tools is session)
        declared = json.loads(session.tools) if may_differ else []
        servers = [each for each in declared if of_servers(str(each["name"]))]  # they come and go
        own_names = {str(each["name"]) for each in declared} - {str(each["name"]) for each in servers}
        if may_differ and own_names != {tool.name for tool in tools if not of_servers(tool.name)}:
            # what an earlier message has loaded must stay declared
            fork = session.fork(tools=[*(tool.to_param() for tool in tools), *servers])
            fork.notices.append(f"The tools have changed: this continues in a fork of the session, {fork.id}.")
            if given is None:
                self._go_on_in(fork, session)
            session = fork
        if given is None:
            self._own_tools = session if own else None
        return session

    def with_late_tools(self, agent: AgentSetup, session: Session, *, given: bool) -> Session:
        """The session, or a fork of it with the tools of servers that came after it had begun, if it cannot load them.

        `given`: the session is a program's own, and stays what it is.
        """
        declared = session.tool_names
        if session.is_fresh or (TOOL_SEARCH in declared and limits(agent.model).tool_search):
            return session
        late = [each for each in agent.features.tools() if each.name not in declared and not agent.policy.hides(each)]
        if not late:
            return session
        servers = ", ".join(
            dict.fromkeys(each.name.split("__")[1] for each in late if each.name.startswith(TOOL_PREFIX))
        )
        if given:
            notice = f"MCP servers were connected after this session began: {servers}. A new session has their tools."
            self.add_notices(session, [notice])
            return session
        fork = session.fork(tools=[*json.loads(session.tools), *(each.to_param() for each in late)])
        fork.notices.append(
            f"{counted(len(late), 'tool')} of MCP servers came after this session began ({servers or 'resources'}). This "
            f"continues with them in a fork, {fork.id}. The next request reads about {session.context_tokens:,} tokens "
            "without the cache, once."
        )
        if self._own_tools is session:
            self._own_tools = fork
        self._go_on_in(fork, session)
        return fork

    def with_system(self, system: Sequence[Mapping[str, Any]], session: Session, *, whole: bool) -> Session:
        """The session, or a fork of it when it was begun with another system prompt: a session keeps its own.

        `whole`: all of it is the user's; else what comes after ours, which other tools may have made different.
        """
        before = json.loads(session.system) if not session.is_fresh else []
        users = list(system) if whole else list(system[1:])
        if not before or (len(before) == len(system) and before[-len(users) :] == users):
            return session
        fork = session.fork(system=system)
        fork.notices.append(f"The system prompt has changed: this continues in a fork of the session, {fork.id}.")
        if self._own_tools is session:
            self._own_tools = fork
        if self._session is session:
            self._go_on_in(fork, session)
        return fork

    def start_as(self, session_id: str) -> None:
        """Go on with a new session of this id. Raises as `use`, and INVALID_PARAMETERS for an id that is taken."""
        folder = sessions_folder(self._cwd)
        if (folder / f"{session_id}.jsonl").exists():
            message = f"The session {session_id} exists already: --resume continues it."
            raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
        self.use(Session.create(self._cwd, folder, session_id))

    def fork_current(self, session_id: str = "") -> None:
        """Go on in a copy of the session that is used, which stays as it is. Raises as `use`."""
        self.use(self.current.fork(id=session_id), because="resume")

    def _go_on_in(self, fork: Session, before: Session) -> None:
        before.close()
        self._session = fork
        self._changed(fork)

    def close(self) -> None:
        """Close the session; the next is a new one."""
        if self._session is not None:
            self._session.close()
            self._session = None


def _named(folder: Path, begins: str) -> list[Path]:
    """The transcripts whose ids begin so; by name, since the times of thousands take longer than loading one."""
    try:
        names = os.listdir(folder)  # noqa: PTH208  a Path for each of thousands takes as long
    except FileNotFoundError:
        return []
    paths = (folder / name for name in sorted(names) if name.startswith(begins) and name.endswith(".jsonl"))
    return [path for path in paths if _holds_something(path)]


def _holds_something(path: Path) -> bool:
    """Return whether it is more than what a power cut may leave of a new one, and still there."""
    try:
        return path.stat().st_size > 0
    except FileNotFoundError:
        return False
