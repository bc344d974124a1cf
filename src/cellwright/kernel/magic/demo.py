"""`%claude demo`: the demo's project for who has none yet, and in it a scripted model for who has no key."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from IPython.display import display

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.kernel.magic.options import MagicOptions
from cellwright.kernel.magic.sign_in import lacks_key
from cellwright.model.credentials import is_scripted
from cellwright.terminal.demo.demo_project import NOTEBOOK, is_demo, project_in
from cellwright.terminal.demo.script import PAUSE_SECONDS, demo_script, scripted_environ

if TYPE_CHECKING:
    from cellwright.features.conversation import Conversation
    from cellwright.testing import MessagesServer

_servers: list[MessagesServer] = []
"""The scripted model of this process; it ends with it."""

_SCRIPTED = (
    "**Scripted model.** The answers in this notebook are written down; the kernel, the tools, the files and the tests are "
    "real. It knows the prompts of this tour, and says so where it knows no answer. For Claude itself: `%claude login`."
)


def start_demo(conversation: Conversation) -> None:
    """Do what `%claude demo` says. Raises `CellwrightError` where the project cannot be written."""
    folder = conversation.cwd
    if not is_demo(folder):
        _show(f"The demo is in `{(project := _project(folder)).name}`. Open [{NOTEBOOK}]({project.name}/{NOTEBOOK}).")
        return
    environment = conversation.in_force.environment
    if not is_scripted(environment) and not lacks_key(conversation, MagicOptions()):
        _show("You have a key, so Claude itself answers in this notebook. It costs a few cents.")
        return
    if not is_scripted(environment):
        from cellwright.testing import MessagesServer  # few play the demo

        server = MessagesServer(demo_script(str(folder)), seconds_between_deltas=PAUSE_SECONDS).start()
        _servers.append(server)
        # of this kernel alone, until it ends
        os.environ.update(scripted_environ(server.url, server.api_key))
    _show(_SCRIPTED)


def _project(folder: Path) -> Path:
    try:
        return project_in(folder)
    except OSError as error:
        message = f"The demo's project cannot be written into {folder}: {error.strerror}."
        raise CellwrightError(ErrorCode.FILE_ACCESS_ERROR, message) from error


def _show(text: str) -> None:
    display({"text/markdown": text, "text/plain": text}, raw=True)
