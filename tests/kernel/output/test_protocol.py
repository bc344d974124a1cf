"""The operations that the kernel draws against the types by which the browser reads them, `transcript/protocol.ts`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
Accepts = Callable[[Any], bool]
_TOKEN = re.compile(r'"[^"]*"|[A-Za-z_]\w*|[{}\[\]<>,;:|?]')
_PLAIN: Mapping[str, Accepts] = {
    "string": lambda value: isinstance(value, str),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "true": lambda value: value is True,
    "null": lambda value: value is None,
    "Json": lambda _: True,
    "JsonObject": lambda value: isinstance(value, dict),
}


class Types:
    """The types that a page of TypeScript declares, as far as a protocol needs them, each as a check of JSON."""

    def __init__(self, source: str) -> None:
        source = re.sub(r"/\*.*?\*/|//[^\n]*", "", source, flags=re.DOTALL)
        self._bodies = dict(re.findall(r"export type (\w+) =(.*?;)\n(?=export |const |\n|\Z)", source, re.DOTALL))
        self._tokens: list[str] = []

    def accepts(self, name: str) -> Accepts:
        if name in _PLAIN:
            return _PLAIN[name]
        outer, self._tokens = self._tokens, _TOKEN.findall(self._bodies[name])
        accepts = self._union()
        assert self._tokens == [";"], f"{name} is written in a way that this test does not read: {self._tokens}"
        self._tokens = outer
        return accepts

    def names(self, name: str) -> list[str]:
        """The types that the union `name` is made of."""
        return re.findall(r"\w+", self._bodies[name])

    def _take(self, token: str) -> bool:
        found = self._tokens[0] == token
        if found:
            del self._tokens[0]
        return found

    def _union(self) -> Accepts:
        self._take("|")
        found = [self._member()]
        while self._take("|"):
            found.append(self._member())
        return lambda value: any(accepts(value) for accepts in found)

    def _member(self) -> Accepts:
        token = self._tokens.pop(0)
        if token == "{":
            accepts = self._fields()
        elif token.startswith('"'):
            accepts = json.loads(token).__eq__
        elif token == "Record":
            accepts = self._record()
        else:
            accepts = self.accepts(token)
        while self._take("["):
            assert self._take("]")
            accepts = _list_of(accepts)
        return accepts

    def _record(self) -> Accepts:
        assert self._take("<")
        key = self._union()
        assert self._take(",")
        item = self._union()
        assert self._take(">")
        return lambda value: isinstance(value, dict) and all(key(name) and item(each) for name, each in value.items())

    def _fields(self) -> Accepts:
        fields: dict[str, Accepts] = {}
        optional: set[str] = set()
        while not self._take("}"):
            name = self._tokens.pop(0)
            if self._take("?"):
                optional.add(name)
            assert self._take(":")
            fields[name] = self._union()
            self._take(";")
        return lambda value: (
            isinstance(value, dict)
            and fields.keys() - optional <= value.keys() <= fields.keys()
            and all(fields[name](item) for name, item in value.items())
        )


def _list_of(accepts: Accepts) -> Accepts:
    return lambda value: isinstance(value, list) and all(map(accepts, value))


TYPES = Types((ROOT / "labextension/src/transcript/protocol.ts").read_text("utf-8"))
KINDS = {name: TYPES.accepts(name) for name in TYPES.names("Op")}


def drawn() -> list[dict[str, Any]]:
    """All operations that were drawn and kept of the runs in `tests/telemetry`."""
    views = json.loads((ROOT / "tests/telemetry/run-views.json").read_text("utf-8")).values()
    lines = [line for view in views for line in (*view["panel"], *view["cell"]["operations"])]
    return [json.loads(line) for line in lines]


def test_every_operation_that_is_drawn_is_one_that_the_browser_knows() -> None:
    assert [op for op in drawn() if not any(accepts(op) for accepts in KINDS.values())] == []


def test_every_kind_that_the_browser_knows_is_drawn() -> None:
    ops = drawn()
    # a part's beginning and code that is stuck are no event's: the cell says them
    missing = {name for name, accepts in KINDS.items() if not any(map(accepts, ops))}
    assert missing == {"PartOp", "StuckOp"}


def test_the_examples_of_both_sides_are_of_these_types() -> None:
    examples = json.loads((ROOT / "docs/protocol/examples.json").read_text("utf-8"))
    for side, union in (("kernel_to_browser", "KernelMessage"), ("browser_to_kernel", "BrowserMessage")):
        accepts = TYPES.accepts(union)
        assert [message for message in examples[side] if not accepts(message)] == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"op": "text", "block": "0", "text": "a"},
        {"op": "text", "block": 0},
        {"op": "text", "block": 0, "text": "a", "more": 1},
        {"op": "mood", "mood": "good"},
        {"op": "drop", "blocks": [0], "tools": [0]},
    ],
)
def test_an_operation_of_another_shape_is_found(wrong: Mapping[str, Any]) -> None:
    assert not any(accepts(wrong) for accepts in KINDS.values())
