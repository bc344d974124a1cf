"""An answer that broke off: what of it is kept, and how it is found again after a crash, from the asides of its draft."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from cellwright.model.pricing import cost_usd
from cellwright.sessions.api_messages import cut_content
from cellwright.sessions.transcripts.transcript import ASIDE, Fault
from cellwright.sessions.transcripts.transcript_file import Line

MIN_CHARS_PER_TOKEN = 3
"""Fewer than in most text: what was spent is rather taken too high than too low."""

DRAFT, RESULT, BLOCKS = "draft", "result", "blocks"
"""Asides: more of the answer that streams; a call's result; blocks of an answer that the API might not take back."""


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
