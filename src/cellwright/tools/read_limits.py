"""How much one Read may hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

TOKENS = 25_000
LARGE_TOKENS = 100_000
"""With `allow_large`: half of the smallest context window that a current model has."""

MOST_TOKENS = 250_000
CHARS_PER_TOKEN = 3.84
"""Of code and English text; what is not ASCII counts by its bytes in UTF-8."""

MOST_CHARS = int(MOST_TOKENS * CHARS_PER_TOKEN)
"""No result has more, whatever the environment says."""

TOKENS_VARIABLE = "CLAUDE_CODE_FILE_READ_MAX_OUTPUT_TOKENS"
PDF_VARIABLE = "CELLWRIGHT_PDF_AS_TEXT"


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """`tokens` of one result, whether more than usual was asked for, and whether PDFs are shown as text."""

    tokens: int
    large: bool
    pdf_as_text: bool

    @property
    def chars(self) -> int:
        """The limit in characters."""
        return int(self.tokens * CHARS_PER_TOKEN)


def read_limits(environment: Mapping[str, str], *, large: bool) -> ReadLimits:
    """The limits of a call. A value in the environment that is no positive number is as good as none."""
    given = environment.get(TOKENS_VARIABLE, "")
    tokens = min(int(given), MOST_TOKENS) if given.isdecimal() and int(given) else TOKENS
    as_text = environment.get(PDF_VARIABLE, "").lower() in ("1", "true", "yes", "on")
    return ReadLimits(max(tokens, LARGE_TOKENS) if large else tokens, large, as_text)
