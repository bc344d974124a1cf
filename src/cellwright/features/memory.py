"""The instructions that are told: with the first prompt, when they change, and when Claude looks at a file they are for.

The session's own messages say what was told, as with everything that is told besides the words: each file stands in a
block of its own whose opening tag has a digest. So nothing is told twice, and what a fork, `/rewind` or a compaction
takes away is told again. History stays append-only: a file that has changed is told anew at the end.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import logging
import re
import weakref
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cellwright.agent.hooks.make_hooks import as_hooks
from cellwright.agent.hooks.run_hooks import session_fields
from cellwright.agent.prompt import ContextItem, ContextItems, ContextProvider, PromptContext, text_context
from cellwright.config.agents import AgentMemory
from cellwright.config.memory import Memory, MemoryFile, memory_for_files, memory_places, read_memory, rule_matches
from cellwright.config.settings.settings_in_force import SettingsInForce
from cellwright.config.user_files import KeptSearch
from cellwright.conversation.feature import Feature, RunInfo
from cellwright.errors import log_fault
from cellwright.events import CHARS_PER_TOKEN
from cellwright.sessions.project_writes import check_way
from cellwright.sessions.session import Session
from cellwright.text import lazy_pattern
from cellwright.tools.paths import shown_path

if TYPE_CHECKING:
    from cellwright.agent.agent_setup import AgentSetup


logger = logging.getLogger(__name__)

TAG = "instructions"

_FROM = {
    "managed": "the administrator",
    "user": "the user, for all projects",
    "project": "the project",
    "local": "the user, for this project",
    "auto": "your own notes from earlier sessions",
}
_OPENING = lazy_pattern(rf'<{TAG} file="(?P<file>[^"]*)" digest=(?P<digest>\w+)')


NOTES_TAG = "own-notes"
HOW_TO_KEEP_NOTES = """\
This folder is yours, for notes that later sessions on this project begin with. MEMORY.md is the index: a line for each \
thing worth knowing, its first 200 lines are sent at the start; details go into other files there, which the index names. \
Note with the file tools what would take long to find out again: how the user wants things done, decisions and their \
reasons, commands that work, pitfalls. Correct wrong notes. No secrets, nothing that the project's files already say."""

_MEMORY_TYPES = {"managed": "Managed", "user": "User", "project": "Project", "local": "Local"}
"""Claude Code's names for whose instructions they are."""

NOTES = "MEMORY.md"


async def _fire_loaded(
    file: MemoryFile, reason: str, session: Session, agent: AgentSetup, paths: Sequence[Path] = ()
) -> list[str]:
    """Tell InstructionsLoaded hooks that Claude is told `file`; gives what they say to the user. Nothing can be refused.

    `paths` are the files that Claude has just read or changed.
    """
    hooks = as_hooks(agent.hooks)
    if file.scope not in _MEMORY_TYPES or not hooks.listens_to("InstructionsLoaded"):
        return []

    fields: dict[str, Any] = {
        **session_fields("InstructionsLoaded", session, agent.policy.mode),
        "file_path": str(file.path),
        "memory_type": _MEMORY_TYPES[file.scope],
        "load_reason": reason,
    }
    if file.paths:
        fields["globs"] = list(file.paths)
    if file.imported_by is not None:
        fields["parent_file_path"] = str(file.imported_by)
    concerned = (rule_matches(file, path) if file.paths else path.is_relative_to(file.base) for path in paths)
    if trigger := next((path for path, counts in zip(paths, concerned, strict=True) if counts), None):
        fields["trigger_file_path"] = str(trigger)
    result = await hooks.fire("InstructionsLoaded", fields, None)
    return [*result.messages, *result.problems]


class MemoryContext(Feature):
    """The instructions that the prompts and the calls of one conversation are told."""

    in_replays = True
    instructs = True

    def __init__(self, in_force: SettingsInForce) -> None:
        self._in_force = in_force
        self._search = KeptSearch(read_memory, memory_places, keeps=lambda memory: not memory.may_import)
        self._memory = Memory()
        self._told: weakref.WeakKeyDictionary[Session, _Told] = weakref.WeakKeyDictionary()

    async def for_prompt(self, prompt_context: PromptContext) -> ContextItems:
        """Tell what the session does not know yet, or knows otherwise; a `ContextProvider`."""
        return await self._tell(await asyncio.to_thread(self._search.find, self._in_force.memory_place), prompt_context)

    def context(self, run: RunInfo, prompt: PromptContext) -> ContextProvider:
        return functools.partial(self._tell, self._search.find(self._in_force.memory_place))

    def after_summary(self, run: RunInfo | None) -> ContextProvider:
        return self.for_prompt

    async def _tell(self, memory: Memory, prompt_context: PromptContext) -> ContextItems:
        self._memory = memory
        session, agent = prompt_context.session, prompt_context.agent
        told = self._told_in(session)
        known = told.digests(session)
        parts: list[ContextItem] = []
        notices = [*memory.notices] if not session.encoded else []
        for file in memory.files:
            part, problems = await self._block(file, known, agent)
            notices += problems
            if part is not None:
                parts.append(part)
                reason = "session_start" if file.imported_by is None else "include"
                notices += await _fire_loaded(file, reason, session, agent)
        if (how := self._how_to_keep_notes(session, agent)) is not None:
            parts.append(how)
        for path, digest in known.items():
            if digest != "gone" and not Path(path).is_file():
                gone = "The file was deleted: its instructions no longer apply."
                text = f'<{TAG} file="{path}" digest=gone>\n{gone}\n</{TAG}>'
                parts.append(text_context(f"{path} (gone)", "memory", text))
        chars = sum(len(file.text) for file in memory.files)
        if not session.encoded and chars > 40_000:
            notices.append(
                f"Your instructions (CLAUDE.md and the like) take about {chars // CHARS_PER_TOKEN:,} tokens of every "
                "request. /memory shows the files."
            )
        return ContextItems(before=tuple(parts), notices=tuple(notices))

    async def after_calls(self, paths: Sequence[Path], session: Session, agent: AgentSetup) -> list[ContextItem]:
        try:
            return await self._for_files(paths, session, agent) if paths else []
        except Exception:  # noqa: BLE001
            # a help, made of files that users write: calls are answered without it all the same
            log_fault(logger, "instructions for files could not be sent")
            return []

    async def _for_files(self, paths: Sequence[Path], session: Session, agent: AgentSetup) -> list[ContextItem]:
        place = self._in_force.memory_place
        files = await asyncio.to_thread(memory_for_files, paths, place, self._memory)
        if not files:
            return []
        known = self._told_in(session).digests(session)
        blocks: list[ContextItem] = []
        for file in files:
            block, _ = await self._block(file, known, agent)
            if block is not None:
                blocks.append(block)
                reason = (
                    "path_glob_match" if file.paths else "nested_traversal" if file.imported_by is None else "include"
                )
                await _fire_loaded(file, reason, session, agent, paths)
        return blocks

    def _how_to_keep_notes(self, session: Session, agent: AgentSetup) -> ContextItem | None:
        """Tell Claude of the folder of its notes, once in a session; None where it keeps none or could not write."""
        folder = self._in_force.notes_folder
        if folder is None or not any(tool.access.edits_files for tool in agent.tools):
            return None
        opening = f"<{NOTES_TAG} folder="
        if any(opening.encode() in message for message in session.encoded):
            return None
        name = _name(folder)
        return text_context(
            "Notes of Claude's own", "memory", f'{opening}"{name}">\n{HOW_TO_KEEP_NOTES}\n</{NOTES_TAG}>'
        )

    async def _block(
        self, file: MemoryFile, known: dict[str, str], agent: AgentSetup
    ) -> tuple[ContextItem | None, list[str]]:
        """The block of one file, None where it is known; and what the user must know of it."""
        digest = hashlib.sha256(file.text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
        if known.get(_name(file.path)) == digest:
            return None, []
        read = next((tool for tool in agent.tools if tool.access.kind == "read"), None)
        access = {} if read is None else {read.access.field: str(file.path)}
        if read is not None and agent.policy.decide(read, access).behavior == "deny":
            return None, [f"{file.path}: not sent: a rule denies reading it."]
        text, notices = file.text, []
        if agent.redaction is not None:
            cleaned = await asyncio.to_thread(agent.redaction.clean, text)
            text = cleaned.text
            if cleaned.kinds:
                notices.append(f"Kept from Claude in {file.path}: {', '.join(cleaned.kinds)}.")
        changed = " changed=yes" if known.get(_name(file.path), "gone") != "gone" else ""
        opening = f'<{TAG} file="{_name(file.path)}" digest={digest} from="{_FROM[file.scope]}"{changed}>'
        title = shown_path(self._in_force.cwd, file.path)
        return text_context(title, "memory", f"{opening}\n{text}\n</{TAG}>"), notices

    def _told_in(self, session: Session) -> _Told:
        return self._told.setdefault(session, _Told())


class _Told:
    """The places in a session's messages where files were told, so that a long session is looked through once."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[int, bytes, str]] = {}
        self._looked = 0

    def digests(self, session: Session) -> dict[str, str]:
        """The digest under which each file was told last, by its name."""
        encoded = session.encoded
        if self._looked > len(encoded) or any(encoded[at] is not message for at, message, _ in self._found.values()):
            self._found, self._looked = {}, 0
        start = f"<{TAG} file=".encode()
        for at in range(self._looked, len(encoded)):
            if start in encoded[at]:
                for name, digest in _told(session.messages[at]):
                    self._found[name] = (at, encoded[at], digest)
        self._looked = len(encoded)
        return {name: digest for name, (_, _, digest) in self._found.items()}


def _told(message: object) -> Iterable[tuple[str, str]]:
    """The files that a message tells of, beside the user's words: what results of tools hold is no such thing."""
    content = message.get("content") if isinstance(message, dict) and message.get("role") == "user" else None
    for block in content if isinstance(content, list) else ():
        if block.get("type") == "text" and (found := _OPENING.match(block["text"])):
            yield found["file"], found["digest"]


def _name(path: Path) -> str:
    return str(path).replace('"', "'").replace("\n", " ")


def memory_folder(memory: AgentMemory, name: str, *, users: Path, project: Path) -> Path:
    """The folder of the notes of the agent `name`.

    >>> memory_folder("project", "reviewer", users=Path("/home/a/.claude"), project=Path("/p")).as_posix()
    '/p/.claude/agent-memory/reviewer'
    """
    folder = re.sub(r"[^\w-]+", "-", name).strip("-") or "agent"
    match memory:
        case "user":
            return users / "agent-memory" / folder
        case "project":
            return project / ".claude" / "agent-memory" / folder
        case "local":
            return project / ".claude" / "agent-memory-local" / folder


def read_notes(folder: Path, project: Path) -> str:
    """The beginning of the notes in `folder`; "" if absent, or behind a link that `project` brings."""
    try:
        check_way(project, folder / NOTES)
        if not (folder / NOTES).is_file():
            return ""
        with (folder / NOTES).open("rb") as opened:
            # the part of the notes that is told, as in Claude Code
            text = opened.read(25_000).decode("utf-8", "ignore")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[:200])


def notes_text(folder: Path, notes: str) -> str:
    """Word what an agent is told of its notes."""
    return (
        f'<notes folder="{folder}">\nYou keep notes in this folder from one task to the next. The beginning of {NOTES} is '
        "below; other files there you read when you need them. Before you end, put down what will help with later tasks, "
        f"in {NOTES} as briefly as you can.\n\n{notes or '(none yet)'}\n</notes>"
    )
