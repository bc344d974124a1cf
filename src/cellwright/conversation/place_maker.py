"""Who makes this process's conversation, for `cellwright.ask`: nobody but a kernel's extension says so.

A module of its own, so that loading the extension need not import what a conversation needs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cellwright.conversation.ask import ProcessConversation

make: Callable[[], ProcessConversation] | None = None
