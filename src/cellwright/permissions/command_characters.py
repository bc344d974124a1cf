"""Characters of a command that keep it from being read with certainty: unseen, alike to others, or too many."""

from __future__ import annotations

import re
import unicodedata

from cellwright.text import unseen_characters

MAX_LENGTH = 10_000
"""Longer commands are not looked at closely enough to be allowed by a rule."""


def unreadable_characters(command: str) -> str:
    """Why the characters of `command` cannot be read with certainty, as a verb phrase; "" where they can."""
    if len(command) > MAX_LENGTH:
        return f"is longer than {MAX_LENGTH:,} characters"
    if "\\\n" in command:
        return "continues a line with a backslash"
    if command.isascii() and command.isprintable():
        return ""
    if unseen := unseen_characters(command):
        return f"has a character that cannot be seen ({unseen[0]})"
    if not command.isascii() and (odd := _lookalike(command)):
        return f"has a character (U+{ord(odd):04X}) that may look like another"
    return ""


def _lookalike(text: str) -> str:
    """The first character that some system takes for another, or that hides among letters of another script."""
    if not unicodedata.is_normalized("NFC", text):
        return next(character for character in text if not character.isascii())
    for word in re.finditer(r"\w+", text):
        run = word[0]
        if run.isascii():
            continue
        latin = any(character.isascii() and character.isalpha() for character in run)
        for character in run:
            foreign = latin and not character.isascii() and "LATIN" not in unicodedata.name(character, "")
            if foreign or not unicodedata.is_normalized("NFKC", character):
                return character
    return ""
