"""The secret of a page: what it says in its own name, no other script's message can say.

A page makes a secret up before anything else happens on a comm, and says it in its first message there. That goes to
the kernel alone: unlike what the kernel sends, it reaches no other client, no output and no file. From then on only
messages with the secret count as the page's. Scripts in a notebook's output can send on the same comm, since front
ends let them find widgets and their channels; they can neither answer a question with it nor steer a run.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping

MIN_SECRET_CHARS = 16


def secret_in(message: object) -> str:
    """The secret that `message` says; empty where it says none, or one that could be guessed."""
    secret = message.get("secret") if isinstance(message, Mapping) else None
    return secret if isinstance(secret, str) and len(secret) >= MIN_SECRET_CHARS else ""


def knows_secret(message: object, secret: str) -> bool:
    """Return whether `message` may be the page's with this `secret`; a page that has said none is taken at its word."""
    return not secret or hmac.compare_digest(secret_in(message).encode(), secret.encode())
