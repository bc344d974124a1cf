"""A prompt, and what Claude is told with it besides the user's words: where it works, what changed, what is mentioned.

All of it is one user message; a view shows the user what was told (`ContextTold`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from cellwright.agent.whole_text import whole_text
from cellwright.events import CHARS_A_TOKEN, ContextTold, Told, ToldKind

if TYPE_CHECKING:
    from cellwright.agent.agent import Agent
    from cellwright.agent.tool import Tool
    from cellwright.sessions.session import Session

Block = Mapping[str, Any]

Prompt = str | Sequence[Block]

TOKENS_A_PICTURE = 1_500
TOKENS_A_DOCUMENT = 3_000
"""Roughly; what a picture or a PDF takes depends on its size, and the API alone knows."""

_IN_WORDS = {"image": "[a picture]", "document": "[a document]"}


@dataclass(frozen=True, slots=True)
class Beside:
    """One thing that is told besides the user's words: its blocks as the API has them, and its title for the user."""

    title: str
    kind: ToldKind
    blocks: tuple[Block, ...]

    def told(self) -> Told:
        """The same for a view: its text, and roughly how many tokens it takes."""
        text = "\n".join(_in_words(block) for block in self.blocks)
        chars = sum(len(str(block["text"])) for block in self.blocks if block["type"] == "text")
        of_types = [block["type"] for block in self.blocks]
        more = TOKENS_A_PICTURE * of_types.count("image") + TOKENS_A_DOCUMENT * of_types.count("document")
        return Told(self.title, text, self.kind, chars, round(chars / CHARS_A_TOKEN) + more)


def text_beside(title: str, kind: ToldKind, text: str) -> Beside:
    """Something that is told as one text."""
    return Beside(title, kind, ({"type": "text", "text": whole_text(text)},))


@dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """What was found to be told before and after the words, and what the user must know of what was not."""

    before: tuple[Beside, ...] = ()
    after: tuple[Beside, ...] = ()
    notices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """When something may be told: the run has begun. `words` is what the user wrote, `tools` are there by their names.

    `tools` has the built-in tools, also where the run itself goes without.
    """

    words: str
    agent: Agent
    session: Session
    tools: Mapping[str, Tool]


Telling = Callable[[Moment], Awaitable[Gathered]]
"""Finds out what there is to tell; it may read files and ask front ends. Called on the agent's loop; raises nothing."""

Gather = Callable[[], Awaitable[Gathered]]
"""All that is to be told with one prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FullPrompt:
    """The user's words, and what is told before and after them. `gather` finds more of it, nearest to the words."""

    words: tuple[Block, ...]
    before: tuple[Beside, ...] = ()
    after: tuple[Beside, ...] = ()
    notices: tuple[str, ...] = ()
    gather: Gather | None = None

    @property
    def text(self) -> str:
        """What the user wrote."""
        return whole_text("\n".join(str(block["text"]) for block in self.words if block["type"] == "text"))

    @property
    def blocks(self) -> list[dict[str, Any]]:
        """The content of the user message."""
        return [*_blocks_of(self.before), *map(dict, self.words), *_blocks_of(self.after)]

    async def gathered(self) -> FullPrompt:
        """The prompt with everything that `gather` finds."""
        if self.gather is None:
            return self
        found = await self.gather()
        return replace(
            self,
            before=(*self.before, *found.before),
            after=(*found.after, *self.after),
            notices=(*self.notices, *found.notices),
            gather=None,
        )

    def followed_by(self, title: str, kind: ToldKind, blocks: Sequence[Block]) -> FullPrompt:
        """The prompt with one thing more that is told, after everything else."""
        return replace(self, after=(*self.after, Beside(title, kind, tuple(blocks)))) if blocks else self

    def told(self) -> ContextTold | None:
        """The event that says what is told besides the words; None where nothing is."""
        parts = tuple(part.told() for part in (*self.before, *self.after))
        return ContextTold(parts) if parts else None


def full_prompt(prompt: Prompt | FullPrompt) -> FullPrompt:
    """`prompt` as a full one; nothing is told with one that is none yet."""
    if isinstance(prompt, FullPrompt):
        return prompt
    words = ({"type": "text", "text": prompt},) if isinstance(prompt, str) else tuple(prompt)
    return FullPrompt(words=words)


def _blocks_of(parts: Sequence[Beside]) -> list[dict[str, Any]]:
    return [dict(block) for part in parts for block in part.blocks]


def _in_words(block: Block) -> str:
    return str(block["text"]) if block["type"] == "text" else _IN_WORDS.get(str(block["type"]), f"[{block['type']}]")
