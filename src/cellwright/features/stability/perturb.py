"""Runs inside a copy of the kernel: replaces a frame by a resample of itself, or permutes its label.

The text of this module is sent to the copy, which may be a kernel without Cellwright: it imports nothing of ours.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Sequence
from typing import Any

HOOK = "__cellwright_perturb__"
"""The name in the copy under which the perturbation is called again when code binds the frame anew."""
MARK = "cellwright-stability "
"""Begins the line that `describe` prints."""


def begin(namespace: dict[str, Any], spec: dict[str, Any]) -> None:
    """Seed the generators, perturb what there is of the frame and its companions, and leave the hook for the code.

    `spec`: `kind` ("none", "bootstrap", "leave_out", "permuted", "seed"), `frame`, `label` (a column or a variable, or ""),
    `by` (a column whose groups stay together, or ""), `also` (variables of equal length), `seed`, `part` (which tenth).
    """
    seeds = spec["seed"] if spec["kind"] == "seed" else 0
    random.seed(seeds)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(seeds)
    if (torch := sys.modules.get("torch")) is not None:
        torch.manual_seed(seeds)

    def again() -> None:
        perturb(namespace, {**spec, "also": []})

    namespace[HOOK] = again
    if spec["frame"] in namespace:
        perturb(namespace, spec)


def perturb(namespace: dict[str, Any], spec: dict[str, Any]) -> None:
    """Replace the frame, and what must stay in step with it. Raises ValueError if it is no frame."""
    kind, frame = spec["kind"], spec["frame"]
    value = namespace[frame]
    rows = rows_of(value)
    if rows is None:
        message = f"{frame} is no frame or array"
        raise ValueError(message)
    if kind in ("none", "seed") or rows == 0:
        return
    numpy = _numpy()
    generator = numpy.random.default_rng(spec["seed"])
    if kind == "permuted":
        order = generator.permutation(rows)
        if spec["label"] in columns_of(value):
            namespace[frame] = with_permuted(value, spec["label"], order)
        elif rows_of(namespace.get(spec["label"])) == rows:
            namespace[spec["label"]] = taken(namespace[spec["label"]], order, keep_index=True)
        return
    times = has_time_index(value)
    groups = groups_of(value, spec["by"]) if spec["by"] else None
    if kind == "bootstrap":
        order = bootstrap(generator, rows, blocks=times, groups=groups)
    else:
        order = without_a_tenth(rows, spec["part"], spec["seed"], blocks=times, groups=groups)
    # rows of a series keep their times: what is drawn is what stands at them
    keep_index = times and kind == "bootstrap"
    for name in (frame, *spec["also"]):
        if rows_of(namespace.get(name)) == rows:
            namespace[name] = taken(namespace[name], order, keep_index=keep_index)


def bootstrap(generator: Any, rows: int, *, blocks: bool, groups: Sequence[Any] | None) -> Any:
    """Return row numbers drawn with replacement: single rows, whole groups, or blocks of a series."""
    numpy = _numpy()
    if groups is not None:
        drawn = generator.integers(0, len(groups), len(groups))
        return numpy.concatenate([groups[group] for group in drawn])
    if not blocks:
        return generator.integers(0, rows, rows)
    length = max(1, round(rows ** (1 / 3)))
    starts = generator.integers(0, rows, -(-rows // length))
    return ((starts[:, None] + numpy.arange(length)) % rows).ravel()[:rows]


def without_a_tenth(rows: int, part: int, seed: int, *, blocks: bool, groups: Sequence[Any] | None) -> Any:
    """Return the row numbers but for a tenth of them; parts 0 to 9 leave out each row once."""
    numpy = _numpy()
    units = rows if groups is None else len(groups)
    order = numpy.arange(units) if blocks else numpy.random.default_rng(seed).permutation(units)
    left_out = set(numpy.array_split(order, 10)[part % 10].tolist())
    kept = [unit for unit in range(units) if unit not in left_out]
    if groups is None:
        return numpy.array(kept, dtype=int)
    return numpy.concatenate([groups[unit] for unit in kept]) if kept else numpy.array([], dtype=int)


def rows_of(value: Any) -> int | None:
    """Return the number of rows of a frame, series or array; None for anything else."""
    pandas, numpy, polars = (sys.modules.get(name) for name in ("pandas", "numpy", "polars"))
    if pandas is not None and isinstance(value, (pandas.DataFrame, pandas.Series)):
        return len(value)
    if numpy is not None and isinstance(value, numpy.ndarray) and value.ndim:
        return int(value.shape[0])
    if polars is not None and isinstance(value, (polars.DataFrame, polars.Series)):
        return len(value)
    return None


def columns_of(value: Any) -> list[str]:
    """Return the columns of a frame that have a text as name; none for anything else."""
    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
    kinds = [module.DataFrame for module in (pandas, polars) if module is not None]
    if not isinstance(value, tuple(kinds)):
        return []
    columns: Any = value.columns  # type: ignore[attr-defined]
    return [name for name in columns if isinstance(name, str)]


def has_time_index(value: Any) -> bool:
    """Return whether the rows are a series in time."""
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(value, (pandas.DataFrame, pandas.Series)):
        return False
    return isinstance(value.index, (pandas.DatetimeIndex, pandas.PeriodIndex, pandas.TimedeltaIndex))


def groups_of(value: Any, by: str) -> list[Any]:
    """Return the row numbers of each group of the column `by`."""
    numpy = _numpy()
    of_row = numpy.asarray(value[by])
    _, codes = numpy.unique(of_row.astype(str), return_inverse=True)
    order = numpy.argsort(codes, kind="stable")
    return list(numpy.split(order, numpy.flatnonzero(numpy.diff(codes[order])) + 1))


def taken(value: Any, order: Any, *, keep_index: bool) -> Any:
    """Return the rows `order` of `value`. Rows that are only counted are counted anew, as in a frame that was just read."""
    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
    if pandas is not None and isinstance(value, (pandas.DataFrame, pandas.Series)):
        found = value.iloc[order]
        if keep_index and len(order) == len(value):
            return found.set_axis(value.index)
        return found.reset_index(drop=True) if isinstance(value.index, pandas.RangeIndex) else found
    if polars is not None and isinstance(value, polars.DataFrame):
        # column by column: a copy of the kernel lacks the threads with which polars works on several
        return polars.DataFrame([taken(value[name], order, keep_index=False) for name in value.columns])
    if polars is not None and isinstance(value, polars.Series):
        items = value.to_list()
        return polars.Series(value.name, [items[row] for row in order.tolist()], dtype=value.dtype)
    return value[order]


def with_permuted(value: Any, label: str, order: Any) -> Any:
    """Return a copy of the frame whose column `label` is in the given order."""
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(value, pandas.DataFrame):
        return value.assign(**{label: value[label].iloc[order].set_axis(value.index)})
    return value.with_columns(taken(value[label], order, keep_index=False))


def describe(namespace: dict[str, Any], names: Sequence[str]) -> None:
    """Print what there is of frames and arrays under `names`, as JSON behind MARK."""
    found = []
    for name in names:
        value = namespace.get(name)
        rows = rows_of(value)
        if rows is not None and rows > 1:
            columns = [column[:100] for column in columns_of(value)][:200]
            found.append({"name": name, "rows": rows, "columns": columns, "times": has_time_index(value)})
    print(MARK + json.dumps(found))


def _numpy() -> Any:
    import numpy  # imported late, as neither this process nor the copy need have it

    return numpy
