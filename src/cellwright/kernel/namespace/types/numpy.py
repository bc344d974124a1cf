"""numpy arrays, of any dtype and size; of a file that is mapped into memory nothing is read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cellwright.kernel.namespace.types.description import Description, is_of, library_class, type_name
from cellwright.kernel.namespace.types.plain_values import brief

EXACT_SIZE = 1_000_000
"""Elements; of more, smallest and largest are not looked for."""

SAMPLE = 6


def describe(value: Any) -> Description | None:
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
