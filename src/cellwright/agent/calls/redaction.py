"""Redaction of secrets in the outputs and variables that Claude reads, before they leave the machine.

`docs/decisions/redaction.md` says which results pass through here, and why not all.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from cellwright.agent.calls.tool_results import output_folder
from cellwright.agent.tool import Category, Content, Tool
from cellwright.events import Emit, Notice
from cellwright.redaction.redaction import JsonRedaction, RedactedText, Redaction
from cellwright.text import strings_in

if TYPE_CHECKING:
    from cellwright.agent.calls.tool_results import Outcome

SEARCHED: frozenset[Category] = frozenset({"kernel", "shell", "notebooks"})
"""Categories of tools whose results are searched."""


class ResultRedaction(Struct):
    """Redaction of a run's results; tells the user once of each kind. Without a `redaction` results stay as they are."""

    redaction: Redaction | None
    emit: Emit
    _reported_kinds: set[str] = field(default_factory=set)

    async def clean(self, tool: Tool, tool_input: Mapping[str, Any], outcome: Outcome) -> Outcome:
        """`outcome` of a call of `tool` without the secrets in it. Images are not searched."""
        redaction = self.redaction
        if redaction is None or not _is_searched(tool, tool_input):
            return outcome
        texts = (*_texts(outcome.content), "\n".join(strings_in(outcome.structured)))
        if all(redaction.is_quick(text) for text in texts):
            return self.clean_at_once(tool, tool_input, outcome)
        cleaned, kinds = await asyncio.to_thread(_clean_outcome, _cleaner(redaction, tool), redaction, outcome)
        self._report(tool, tool_input, kinds)
        return cleaned

    def clean_at_once(self, tool: Tool, tool_input: Mapping[str, Any], outcome: Outcome) -> Outcome:
        """The same without a thread, however long it takes: for a run that is stopped, and can wait for nothing."""
        redaction = self.redaction
        if redaction is None or not _is_searched(tool, tool_input):
            return outcome
        cleaned, kinds = _clean_outcome(_cleaner(redaction, tool), redaction, outcome)
        self._report(tool, tool_input, kinds)
        return cleaned

    def _report(self, tool: Tool, tool_input: Mapping[str, Any], kinds: Counter[str]) -> None:
        new = [kind for kind in kinds if kind not in self._reported_kinds]
        if new:
            self._reported_kinds.update(new)
            path = tool_input.get(tool.access.field) if tool.access.reads_files else None
            of = f" of {path}" if path else ""
            words = f"Kept from Claude in what {tool.name} gave back{of}: {', '.join(new)}."
            self.emit(Notice(f"{words} The setting `cellwright.redactSecrets` says whether this is done.", "warning"))


def _is_searched(tool: Tool, tool_input: Mapping[str, Any]) -> bool:
    # tests give back what the project's code printed
    return tool.category in SEARCHED or tool.access.kind == "tests" or _is_long_result(tool_input)


def _cleaner(redaction: Redaction, tool: Tool) -> Callable[[str], RedactedText]:
    # what reads or edits a notebook gives back the sources of cells: there the outputs alone are searched
    of_cells = tool.category == "notebooks" and tool.access.kind in ("read", "edit")
    return redaction.clean_outputs if of_cells else redaction.clean


def _is_long_result(tool_input: Mapping[str, Any]) -> bool:
    """Return whether a call looks into a file that keeps the whole of an earlier result."""
    paths = (tool_input.get(name) for name in ("file_path", "path"))
    return any(isinstance(path, str) and path.startswith(str(output_folder())) for path in paths)


def _texts(content: Content) -> list[str]:
    if isinstance(content, str):
        return [content]
    return [str(block["text"]) for block in content if block.get("type") == "text"]


def _clean_outcome(
    clean: Callable[[str], RedactedText], redaction: Redaction, outcome: Outcome
) -> tuple[Outcome, Counter[str]]:
    """`outcome` without secrets: content by `clean`; the structured result, which holds no source, by `redaction`."""
    kinds: Counter[str] = Counter()

    def cleaned(text: str) -> str:
        found = clean(text)
        kinds.update(found.kinds)
        return found.text

    def cleaned_block(block: dict[str, Any]) -> dict[str, Any]:
        return {**block, "text": cleaned(str(block["text"]))} if block.get("type") == "text" else block

    content = outcome.content
    content = cleaned(content) if isinstance(content, str) else [cleaned_block(block) for block in content]
    whole = JsonRedaction(redaction)
    structured = whole.clean(outcome.structured)
    # the same secret in both is one that was kept from Claude
    kinds.update(kind for kind in whole.found if kind not in kinds)
    if not kinds:
        return outcome, kinds
    error = outcome.error
    if error is not None:
        error = {**error, "message": clean(str(error["message"])).text}
    return replace(outcome, content=content, error=error, structured=structured), kinds
