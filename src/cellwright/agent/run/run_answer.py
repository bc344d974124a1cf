"""The answer of a run so far: what was cut off, or paused, and what continues from there are one text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cellwright.agent.structured_output.typed_answer import AnswerCheck, AnswerType

MAX_PAUSES = 10
"""The number of times a `pause_turn` is answered by going on before the run is given up."""

MAX_CONTINUATIONS = 3
"""The number of times an answer that met the output limit is taken up again."""


class RunAnswer:
    """`text` is the last answer; `continues` says that the next message is a part of it. `check` holds it to its type."""

    def __init__(self, answer_type: AnswerType | None) -> None:
        self.check = AnswerCheck(answer_type)
        self.text = ""
        self.continues = False
        self._pauses = 0
        self._continuations = 0

    def take(self, content: Sequence[dict[str, Any]]) -> None:
        """Add the text of a message."""
        text = "".join(block["text"] for block in content if block["type"] == "text")
        self.text = self.text + text if self.continues else text
        self.continues = False

    def pause(self) -> bool:
        """Note that the model has paused; return whether the run may continue."""
        self._pauses += 1
        self.continues = True
        return self._pauses <= MAX_PAUSES

    def cut_off(self, *, continues: bool) -> bool:
        """Note that the answer met the output limit; return whether it may be taken up once more."""
        self._continuations += 1
        self.continues = continues
        return self._continuations <= MAX_CONTINUATIONS
