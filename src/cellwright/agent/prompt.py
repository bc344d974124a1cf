"""A user's words with all that Claude is told besides: as the prompt of a run, and while one goes on.

The words of a prompt and everything told with them (the place Claude works in, which the first one says, changes,
mentions) are one user message; a view shows the user what was told (`ContextAttached`).

While a run goes on, some words are for its next step, others prompts for when it would end. They stand in a user message
of their own or after the results of calls, never between a call and its result: the API refuses that. Words that were not
delivered when the run ends stay here, and are shown as such.
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

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.events import (
    CHARS_PER_TOKEN,
    AttachedContext,
    AttachedKind,
    ContextAttached,
    Emit,
    ExtensionsLoaded,
    Notice,
    Steered,
    SteerHow,
    SteerState,
)
from cellwright.text import replace_surrogates

if TYPE_CHECKING:
    from cellwright.agent.agent_setup import AgentSetup
    from cellwright.agent.tool import Tool
    from cellwright.sessions.session import Session


Submit = Callable[[str], Awaitable[list[dict[str, Any]]]]
"""Tells hooks of a text; gives what Claude reads besides. Raises `CellwrightError` when a hook keeps it back."""

TOO_LATE = "Claude has just finished, so this was not delivered."


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


class SteeringText(Struct, frozen=True):
    """A text that waits: "steer" goes with the next step, "queue" is the next prompt when Claude would end."""

    id: str
    text: str
    how: SteerHow


class ReadySteering(Struct, frozen=True):
    """Words that hooks have let pass, and the content blocks that they become."""

    texts: tuple[SteeringText, ...] = ()
    blocks: tuple[dict[str, Any], ...] = ()


class Steering:
    """The waiting words of one run, in the order they were said. Used on the agent's loop only.

    `closed` says why the run takes none; "" while it takes them. `model` is the one that the user has chosen meanwhile, for
    the requests that follow.
    """

    def __init__(self, closed: str = "") -> None:
        self.closed = closed
        self.model: str | None = None
        self._waiting: list[SteeringText] = []
        self._early: list[SteeringText] = []
        self._emit: Emit | None = None

    @property
    def waiting(self) -> tuple[SteeringText, ...]:
        return tuple(self._waiting)

    def open(self, emit: Emit) -> None:
        """The run begins and shows what is said with `emit`; what was said before is shown now."""
        self._emit = emit
        for steering_text in self._early:
            self._emit_state(steering_text, "waiting")
        self._early.clear()

    def add(self, steering_text: SteeringText) -> None:
        """Take `steering_text` for the run. Raises `CellwrightError` when it takes none."""
        if self.closed:
            raise CellwrightError(ErrorCode.EXECUTION_ERROR, self.closed, recoverable=True)
        if not steering_text.text.strip():
            raise CellwrightError(ErrorCode.INVALID_PARAMETERS, "The message is empty.")
        if any(steering_text.id == each.id for each in self._waiting):
            return  # sent twice
        self._waiting.append(steering_text)
        if self._emit is None:
            self._early.append(steering_text)
        else:
            self._emit_state(steering_text, "waiting")

    def withdraw(self, text_id: str) -> bool:
        """Take words back; False when they are on their way already, or never were here."""
        for steering_text in self._waiting:
            if steering_text.id == text_id:
                self._drop(steering_text)
                return True
        return False

    async def for_step(self, submit: Submit) -> ReadySteering:
        """Return what goes with the next step."""
        return await self._ready(
            [steering_text for steering_text in self._waiting if steering_text.how == "steer"], submit
        )

    async def for_next_prompt(self, submit: Submit) -> ReadySteering:
        """The oldest prompt that waits for the end; Claude goes on with it instead of ending."""
        return await self._ready(
            [steering_text for steering_text in self._waiting if steering_text.how == "queue"][:1], submit
        )

    def delivered(self, ready: ReadySteering) -> None:
        """The message with these words is in the session."""
        for steering_text in ready.texts:
            self._waiting.remove(steering_text)
            self._emit_state(steering_text, "delivered")

    def close(self, because: str = TOO_LATE) -> None:
        """The run takes no more words; the ones that wait were not delivered."""
        self.closed = self.closed or because

    async def _ready(self, chosen: Sequence[SteeringText], submit: Submit) -> ReadySteering:
        passed: list[tuple[SteeringText, list[dict[str, Any]]]] = []
        for steering_text in chosen:
            try:
                more = await submit(steering_text.text)
            except CellwrightError as error:
                if steering_text in self._waiting:
                    self._drop(steering_text)
                    self._show(Notice(error.message, "warning"))
                continue
            passed.append((steering_text, [{"type": "text", "text": replace_surrogates(steering_text.text)}, *more]))
        # hooks take their time: some may have been taken back meanwhile
        still = [(steering_text, blocks) for steering_text, blocks in passed if steering_text in self._waiting]
        return ReadySteering(
            tuple(steering_text for steering_text, _ in still), tuple(block for _, blocks in still for block in blocks)
        )

    def _drop(self, steering_text: SteeringText) -> None:
        self._waiting.remove(steering_text)
        if steering_text in self._early:
            self._early.remove(steering_text)
        else:
            self._emit_state(steering_text, "withdrawn")

    def _emit_state(self, steering_text: SteeringText, state: SteerState) -> None:
        self._show(Steered(steering_text.id, steering_text.text, state, steering_text.how))

    def _show(self, event: Steered | Notice) -> None:
        if self._emit is not None:
            self._emit(event)
