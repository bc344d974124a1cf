"""A conversation as Markdown, a notebook or JSON: its messages taken apart into prompts and what came of them, then written.

`code_cells` gives what Claude ran, its Python and its commands, as ordinary cells: such a notebook works without
Claude. Pure functions of messages; `commands/sessions/sessions.py` reads the session and writes the file.

As JSON it holds the API's messages as they were, for programs:

    {"cellwright_conversation": 1, "session": ID, "model": …, "messages": [{"role": …, "content": [block, …]}, …]}
"""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct, field

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.markdown.escaping import escaped, fenced, folded, visible_controls
from cellwright.markdown.safe_markdown import safe_markdown
from cellwright.markdown.writer import quoted
from cellwright.redaction.redaction import JsonRedaction, redaction_of
from cellwright.sessions.api_messages import begins_turn, split_attached
from cellwright.text import lazy_pattern

Json = Mapping[str, Any]

TITLE_CHARS = 120
_TITLE_FIELDS = ("command", "code", "file_path", "notebook_path", "path", "pattern", "url", "query", "description")

FORMAT = 1

Place = Callable[[Json], str]
"""Keeps an image (a `source` of the API's) and gives the link to it."""

KeepFile = Callable[[str, bytes], object]
"""Keeps a file that the text links to, by its path from the text's own folder."""


class AnswerText(Struct, frozen=True):
    """Text of Claude's."""

    text: str


class ToolExchange(Struct):
    """A call and its result: `text` and `images` (the API's `source` objects). `done`: it had a result that is no error."""

    name: str
    input: Json
    text: str = ""
    images: list[Json] = field(default_factory=list)
    done: bool = False

    @property
    def title(self) -> str:
        """The call in one line."""
        value = next((self.input[name] for name in _TITLE_FIELDS if isinstance(self.input.get(name), str)), None)
        shown = json.dumps(self.input, ensure_ascii=False) if value is None else str(value)
        line = " ".join(shown.split())
        return f"{self.name}: {line[:TITLE_CHARS]}{'…' if len(line) > TITLE_CHARS else ''}"


class Exchange(Struct):
    """One turn: the user's words, what was told besides, the images in the prompt, and what came of it.

    `number` counts from 1, as the turn in an output's provenance does.
    """

    number: int
    words: str
    context: list[str]
    images: list[Json]
    parts: list[AnswerText | ToolExchange] = field(default_factory=list)

    @property
    def calls(self) -> list[ToolExchange]:
        return [part for part in self.parts if isinstance(part, ToolExchange)]


def exchanges_of(messages: Iterable[Json]) -> list[Exchange]:
    """The turns of a conversation, in order. What follows no prompt is left out."""
    return list(each_exchange(messages))


def each_exchange(messages: Iterable[Json]) -> Iterator[Exchange]:
    """The same, each turn when it is over: a long conversation need not be in memory."""
    turn: Exchange | None = None
    open_calls: dict[str, ToolExchange] = {}
    for message in messages:
        blocks = _blocks(message["content"])
        if begins_turn(message):
            if turn is not None:
                yield turn
            number = 1 if turn is None else turn.number + 1
            words, context = split_attached([str(block["text"]) for block in blocks if block["type"] == "text"])
            turn = Exchange(number, "\n".join(words).strip("\n"), context, _images(blocks))
        elif turn is None:
            continue
        elif message["role"] == "assistant":
            turn.parts += _answer(blocks, open_calls)
        else:
            _take_results(blocks, open_calls)
    if turn is not None:
        yield turn


def _blocks(content: str | Sequence[Json]) -> Sequence[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _answer(blocks: Sequence[Json], open_calls: dict[str, ToolExchange]) -> Iterator[AnswerText | ToolExchange]:
    for block in blocks:
        if block["type"] == "text" and str(block["text"]).strip():
            yield AnswerText(str(block["text"]).strip("\n"))
        elif block["type"] in ("tool_use", "server_tool_use"):
            call = ToolExchange(str(block["name"]), block["input"])
            open_calls[block["id"]] = call
            yield call
        elif (
            block["type"].endswith("_tool_result")
            and (asked := open_calls.get(block.get("tool_use_id", ""))) is not None
        ):
            asked.done = True


def _take_results(blocks: Sequence[Json], open_calls: dict[str, ToolExchange]) -> None:
    for block in blocks:
        if block["type"] != "tool_result" or (call := open_calls.pop(block["tool_use_id"], None)) is None:
            continue
        content = _blocks(block.get("content") or [])
        call.text = "\n".join(str(part["text"]) for part in content if part["type"] == "text")
        call.images = _images(content)
        call.done = not block.get("is_error", False)


def _images(blocks: Sequence[Json]) -> list[Json]:
    return [block["source"] for block in blocks if block["type"] == "image" and _is_drawable(block["source"])]


_DRAWN = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_BASE64 = lazy_pattern(r"[A-Za-z0-9+/]+={0,2}")


def _is_drawable(source: Json) -> bool:
    """Return whether this is a picture of the API's four kinds: a type or data that says more is a way out of a link."""
    return (
        source.get("type") == "base64"
        and source.get("media_type") in _DRAWN
        and _BASE64.fullmatch(str(source.get("data", ""))) is not None
    )


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
    given = json.dumps(call.input, indent=2, ensure_ascii=False), "json"
    for name, language in (("patch", "diff"), ("command", "bash"), ("code", "python")):
        if isinstance(call.input.get(name), str):
            given = str(call.input[name]).strip("\n"), language
    text, language = given
    shown = fenced(visible_controls(text), language)
    result = fenced(visible_controls(call.text.rstrip("\n"))) if call.text.strip() else ""
    yield folded(f"{mark} {call.title}", "\n\n".join(part for part in (shown, result) if part))
    yield from (f"![image {number}]({place(source)})" for number, source in enumerate(call.images, 1))


def notebook_pieces(exchanges: Iterable[Exchange], *, title: str, about: str) -> Iterator[str]:
    """The whole conversation as the text of an .ipynb file, a piece at a time."""

    def cells() -> Iterator[Mapping[str, Any]]:
        yield markdown_cell(f"# {escaped(title)}\n\n*{escaped(about)}*")
        for exchange in exchanges:
            yield from _cells(exchange)

    return _text_pieces(cells())


def notebook_text(cells: Iterable[Mapping[str, Any]]) -> str:
    """The text of a notebook with these cells; ids are made where they have none."""
    return "".join(_text_pieces(cells))


def _text_pieces(cells: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    kernel = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    numbered = (
        (cell, f"{number} {cell['source']}".encode("utf-8", "surrogatepass")) for number, cell in enumerate(cells)
    )
    named = ({"id": hashlib.sha256(text).hexdigest()[:12], **cell} for cell, text in numbered)
    return json_pieces({"cells": named, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}, "cells")


def json_pieces(content: Mapping[str, Any], streamed: str) -> Iterator[str]:
    """Write `content` as JSON, indented by 1, a piece at a time; the value of `streamed` is an iterable of objects."""
    whole = json.dumps({**content, streamed: []}, indent=1, ensure_ascii=False)
    before, mark, behind = whole.partition(f'\n "{streamed}": [')
    yield before + mark
    between = "\n"
    for item in content[streamed]:
        yield f"{between}{textwrap.indent(json.dumps(item, indent=1, ensure_ascii=False), '  ', lambda _: True)}"
        between = ",\n"
    yield ("" if between == "\n" else "\n ") + behind + "\n"


def markdown_cell(source: str, attachments: Mapping[str, Any] | None = None) -> dict[str, Any]:
    cell: dict[str, Any] = {"cell_type": "markdown", "metadata": {}, "source": _lines(source)}
    return {**cell, "attachments": dict(attachments)} if attachments else cell


def code_cell(source: str, outputs: Sequence[Json] = ()) -> dict[str, Any]:
    return {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {},
        "outputs": list(outputs),
        "source": _lines(source),
    }


def _cells(exchange: Exchange) -> Iterator[dict[str, Any]]:
    prompt = _Attached()
    blocks = [f"## {exchange.number}. You", quoted(safe_markdown(exchange.words)), *prompt.links(exchange.images)]
    blocks += [folded("Told besides", fenced(visible_controls(context))) for context in exchange.context]
    yield markdown_cell("\n\n".join(blocks), prompt.attachments)
    for part in exchange.parts:
        if isinstance(part, AnswerText):
            yield markdown_cell(safe_markdown(part.text))
        elif part.name == "Python" and isinstance(part.input.get("code"), str):
            yield code_cell(str(part.input["code"]).strip("\n"), list(_outputs(part)))
        else:
            held = _Attached()
            yield markdown_cell("\n\n".join(call_blocks(part, held.place)), held.attachments)


def _outputs(call: ToolExchange) -> Iterator[Json]:
    if call.text.strip():
        name = "stdout" if call.done else "stderr"
        yield {"output_type": "stream", "name": name, "text": _lines(f"{call.text.rstrip()}\n")}
    for source in call.images:
        data = {source["media_type"]: source["data"], "text/plain": ["<image>"]}
        yield {"output_type": "display_data", "data": data, "metadata": {}}


class _Attached:
    """The images of one cell, as its attachments."""

    def __init__(self) -> None:
        self.attachments: dict[str, Any] = {}

    def place(self, source: Json) -> str:
        name = f"image-{len(self.attachments) + 1}.{str(source['media_type']).removeprefix('image/')}"
        self.attachments[name] = {source["media_type"]: source["data"]}
        return f"attachment:{name}"

    def links(self, sources: Sequence[Json]) -> list[str]:
        return [f"![image {number}]({self.place(source)})" for number, source in enumerate(sources, 1)]


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


_PLAIN_COMMAND = lazy_pattern(r"[^\n$`{}!?\\%]{1,200}")
"""A command that `!` runs as it is: IPython would put variables in for `$` and braces."""


def code_cells(exchanges: Sequence[Exchange]) -> list[str]:
    """The sources of the cells, in the order in which the calls were made; what failed is left out."""
    return [source for exchange in exchanges for call in exchange.calls if (source := _source(call)) is not None]


def changed_files(exchanges: Sequence[Exchange]) -> list[str]:
    """The files that were edited by tools: the cells do not do that again."""
    return list(dict.fromkeys(path for exchange in exchanges for call in exchange.calls for path in _edited(call)))


def _source(call: ToolExchange) -> str | None:
    if not call.done:
        return None
    if call.name == "Python":
        return str(call.input.get("code", "")).strip("\n") or None
    # what runs on in the background belongs to a session, not to a notebook
    if call.name != "Bash" or call.input.get("run_in_background"):
        return None
    command = str(call.input.get("command", "")).strip("\n")
    if not command.strip():
        return None
    return f"!{command}" if _PLAIN_COMMAND.fullmatch(command) else f"%%bash\n{command}"


def _edited(call: ToolExchange) -> Iterator[str]:
    if call.done and call.name in ("Write", "Edit", "MultiEdit", "EditSymbol"):
        yield str(call.input.get("file_path", ""))
    elif call.done and call.name == "ApplyPatch":
        yield "the files of a patch"


def _json_pieces(messages: Iterable[Mapping[str, Any]], session: str, model: str) -> Iterator[str]:
    """The text of the file. Thinking is kept without its signature, which is bound to the conversation it came from."""
    content = {
        "cellwright_conversation": FORMAT,
        "session": session,
        "model": model,
        "messages": map(_without_signatures, messages),
    }
    return json_pieces(content, "messages")


def _without_signatures(message: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(message["content"], str):
        return dict(message)
    kept = [block for block in message["content"] if block["type"] != "redacted_thinking"]
    return {**message, "content": [{name: block[name] for name in block if name != "signature"} for block in kept]}


class Format(Struct, frozen=True):
    """The file ending of a format, and its name on the web."""

    ending: str
    media_type: str


FORMATS: Mapping[str, Format] = {
    "markdown": Format(".md", "text/markdown"),
    "notebook": Format(".ipynb", "application/x-ipynb+json"),
    "json": Format(".json", "application/json"),
}


class ExportedConversation(Struct, frozen=True):
    """A conversation written down; `found` counts the secrets that were replaced, by kind.

    `files` are the images that the text links to, by their paths from its own folder.
    """

    text: str
    files: Mapping[str, bytes]
    turns: int
    found: Mapping[str, int]


class Export:
    """A conversation that is written down as it is read; `pieces` is its text, and `found` counts secrets as they go by.

    `messages` gives the messages anew each time. Images go into `folder` beside a Markdown file, by `keep_file`, else into
    the text. Takes its time: secrets are searched for. Raises `CellwrightError` where there is nothing, or no such format.
    """

    def __init__(
        self,
        form: str,
        messages: Callable[[], Iterable[Json]],
        *,
        session: str,
        model: str,
        environ: Mapping[str, str],
        title: str = "",
        folder: str = "",
        keep_file: KeepFile = lambda _name, _data: None,
    ) -> None:
        if form not in FORMATS:
            message = f"Format {form!r} was not found. Choose one of {', '.join(FORMATS)}. Nothing was exported."
            raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
        said = [begins_turn(each) for each in messages()]
        if not said:
            message = f"There is nothing to export: {session} has no messages."
            raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
        self.turns = sum(said)
        self._form, self._messages, self._session, self._model = form, messages, session, model
        self._scan = JsonRedaction(redaction_of(environ))
        self._title = self._scan.clean_text(title) or f"Conversation {session}"
        self._folder, self._keep_file = folder, keep_file

    @property
    def found(self) -> Mapping[str, int]:
        """The secrets that were replaced so far, by kind."""
        return self._scan.found

    def pieces(self) -> Iterator[str]:
        """The text, a piece at a time: a long conversation is never in memory as a whole."""
        cleaned = map(self._scan.clean, self._messages())
        about = f"{self._model} · {self.turns} turns"
        if self._form == "json":
            return _json_pieces(cleaned, self._session, self._model)
        exchanges = each_exchange(cleaned)
        if self._form == "notebook":
            return notebook_pieces(exchanges, title=self._title, about=about)
        return markdown_pieces(
            exchanges, title=self._title, about=about, folder=self._folder, keep_file=self._keep_file
        )


def exported(
    form: str,
    messages: Sequence[Json],
    *,
    session: str,
    model: str,
    environ: Mapping[str, str],
    title: str = "",
    folder: str = "",
) -> ExportedConversation:
    """The conversation in the format `form`, whole. Raises as `Export`."""
    files: dict[str, bytes] = {}
    export = Export(
        form,
        lambda: messages,
        session=session,
        model=model,
        environ=environ,
        title=title,
        folder=folder,
        keep_file=files.__setitem__,
    )
    text = "".join(export.pieces())
    return ExportedConversation(text, files, export.turns, export.found)
