"""Runs without tools that may propose files: Claude is told how, and with the next prompt what became of them."""

from __future__ import annotations

from collections.abc import Sequence

from cellwright.agent.calls.file_blocks import FileProposals
from cellwright.agent.prompt import PromptContext, ProvidedContext, text_context
from cellwright.agent.tool import Tool
from cellwright.text import lazy_pattern, visible_line

WRITE = "Write"
_TAG = "file-blocks"
HOW_TO_PROPOSE = f"""\
<{_TAG}>
You have no tools here. To propose a file, give its whole content in a fenced block whose first line names language and \
path, as in ```python:src/app.py; the user sees each as a diff and decides. Other code goes into blocks without a path. \
Propose to replace only files that you were shown whole.
</{_TAG}>"""
HOW_NO_LONGER = f"""\
<{_TAG}-no-longer>
You have tools now: files are changed with them, and a block that names a path writes nothing.
</{_TAG}-no-longer>"""
_OPENING = lazy_pattern(rf"<{_TAG}(?P<no_longer>-no-longer)?>".encode())


class FileBlocks:
    """The proposals of one conversation."""

    def __init__(self) -> None:
        self._untold: list[tuple[str, str]] = []

    def proposals(self, tools: Sequence[Tool]) -> FileProposals | None:
        """The way of blocks to the disk through the tool Write among `tools`; None where there is none."""
        write = next((tool for tool in tools if tool.name == WRITE), None)
        return None if write is None else FileProposals(write, self._report)

    def _report(self, outcomes: Sequence[tuple[str, str]]) -> None:
        self._untold += outcomes

    async def for_prompt(self, prompt_context: PromptContext) -> ProvidedContext:
        """Tell how files are proposed, or that they no longer are, where that is new, and what became of those proposed.

        A `ContextProvider`.
        """
        outcomes, self._untold = self._untold, []
        parts = []
        agent = prompt_context.agent
        openings = (_OPENING.search(message) for message in reversed(prompt_context.session.encoded))
        told = next((found for found in openings if found is not None), None)
        knows_how = told is not None and told["no_longer"] is None
        if agent.file_proposals is not None and not knows_how:
            parts.append(text_context("How to propose files", "context", HOW_TO_PROPOSE))
        elif agent.file_proposals is None and knows_how and agent.tools:
            parts.append(text_context("Tools instead of proposed files", "context", HOW_NO_LONGER))
        if outcomes:
            lines = "\n".join(f"- {visible_line(path)}: {visible_line(what)}" for path, what in outcomes)
            text = f"<proposed-files>\nWhat became of the files that you proposed:\n{lines}\n</proposed-files>"
            parts.append(text_context("Proposed files", "context", text))
        return ProvidedContext(before=tuple(parts))
