"""Redaction of secrets in the outputs and variables that Claude reads, before they leave the machine.

Secrets of the process's environment are known by their values, all others by the formats in `secret_kinds`.
`docs/decisions/redaction.md` says which results pass through here, and why not all.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field
from msgspec.structs import replace

from cellwright.agent.calls.tool_results import output_folder
from cellwright.agent.tool import Category, Content, Tool
from cellwright.events import Emit, Notice
from cellwright.text import lazy_pattern, map_strings, strings_in

if TYPE_CHECKING:
    from cellwright.agent.calls.tool_calls import Outcome
    from cellwright.redaction.secret_kinds import SecretKind

SHORTEST_VALUE = 8
"""Of the environment: what is shorter is found everywhere by chance."""

INLINE_CHARS = 20_000
"""As much is searched on the loop; more, and what needs `detect-secrets`, on a thread."""

KINDS = "cellwright.redaction.secret_kinds"
"""The module that is imported with the first search, on a thread."""

SEARCHED: frozenset[Category] = frozenset({"kernel", "shell", "notebooks"})
"""Categories of tools whose results are searched."""

_CELL_OUTPUT = lazy_pattern(r"(?ms)^<output[ >].*?(?:^</output>|\Z)")
_REST_OF_TOKEN = lazy_pattern(r"(?<=[\w.])[\w+/=.-]*")

Span = tuple[int, int, str]


class RedactedText(Struct, frozen=True):
    """A text without its secrets, and how many of each kind there were."""

    text: str
    kinds: Counter[str] = field(default_factory=Counter)


class Redaction(Struct, frozen=True):
    """Finds secrets; `secret_values()` gives those of the environment, by the names of their variables, as it is now.

    `services`: also the formats that detect-secrets knows, whose import takes 0.3 s.
    """

    secret_values: Callable[[], Mapping[str, str]] = dict
    services: bool = True

    def clean(self, text: str) -> RedactedText:
        """`text` with each secret replaced by `[secret removed: KIND]`. Linear in its length."""
        kinds: Counter[str] = Counter()
        pieces: list[str] = []
        end = 0
        for start, stop, kind in sorted(self._spans(text), key=lambda span: (span[0], -span[1])):
            if start >= end:
                pieces += [text[end:start], f"[secret removed: {kind}]"]
                kinds[kind] += 1
            end = max(end, stop)
        return RedactedText("".join([*pieces, text[end:]]), kinds) if kinds else RedactedText(text)

    def clean_outputs(self, text: str) -> RedactedText:
        """The same for the outputs of a notebook's cells alone: sources must stay what they are to be edited."""
        kinds: Counter[str] = Counter()

        def replaced(match: re.Match[str]) -> str:
            cleaned = self.clean(match[0])
            kinds.update(cleaned.kinds)
            return cleaned.text

        return RedactedText(_CELL_OUTPUT.sub(replaced, text), kinds)

    def is_quick(self, text: str) -> bool:
        """Return whether searching `text` is too quick to be worth a thread."""
        return len(text) <= INLINE_CHARS and KINDS in sys.modules and not any(_needed_detectors(text))

    def _spans(self, text: str) -> Iterator[Span]:
        yield from self._environment_spans(text)
        from cellwright.redaction.secret_kinds import (  # its patterns take 20 ms to compile
            KEY_FORMATS,
            WRITTEN,
            detected,
        )

        lower = text.lower()
        needed = _needed_detectors(text) if self.services else ()
        for kind in (*KEY_FORMATS, *WRITTEN, *(kind for name in needed for kind in detected(name))):
            end = 0
            for match in kind.matches(text, lower):
                if match.start() >= end:  # else it is the rest of the one before
                    start, end = _removed_span(kind, match)
                    yield start, end, kind.name

    def _environment_spans(self, text: str) -> Iterator[Span]:
        for name, value in self.secret_values().items():
            if not is_distinctive(value):
                continue
            start = text.find(value)
            while start >= 0:
                yield start, start + len(value), f"value of ${name}"
                start = text.find(value, start + len(value))


def is_distinctive(value: str) -> bool:
    """Return whether an environment value can be redacted by itself: a word or a folder stands everywhere."""
    if len(value) < SHORTEST_VALUE or value.startswith(("/", "~", ".")):
        return False
    return not value.isalpha() and not (value.isdigit() and len(value) < 12) and len(set(value)) > 3


def _needed_detectors(text: str) -> Iterable[str]:
    from cellwright.redaction.secret_kinds import DETECTORS

    return (name for name, (_, hints, _) in DETECTORS.items() if any(hint in text for hint in hints))


def _removed_span(kind: SecretKind, match: re.Match[str]) -> tuple[int, int]:
    if "secret" in kind.pattern.groupindex:
        return match.span("secret")
    # some patterns end early: what follows and still looks like the token belongs to it
    rest = _REST_OF_TOKEN.match(match.string, match.end())
    return match.start(), rest.end() if rest else match.end()


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
        cleaned, kinds = await asyncio.to_thread(_clean_outcome, _cleaner(redaction, tool), redaction.clean, outcome)
        self._report(tool, tool_input, kinds)
        return cleaned

    def clean_at_once(self, tool: Tool, tool_input: Mapping[str, Any], outcome: Outcome) -> Outcome:
        """The same without a thread, however long it takes: for a run that is stopped, and can wait for nothing."""
        redaction = self.redaction
        if redaction is None or not _is_searched(tool, tool_input):
            return outcome
        cleaned, kinds = _clean_outcome(_cleaner(redaction, tool), redaction.clean, outcome)
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
    clean: Callable[[str], RedactedText], clean_whole: Callable[[str], RedactedText], outcome: Outcome
) -> tuple[Outcome, Counter[str]]:
    """`outcome` without secrets: what the model reads by `clean`, the structured result, which holds no source, whole."""
    kinds: Counter[str] = Counter()

    def cleaned(text: str) -> str:
        found = clean(text)
        kinds.update(found.kinds)
        return found.text

    def cleaned_whole(text: str) -> str:
        found = clean_whole(text)
        # the same secret in both is one that was kept from Claude
        kinds.update(kind for kind in found.kinds if kind not in kinds)
        return found.text

    def cleaned_block(block: dict[str, Any]) -> dict[str, Any]:
        return {**block, "text": cleaned(str(block["text"]))} if block.get("type") == "text" else block

    content = outcome.content
    content = cleaned(content) if isinstance(content, str) else [cleaned_block(block) for block in content]
    structured = map_strings(outcome.structured, cleaned_whole)
    if not kinds:
        return outcome, kinds
    error = outcome.error
    if error is not None:
        error = {**error, "message": clean(str(error["message"])).text}
    return replace(outcome, content=content, error=error, structured=structured), kinds
