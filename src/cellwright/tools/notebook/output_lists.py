"""Lists of a cell's outputs: put together as front ends do, and written as nbformat does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cellwright.tools.notebook.notebook_source import joined


def added_outputs(there: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """All outputs, those of one stream that follow one another as one."""
    outputs: list[dict[str, Any]] = []
    for output in (*there, *new):
        last = outputs[-1] if outputs else {}
        same = output.get("output_type") == "stream" == last.get("output_type") and output.get("name") == last.get(
            "name"
        )
        if same:
            outputs[-1] = {**last, "text": joined(last.get("text")) + joined(output.get("text"))}
        else:
            outputs.append(dict(output))
    return outputs


def joined_output(output: Mapping[str, Any]) -> dict[str, Any]:
    """An output with each of its texts as one string, as front ends have it."""
    return _with_texts(output, joined)


def written_outputs(outputs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Outputs with their texts as lists of lines, as nbformat writes them."""
    return [_with_texts(output, lambda text: joined(text).splitlines(keepends=True)) for output in outputs]


def _with_texts(output: Mapping[str, Any], change: Any) -> dict[str, Any]:
    value = dict(output)
    if value.get("output_type") == "stream":
        value["text"] = change(value.get("text"))
    elif isinstance(data := value.get("data"), Mapping):
        value["data"] = {kind: part if _is_json(kind, part) else change(part) for kind, part in data.items()}
    return value


def _is_json(kind: str, part: object) -> bool:
    if kind == "application/json" or (kind.startswith("application/") and kind.endswith("+json")):
        return True
    return not isinstance(part, str) and not (isinstance(part, list) and all(isinstance(line, str) for line in part))
