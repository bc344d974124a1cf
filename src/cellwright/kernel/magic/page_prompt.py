"""A prompt whose instructions the page wrote, such as *Refresh*: people see its title, Claude receives both.

The page runs a cell with it; the cell's source keeps the user's words.
"""

from __future__ import annotations

from msgspec import Struct

from cellwright.agent.prompt import ContextItems, PromptContext, TitledPrompt

BEGIN = "<cellwright-instructions>"
END = "</cellwright-instructions>"
"""Nobody writes a tag of this name by chance: one of the user's own stays part of their words."""


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
