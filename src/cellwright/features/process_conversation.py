"""The conversation of this process: how it starts, and the one for `cellwright.ask`.

A kernel's extension registers its own while it is loaded.
A module of its own, so that loading the extension need not import what a conversation needs.
"""

from __future__ import annotations

import contextlib
import gc
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from cellwright.conversation.runs.kinds import TrustCheck
    from cellwright.conversation.runs.run import RunSurface
    from cellwright.features.conversation import Conversation


class ProcessConversation(Protocol):
    """A conversation that code of this process may ask in."""

    @property
    def conversation(self) -> Conversation: ...

    @property
    def origin(self) -> str:
        """The place the code that asks runs in, in words."""

    @property
    def trust_checks(self) -> tuple[TrustCheck, ...]:
        """The questions about that place that may have to be asked before its code may ask Claude."""

    def surface(self) -> AbstractContextManager[RunSurface]:
        """Show a run where the code runs, while the block lasts."""


_registered: list[Callable[[], ProcessConversation]] = []

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_registered.clear)  # the kernel is the parent, and a worker of it has none


@contextlib.contextmanager
def starting_up() -> Iterator[None]:
    """While this is entered the process imports what a conversation needs, with nothing else in the way of that.

    The HTTP library is imported in a thread beside our own modules: most of both is waiting for the disk. Imports also
    set off full garbage collections, and one takes 35 ms where libraries are loaded: there is none for the moment.
    """

    def import_http_library() -> None:
        # what fails here fails again, with its message, when it is needed
        with contextlib.suppress(Exception):
            from cellwright.model.transports import transport

            transport.import_http_library()

    threading.Thread(target=import_http_library, name="cellwright-http", daemon=True).start()
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            # what was imported stays: it goes among the old objects, which only a full collection looks through; the
            # first collection of the young would take 20 ms for it, in which no thread runs
            if gc.get_freeze_count() == 0:  # what others have frozen stays so
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def register(conversation: Callable[[], ProcessConversation]) -> None:
    """Have `cellwright.ask` use what `conversation` gives; it is called for each prompt."""
    _registered.append(conversation)


def unregister(conversation: Callable[[], ProcessConversation]) -> None:
    """Have it no longer used."""
    if conversation in _registered:  # not in a forked process
        _registered.remove(conversation)


def registered() -> ProcessConversation | None:
    """The conversation that was registered last, if one is."""
    return _registered[-1]() if _registered else None
