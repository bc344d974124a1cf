"""The user's choices for the prompts to come: the chosen options of the table, /output-style, /add-dir, /autocompact."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from cellwright.config.settings.layers import Layer
from cellwright.config.settings.option_table import BY_NAME, CHOSEN, nested
from cellwright.config.settings.settings_files import InlineSettings
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.conversation.runs.run_queue import RunQueue
from cellwright.sessions.session import Session

LABEL = f"chosen with a command (/{', /'.join((*CHOSEN, 'output-style', 'add-dir', 'autocompact'))})"


FindInlineSettings = Callable[[], tuple[InlineSettings, ...]]
"""Gives the settings that are in no file, the lowest first."""


class Choices(Struct):
    """The choices of one conversation: a layer of its settings above all but the administrator's. None: not chosen."""

    options: dict[str, Any] = field(default_factory=dict)
    """Those of the table of options, by their names."""
    output_style: str | None = None
    folders: tuple[Path, ...] = ()
    compacts: bool | None = None
    compact_share: float | None = None
    folder: Path = field(default_factory=Path.cwd)

    def set(self, name: str, value: Any) -> None:
        """Choose `value`, None for what else says it."""
        if name in CHOSEN:
            self.options[name] = value
        else:
            setattr(self, name, value)

    def layers(self) -> tuple[InlineSettings, ...]:
        """The choices as a layer of settings; none where nothing is chosen."""
        said = {
            "outputStyle": self.output_style,
            "permissions.additionalDirectories": [str(folder) for folder in self.folders] or None,
            "autoCompactEnabled": self.compacts,
            "cellwright.autoCompactShare": self.compact_share,
        }
        chosen = nested({**{BY_NAME[name].setting: value for name, value in self.options.items()}, **said})
        layer = Layer(scope="options", label=LABEL, root=self.folder, folder=self.folder)
        return ((layer, chosen),) if chosen else ()

    def over(self, options: RunOptions) -> RunOptions:
        """The options that a command began with, less what was chosen since: that is newer."""
        return replace(options, **{BY_NAME[name].run_field: None for name, value in self.options.items() if value})


def leave_other_modes(session: Session, runs: RunQueue, mode: str) -> None:
    """Have the mode the user chose now go before what the session came to, and before what a run was begun in."""
    run = runs.current
    if run is None or run.task is None:
        session.mode = None
        return

    def run_ended(_future: object) -> None:
        if session.mode == mode:  # now the settings say so
            session.mode = None

    session.mode = mode
    run.task.future.add_done_callback(run_ended)


def with_choices(given: FindInlineSettings, choices: Choices) -> FindInlineSettings:
    """The settings that are in no file: those that were `given`, and above them what is chosen."""
    return lambda: (*given(), *choices.layers())
