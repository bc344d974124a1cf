"""`%claude demo`: the demo's project for who has none yet, and in it a scripted model for who has no key."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from IPython.display import display

from cellwright.config.credentials.entered_key import NO_KEY, key_source
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.kernel.magic.cell_prompt import MagicOptions
from cellwright.kernel.magic.sign_in import lacks_key
from cellwright.model.credentials import is_scripted
from cellwright.terminal.demo.demo import NOTEBOOK, is_demo, project_in
from cellwright.terminal.demo.script import PAUSE_SECONDS, demo_script, scripted_environ

if TYPE_CHECKING:
    from cellwright.features.conversation import Conversation
    from cellwright.testing import MessagesServer

_starting = threading.Lock()
"""Held while the scripted model is started or ended: a cell and a panel may ask at once."""
_before: dict[str, str | None] = {}
"""The environment's values before the scripted model set its own; empty while it does not answer."""
_servers: list[MessagesServer] = []
"""The scripted model of this process; it ends with it."""
_told = threading.Event()
"""Set when a cell has said that answers are written down."""

_SCRIPTED = (
    "**Scripted model.** Its answers are written down, for the prompts of this tour; the tools, files and tests are real. "
    "For Claude itself: `%claude login`."
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
        _start_script(folder)
    _told.set()
    _show(_SCRIPTED)


def choose_model_in_demo(conversation: Conversation) -> None:
    """In the demo's folder, have the scripted model answer while the user has no key, and Claude once there is one."""
    if not is_demo(conversation.cwd):
        return
    settings = conversation.in_force.settings
    own = {name: value for name, value in conversation.in_force.environ.items() if name not in _before}
    own |= {name: value for name, value in _before.items() if value is not None}
    own |= settings.env
    if conversation.model.name(None) == "api" and key_source(settings, own) == NO_KEY:
        _start_script(conversation.cwd)
    else:
        end_script()


def end_script() -> None:
    """Let the scripted model answer no more: what it replaced in the environment is there again."""
    with _starting:
        for name, value in _before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        _before.clear()


def tell_in_cell(conversation: Conversation) -> None:
    """Say in the running cell that answers are written down, if they are and no cell has said it."""
    if is_scripted(conversation.in_force.environment) and not _told.is_set():
        _told.set()
        _show(_SCRIPTED)


def _start_script(folder: Path) -> None:
    from cellwright.testing import MessagesServer  # few play the demo

    with _starting:
        if not _servers:
            _servers.append(MessagesServer(demo_script(str(folder)), seconds_between_deltas=PAUSE_SECONDS).start())
        # of this kernel alone
        environ = scripted_environ(_servers[0].url, _servers[0].api_key)
        for name, value in environ.items():
            _before.setdefault(name, os.environ.get(name))
            os.environ[name] = value


def _project(folder: Path) -> Path:
    try:
        return project_in(folder)
    except OSError as error:
        message = f"The demo's project cannot be written into {folder}: {error.strerror}."
        raise CellwrightError(ErrorCode.FILE_ACCESS_ERROR, message) from error


def _show(text: str) -> None:
    display({"text/markdown": text, "text/plain": text}, raw=True)
