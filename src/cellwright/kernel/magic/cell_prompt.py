"""The prompt of a `%%claude` cell as it is read: its options, and instructions that the page wrote.

A page that runs a cell with a prompt of its own, such as *Refresh*, writes instructions below the title: people see the
title, Claude receives both, and the cell's source keeps the user's words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

from cellwright.agent.prompt import ContextItems, PromptContext, TitledPrompt
from cellwright.config.settings.option_table import How, OutputFormat

BEGIN = "<cellwright-instructions>"
END = "</cellwright-instructions>"
"""Nobody writes a tag of this name by chance: one of the user's own stays part of their words."""


class MagicOptions(Struct, frozen=True, kw_only=True):
    """The options of one `%%claude`. None: as `%config Claude` or the settings say.

    `run` has those that any prompt may have, by their names in the table of options; files are named, and not read yet.
    """

    run: Mapping[str, Any] = field(default_factory=dict)
    new: bool = False
    resume: str | None = None
    quiet: bool = False
    format: OutputFormat = "text"
    out: str | None = None
    schema: str | None = None
    dry_run: bool = False
    record: str | None = None
    replay: str | None = None
    recording: str | None = None
    context: How = "auto"
    background: bool = False
    notebook: str | None = None


class PagePrompt(Struct, frozen=True):
    """The prompt of a run; `action` is None: it is about no single cell."""

    prompt: TitledPrompt
    action: None = None

    def provide_context(self, _prompt_context: PromptContext) -> ContextItems:
        """Send the instructions with the title."""
        return ContextItems(after=(self.prompt.context,))


def page_prompt(prompt: str) -> PagePrompt | None:
    """Read the instructions at the end of `prompt`, below its title; None if it is the user's words alone.

    >>> page_prompt("Refresh 1 number\\n<cellwright-instructions>\\nRead again.\\n</cellwright-instructions>").prompt
    TitledPrompt(title='Refresh 1 number', instructions='Read again.')
    >>> page_prompt("What does <instructions>\\n</instructions> mean?")
    """
    title, begin, rest = prompt.strip().partition(BEGIN)
    if not (begin and title.strip() and rest.endswith(END)):
        return None
    return PagePrompt(TitledPrompt(title.strip(), rest.removesuffix(END).strip()))
