"""Observers of a conversation: told each event of each run, whichever face it was started from."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from cellwright.errors import log_fault
from cellwright.events import Event

if TYPE_CHECKING:
    from cellwright.conversation.runs.run import Run
    from cellwright.sessions.session import Session

logger = logging.getLogger(__name__)

FAILED = "an observer of the conversation failed"


class Observer(Protocol):
    """One who looks on. Called on whatever thread it happens on, for a run's events the agent's; must not block."""

    def run_added(self, run: Run) -> None:
        """Somebody has asked for a run; it may have to wait for its turn. Before its first event."""

    def on_event(self, run: Run, event: Event) -> None:
        """An event of a run, on the agent's thread, in order."""

    def run_ended(self, run: Run) -> None:
        """The run is over, or was taken out of the line; nothing of it comes any more."""

    def session_changed(self, session: Session) -> None:
        """The conversation goes on with another session, or with less of this one (a turn was taken back).

        Also called when the session was given a title.
        """


class Observers:
    """Tells observers. A fault of one is logged: it can neither end a run nor keep the others from being told."""

    def __init__(self) -> None:
        # replaced, never changed: it is read on several threads
        self._observers: tuple[Observer, ...] = ()

    def add(self, observer: Observer) -> Callable[[], None]:
        """Tell `observer` from now on; gives how to stop that."""
        self._observers = (*self._observers, observer)

        def remove() -> None:
            self._observers = tuple(other for other in self._observers if other is not observer)

        return remove

    def run_added(self, run: Run) -> None:
        """Tell of the run, and from now on of its events."""
        run.bus.subscribe(functools.partial(self._on_event, run))
        self._notify(lambda observer: observer.run_added(run))

    def run_ended(self, run: Run) -> None:
        self._notify(lambda observer: observer.run_ended(run))

    def session_changed(self, session: Session) -> None:
        self._notify(lambda observer: observer.session_changed(session))

    def _on_event(self, run: Run, event: Event) -> None:
        for observer in self._observers:  # not by `_notify`: this is done for each delta
            try:
                observer.on_event(run, event)
            except Exception:  # noqa: BLE001  whoever looks on must not be able to break what they look at
                log_fault(logger, FAILED)

    def _notify(self, notify: Callable[[Observer], None]) -> None:
        for observer in self._observers:
            try:
                notify(observer)
            except Exception:  # noqa: BLE001  whoever looks on must not be able to break what they look at
                log_fault(logger, FAILED)
