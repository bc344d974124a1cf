"""Told again behind a summary, because the work goes on with it: all as it stands now, and bounded.

Where it works, the instructions, the skills in use, the plan, the open todos, the files that were worked on last, and the
notebook's news. All of it is found in the session's own messages and read anew, by the rules for Claude's own calls.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cellwright.agent.agent_setup import AgentSetup
from cellwright.agent.calls.tool_names import access_of, name_with
from cellwright.agent.prompt import ContextItem, ContextProvider, PromptContext, text_context
from cellwright.agent.tool import Tool
from cellwright.conversation.feature import Surroundings, provided
from cellwright.conversation.mentions import AttachedMention, Mention, attachment, read_for
from cellwright.errors import log_fault
from cellwright.events import CHARS_PER_TOKEN
from cellwright.sessions.session import Session
from cellwright.text import lazy_pattern
from cellwright.tools.paths import shown_path
from cellwright.tools.planning.todos import MARKS, writes_whole_list

logger = logging.getLogger(__name__)

Json = Mapping[str, Any]

MAX_SHARE = 0.15
"""Files, and skills, take at most this part each of what a conversation may take."""

AfterSummary = Callable[[Session, AgentSetup], Awaitable[Sequence[ContextItem]]]
"""Finds what is sent again behind a summary; raises nothing."""

_SKILL = lazy_pattern(r'<skill name="(?P<name>[^"]+)"')


def after_summary(
    cwd: Path, surroundings: Surroundings, tools: Sequence[Tool], providers: Sequence[ContextProvider]
) -> AfterSummary:
    """Find what must not be lost; `providers` find what the session no longer knows of (instructions, the notebook)."""

    async def find(session: Session, agent: AgentSetup) -> Sequence[ContextItem]:
        context = PromptContext(words="", agent=agent, session=session, tools={tool.name: tool for tool in tools})
        limit = agent.compaction.limit(agent.model) * CHARS_PER_TOKEN
        said = session.said()
        parts = list(surroundings(session, agent))
        for provider in providers:
            found = await provided(provider, context)
            parts += [*found.before, *found.after]
        try:
            parts += _skills(said, min(100_000, round(limit * MAX_SHARE)))
            parts += _plan(said)
            parts += _todos(said)
            parts += await _files(said, cwd, context, round(limit * MAX_SHARE))
        except Exception:  # noqa: BLE001
            # a help: without it Claude reads the file again, and the summary tells of the rest
            log_fault(logger, "context could not be sent again after a summary")
        return parts

    return find


def _skills(said: Sequence[Json], room: int) -> Iterator[ContextItem]:
    """The last text of each skill that was called, the newest first as long as there is room."""
    texts: dict[str, str] = {}
    by_tool = {block["id"] for message in said for block in _blocks(message, "tool_use") if block["name"] == "Skill"}
    for message in said:
        if message["role"] != "user":
            continue
        found = [str(block["text"]) for block in _blocks(message, "text")]
        results = [block for block in _blocks(message, "tool_result") if block["tool_use_id"] in by_tool]
        found += [str(block["content"]) for block in results if isinstance(block.get("content"), str)]
        for text in found:
            # what is quoted somewhere else is no call of a skill
            if match := _SKILL.match(text):
                texts.pop(match["name"], None)
                texts[match["name"]] = text
    for name, text in reversed(texts.items()):
        text = _cut(text, min(20_000, room), "</skill>")
        if not text:
            return
        room -= len(text)
        yield text_context(f"/{name}", "skill", text)


def _plan(said: Sequence[Json]) -> Iterator[ContextItem]:
    """The plan that the user approved last."""
    failed = {
        block["tool_use_id"] for message in said for block in _blocks(message, "tool_result") if block.get("is_error")
    }
    for message in reversed(said):
        for block in _blocks(message, "tool_use"):
            plan = str(block["input"].get("plan") or "") if access_of(block["name"]).kind == "plan" else ""
            if plan.strip() and block["id"] not in failed:
                text = _cut(f"<plan>\nThe user approved this plan:\n{plan}\n</plan>", 20_000, "</plan>")
                yield text_context("The plan", "context", text)
                return


def _todos(said: Sequence[Json]) -> Iterator[ContextItem]:
    """The list of what is to be done, where something of it is open."""
    from cellwright.tools.planning.tasks import tasks_in  # few sessions have such a list

    todos: Sequence[Json] = tasks_in(said).todos()
    calls = (block for message in reversed(said) for block in _blocks(message, "tool_use"))
    if not todos and (last := next(filter(writes_whole_list, calls), None)) is not None:
        given = last["input"].get("todos")
        todos = [todo for todo in given if isinstance(todo, dict)] if isinstance(given, list) else []
    if all(todo.get("status") == "completed" for todo in todos):
        return
    lines = [f"{MARKS.get(str(todo.get('status')), '[ ]')} {todo.get('content', '')}" for todo in todos]
    text = "\n".join(["<todos>", "Your current to-do list:", *lines, "</todos>"])
    yield text_context("Todos", "context", text)


async def _files(said: Sequence[Json], cwd: Path, context: PromptContext, room: int) -> list[ContextItem]:
    """The files that were read or changed last, as they are now; those that are too long by name."""
    parts: list[ContextItem] = []
    named: list[str] = []
    for path in _last_files(said, cwd):
        display_path = shown_path(cwd, path)
        mention = Mention("file", display_path, display_path)
        field = "notebook_path" if path.suffix == ".ipynb" else "file_path"
        tool = name_with("read", field)
        content = await read_for(mention, tool, {field: str(path)}, context) if path.is_file() else AttachedMention()
        if isinstance(content, AttachedMention):
            continue
        part = attachment(mention, display_path, "file", content)
        chars = part.as_attached().chars
        if chars > min(20_000, room) or any(block["type"] != "text" for block in part.blocks):
            named.append(display_path)
            continue
        room -= chars
        parts.append(part)
    if named:
        text = f"<recent-files>\nWorked on last, and too long to send again: {', '.join(named)}\n</recent-files>"
        parts.append(text_context("Files worked on", "file", text))
    return parts


def _last_files(said: Sequence[Json], cwd: Path) -> list[Path]:
    """The files of the last calls, the newest first."""
    found: dict[Path, None] = {}
    for message in reversed(said):
        for block in reversed([*_blocks(message, "tool_use")]):
            access = access_of(block["name"])
            given = block["input"].get(access.field) if access.kind in ("read", "edit") else None
            if isinstance(given, str) and given and "\0" not in given:
                found[cwd / given] = None
            if len(found) == 5:
                return list(found)
    return list(found)


def _cut(text: str, limit: int, ending: str) -> str:
    if len(text) <= limit:
        return text
    return f"{text[: limit - 200]}\n[… the rest is left out]\n{ending}" if limit > 1_000 else ""


def _blocks(message: Json, kind: str) -> Iterator[Json]:
    content = message["content"]
    for block in content if not isinstance(content, str) else ():
        if block["type"] == kind:
            yield block
