"""The answer of a run so far: what was cut off, or paused, and what continues from there are one text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cellwright.agent.structured_output.typed_answer import AnswerProblem, AnswerType
from cellwright.errors import CellwrightError, ErrorCode

MAX_PAUSES = 10
"""The number of times a `pause_turn` is answered by going on before the run is given up."""

MAX_CONTINUATIONS = 3
"""The number of times an answer that met the output limit is taken up again."""


ASK_AGAIN = (
    "Your answer does not fit the schema that it must have: {problem}. Give the whole answer again, so that it fits."
)
CUT_OFF = "it was cut off at the output limit"


class AnswerCheck:
    """One run's answer against its type, if it has one. Claude is asked again once, then the run fails."""

    def __init__(self, answer_type: AnswerType | None) -> None:
        self._type = answer_type
        self._asked_again = False

    @property
    def output_format(self) -> dict[str, Any] | None:
        """The API's `output_config.format`; None: any text is an answer."""
        return None if self._type is None else self._type.output_format

    def again(self, text: str, *, may_ask: bool) -> str | None:
        """Return what to ask Claude after the answer `text`, or None when it is as it should be.

        Raises `CellwrightError` when it is not, and was asked for before or may not be (`may_ask`).
        """
        if self._type is None:
            return None
        try:
            self._type.read(text)
        except AnswerProblem as problem:
            return self._asking(self._type, str(problem), may_ask)
        return None

    def after_cut(self, go_on: str, *, may_ask: bool) -> str:
        """Return what to ask after a cut-off answer: half of a value is none, other texts go on (`go_on`)."""
        return go_on if self._type is None else self._asking(self._type, CUT_OFF, may_ask)

    def _asking(self, answer_type: AnswerType, problem: str, may_ask: bool) -> str:
        if self._asked_again or not may_ask:
            raise _does_not_fit(answer_type, problem, asked_again=self._asked_again)
        self._asked_again = True
        return ASK_AGAIN.format(problem=problem)


def _does_not_fit(answer_type: AnswerType, problem: str, *, asked_again: bool) -> CellwrightError:
    again = "also when it was asked for again" if asked_again else "and no request is left to ask for it again"
    message = (
        f"Claude's answer is not a valid {answer_type.name}, {again}: {problem}. Its text is kept in the conversation."
    )
    details = {"schema": answer_type.name, "problem": problem}
    return CellwrightError(ErrorCode.EXECUTION_ERROR, message, details=details, recoverable=True)


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
