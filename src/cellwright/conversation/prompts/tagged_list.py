"""Lists that Claude is told once, and again when they have changed: the skills there are, the agents there are."""

from __future__ import annotations

import hashlib

from cellwright.sessions.session import Session


def listing(tag: str, text: str) -> str:
    """`text` between tags with a digest; "" for no text."""
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"<{tag} digest={digest}>\n{text}\n</{tag}>" if text else ""


def is_in_history(tag: str, block: str, session: Session) -> bool:
    """Return whether `block` is the listing of `tag` that `session` was told last; an empty one is never news."""
    if not block:
        return True
    opening = f"<{tag} digest=".encode()
    for message in reversed(session.encoded):
        if (at := message.rfind(opening)) >= 0:
            return message.startswith(block.partition(">")[0].encode() + b">", at)
    return False


def listed_line(name: str, description: str, room: int) -> str:
    """One line of a listing, with as much of the description as there is room for."""
    if len(description) > room:
        description = description[: max(room - 1, 0)].rstrip() + "…"
    return f"- {name}: {description}" if description.strip("…") else f"- {name}"
