"""Descriptions of arrays and of what is computed with them: numpy, torch, xarray, dask, scikit-learn, matplotlib, scipy.

numpy: any dtype and size; of a file that is mapped into memory nothing is read. torch: tensors and modules; values are told
of what is in the machine's own memory; another device is not asked. xarray: values are told only when they are in memory
already. dask: what would be computed, as far as it is known without computing. Of the rest: estimators, figures, sparse
matrices.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from cellwright.kernel.namespace.describe import attribute_lines, brief, named
from cellwright.kernel.namespace.description import (
    Description,
    classes,
    in_columns,
    is_of,
    library_class,
    own_vars,
    short_name,
    type_name,
)
from cellwright.text import counted

EXACT_SIZE = 1_000_000
"""Elements; of more, smallest and largest are not looked for."""

SAMPLE = 6

MAX_MODULES = 10_000

MAX_VARIABLES = 40


def describe_numpy(value: Any) -> Description | None:
    """A description of an array; None for what is not known here."""
    if not is_of(value, "numpy", "ndarray"):
        return None
    base: Any = library_class("numpy", "ndarray")
    masked = is_of(value, "numpy.ma", "MaskedArray")
    plain = value if type(value) is base else base.view(value, base)
    mapped = is_of(value, "numpy", "memmap")
    return Description(
        type_name(type(value)),
        shape_words(plain.shape),
        f"{str(plain.dtype)[:120]}{', mapped from a file, not read' if mapped else ''}",
        memory=None if mapped else int(plain.nbytes),
        more=lambda: () if mapped else _lines(plain, masked, value),
    )


def shape_words(shape: tuple[int, ...]) -> str:
    """`3 × 4`; `scalar` without dimensions."""
    return " × ".join(f"{length:,}" for length in shape) if shape else "scalar"


def _lines(array: Any, masked: bool, value: Any) -> Iterator[str]:
    if not array.size:
        return
    yield f"first values: {', '.join(brief(each, 60, 2) for each in first_values(array))}"
    if array.dtype.kind in "iufb" and array.size <= EXACT_SIZE:
        yield _range_words(array)
    if masked and array.size <= EXACT_SIZE:
        mask = vars(value).get("_mask")
        yield f"masked: {int(mask.sum()):,}" if is_of(mask, "numpy", "ndarray") else "masked: 0"


def first_values(array: Any) -> list[Any]:
    """The first values along the last dimension, without a copy of the rest."""
    if not array.shape:
        return [array[()]]
    row = array[(0,) * (len(array.shape) - 1)]
    found: list[Any] = row[:SAMPLE].tolist()
    return found


def _range_words(array: Any) -> str:
    if array.dtype.kind != "f":
        return f"from {array.min()} to {array.max()}"
    known = array[array == array]
    missing = array.size - known.size
    errstate: Any = library_class("numpy", "errstate")
    with errstate(all="ignore"):  # the mean of inf and -inf would warn in the user's cell
        words = f"from {known.min():.6g} to {known.max():.6g}, mean {known.mean():.6g}" if known.size else "no numbers"
    return f"{words}, {missing:,} NaN"


def describe_torch(value: Any) -> Description | None:
    """A description of a tensor or a module; None for what is not known here."""
    if is_of(value, "torch", "Tensor"):
        grad = ", requires_grad" if value.requires_grad else ""
        words = f"{str(value.dtype).removeprefix('torch.')} on {value.device}{grad}"
        size = int(value.numel()) * int(value.element_size())
        shape = shape_words(tuple(value.shape))
        return Description(type_name(type(value)), shape, words, size, lambda: _tensor_values(value))
    if is_of(value, "torch.nn", "Module"):
        return _module(value)
    return None


def _tensor_values(tensor: Any) -> Iterator[str]:
    if tensor.device.type != "cpu" or str(tensor.layout) != "torch.strided" or not tensor.numel():
        return
    row = tensor.detach()[(0,) * max(0, tensor.dim() - 1)]
    values = row[:SAMPLE].tolist() if row.dim() else [row.item()]
    yield f"first values: {', '.join(brief(each, 30) for each in values)}"


def _module(module: Any) -> Description:
    parameters = trained = 0
    device = ""
    for each in itertools.islice(_modules(module), MAX_MODULES):
        for tensor in own_vars(each).get("_parameters", {}).values():
            if is_of(tensor, "torch", "Tensor"):
                parameters += tensor.numel()
                trained += tensor.numel() if tensor.requires_grad else 0
                device = device or f" on {tensor.device}"
    mode = "training" if own_vars(module).get("training") is True else "evaluating"
    words = f"{parameters:,} parameters ({trained:,} trainable){device}, {mode}"

    def children() -> Iterator[str]:
        for name, child in itertools.islice(own_vars(module).get("_modules", {}).items(), 40):
            yield f".{name}: {type_name(type(child))}"

    return Description(type_name(type(module)), summary=words, more=children)


def _modules(module: Any) -> Iterator[Any]:
    waiting, seen = [module], set()
    while waiting:
        each = waiting.pop()
        if id(each) not in seen:
            seen.add(id(each))
            yield each
            waiting += [child for child in own_vars(each).get("_modules", {}).values() if child is not None]


def describe_xarray(value: Any) -> Description | None:
    """A description of a Dataset or DataArray; None for what is not known here."""
    if is_of(value, "xarray", "Dataset"):
        names = [str(name) for name in itertools.islice(value.data_vars, MAX_VARIABLES)]
        return Description(
            type_name(type(value)),
            _sizes(value),
            ", ".join(names)[:200],
            int(value.nbytes),
            lambda: _dataset_lines(value),
        )
    if is_of(value, "xarray", "DataArray"):
        words = f"{value.name or ''} {value.dtype}{_where(value)}".strip()
        return Description(type_name(type(value)), _sizes(value), words, int(value.nbytes), lambda: _array_lines(value))
    return None


def _sizes(value: Any) -> str:
    return ", ".join(f"{name}: {length:,}" for name, length in itertools.islice(value.sizes.items(), 8))


def _data(array: Any) -> Any:
    """Return what holds the values: a numpy array, or something that would have to be computed."""
    return own_vars(array.variable).get("_data")


def _where(array: Any) -> str:
    data = _data(array)
    if is_of(data, "numpy", "ndarray") or type_name(type(data)).startswith("xarray.Pandas"):
        return ""
    return ", chunked, not computed" if type_name(type(data)).startswith("dask") else ", not loaded"


def _dataset_lines(dataset: Any) -> Iterator[str]:
    rows = [("variable", "dimensions", "dtype", "")]
    for kind, arrays in (("", dataset.data_vars), ("coordinate", dataset.coords)):
        for name, array in itertools.islice(arrays.items(), MAX_VARIABLES):
            note = f"{kind}{_where(array)}{_xarray_values(array)}".lstrip(", ")
            rows.append((str(name)[:40], ", ".join(map(str, array.dims))[:60], str(array.dtype)[:30], note))
    yield from in_columns(rows)
    yield from _attributes(dataset)


def _array_lines(array: Any) -> Iterator[str]:
    if values := _xarray_values(array):
        yield f"first values{values}"
    for name, coordinate in itertools.islice(array.coords.items(), MAX_VARIABLES):
        yield f"coordinate {name}: {', '.join(map(str, coordinate.dims))} {coordinate.dtype}{_xarray_values(coordinate)}"
    yield from _attributes(array)


def _xarray_values(array: Any) -> str:
    data = _data(array)
    if not is_of(data, "numpy", "ndarray") or not data.size:
        return ""
    return f": {', '.join(brief(each, 30) for each in first_values(data)[:3])}"


def _attributes(value: Any) -> Iterator[str]:
    for name, item in itertools.islice(value.attrs.items(), 12):
        yield f"attribute {name}: {named(name, item, 80, 1)}"


def describe_dask(value: Any) -> Description | None:
    """A description of a collection of dask; None for what is not known here."""
    kind = short_name(type(value))
    if kind == "Array":
        own = own_vars(value)
        shape, chunks = own.get("shape"), own.get("_Array__chunks")
        meta: Any = own.get("_meta")
        dtype = str(meta.dtype) if is_of(meta, "numpy", "ndarray") else ""
        words = f"{dtype}, not computed, chunks {brief(chunks, 80)}".removeprefix(", ")
        return Description(type_name(type(value)), shape_words(shape) if type(shape) is tuple else "", words)
    if kind in ("DataFrame", "Series", "Bag", "Delayed", "Index") or any(
        short_name(c) == "FrameBase" for c in classes(value)
    ):
        return Description(type_name(type(value)), summary="not computed")
    return None


def describe_plots_and_models(value: Any) -> Description | None:
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
        labels = [("title", plot.get_title()), ("x", plot.get_xlabel()), ("y", plot.get_ylabel())]
        words = [f"{word} {brief(text, 60)}" for word, text in labels if text]
        drawn = [(len(plot.lines), "line"), (len(plot.collections), "collection"), (len(plot.patches), "patch")]
        words += [counted(number, word) for number, word in drawn if number]
        yield f"plot: {', '.join(words) or 'empty'}"
