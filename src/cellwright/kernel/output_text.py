"""A cell's output in words: what it printed or showed, bounded; pictures are named."""

from __future__ import annotations

from collections.abc import Mapping

from cellwright.tools.notebook.open_notebook import Output
from cellwright.tools.notebook.pages import plain

OUTPUT_CHARS = 800
TEXT_TYPES = ("text/plain", "text/markdown", "text/latex")


def output_text(output: Output) -> str:
    """One output of nbformat 4, its texts joined, as text; two thirds from its beginning, the rest from its end."""
    kind = output.get("output_type")
    if kind == "stream":
        return _bounded(str(output.get("text", "")))
    if kind == "error":
        return _bounded(f"{output.get('ename', 'Error')}: {output.get('evalue', '')}")
    data = output.get("data")
    if not isinstance(data, Mapping):
        return ""
    text = next((str(data[mime]) for mime in TEXT_TYPES if mime in data), "")
    picture = next((mime for mime in data if str(mime).startswith("image/")), None)
    return "\n".join(part for part in (_bounded(text), f"[{picture}]" if picture else "") if part)


def _bounded(text: str) -> str:
    text = plain(text).strip("\n")
    if len(text) <= OUTPUT_CHARS:
        return text
    head, tail = OUTPUT_CHARS * 2 // 3, OUTPUT_CHARS // 3
    return f"{text[:head]}\n[… {len(text) - head - tail:,} characters left out …]\n{text[-tail:]}"
