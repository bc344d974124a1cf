"""Sessions named after the notebook that they are held in, so that it finds its earlier conversation again."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

from cellwright.errors import CellwrightError
from cellwright.events import Event, RunEnd
from cellwright.sessions.catalog.metadata import read_about, write_notebook
from cellwright.sessions.session import Session

logger = logging.getLogger(__name__)


class NotebookSessions:
    """Notes the notebook of each session when its first run has ended. An observer of the conversation.

    `session` gives the session that is used, `notebook` the file of this kernel's notebook where it is known.
    """

    def __init__(self, session: Callable[[], Session | None], notebook: Callable[[], Path | None]) -> None:
        self._session = session
        self._notebook = notebook
        self._noted = ""

    def run_added(self, _run: object) -> None:
        """A run that has been asked for has said nothing yet."""

    def on_event(self, _run: object, event: Event) -> None:
        session = self._session()
        if not isinstance(event, RunEnd) or session is None or event.session_id != session.id or not session.encoded:
            return
        if session.path is None or self._noted == session.id or (notebook := self._notebook()) is None:
            return
        from cellwright.sessions.catalog.metadata import first_words  # a first request waits for no title

        self._noted = session.id
        try:
            if read_about(session.path).notebook != notebook.name:
                write_notebook(session.path, notebook, first_words(session))
        except CellwrightError as error:  # the conversation is worth more than its name
            logger.warning("the session %s was not named: %s", session.id, error)

    def run_ended(self, _run: object) -> None:
        """Its last event was heard."""

    def session_changed(self, _session: Session) -> None:
        """Another one is noted when something is said in it."""
