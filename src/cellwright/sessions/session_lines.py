"""The lines of a session in memory: which messages are in effect, what they take of the context, what they cost.

`CutAnswer` is an answer that broke off: what of it is kept, and how it is found again after a crash, from the asides of
its draft.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, overload

from msgspec import Struct, field

from cellwright.model.pricing import Total, cost_usd
from cellwright.sessions.api_messages import cut_content
from cellwright.sessions.transcripts import transcript
from cellwright.sessions.transcripts.transcript import ASIDE, Fault
from cellwright.sessions.transcripts.transcript_file import Line

_NOTHING = Total({}, 0.0)

MIN_CHARS_PER_TOKEN = 3
"""Fewer than in most text: what was spent is rather taken too high than too low."""

DRAFT, RESULT, BLOCKS = "draft", "result", "blocks"
"""Asides: more of the answer that streams; a call's result; blocks of an answer that the API might not take back."""


class Messages(Sequence[bytes]):
    """The messages of lines, one at a time: of a long session not all are in memory."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self._lines = lines

    def __len__(self) -> int:
        return len(self._lines)

    @overload
    def __getitem__(self, at: int) -> bytes: ...

    @overload
    def __getitem__(self, at: slice) -> Messages: ...

    def __getitem__(self, at: int | slice) -> bytes | Messages:
        return Messages(self._lines[at]) if isinstance(at, slice) else self._lines[at].message

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]


class SessionLines:
    """`all` are the lines as they were written; `story` the messages of those that count, `encoded` what is sent of them.

    The first `inherited` are another session's, where they were paid for.
    `context_tokens` is the API's last count, `uncounted_bytes` what came since. `not_kept` was paid for and is no message.
    `declared` are the tools that were declared after the session began.
    """

    def __init__(self, lines: Iterable[Line] = (), *, inherited: int = 0) -> None:
        self.all: list[Line] = []
        self._story: list[Line] = []
        self.encoded: list[bytes] = []
        self.context_tokens = 0
        self.uncounted_bytes = 0
        self.not_kept = _NOTHING
        self.declared: list[dict[str, Any]] = []
        self._decoded: list[dict[str, Any]] = []
        self._inherited = inherited
        self._kept, self._summed = _NOTHING, inherited
        for line in lines:
            self.add(line)

    @property
    def story(self) -> Messages:
        """The messages of the lines that count; those before the last boundary are read as they are asked for."""
        return Messages(self._story)

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The messages, decoded as they are asked for."""
        self._decoded += [json.loads(data) for data in self.encoded[len(self._decoded) :]]
        return self._decoded

    def in_effect(self) -> list[Line]:
        """The lines of `encoded`."""
        return transcript.since_boundary(self.story_lines())

    def story_lines(self) -> list[Line]:
        """The lines of `story`."""
        return transcript.in_effect(self.all)

    def add(self, line: Line) -> None:
        """Take in the next line: a message, or that others were taken back."""
        self.all.append(line)
        self.declared += line.meta.get("tools", ())
        if line.held == transcript.TAKEN_BACK:
            if transcript.ENDED not in line.meta:  # which takes nothing back
                self._take_back()
            return
        self._story.append(line)
        if transcript.is_boundary(line):
            self.encoded, self._decoded = [], []
        if isinstance(line.held, bytes):  # else a boundary follows, and it is not sent
            self.encoded.append(line.held)
        self._count(line)

    def _take_back(self) -> None:
        self._story = self.story_lines()
        kept = transcript.since_boundary(self._story)
        same = next((at for at, line in enumerate(kept) if self.encoded[at : at + 1] != [line.message]), len(kept))
        del self._decoded[same:]
        self.encoded = [line.message for line in kept]
        self.context_tokens = self.uncounted_bytes = 0
        for line in kept:
            self._count(line)

    def _count(self, line: Line) -> None:
        self.context_tokens = line.meta.get("context_tokens", self.context_tokens)
        self.uncounted_bytes = 0 if "context_tokens" in line.meta else self.uncounted_bytes + line.size

    def spend(self, usage: Mapping[str, Any], cost_usd: float | None) -> None:
        """Count an answer that was paid for and is no message."""
        self.not_kept = self.not_kept.plus(usage, cost_usd)

    def not_kept_json(self) -> dict[str, Any]:
        """Build the next line's record of `not_kept`; empty where there is nothing."""
        return {"usage": self.not_kept.usage, "cost_usd": self.not_kept.cost_usd} if self.not_kept.usage else {}

    def wrote_not_kept(self) -> None:
        """It is among the lines now."""
        self.not_kept = _NOTHING

    def spent(self) -> Total:
        """Sum up what all answers took, those that are no message included."""
        # on demand: a resume need not wait for it
        self._kept = _with_paid(self._kept, self.all[self._summed :])
        self._summed = max(self._summed, len(self.all))
        return self._kept.plus(self.not_kept.usage, self.not_kept.cost_usd)

    def own(self) -> list[Line]:
        """The lines that are not another session's."""
        return self.all[self._inherited :]

    def compactions_usd(self) -> tuple[int, float | None]:
        """Count the compactions that were paid for here, and sum up what they cost; None where a price is not known."""
        own = [line.meta[transcript.COMPACTED] for line in self.all[self._inherited :] if transcript.is_boundary(line)]
        costs = [about.get("cost_usd") for about in own]
        return len(own), None if None in costs else sum(filter(None, costs))

    def spent_before(self) -> Total:
        """Sum up what the lines took that are another session's."""
        return _with_paid(_NOTHING, self.all[: self._inherited])


def _with_paid(total: Total, lines: Iterable[Line]) -> Total:
    for line in lines:
        for paid in (line.meta, line.meta.get("not_kept", {})):
            if block := paid.get("usage"):
                total = total.plus(block, paid.get("cost_usd"))
    return total


class CutAnswer(Struct):
    """An answer that has begun: its usage as far as it is known, its blocks by their places, whole or as far as they came.

    `chars` counts all that streamed, for the estimate of what it cost.
    """

    usage: Mapping[str, Any]
    model: str
    texts: dict[int, list[str]] = field(default_factory=dict)
    blocks: dict[int, dict[str, Any]] = field(default_factory=dict)
    chars: int = 0

    def content(self, open_before: Collection[str] = ()) -> list[dict[str, Any]]:
        """The blocks of it that are kept; `open_before` are calls of a paused message that it may have results of."""
        open_texts = {at: {"type": "text", "text": "".join(texts)} for at, texts in self.texts.items()}
        return cut_content([block for _, block in sorted({**open_texts, **self.blocks}.items())], open_before)

    def add_text(self, index: int, text: str) -> None:
        """Take in more text of the block `index`, which may have ended: it was shown, so it is kept."""
        self.chars += len(text)
        self.texts.setdefault(index, []).append(text)
        if (block := self.blocks.get(index)) is not None and block["type"] == "text":
            self.blocks[index] = {**block, "text": block["text"] + text}

    def spent(self) -> tuple[dict[str, Any], float | None]:
        """Its usage, the output estimated where the API did not say, and its cost."""
        written = max(self.usage.get("output_tokens") or 0, math.ceil(self.chars / MIN_CHARS_PER_TOKEN))
        usage = {**self.usage, "output_tokens": written}
        return usage, cost_usd(self.model, usage)


# ---- after a crash ----


def recovered_answer(asides: Sequence[Line]) -> CutAnswer | None:
    """The answer whose draft stands at the end of a transcript; None where none was streaming."""
    answer: CutAnswer | None = None
    for line in asides:
        if line.meta[ASIDE] != DRAFT:
            continue
        content = line.meta["content"]
        if not content:
            answer = None
        if (start := content.get("start")) is not None:
            answer = CutAnswer(start["usage"], start["model"])
        if answer is None:
            continue
        for index, text in content.get("text", ()):
            answer.add_text(index, text)
        for index, block in content.get("blocks", ()):
            whole = {"text": "".join(answer.texts.get(index, ()))} if block["type"] == "text" else {}
            answer.blocks[index] = {**whole, **block}
            answer.chars += 0 if index in answer.texts else len(json.dumps(block, ensure_ascii=False))
    return answer


def recovered_results(asides: Sequence[Line]) -> dict[str, dict[str, Any]]:
    """The results of calls that were there when their siblings were cut off, by the ids of the calls."""
    results = [line.meta["content"] for line in asides if line.meta[ASIDE] == RESULT]
    return {result["tool_use_id"]: result for result in results}


def faults_text(session_id: str, faults: Sequence[Fault]) -> str:
    """The notice about a transcript that is not as it was written."""
    words = {
        "damaged": "line {line} is damaged",
        "missing": "before line {line} something is missing",
        "doubled": "line {line} stands there twice",
        "foreign": "line {line} was written by another program",
    }
    told = [words[fault.what].format(line=fault.line) for fault in faults[:5]]
    more = f" and {len(faults) - 5} more" if len(faults) > 5 else ""
    return (
        f"The transcript of the session {session_id} is not as it was written: {', '.join(told)}{more}. "
        "The conversation continues with the rest; the file keeps everything."
    )
