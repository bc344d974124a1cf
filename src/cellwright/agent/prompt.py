"""A user's prompt with all that Claude is told besides its words; where Claude works is told with the first.

The words of a prompt and everything told with them (the place Claude works in, changes, mentions) are one user
message; a view shows the user what was told (`ContextAttached`).
"""

from __future__ import annotations

import datetime
import platform
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from cellwright.events import CHARS_PER_TOKEN, AttachedContext, AttachedKind, ContextAttached, ExtensionsLoaded
from cellwright.text import replace_surrogates

if TYPE_CHECKING:
    from cellwright.agent.agent_setup import AgentSetup
    from cellwright.agent.tool import Tool
    from cellwright.sessions.session import Session


def environment_text(cwd: Path, interface: str, skills: str = "") -> str:
    """Describe for Claude, once, the place it works in; `interface` says where the user is ("a Jupyter notebook", …).

    `skills` is the list of skills it can load.
    """
    return (
        "<environment>\n"
        f"The user talks to you from: {interface}\n"
        f"Working folder: {cwd}\n"
        f"Platform: {platform.system()} {platform.release()}, Python {sys.version.split()[0]} at {sys.executable}\n"
        f"Date: {datetime.datetime.now().astimezone().date().isoformat()}\n"
        f"{skills}{skills and chr(10)}"
        "</environment>"
    )


Block = Mapping[str, Any]

Prompt = str | Sequence[Block]

TOKENS_PER_PICTURE = 1_500
TOKENS_PER_DOCUMENT = 3_000
"""Roughly; what a picture or a PDF takes depends on its size, and the API alone knows."""

_IN_WORDS = {"image": "[a picture]", "document": "[a document]"}


class ContextItem(Struct, frozen=True):
    """One thing that is told besides the user's words: its blocks as the API has them, and its title for the user."""

    title: str
    kind: AttachedKind
    blocks: tuple[Block, ...]

    def as_attached(self) -> AttachedContext:
        """The same for a view: its text, and roughly how many tokens it takes."""
        text = "\n".join(_block_text(block) for block in self.blocks)
        chars = sum(len(str(block["text"])) for block in self.blocks if block["type"] == "text")
        of_types = [block["type"] for block in self.blocks]
        more = TOKENS_PER_PICTURE * of_types.count("image") + TOKENS_PER_DOCUMENT * of_types.count("document")
        return AttachedContext(self.title, text, self.kind, chars, round(chars / CHARS_PER_TOKEN) + more)


def text_context(title: str, kind: AttachedKind, text: str) -> ContextItem:
    """Something that is told as one text."""
    return ContextItem(title, kind, ({"type": "text", "text": replace_surrogates(text)},))


class TitledPrompt(Struct, frozen=True):
    """A prompt that is not the user's own: people see its `title`, Claude gets its `instructions` with it.

    The title is the words of the turn, so everything that shows words (panels, terminals, transcripts, undo, exports)
    shows it. The instructions are context in a tag of their own, which nothing takes for words.
    """

    title: str
    instructions: str

    @property
    def context(self) -> ContextItem:
        """The instructions, told with the title."""
        return text_context("Instructions", "context", f"<instructions>\n{self.instructions}\n</instructions>")


class ContextItems(Struct, frozen=True, kw_only=True):
    """The context found for before and after the words, and what the user must know of what was not found."""

    before: tuple[ContextItem, ...] = ()
    after: tuple[ContextItem, ...] = ()
    notices: tuple[str, ...] = ()
    extensions: ExtensionsLoaded | None = None


class PromptContext(Struct, frozen=True, kw_only=True):
    """When something may be told: the run has begun. `words` is what the user wrote, `tools` are there by their names.

    `tools` has the built-in tools, also where the run itself goes without.
    """

    words: str
    agent: AgentSetup
    session: Session
    tools: Mapping[str, Tool]


ContextProvider = Callable[[PromptContext], ContextItems | Awaitable[ContextItems]]
"""Finds the context of a prompt: at once, or after reading files and asking front ends. Called on the agent's loop.

What is found in files can be found while a run is resolved (`read_ahead`), where waiting for a disk holds up nobody else.
"""


async def found_by(provider: ContextProvider, prompt_context: PromptContext) -> ContextItems:
    """Return what `provider` finds; raises what it raises."""
    found = provider(prompt_context)
    return found if isinstance(found, ContextItems) else await found


CollectContext = Callable[[], Awaitable[ContextItems]]
"""All that is to be told with one prompt."""


class FullPrompt(Struct, frozen=True, kw_only=True):
    """The user's words, and what is told before and after them. `collect_context` finds more of it, nearest to the words.

    `expansion` is what UserPromptExpansion hooks are told of words that call a command, a skill or an MCP prompt, `setup`
    ("init", "maintenance") what Setup hooks are told if a session begins with it; they are told nothing without it. With
    `tells_silently` views are not shown what `collect_context` finds.
    """

    words: tuple[Block, ...]
    before: tuple[ContextItem, ...] = ()
    after: tuple[ContextItem, ...] = ()
    notices: tuple[str, ...] = ()
    collect_context: CollectContext | None = None
    extensions: ExtensionsLoaded | None = None
    expansion: Mapping[str, Any] | None = None
    tells_silently: bool = False
    unseen: tuple[ContextItem, ...] = ()
    setup: str = ""

    @property
    def text(self) -> str:
        """The text the user wrote."""
        return replace_surrogates("\n".join(str(block["text"]) for block in self.words if block["type"] == "text"))

    @property
    def blocks(self) -> list[dict[str, Any]]:
        """The content of the user message."""
        return [*_blocks_of(self.before), *map(dict, self.words), *_blocks_of(self.after)]

    async def with_collected_context(self) -> FullPrompt:
        """The prompt with everything that `collect_context` finds."""
        if self.collect_context is None:
            return self
        found = await self.collect_context()
        return replace(
            self,
            before=(*self.before, *found.before),
            after=(*found.after, *self.after),
            notices=(*self.notices, *found.notices),
            extensions=found.extensions,
            collect_context=None,
            unseen=(*found.before, *found.after) if self.tells_silently else (),
        )

    def with_appended(self, title: str, kind: AttachedKind, blocks: Sequence[Block]) -> FullPrompt:
        """The prompt with one thing more that is told, after everything else."""
        return replace(self, after=(*self.after, ContextItem(title, kind, tuple(blocks)))) if blocks else self

    def attached_event(self) -> ContextAttached | None:
        """The event that says what is told besides the words; None where nothing is."""
        told = (part for part in (*self.before, *self.after) if not any(part is each for each in self.unseen))
        parts = tuple(part.as_attached() for part in told)
        return ContextAttached(parts) if parts else None


def full_prompt(prompt: Prompt | FullPrompt) -> FullPrompt:
    """`prompt` as a full one; nothing is told with one that is none yet."""
    if isinstance(prompt, FullPrompt):
        return prompt
    words = ({"type": "text", "text": prompt},) if isinstance(prompt, str) else tuple(prompt)
    return FullPrompt(words=words)


def _blocks_of(parts: Sequence[ContextItem]) -> list[dict[str, Any]]:
    return [dict(block) for part in parts for block in part.blocks]


def _block_text(block: Block) -> str:
    return str(block["text"]) if block["type"] == "text" else _IN_WORDS.get(str(block["type"]), f"[{block['type']}]")
