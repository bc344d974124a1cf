"""Where a front end's message on a comm is handled: on the shell it was sent to."""

from __future__ import annotations

from typing import Any


def keep_own_shell(comm: Any) -> None:
    """Have messages to `comm` handled on the subshell that they name.

    ipykernel 7.4 hands them to the shell that last published on the comm, which is the main shell: busy with the very
    cell that waits for them. Other versions have no such route.
    """
    if hasattr(comm, "_reply_subshell_for"):
        comm._reply_subshell_for = lambda _data, default: default
