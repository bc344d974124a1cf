"""A conversation as Markdown: prompts quoted, answers as they are, calls folded, images in a folder beside it."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from cellwright.markdown.escaping import escaped, fenced, folded, visible_controls
from cellwright.markdown.safe_markdown import safe_markdown
from cellwright.markdown.writer import quoted
from cellwright.sessions.export.exchanges import AnswerText, Exchange, ToolExchange

Json = Mapping[str, Any]

Place = Callable[[Json], str]
"""Keeps an image (a `source` of the API's) and gives the link to it."""


KeepFile = Callable[[str, bytes], object]
"""Keeps a file that the text links to, by its path from the text's own folder."""


def markdown_pieces(
    exchanges: Iterable[Exchange], *, title: str, about: str, folder: str, keep_file: KeepFile
) -> Iterator[str]:
    """The whole conversation, a piece at a time; images go into `folder`, a name beside the file; "": into the text."""
    images = itertools.count(1)

    def place(source: Json) -> str:
        if not folder:
            return f"data:{source['media_type']};base64,{source['data']}"
        kind = str(source["media_type"]).removeprefix("image/")
        name = f"{folder}/image-{next(images)}.{kind}"
        keep_file(name, base64.b64decode(source["data"]))
        return name

    yield f"# {escaped(title)}\n\n*{escaped(about)}*"
    for exchange in exchanges:
        for block in exchange_blocks(exchange, place):
            yield f"\n\n{block}"
    yield "\n"


def exchange_blocks(exchange: Exchange, place: Place) -> Iterator[str]:
    """One turn, block by block."""
    yield f"## {exchange.number}. You"
    yield quoted(safe_markdown(exchange.words))
    yield from (f"![image {number}]({place(source)})" for number, source in enumerate(exchange.images, 1))
    for context in exchange.context:
        yield folded("Told besides", fenced(visible_controls(context)))
    yield "### Claude"
    for part in exchange.parts:
        if isinstance(part, AnswerText):
            yield safe_markdown(part.text)
        else:
            yield from call_blocks(part, place)


def call_blocks(call: ToolExchange, place: Place) -> Iterator[str]:
    """A call: a line to open, its input and result in it; its images after it."""
    mark = "✓" if call.done else "✗"
    given = _input_block(call)
    result = fenced(visible_controls(call.text.rstrip("\n"))) if call.text.strip() else ""
    yield folded(f"{mark} {call.title}", "\n\n".join(part for part in (given, result) if part))
    yield from (f"![image {number}]({place(source)})" for number, source in enumerate(call.images, 1))


def _input_block(call: ToolExchange) -> str:
    for field, language in (("code", "python"), ("command", "bash"), ("patch", "diff")):
        if isinstance(call.input.get(field), str):
            return fenced(visible_controls(str(call.input[field]).strip("\n")), language)
    return fenced(visible_controls(json.dumps(call.input, indent=2, ensure_ascii=False)), "json")
