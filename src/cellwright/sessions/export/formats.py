"""The formats a conversation is exported in, and the conversation written in one of them.

As JSON it holds the API's messages as they were, for programs:

    {"cellwright_conversation": 1, "session": ID, "model": …, "messages": [{"role": …, "content": [block, …]}, …]}
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.redaction.redaction import JsonRedaction, redaction_of
from cellwright.sessions.export.exchanges import exchanges_of
from cellwright.sessions.export.markdown import as_markdown
from cellwright.sessions.export.notebook import as_notebook

FORMAT = 1


def as_json(messages: Sequence[Mapping[str, Any]], *, session: str, model: str) -> str:
    """The text of the file. Thinking is kept without its signature, which is bound to the conversation it came from."""
    content = {
        "cellwright_conversation": FORMAT,
        "session": session,
        "model": model,
        "messages": [_without_signatures(message) for message in messages],
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


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
    """The conversation in the format `form`. Images go into `folder` beside a Markdown file, else into the text.

    Takes its time: secrets are searched for. Raises `CellwrightError` where there is nothing, or no such format.
    """
    if form not in FORMATS:
        message = f"There is no format {form!r}; there are {', '.join(FORMATS)}. Nothing was exported."
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, message)
    if not messages:
        raise CellwrightError(ErrorCode.INVALID_PARAMETERS, f"There is nothing to export: {session} has no messages.")
    scan = JsonRedaction(redaction_of(environ))
    cleaned = scan.clean(messages)
    exchanges = exchanges_of(cleaned)
    title, about = scan.clean_text(title) or f"Conversation {session}", f"{model} · {len(exchanges)} turns"
    files: Mapping[str, bytes] = {}
    if form == "json":
        text = as_json(cleaned, session=session, model=model)
    elif form == "notebook":
        text = as_notebook(exchanges, title=title, about=about)
    else:
        markdown = as_markdown(exchanges, title=title, about=about, folder=folder)
        text, files = markdown.text, markdown.files
    return ExportedConversation(text, files, len(exchanges), scan.found)
