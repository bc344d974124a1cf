"""The user's words while a run goes on: some for its next step, others prompts for when it would end.

Words stand in a user message of their own or after the results of calls, never between a call and its result: the API
refuses that. Words that were not delivered when the run ends stay here, and are shown as such.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from msgspec import Struct

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.events import Emit, Notice, Steered, SteerHow, SteerState
from cellwright.text import replace_surrogates

Submit = Callable[[str], Awaitable[list[dict[str, Any]]]]
"""Tells hooks of a text; gives what Claude reads besides. Raises `CellwrightError` when a hook keeps it back."""

TOO_LATE = "Claude has just finished, so this was not delivered."


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
