"""The last lines of a text file of any size: found from its end, without reading what comes before them."""

from __future__ import annotations

from io import FileIO

from cellwright.tools.files.formats.text import Encoding
from cellwright.tools.files.formats.text_pages import (
    BLOCK_BYTES,
    COUNTED_BYTES,
    Bounds,
    Lines,
    Stopped,
    TextPage,
    encoding_of,
    is_wide,
    read_page,
)


def read_tail(file: FileIO, size: int, count: int, bounds: Bounds, stopped: Stopped) -> TextPage:
    """At most `limit` of the last `count` lines, numbered from 1 where they could be counted, else from -1 backwards.

    Ends early when `stopped()`. Raises `NotText`.
    """
    if size <= COUNTED_BYTES:
        total = read_page(file, size, 1, Bounds(0, 0, 1), stopped).total or 0
        return read_page(file, size, max(total - count + 1, 1), bounds, stopped)
    encoding = encoding_of(file, size)
    start = _start_of_last(file, size, count, encoding, stopped)
    if start is None:
        # there are not so many lines: the first is known after all
        return read_page(file, size, 1, bounds, stopped)
    lines = Lines(0, bounds, encoding, "replace")
    file.seek(start)
    left = size - start
    while left > 0 and not lines.done and not stopped() and (block := file.read(min(BLOCK_BYTES, left))):
        lines.feed(block)
        left -= len(block)
    lines.end()
    cut = {index - count: length for index, length in lines.cut.items()}
    return TextPage(lines.kept, -count, None, None, encoding, cut, lines.full)


def _start_of_last(file: FileIO, size: int, count: int, encoding: Encoding, stopped: Stopped) -> int | None:
    """Where the last `count` lines begin; None if there are not so many."""
    line_feed = "\n".encode(encoding.name)
    width = len(line_feed)
    end = size - (size - len(encoding.bom)) % width
    file.seek(end - width)
    # the line feed at the very end ends the last line, and begins no other
    if file.read(width) == line_feed:
        end -= width
    while end > len(encoding.bom) and not stopped():
        start = max(len(encoding.bom), end - BLOCK_BYTES)
        file.seek(start)
        block = file.read(end - start) or b""
        feeds = 0 if is_wide(encoding) else block.count(line_feed)
        if is_wide(encoding) or feeds >= count:
            found, count = _nth_last(block, line_feed, count)
            if found is not None:
                return start + found + width
        else:
            count -= feeds
        end = start
    return None


def _nth_last(block: bytes, line_feed: bytes, count: int) -> tuple[int | None, int]:
    """Where the `count`th last line feed of a block is, or None and how many are still to be found."""
    end = len(block)
    while count and (at := block.rfind(line_feed, 0, end)) >= 0:
        if at % len(line_feed):
            # the bytes of two characters that look like one
            end = at + len(line_feed) - 1
            continue
        count -= 1
        if not count:
            return at, 0
        end = at
    return None, count
