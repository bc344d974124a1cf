"""One door for a wait on a person that holds the main thread: it ends with SIGINT, and when it is over for another reason.

Other reasons come from elsewhere: a key is entered in the panel, which the server's process keeps, or the page that shows
the field is closed or reloaded, and nobody could ever fill it in.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from cellwright.errors import log_fault
from cellwright.kernel.run.interrupts import EndableWait

logger = logging.getLogger(__name__)

LOOK_SECONDS = 0.5
"""A file, a keyring or a list of pages answers within milliseconds; a person does not notice the rest."""


def wait_for_person(ask: Callable[[], str], is_over: Callable[[], bool]) -> str | None:
    """The text that `ask` returns, typed by a person; None if `is_over` first. Raises `KeyboardInterrupt` and `EOFError`.

    `is_over` is called again and again, on a thread of its own.
    """
    wait, answered = EndableWait(), threading.Event()

    def look() -> None:
        while not answered.wait(LOOK_SECONDS):
            try:
                if is_over():
                    wait.end()
                    return
            except Exception:  # noqa: BLE001  what is looked at may be broken just now: the person still has the field
                log_fault(logger, "it could not be found out whether a question is over")

    threading.Thread(target=look, name="cellwright-person-wait", daemon=True).start()
    try:
        with wait.entered():
            return ask()
    except KeyboardInterrupt:
        if wait.ended:
            return None
        raise
    finally:
        answered.set()
