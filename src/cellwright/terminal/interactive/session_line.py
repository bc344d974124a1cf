"""The prompt line of a terminal's conversation: what it suggests, what stands below it, and lists to choose from."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from cellwright.agent.context.context_usage import context_tokens
from cellwright.commands.command import CommandPage, Row, is_number
from cellwright.commands.completion import ProjectFiles, agent_items, commands, found_files, means_agents
from cellwright.commands.model_and_mode import IN_FORCE
from cellwright.config.settings.option_table import CHOSEN
from cellwright.conversation.resolve_options import mode_of, model_of
from cellwright.errors import CellwrightError
from cellwright.model.models import limits, model_name
from cellwright.permissions.modes import MODE_LABELS
from cellwright.sessions.state_dir import sessions_folder
from cellwright.terminal.interactive.picker import PickerRow, pick
from cellwright.terminal.interactive.prompt_line import DIM, PromptLine, Suggestion
from cellwright.terminal.views.look import Look
from cellwright.terminal.views.page_view import draw_prompt
from cellwright.terminal.views.themes import theme_named
from cellwright.text import dollars, visible_line

if TYPE_CHECKING:
    from cellwright.conversation.runs.run_options import RunOptions
    from cellwright.features.conversation import Conversation
    from cellwright.terminal.interactive.keys import KeysAtWork

CYCLED_MODES = ("default", "acceptEdits", "plan")
"""As in Claude Code; what asks for nothing is chosen by its name."""

PICKED = (*(f"/{name}" for name in CHOSEN), "/output-style", "/resume")
"""Commands that show what there is where nothing follows them: here one is chosen from a list."""


class SessionLine:
    """Reads the prompts of `conversation`. `page_of` does a command; `options` are those of the next run.

    `look` is the session's. `keep_history` False leaves no trace on disk; `toggle_details` is Ctrl-O's, and says what holds
    then.
    """

    def __init__(
        self,
        conversation: Conversation,
        *,
        options: Callable[[], RunOptions],
        page_of: Callable[[str], CommandPage],
        keys: KeysAtWork,
        toggle_details: Callable[[], bool],
        details: Callable[[], bool],
        keep_history: bool,
        look: Look,
    ) -> None:
        self._conversation = conversation
        self._options = options
        self._page_of = page_of
        self._keys = keys
        self._look = look
        self._details = details
        theme = theme_named(look.theme)
        dim = theme.styles["dim"]
        self._dim = dim if dim.startswith("#") else DIM
        self._files = ProjectFiles(conversation.cwd, lambda: conversation.in_force.settings.respect_gitignore)
        self._line = PromptLine(
            suggest=self._suggest,
            status=self._status,
            cycle_mode=self._cycle_mode,
            toggle_details=toggle_details,
            history=sessions_folder(conversation.cwd) / "prompt-history" if keep_history else None,
            monochrome=look.theme in ("none", "high-contrast"),
            dim=self._dim,
            accent=theme.accent,
        )

    def read(self) -> str:
        """The next prompt, or the command with what was chosen for it. Raises EOFError and KeyboardInterrupt."""
        if not self._look.compact:
            print()
        draft, self._keys.draft = self._keys.draft, ""
        typed = self._line.read(draft)
        prompt = self._picked(typed.strip()) if typed.strip() in PICKED else typed
        if prompt.strip():
            draw_prompt(prompt.strip("\n"), sys.stdout, self._look)
        return prompt

    def _picked(self, command: str) -> str:
        try:
            section = self._page_of(command).sections[0]
        except CellwrightError:
            return command  # it says by itself what is wrong
        if len(section.rows) < 2:
            return command
        head, rows = _picker_rows(section.rows)
        now = next((row[0] for row in section.rows[1:] if IN_FORCE in row[1:]), "")
        taken = pick(section.title, rows, head=head, selected=now, dim=self._dim)
        return "" if taken is None else f"{command} {taken}"

    def _suggest(self, word: str) -> list[Suggestion]:
        conversation = self._conversation
        if word.startswith("/"):
            found = commands(word[1:], conversation.features.skills.all(), conversation.features.mcp.prompts())
        else:
            text = word[1:]
            agents = agent_items(conversation.features.agents, text)
            task = conversation.thread.submit(found_files(self._files, text))
            files = task.future.result(5.0)
            found = [*agents, *files] if means_agents(text) else [*files, *agents]
        return [Suggestion(item["insert"], item["label"], item["about"]) for item in found]

    def _mode(self) -> str:
        in_force = self._conversation.in_force
        return self._conversation.sessions.current.mode or mode_of(
            self._options(), in_force.settings, in_force.environment
        )

    def _cycle_mode(self) -> None:
        now = self._mode()
        after = CYCLED_MODES[(CYCLED_MODES.index(now) + 1) % len(CYCLED_MODES)] if now in CYCLED_MODES else "default"
        self._page_of(f"/mode {after}")

    def _status(self) -> tuple[str, list[str]]:
        session, in_force = self._conversation.sessions.current, self._conversation.in_force
        try:
            mode = self._mode()
            model = model_of(self._options(), in_force.settings, in_force.environment)
        except CellwrightError as error:
            return "", [error.message]
        parts = [model_name(model)]
        size = limits(model)
        if session.encoded and size.known:
            parts.append(f"{context_tokens(session) / size.context_window:.0%} context")
        if session.cost_usd:
            parts.append(dollars(session.cost_usd))
        parts.append(f"Ctrl-O {'hides ' if self._details() else ''}details")
        return MODE_LABELS[mode][0], parts


def _picker_rows(table: Sequence[Row]) -> tuple[PickerRow, list[PickerRow]]:
    """The head and the rows to choose from, in columns; each is taken by its id if it has one."""
    shown = [tuple(visible_line(cell, LABEL_CHARS) for cell in row) for row in table]
    columns = [column for column in zip(*shown, strict=True) if any(column[1:])]
    widths = [max(map(len, column)) for column in columns]
    signs = [">" if is_number(column[1:]) else "<" for column in columns]
    by = table[0].index("id") if "id" in table[0] else 0
    rows = []
    for row, (label, *cells) in zip(table, zip(*columns, strict=True), strict=True):
        padded = [f"{cell:{sign}{width}}" for cell, sign, width in zip(cells, signs[1:], widths[1:], strict=True)]
        rows.append(PickerRow(row[by], label, "  ".join(padded).rstrip()))
    return rows[0], rows[1:]


LABEL_CHARS = 60
