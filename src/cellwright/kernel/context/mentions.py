"""Mentions of the notebook and kernel in a prompt: `@cell:ID`, `@cell:3`, `@cell:[3]`, and variables as `$name`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cellwright.agent.calls.written_tools import name_with
from cellwright.agent.prompt import ContextItems, ContextProvider, PromptContext
from cellwright.conversation.feature import without_secrets
from cellwright.conversation.mentions import (
    AttachedMention,
    Mention,
    attachment,
    find_mentions,
    read_for,
    together,
)
from cellwright.errors import ToolError
from cellwright.kernel.namespace.cell_log import is_hidden
from cellwright.text import lazy_pattern
from cellwright.tools.notebook.open_notebook import Cell, OpenNotebook, OpenNotebooks, cell_name

_NUMBER = lazy_pattern(r"(?:In)?\[(\d{1,6})\]|(\d{1,6})")

Describe = Callable[[Mapping[str, Any], Sequence[str]], str]
"""Describes variables of a namespace, bounded in time and size; called on the thread that runs the cells."""


def mentioned_cells(notebooks: OpenNotebooks, instructions: str | None = None) -> ContextProvider:
    """Attach the cells of this kernel's notebook that a prompt's words, or its `instructions`, mention."""

    async def provide(prompt_context: PromptContext) -> ContextItems:
        words = prompt_context.words if instructions is None else instructions
        mentions = [mention for mention in find_mentions(words) if mention.kind == "cell"]
        if not mentions:
            return ContextItems()
        own = notebooks.own()
        if own is None:
            why = "the notebook's file is unknown here, so it was sent as text."
            return ContextItems(notices=tuple(f"{mention.text}: {why}" for mention in mentions))
        try:
            cells = await own.cells(outputs=False)
        except ToolError as error:
            return ContextItems(notices=tuple(f"{mention.text}: not attached. {error.message}" for mention in mentions))
        return together([await attached_cell(mention, own, cells, prompt_context) for mention in mentions])

    return provide


async def attached_cell(
    mention: Mention, own: OpenNotebook, cells: Sequence[Cell], prompt_context: PromptContext
) -> AttachedMention:
    """The cell of `own` that is mentioned, read as Claude would read it; `cells` are those of `own`."""
    cell = find_cell(mention.name, cells)
    if cell is None:
        return AttachedMention(notice=f"{mention.text}: no such cell in {own.path.name}. It was sent as text.")
    tool_input = {"notebook_path": str(own.path), "cell_ids": [cell.id], "outputs": "full"}
    content = await read_for(mention, name_with("read", "notebook_path"), tool_input, prompt_context)
    if isinstance(content, AttachedMention):
        return content
    if (redaction := prompt_context.agent.redaction) is not None:
        content = _each_text(content, lambda text: redaction.clean_outputs(text).text)
    title = f"{cell_name(cell.position, cell.execution_count, '')}, id {cell.id}"
    return AttachedMention(attachment(mention, title, "cell", content))


def find_cell(name: str, cells: Sequence[Cell]) -> Cell | None:
    """The cell with this id, else with this number beside it; `3` without brackets may be the third cell, too."""
    if (found := next((cell for cell in cells if cell.id == name), None)) is not None:
        return found
    if (number := _NUMBER.fullmatch(name)) is None:
        return None
    wanted = int(number[1] or number[2])
    if (numbered := next((cell for cell in cells if cell.execution_count == wanted), None)) is not None:
        return numbered
    return cells[wanted - 1] if number[2] and 0 < wanted <= len(cells) else None


def mentioned_variables(words: str, namespace: Mapping[str, Any], describe: Describe) -> ContextProvider | None:
    """Tells the variables of `namespace` that `words` mention, as they are now; None where they mention none.

    A `$name` that is no variable is text: prompts hold `$PATH`, too.
    """
    named = [mention for mention in find_mentions(words) if mention.kind == "variable"]
    mentions = [mention for mention in named if mention.name in namespace and not is_hidden(mention.name)]
    if not mentions:
        return None
    described = [(mention, describe(namespace, [mention.name])) for mention in mentions]

    async def provide(prompt_context: PromptContext) -> ContextItems:
        attached = []
        for mention, text in described:
            cleaned, notices = await without_secrets(text, prompt_context, mention.text)
            part = attachment(mention, mention.text, "variable", cleaned)
            attached.append(AttachedMention(part, " ".join(notices)))
        return together(attached)

    return provide


def _each_text(content: Any, change: Callable[[str], str]) -> Any:
    if isinstance(content, str):
        return change(content)
    return [{**block, "text": change(block["text"])} if block["type"] == "text" else block for block in content]
