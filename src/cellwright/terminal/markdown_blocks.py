"""Markdown that is still being written, cut where what came before cannot change any more.

What is finished is drawn once and scrolls away; only the last block is drawn again while it grows.
"""

from __future__ import annotations

import re

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")


class MarkdownBlocks:
    """`add` text as it comes; what it gives back is whole blocks, in order. `tail` is what is not finished."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self.tail = ""
        self._read = 0
        self._cut = 0
        self._fence = ""
        self._after_blank = False

    def add(self, text: str) -> str:
        """Take more text in; gives the markdown that is finished with it, or ""."""
        self.tail += text
        # the last line is looked at when it is whole: it may yet become a fence or the end of one
        while (end := self.tail.find("\n", self._read)) >= 0:
            self._take_line(self.tail[self._read : end])
            self._read = end + 1
        finished, self.tail = self.tail[: self._cut], self.tail[self._cut :]
        self._read -= self._cut
        self._cut = 0
        return finished

    def rest(self) -> str:
        """What is left at the end of the text; afterwards there is nothing."""
        rest = self.tail
        self._begin()
        return rest

    def _take_line(self, line: str) -> None:
        if self._fence:
            self._end_fence(line)
            return
        if not line.strip():
            self._after_blank = True
            return
        # an indented line after a blank one still belongs to the list item before it
        if self._after_blank and not line.startswith((" ", "\t")):
            self._cut = self._read
        self._after_blank = False
        if fence := _FENCE.fullmatch(line):
            self._fence = fence[1]

    def _end_fence(self, line: str) -> None:
        found = _FENCE.fullmatch(line)
        if found and found[1].startswith(self._fence) and not found[2].strip():
            self._fence = ""
