"""The tools that only a kernel has."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from cellwright.agent.tool import Tool
from cellwright.conversation import Conversation
from cellwright.kernel.python_tool import python_tool

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell


def kernel_tools(
    shell: InteractiveShell, conversation: Conversation, *, in_kernel: bool, on_stuck: Callable[[str], None]
) -> tuple[Tool, ...]:
    """The tools of `conversation`, whose code runs in `shell`; the arguments are `python_tool`'s."""
    return (python_tool(shell, conversation.jobs, in_kernel=in_kernel, on_stuck=on_stuck),)
