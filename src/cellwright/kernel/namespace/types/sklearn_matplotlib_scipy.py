"""Estimators of scikit-learn, figures of matplotlib, sparse matrices of scipy."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from cellwright.kernel.namespace.types.arrays import shape_words
from cellwright.kernel.namespace.types.describe import attribute_lines, brief, named
from cellwright.kernel.namespace.types.description import Description, is_of, own_vars, short_name, type_name
from cellwright.text import counted


def describe(value: Any) -> Description | None:
    """A description of such an object; None for what is not known here."""
    if is_of(value, "sklearn.base", "BaseEstimator"):
        return _estimator(value)
    if is_of(value, "matplotlib.figure", "Figure"):
        width, height = value.get_size_inches()
        words = f"{width:g} × {height:g} in at {value.dpi:g} dpi, {counted(len(value.axes), 'plot')}"
        return Description(type_name(type(value)), summary=words, more=lambda: _plots(value.axes))
    if is_of(value, "matplotlib.axes", "Axes"):
        return Description(type_name(type(value)), summary=next(iter(_plots([value])), ""))
    if is_of(value, "scipy.sparse", "sparray") or is_of(value, "scipy.sparse", "spmatrix"):
        shape = shape_words(tuple(value.shape))
        return Description(type_name(type(value)), shape, f"{value.dtype}, {counted(value.nnz, 'stored value')}")
    return None


def _estimator(value: Any) -> Description:
    own = own_vars(value)
    given = {name: item for name, item in own.items() if not name.startswith("_") and not name.endswith("_")}
    fitted = {name: item for name, item in own.items() if name.endswith("_") and not name.startswith("_")}
    words = ", ".join(f"{name}={named(name, item, 30, 1)}" for name, item in itertools.islice(given.items(), 6))
    state = "fitted" if fitted or _is_fitted(given.get("steps")) else "not fitted"
    return Description(
        type_name(type(value)),
        summary=f"{short_name(type(value))}({words}), {state}",
        more=lambda: attribute_lines({**given, **fitted}),
    )


def _is_fitted(steps: Any) -> bool:
    """Return whether the last step of a pipeline has learnt something: the pipeline itself holds nothing of it."""
    if type(steps) is not list or not steps or type(steps[-1]) is not tuple:
        return False
    return any(name.endswith("_") and not name.startswith("_") for name in own_vars(steps[-1][-1]))


def _plots(axes: list[Any]) -> Iterator[str]:
    for plot in axes[:12]:
        words = [f"{word} {brief(text, 60)}" for word, text in _labels(plot) if text]
        drawn = [(len(plot.lines), "line"), (len(plot.collections), "collection"), (len(plot.patches), "patch")]
        words += [counted(number, word) for number, word in drawn if number]
        yield f"plot: {', '.join(words) or 'empty'}"


def _labels(plot: Any) -> list[tuple[str, str]]:
    return [("title", plot.get_title()), ("x", plot.get_xlabel()), ("y", plot.get_ylabel())]
