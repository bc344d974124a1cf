"""Completions of slash commands and mentions: commands, skills, files and agents that fit what was typed.

A few typed letters mean the names that hold them in order, the likeliest first. The panel's `fuzzy_match.ts` orders
in the same way, so that a list does not jump when the kernel's answer comes; both are held to
docs/protocol/completion-order.json.

The files of a project are those that its ignore files leave, found within a bound of time.
"""

from __future__ import annotations

import asyncio
import heapq
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, TypeVar

from cellwright.conversation.mentions import find_mentions
from cellwright.errors import ToolError
from cellwright.features.agents.feature import MENTION
from cellwright.tools.search.ripgrep import NO_VERSION_CONTROL, relative_path, run_ripgrep, search_program

if TYPE_CHECKING:
    from cellwright.config.skills import Skill
    from cellwright.features.agents.feature import Agents
    from cellwright.tools.mcp.connection import ServerPrompt

ServerPrompts = Mapping[str, "tuple[object, ServerPrompt]"]
"""The prompts of MCP servers by their commands' names."""

T = TypeVar("T")

BEGINS_WORD = 10
FOLLOWS = 12
"""More for a letter at the beginning of a word, and for one right behind the letter before."""


def score(query: str, text: str) -> float | None:
    """Rate how well `text` fits `query`, more is better; None where it does not. Upper and lower case are one."""
    pattern, letters = query.lower(), text.lower()
    if len(letters) != len(text):  # of "İ" `lower` makes two, and each letter is to be in its place
        letters = "".join(letter.lower()[0] for letter in text)
    window = _window(pattern, letters)
    if window is None:
        return None
    start, end = window
    points = 20.0 if start == 0 else 0.0  # the text itself begins so
    at, before = 0, -2
    for place in range(start, end):
        if at == len(pattern) or letters[place] != pattern[at]:
            points -= 2  # for each letter between the first and the last that is none of the query's
            continue
        points += 16  # for each letter that is found
        points += FOLLOWS if before == place - 1 else BEGINS_WORD if _begins_word(text, place) else 0
        before, at = place, at + 1
    return points - len(text) / 100


def path_score(query: str, path: str) -> float | None:
    """`score` of a path: better where its last part alone fits."""
    name = path.rstrip("/").rpartition("/")[2]
    if "/" not in query and (of_name := score(query, name)) is not None:
        return of_name + 40 - len(path) / 100  # the last part alone holds the query
    return score(query, path)


def best(
    query: str,
    things: Iterable[T],
    text: Callable[[T], str],
    most: int,
    rate: Callable[[str, str], float | None] = score,
) -> list[T]:
    """At most `most` of `things` that fit `query`, best first; those that fit as well stay in their order."""
    fits = re.compile(".*?".join(map(re.escape, query)), re.IGNORECASE | re.DOTALL).search
    rated = ((thing, rate(query, name)) for thing in things if fits(name := text(thing)))
    found = ((points, thing) for thing, points in rated if points is not None)
    return [thing for _, thing in heapq.nlargest(most, found, key=lambda each: each[0])]


def _window(pattern: str, letters: str) -> tuple[int, int] | None:
    """Find where in `letters` those of `pattern` stand in order: together, or as near as their first end allows."""
    if (whole := letters.find(pattern)) >= 0:
        return _at_word(pattern, letters, whole)
    end = 0
    for letter in pattern:
        end = letters.find(letter, end) + 1
        if end == 0:
            return None
    start = end
    for letter in reversed(pattern):
        start = letters.rfind(letter, 0, start)
    return start, end


def _at_word(pattern: str, letters: str, first: int) -> tuple[int, int]:
    """The place of all of `pattern` that begins a word, else the first one."""
    place = first
    while place >= 0:
        if _begins_word(letters, place):
            return place, place + len(pattern)
        place = letters.find(pattern, place + 1) if pattern else -1
    return first, first + len(pattern)


def _begins_word(text: str, place: int) -> bool:
    if place == 0 or not text[place - 1].isalnum():
        return True
    return text[place].isupper() and text[place - 1].islower()


# Jupyter's copies of notebooks: nobody means them
ARGUMENTS = ("--files", "--hidden", "--null", *NO_VERSION_CONTROL, "--glob=!.ipynb_checkpoints")


class ProjectFiles:
    """The files below `folder`, and the folders that hold them (with a `/` at the end). Used on the agent's loop.

    Without `respects_ignore_files` those are among them that git ignores.
    """

    def __init__(self, folder: Path, respects_ignore_files: Callable[[], bool]) -> None:
        self._folder = folder
        self._respects_ignore_files = respects_ignore_files
        self._listing = asyncio.Lock()
        self._paths: list[str] = []
        self._listed = float("-inf")

    async def paths(self) -> list[str]:
        """Paths relative to the folder, those nearest to it first. Raises ToolError where nothing can be listed."""
        async with self._listing:
            if time.monotonic() - self._listed > 2.0:  # who types a path asks with each letter
                ignored = () if self._respects_ignore_files() else ("--no-ignore",)
                output = await run_ripgrep(
                    search_program(),
                    (*ARGUMENTS, *ignored, "--", "."),
                    cwd=self._folder,
                    separator=b"\0",
                    seconds=1.0,  # a project that takes longer to list is known in part
                    max_records=50_000,
                )
                self._paths = await asyncio.to_thread(_in_order, output.records)
                self._listed = time.monotonic()
            return self._paths


def _in_order(records: Iterable[bytes]) -> list[str]:
    files = [path for record in records if (path := relative_path(record)).isprintable()]
    folders = {path[: slash.end()] for path in files for slash in re.finditer("/", path) if slash.start()}
    return sorted(
        [*files, *folders], key=lambda path: (path.rstrip("/").count("/"), path.startswith("."), path.lower())
    )


MAX_ITEMS = 50
AGENTS_AMONG_FILES = 20


class Completion(TypedDict):
    """One thing to choose. `insert` is what then stands in the prompt, its sign included."""

    insert: str
    label: str
    about: str
    kind: str


def commands(text: str, skills: Mapping[str, Skill], prompts: ServerPrompts | None = None) -> list[Completion]:
    """The slash commands, skills and MCP servers' prompts whose names fit `text`."""
    from cellwright.commands.registry import (
        COMMANDS,  # what does them is heavy
        OTHER_NAMES,
    )

    known = {name: (command.takes, command.brief) for name, command in COMMANDS.items()}
    for name, skill in skills.items():
        if skill.by_user:
            known.setdefault(name, (skill.argument_hint, skill.description))
    for name, (_, prompt) in (prompts or {}).items():
        known.setdefault(name, (" ".join(f"[{argument}]" for argument, _ in prompt.arguments), prompt.description))
    names = best(text, known, str, MAX_ITEMS) if text else list(known)[:MAX_ITEMS]
    for other, own in OTHER_NAMES.items():
        if text and other.startswith(text.lower()) and other not in known:
            known[other] = (COMMANDS[own].takes, f"the same as /{own}")
            # who types it whole means it; else what it is called here goes before
            names.insert(0 if other == text.lower() else len(names), other)
    return [
        Completion(
            insert=f"/{name} " if known[name][0] else f"/{name}",
            label=f"/{name} {known[name][0]}".rstrip(),
            about=known[name][1],
            kind="command",
        )
        for name in names
    ]


def agent_items(agents: Agents, text: str) -> list[Completion]:
    """The agents whose mentions fit `text`. Blocks on the disk."""
    found = {f"{MENTION}{name}": agent for name, agent in agents.found().agents.items()}
    names = best(text, sorted(found), str, AGENTS_AMONG_FILES) if text else sorted(found)[:AGENTS_AMONG_FILES]
    return [Completion(insert=f"@{name}", label=name, about=found[name].description, kind="agent") for name in names]


def means_agents(text: str) -> bool:
    """Return whether an agent is meant rather than a file, by the beginning of its mention."""
    return bool(text) and (MENTION.startswith(text.lower()) or text.lower().startswith(MENTION))


async def found_files(files: ProjectFiles, text: str) -> list[Completion]:
    """The files that fit `text`; none where the folder cannot be listed. On the agent's loop."""
    try:
        paths = await files.paths()
    except ToolError:
        return []  # a folder that is gone, or no program to list it: what else there is can be mentioned
    return await asyncio.to_thread(file_items, paths, text)


def file_items(paths: Sequence[str], text: str) -> list[Completion]:
    """The paths that fit `text`; without any, what lies in the project's folder itself."""
    if text.startswith('"'):
        text = text.strip('"')
    found = best(text, paths, str, MAX_ITEMS, path_score) if text else paths[:MAX_ITEMS]
    return [
        Completion(insert=insert, label=path, about="", kind="folder" if path.endswith("/") else "file")
        for path in found
        if (insert := file_mention(path))
    ]


def file_mention(path: str) -> str:
    """Write `path` as a prompt mentions it: in quotes where it would end earlier; "" where it cannot be mentioned."""
    for written in (f"@{path}", f'@"{path}"'):
        found = find_mentions(written)
        if len(found) == 1 and (found[0].kind, found[0].name, found[0].first) == ("file", path, 0):
            return written
    return ""
