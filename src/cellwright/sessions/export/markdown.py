"""A conversation as Markdown: prompts quoted, answers as they are, calls folded, images in a folder beside it."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from cellwright.markdown.escaping import escaped, fenced, folded, visible_controls
from cellwright.markdown.safe_markdown import safe_markdown
from cellwright.markdown.writer import quoted
from cellwright.sessions.export.exchanges import AnswerText, Exchange, ToolExchange

Json = Mapping[str, Any]

Place = Callable[[Json], str]
"""Keeps an image (a `source` of the API's) and gives the link to it."""


class MarkdownExport(Struct, frozen=True):
    """The text, and the files it links to by their paths from its own folder."""

    text: str
    files: Mapping[str, bytes]


def as_markdown(exchanges: Sequence[Exchange], *, title: str, about: str, folder: str) -> MarkdownExport:
    """The whole conversation; images go into `folder`, a name beside the file, or with "" into the text itself."""
    files: dict[str, bytes] = {}

    def place(source: Json) -> str:
        if not folder:
            return f"data:{source['media_type']};base64,{source['data']}"
        kind = str(source["media_type"]).removeprefix("image/")
        name = f"{folder}/image-{len(files) + 1}.{kind}"
        files[name] = base64.b64decode(source["data"])
        return name

    blocks = [f"# {escaped(title)}", f"*{escaped(about)}*"]
    for exchange in exchanges:
        blocks += exchange_blocks(exchange, place)
    return MarkdownExport("\n\n".join(blocks) + "\n", files)


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
