"""The result of a map: a row for each prompt, in the order of the prompts."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from msgspec import Struct

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.model.pricing import add_usage
from cellwright.text import dollars

if TYPE_CHECKING:
    import pandas as pd

SHOWN_ROWS = 20
SHOWN_CHARS = 300


class MapRow(Struct, frozen=True):
    """One prompt and its answer. `index` is the prompt's name in what was given: a number, a Series' label, a dict's key.

    `value` is the answer as the type of `schema`; None without one. `error` is None for a prompt that was answered; an
    unanswered one has what its error left of it. `kept`: the answer is of an earlier call that did not come to its end.
    `usage` is the API's, `cost_usd` in US dollars, None where a price is not known.

    >>> row = MapRow("north", "Which tables are here?", "There is one.", cost_usd=0.002)
    >>> row.index, row.text, row.error
    ('north', 'There is one.', None)
    """

    index: Any
    prompt: str
    text: str = ""
    value: Any = None
    error: CellwrightError | None = None
    stop_reason: str = ""
    usage: Mapping[str, Any] = {}
    cost_usd: float | None = 0.0
    seconds: float = 0.0
    kept: bool = False


class MapResult(Sequence[MapRow]):
    """The rows of a map, in the order of the prompts; a notebook shows them as a table.

    >>> import cellwright
    >>> result = cellwright.map(["Which tables are here?"])
    >>> result.texts, result.errors, result[0].stop_reason
    (['There is one: sales.csv.'], [], 'end_turn')
    """

    def __init__(self, rows: Sequence[MapRow]) -> None:
        self._rows = tuple(rows)

    @overload
    def __getitem__(self, index: int) -> MapRow: ...
    @overload
    def __getitem__(self, index: slice) -> MapResult: ...
    def __getitem__(self, index: int | slice) -> MapRow | MapResult:
        return MapResult(self._rows[index]) if isinstance(index, slice) else self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[MapRow]:
        return iter(self._rows)

    @property
    def texts(self) -> list[str | None]:
        """The answers; None for prompts that were not answered."""
        return [None if row.error else row.text for row in self]

    @property
    def values(self) -> list[Any]:
        """The answers as the type of `schema`; None for prompts that were not answered."""
        return [row.value for row in self]

    @property
    def errors(self) -> list[MapRow]:
        """The rows of the prompts that were not answered."""
        return [row for row in self if row.error]

    @property
    def cost_usd(self) -> float | None:
        """The cost of all answers in US dollars, kept ones included; None where a price is not known."""
        costs = [row.cost_usd for row in self]
        return None if None in costs else sum(cost for cost in costs if cost is not None)

    @property
    def usage(self) -> Mapping[str, Any]:
        """The sum of the API's usage blocks."""
        total: dict[str, Any] = {}
        for row in self:
            total = add_usage(total, row.usage)
        return total

    def frame(self) -> pd.DataFrame:
        """The rows as a pandas DataFrame, under the labels that the prompts had.

        Columns: `prompt`, `text`, the fields of `value` (or `value` itself where it has none), `error` (words, or None),
        `cost_usd`, `seconds`. A field whose name is taken is called `value_NAME`. Raises `CellwrightError` EXECUTION_ERROR
        where pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError:
            message = "A DataFrame needs pandas: pip install pandas. `texts`, `values` and the rows do without."
            raise CellwrightError(ErrorCode.EXECUTION_ERROR, message) from None
        columns: dict[str, list[Any]] = {"prompt": [row.prompt for row in self], "text": self.texts}
        own = {*columns, "error", "cost_usd", "seconds"}
        for name, values in self._value_columns().items():
            columns[f"value_{name}" if name in own else name] = values
        columns["error"] = [None if row.error is None else row.error.message for row in self]
        columns["cost_usd"] = [row.cost_usd for row in self]
        columns["seconds"] = [row.seconds for row in self]
        return pd.DataFrame(columns, index=[row.index for row in self])

    def _value_columns(self) -> dict[str, list[Any]]:
        if all(row.value is None for row in self):
            return {}
        fields = [_fields(row.value) for row in self]
        if any(found is None and row.value is not None for found, row in zip(fields, self, strict=True)):
            return {"value": self.values}
        names = dict.fromkeys(name for found in fields for name in found or ())
        return {name: [(found or {}).get(name) for found in fields] for name in names}

    def summary(self) -> str:
        """One line: how many prompts, how many of them failed, what they cost."""
        words = f"{len(self):,} prompt{'' if len(self) == 1 else 's'}"
        if failed := len(self.errors):
            words += f", {failed:,} not answered"
        return words if self.cost_usd is None else f"{words}, {dollars(self.cost_usd)}"

    def __repr__(self) -> str:
        return f"<MapResult: {self.summary()}>"

    def _repr_html_(self) -> str:
        rows = "".join(_table_row(row) for row in self[:SHOWN_ROWS])
        more = f"<p>… and {len(self) - SHOWN_ROWS:,} more</p>" if len(self) > SHOWN_ROWS else ""
        head = "<tr><th></th><th>prompt</th><th>answer</th></tr>"
        return f"<p>{html.escape(self.summary())}</p><table><thead>{head}</thead><tbody>{rows}</tbody></table>{more}"


def _table_row(row: MapRow) -> str:
    answer = row.text if row.error is None else f"⚠ {row.error.message}"
    cells = "".join(f'<td style="text-align: left">{html.escape(_short(text))}</td>' for text in (row.prompt, answer))
    return f"<tr><th>{html.escape(_short(str(row.index)))}</th>{cells}</tr>"


def _short(text: str) -> str:
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…"


def _fields(value: Any) -> Mapping[str, Any] | None:
    """The fields of a value that has names for them; None for a list, a number, …."""
    if isinstance(value, Mapping):
        return {str(name): each for name, each in value.items()}
    if hasattr(value, "model_dump"):  # a pydantic model
        return dict(value)
    names = getattr(type(value), "__dataclass_fields__", None) or getattr(type(value), "__struct_fields__", None)
    return None if names is None else {name: getattr(value, name) for name in names}


def error_of(code: str, message: str, *, recoverable: bool) -> CellwrightError:
    """The error of a row."""
    try:
        known = ErrorCode(code)
    except ValueError:
        known = ErrorCode.EXECUTION_ERROR
    return CellwrightError(known, message, recoverable=recoverable)
