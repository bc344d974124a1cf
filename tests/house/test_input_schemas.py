"""The written schemas of our tools' inputs are what their classes say; run as a program, this writes them."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import cellwright
from cellwright.agent.calls.tool_input import WRITTEN_SCHEMAS, ToolInput, full_name, schema_of

SOURCE = Path(cellwright.__file__).parent


def test_written_schemas_are_what_the_classes_say() -> None:
    written, said = json.loads(WRITTEN_SCHEMAS.read_bytes()), schemas()
    stale = sorted(name for name in {*written, *said} if written.get(name) != said.get(name))
    assert stale == [], "run: make written"


def schemas() -> Mapping[str, Any]:
    """The schemas of all inputs of ours by their classes' names, as JSON has them."""
    for path in sorted(SOURCE.rglob("*.py")):
        if "ToolInput):" in path.read_text("utf-8"):
            importlib.import_module(".".join(path.relative_to(SOURCE.parent).with_suffix("").parts))
    found = {full_name(each): schema_of(each) for each in _below(ToolInput) if _is_of_a_module(each)}
    schemas: Mapping[str, Any] = json.loads(json.dumps(dict(sorted(found.items()))))
    return schemas


def _is_of_a_module(input_type: type[ToolInput]) -> bool:
    """Return whether it is a class of ours; those of examples in docstrings are in no module."""
    module, name = input_type.__module__, input_type.__qualname__
    return module.startswith("cellwright.") and vars(sys.modules[module]).get(name) is input_type


def _below(input_type: type[ToolInput]) -> Iterator[type[ToolInput]]:
    for each in input_type.__subclasses__():
        yield each
        yield from _below(each)


if __name__ == "__main__":
    # a line each, so that a change shows which
    lines = (f"{json.dumps(name)}: {json.dumps(schema, ensure_ascii=False)}" for name, schema in schemas().items())
    sys.exit(0 if WRITTEN_SCHEMAS.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8") else 1)
