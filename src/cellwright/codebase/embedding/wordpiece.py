"""BERT's tokenizer: words cut at spaces and punctuation, then into the longest pieces that the vocabulary has."""

from __future__ import annotations

import functools
import re
import unicodedata
from typing import Any

from cellwright.text import lazy_pattern

_WORD = lazy_pattern(r"\w+|[^\w\s]")
MAX_LETTERS = 100


class WordPiece:
    """The tokenizer that a `tokenizer.json` of the kind WordPiece describes."""

    def __init__(self, said: dict[str, Any]) -> None:
        model, normalizer = said["model"], said.get("normalizer") or {}
        self._vocabulary: dict[str, int] = model["vocab"]
        self._prefix = str(model.get("continuing_subword_prefix", "##"))
        self._lowercase = bool(normalizer.get("lowercase", True))
        # as BERT has it: accents go with capitals, unless it is said otherwise
        accents = normalizer.get("strip_accents")
        self._strips_accents = self._lowercase if accents is None else bool(accents)
        self._pieces = functools.lru_cache(maxsize=100_000)(self._pieces_of)

    def ids(self, text: str) -> list[int]:
        """The ids of a text's pieces; words that the vocabulary cannot make are left out."""
        if self._lowercase:
            text = text.lower()
        if self._strips_accents and not text.isascii():
            text = "".join(each for each in unicodedata.normalize("NFD", text) if unicodedata.category(each) != "Mn")
        found: list[int] = []
        for word in _WORD.findall(text):
            # an underscore is punctuation to BERT
            for part in re.split(r"(_)", word) if "_" in word else (word,):
                found += self._pieces(part)
        return found

    def _pieces_of(self, word: str) -> tuple[int, ...]:
        if not word or len(word) > MAX_LETTERS:
            return ()
        ids: list[int] = []
        start = 0
        while start < len(word):
            for end in range(len(word), start, -1):
                piece = word[start:end] if not start else self._prefix + word[start:end]
                if (known := self._vocabulary.get(piece)) is not None:
                    ids.append(known)
                    start = end
                    break
            else:
                return ()
        return tuple(ids)
