"""The results of calls: bounded for the model, without secrets, data for programs, and in the shapes that hooks get.

Of a result that is longer than the model should get it reads the start and the end; the whole is in a file that Read
can page. A call that is cut off has no other result than what it has shown (`RunningCall`).

A tool makes data for programs as a `ToolOutput` of its own (`ToolResult.structured`). It becomes JSON once, here, and is
bounded: a program that wants the whole of a file or an output opens it. Hooks get it in Claude Code's shapes.

Secrets in the outputs and variables that Claude reads are redacted before they leave the machine.
`docs/decisions/redaction.md` says which results pass through here, and why not all.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from cellwright.agent.tool import Category, Content, Tool, ToolLimits
from cellwright.errors import ErrorCode, ToolError
from cellwright.events import Emit, Notice, ToolProgress, ToolStatus
from cellwright.redaction.redaction import JsonRedaction, RedactedText, Redaction
from cellwright.sessions.state_dir import PRIVATE_FOLDER
from cellwright.text import plain, replace_surrogates_in, strings_in
from cellwright.this_process.files import new_file, process_folder

EDITORS = ("The user", "A hook")
"""Those who may edit a call's input, in words."""


MAX_BYTES = 100_000
"""Of a structured result as JSON."""


CUT_MARK = "truncated"
"""The field that says of a structured result that something of it was left out to keep it within its bounds."""

SEARCHED: frozenset[Category] = frozenset({"kernel", "shell", "notebooks"})
"""Categories of tools whose results are searched."""


class Outcome(Struct, frozen=True):
    """The outcome of a call: what the model reads and what the views show."""

    content: Content
    status: ToolStatus
    error: Mapping[str, Any] | None = None
    display: Mapping[str, Any] | None = None
    duration_ms: float = 0.0
    structured: Any = None
    refused: tuple[str, ...] = ()
    """The needs of a call that was tried in bounds, which these refused."""


def output_folder() -> Path:
    """Return the folder of this process's long outputs: made with the first, gone when the process ends."""
    return process_folder(made=False) / "output"


def create_output_folder() -> Path:
    """The folder, which is there now, for this user alone. Raises OSError."""
    process_folder()
    folder = output_folder()
    folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
    return folder


def edit_note(who: str, tool_input: Mapping[str, Any]) -> str:
    """The note before the result of a call that ran with another input than Claude asked for."""
    return f"[{who} edited this call before it ran. Its input was:\n{input_lines(tool_input)}]"


def input_lines(tool_input: Mapping[str, Any]) -> str:
    """A call's input for people, one field a line."""
    return "\n".join(f"{key}: {value}" for key, value in tool_input.items())


def without_edit_note(content: Content, tool_input: Mapping[str, Any]) -> Content:
    """`content` of a call that ran with `tool_input`, without the note that somebody had edited that."""
    for note in (edit_note(who, tool_input) for who in EDITORS):
        if isinstance(content, str):
            content = content.removeprefix(f"{note}\n")
        elif content and content[0].get("text") == note:
            content = content[1:]
    return content


def bounded(content: Content, limit: int) -> Content:
    """`content` for the model: never empty (the API refuses it), its text never much over `limit` characters in all.

    What was left out is said, with the file that holds the whole.
    """
    if isinstance(content, str):
        return _bounded_text(content, limit)
    blocks, left = [], limit
    for block in content:
        if block.get("type") != "text":
            blocks.append(block)
            continue
        text = _bounded_text(str(block["text"]), max(left, limit // 20))
        left -= len(text)
        blocks.append({**block, "text": text})
    return blocks or "(no output)"


def _bounded_text(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text if text.strip() else "(no output)"
    cut = len(text) - limit
    note = f"[… {cut:,} of {len(text):,} characters left out; {_kept_note(text)} …]"
    return f"{text[: limit // 2]}\n{note}\n{text[-(limit - limit // 2) :]}"


def _kept_note(text: str) -> str:
    """Say in words where the whole of `text` is kept."""
    data = text.encode("utf-8", "replace")
    # more of a result than this is not kept
    if len(data) > 200_000_000:
        return "it is too long to be kept: narrow the call down"
    try:
        descriptor, name = new_file("result", ".txt", create_output_folder())
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
    except OSError as error:
        return f"the whole could not be kept ({error.strerror}): narrow the call down"
    return f"the whole is in {name}, which Read can page"


MAX_CHARS = ToolLimits().result_chars


def response_of(
    tool: Tool, tool_input: Mapping[str, Any], content: Content, display: Mapping[str, Any] | None
) -> dict[str, Any]:
    """`tool_response` of a PostToolUse event: what the views were shown, and the fields that hooks look for."""
    text = "\n".join(_texts(content))
    shown = dict(display or {})
    if tool.access.kind == "shell":
        return {"stdout": text, "stderr": "", **shown, "interrupted": False, "isImage": False}
    path = str(tool_input.get(tool.access.field) or "")
    if tool.access.kind == "edit":
        return {**shown, "filePath": path, "success": True, "content": text}
    if tool.name == "Read" and isinstance(content, str):
        return {**shown, "type": "text", "file": {"filePath": path, "content": text}}
    return {**shown, "content": content}


def updated_content(updated: Any) -> Content | None:
    """The content that a hook's `updatedToolOutput` says, in any of the shapes above; None where it says none."""
    if isinstance(updated, Mapping):
        file = updated.get("file")
        of_file = file.get("content") if isinstance(file, Mapping) else None
        streams = [part for part in (updated.get("stdout"), updated.get("stderr")) if isinstance(part, str) and part]
        updated = "\n".join(streams) or updated.get("content") or of_file
    if isinstance(updated, str):
        return bounded(updated, MAX_CHARS)
    if (
        isinstance(updated, list)
        and updated
        and all(
            isinstance(block, Mapping) and block.get("type") == "text" and isinstance(block.get("text"), str)
            for block in updated
        )
    ):
        return bounded([{"type": "text", "text": block["text"]} for block in updated], MAX_CHARS)
    return None


class RunningCall(Struct):
    """A call of `tool` that has begun."""

    tool: Tool
    input: Mapping[str, Any]
    started: float = field(default_factory=time.perf_counter)
    _shown: str = ""

    def take(self, progress: ToolProgress) -> None:
        """Keep the text of `progress`; of more than the model gets of a result only the end."""
        if progress.place == {"clear": True}:
            self._shown = ""
        self._shown += progress.text
        most = self.tool.limits.result_chars
        if len(self._shown) > 2 * most:
            self._shown = f"[…]\n{self._shown[-most:]}"

    def again(self, tool_use_id: str) -> ToolProgress:
        """Say below what it has shown that it runs once more."""
        return ToolProgress(tool_use_id, "\n[It runs again, with your OK.]\n" if self._shown.strip() else "")

    @property
    def shown(self) -> str:
        """The text it has shown, as it stands on a screen."""
        return plain(self._shown).strip()

    @property
    def duration_ms(self) -> float:
        """The time it has run."""
        return (time.perf_counter() - self.started) * 1000


class ToolOutput(msgspec.Struct, kw_only=True):
    """The structured result of a tool; subclass it, and name the subclass in `@tool(output=…)`.

    Fields have Claude Code's names where it has one for the same thing. Times are seconds since the epoch, sizes bytes;
    None stands for what is not known.

    >>> class Rows(ToolOutput):
    ...     rows: int
    >>> Rows(rows=2).rows
    2
    """


def json_of(structured: Any, tool_name: str) -> Any:
    """The structured result as bounded JSON, None where there is none. Raises ToolError for what JSON cannot hold.

    >>> json_of({"rows": (1, 2), "share": float("nan")}, "stats")
    {'rows': [1, 2], 'share': None}
    """
    if structured is None:
        return None
    try:
        encoded = msgspec.json.encode(replace_surrogates_in(msgspec.to_builtins(structured, str_keys=True)))
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise ToolError(
            f"{tool_name} ran, but its structured result cannot be written as JSON: {error}.",
            code=ErrorCode.EXECUTION_ERROR,
        ) from error
    value = msgspec.json.decode(encoded)
    return value if len(encoded) <= MAX_BYTES else _shortened(value)


def _shortened(value: Any) -> Any:
    """`value` with as many items of each list, and as much of each text, as keep it within bounds; an object says so."""
    marked = {**value, CUT_MARK: True} if isinstance(value, dict) else value
    for items in (1_000, 300, 100, 30, 10, 3, 1):
        shorter = _cut(marked, items)
        if len(msgspec.json.encode(shorter)) <= MAX_BYTES:
            return shorter
    return {CUT_MARK: True}


def _cut(value: Any, items: int) -> Any:
    if isinstance(value, str):
        # of a structured result that is too large a list keeps N items, and a text N times as many characters
        return value[: items * 100]
    if isinstance(value, dict):
        return {key: _cut(item, items) for key, item in value.items()}
    return [_cut(item, items) for item in value[:items]] if isinstance(value, list) else value


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
    if tool.category in SEARCHED or tool.access.kind == "tests":
        return True
    # a call may look into a file that keeps the whole of an earlier result
    paths = (tool_input.get(name) for name in ("file_path", "path"))
    return any(isinstance(path, str) and path.startswith(str(output_folder())) for path in paths)


def _cleaner(redaction: Redaction, tool: Tool) -> Callable[[str], RedactedText]:
    # what reads or edits a notebook gives back the sources of cells: there the outputs alone are searched
    of_cells = tool.category == "notebooks" and tool.access.kind in ("read", "edit")
    return redaction.clean_outputs if of_cells else redaction.clean


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
