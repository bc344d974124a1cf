"""The log of a kernel: what goes wrong in it, and how the runs of its conversation go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from cellwright.features.conversation import Conversation
from cellwright.redaction.redaction import Redaction, secret_values
from cellwright.telemetry.log_file import RunLog, log_to_file

REQUEST_LEFT_SECONDS = 0.05
"""The time after which a run's first request has left, and the thread that sends it has nothing to do."""


def keep_log(conversation: Conversation) -> Callable[[], None]:
    """Log to the file from now on; gives how to stop that."""
    redaction = Redaction(lambda: secret_values(conversation.in_force.environment))
    stop = log_to_file(lambda text: redaction.clean(text).text)
    conversation.observers.add(RunLog(_while_it_waits))
    return stop


def _while_it_waits(log: Callable[[], None]) -> None:
    # on the agent's thread; by then it waits for the answer
    asyncio.get_running_loop().call_later(REQUEST_LEFT_SECONDS, log)
