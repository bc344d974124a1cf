"""The formats a conversation is exported in, and the conversation written in one of them.

As JSON it holds the API's messages as they were, for programs:

    {"cellwright_conversation": 1, "session": ID, "model": …, "messages": [{"role": …, "content": [block, …]}, …]}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.redaction.redaction import JsonRedaction, redaction_of
from cellwright.sessions.export.documents import KeepFile, json_pieces, markdown_pieces, notebook_pieces
from cellwright.sessions.export.exchanges import each_exchange
from cellwright.sessions.turns import begins_turn

FORMAT = 1


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


Json = Mapping[str, Any]


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
