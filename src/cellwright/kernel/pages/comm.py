"""One comm to a page of the browser, or to the server: large messages in pieces, requests and their replies, the secret.

It is the common ground of pages.py and chat/connections.py. The params of a request are read so that it is said what
is wrong with them.

A page makes a secret up before anything else happens on a comm, and says it in its first message there. That goes to
the kernel alone: unlike what the kernel sends, it reaches no other client, no output and no file. From then on only
messages with the secret count as the page's. Scripts in a notebook's output can send on the same comm, since front
ends let them find widgets and their channels; they can neither answer a question with it nor steer a run.
"""

from __future__ import annotations

import asyncio
import contextvars
import hmac
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from cellwright.conversation.message_chunks import JoinedMessages, Piece, pieces
from cellwright.errors import CellwrightError, log_fault
from cellwright.kernel.run.ipykernel_api import comm_manager, isolate_from_shell

logger = logging.getLogger(__name__)

PROTOCOL = 1
"""The version of the chat protocol, which both sides say first."""


def secret_in(message: object) -> str:
    """The secret that `message` says; empty where it says none, or one that could be guessed."""
    secret = message.get("secret") if isinstance(message, Mapping) else None
    return secret if isinstance(secret, str) and len(secret) >= 16 else ""


def knows_secret(message: object, secret: str) -> bool:
    """Return whether `message` may be the page's with this `secret`; a page that has said none is taken at its word."""
    return not secret or hmac.compare_digest(secret_in(message).encode(), secret.encode())


class PageError(Exception):
    """Raised when what was asked for cannot be done: `code` says why, for programs."""

    def __init__(self, code: str, message: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = dict(details or {})


class CommLink:
    """The kernel's end of one comm. Made where the comm was opened, by `hello`; used from any thread."""

    def __init__(self, comm: Any, hello: object = None) -> None:
        isolate_from_shell(comm)
        self._comm = comm
        # a context can be entered by one thread at a time, hence the copies; this one has the parent that ipykernel asks for
        self._context = contextvars.copy_context()
        self._parts = JoinedMessages()
        self._secret = secret_in(hello)

    @property
    def comm_id(self) -> str:
        return str(self._comm.comm_id)

    def is_from_page(self, piece: object) -> bool:
        """Return whether the page itself sent `piece`, and no other script on its comm."""
        if knows_secret(piece, self._secret):
            return True
        logger.warning("a message without its page's secret was not heard: another script sent it")
        return False

    def joined(self, piece: object) -> dict[str, Any] | None:
        """The message that is whole with `piece`; None where more is to come, or where it makes no sense."""
        return self._parts.add(piece)

    async def send(self, message: Mapping[str, Any]) -> None:
        """Send `message`, a large one at a pace that the server lets through."""
        for piece in pieces(message):
            self.put(piece)
            if piece.pause:
                await asyncio.sleep(piece.pause)

    def put(self, piece: Piece) -> None:
        """Send one piece of a message, or a small one as it is."""
        self._context.copy().run(self._comm.send, piece.message)

    def refuse(self, message: Mapping[str, Any]) -> None:
        """Send `message`, which is small, and close the comm."""
        self.put(Piece(message, 0.0))
        self.close()

    def close(self) -> None:
        """Close the comm, telling the other end."""
        self._comm.close()

    def forget(self) -> None:
        """Take the comm out of the kernel. Its page is gone, and the others do not know it: nobody is told."""
        manager = comm_manager()
        if self._comm.comm_id in manager.comms:
            self._comm._closed = True  # a comm that is collected would say that it closes
            manager.unregister_comm(self._comm)


async def reply_to(method: str, serve: Callable[[], Awaitable[Any]] | None) -> dict[str, Any]:
    """Answer a request: `{"result"}` or `{"error": {"code", "message", "details"}}`; `serve` does it, if anybody."""
    try:
        if serve is None:
            raise PageError("unknown_method", f"This version of Cellwright does not know {method!r}.")
        return {"result": await serve()}
    except PageError as error:
        return {"error": {"code": error.code, "message": error.message, "details": error.details}}
    except CellwrightError as error:
        return {"error": {"code": str(error.code), "message": error.message, "details": error.details}}
    except Exception as error:  # noqa: BLE001  the other end waits for an answer, whatever a handler's fault is
        log_fault(logger, "a request for %s failed", method)
        return {"error": {"code": "failed", "message": f"{type(error).__name__}: {error}", "details": {}}}


T = TypeVar("T")


def required(params: Mapping[str, Any], name: str, kind: type[T]) -> T:
    """The param `name`. Raises PageError `invalid` where it is missing or of another type."""
    value = params.get(name)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        wanted = _WORDS.get(kind, kind.__name__)
        raise PageError("invalid", f"The param {name!r} has to be {wanted}, not {value!r:.100}.")
    return value


def optional(params: Mapping[str, Any], name: str, kind: type[T]) -> T | None:
    """The param `name`, None where it is left out or null. Raises PageError `invalid` where it is of another type."""
    return None if params.get(name) is None else required(params, name, kind)


_WORDS: Mapping[type[Any], str] = {str: "a text", int: "a whole number", dict: "an object", list: "a list"}
