"""Words that a user searches for, as a query of FTS5; nothing in them can be syntax.

Each word is found at the beginning of words, whatever its accents and case; what stands in "quotes" is found as it
stands. Chinese and Japanese are written without spaces: there each character counts as a word, and several as a
phrase.
"""

from __future__ import annotations

from cellwright.text import lazy_pattern

MAX_WORDS = 20
MAX_CHARS = 1_000

HIT_BEGIN, HIT_END = "⟪", "⟫"

_BORDER = "\u200b"
"""A character of no width, between characters that are words each; FTS5 takes it for a space."""

# Hiragana, Katakana, ideographs with their extensions; Thai, Lao, Khmer and Burmese know no spaces either
_UNSPACED = lazy_pattern(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff])"
)
_WORDS = lazy_pattern(r'"([^"]*)"?|([^\s"]+)')
_HITS = str.maketrans({HIT_BEGIN: "«", HIT_END: "»", "\0": " "})


def indexed(text: str) -> str:
    """`text` as it goes into the index: hits can be marked in it, and halves of surrogate pairs are gone."""
    text = text.translate(_HITS)
    if text.isascii():
        return text
    text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return _UNSPACED.sub(f"{_BORDER}\\1{_BORDER}", text)


def shown(snippet: str) -> str:
    """A snippet of an indexed text, in one line."""
    snippet = snippet.replace(f"{HIT_END}{_BORDER}{HIT_BEGIN}", "").replace(_BORDER, "")
    return " ".join(snippet.split())


def terms(query: str) -> list[str]:
    """The query's words, each as an FTS5 string; none where there is nothing to search for."""
    found: list[str] = []
    for phrase, word in _WORDS.findall(indexed(query[:MAX_CHARS])):
        text = phrase or word
        if any(character.isalnum() for character in text):
            quoted = text.replace('"', '""')
            found.append(f'"{quoted}"' if phrase else f'"{quoted}"*')
    return list(dict.fromkeys(found))[:MAX_WORDS]
