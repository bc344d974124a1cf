"""The tools of a conversation, made together because some share what they know of files and folders."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from cellwright.agent.provider import Provider
from cellwright.agent.tool import Tool
from cellwright.config.settings import Settings

ToolMaker = Callable[[Path, Settings], Sequence[Tool]]


def builtin_tools(
    cwd: Path,
    settings: Settings,
    *,
    provider: Callable[[], Provider] | None = None,
    environ: Mapping[str, str] = os.environ,
) -> tuple[Tool, ...]:
    """The tools that need no kernel, sharing one memory of what was read.

    `provider` is the way to the model for tools that ask a small one; it is called when there is something to ask.
    """
    from cellwright.tools.ask_user import ask_user_tool
    from cellwright.tools.bash import bash_tools
    from cellwright.tools.file_state import FileState
    from cellwright.tools.files import file_tools
    from cellwright.tools.notebook_files import notebook_file_tools
    from cellwright.tools.plan import plan_tools
    from cellwright.tools.search import search_tools
    from cellwright.tools.todos import todo_tools
    from cellwright.tools.web import web_tools

    state = FileState()
    roots = (cwd, *settings.additional_directories)
    return (
        *file_tools(state, cwd),
        *search_tools(cwd),
        *notebook_file_tools(state, cwd),
        *bash_tools(cwd, roots, environ=environ),
        *todo_tools(environ),
        ask_user_tool(),
        *plan_tools(cwd),
        *web_tools(environ, provider),
    )
