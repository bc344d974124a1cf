"""dask: what would be computed, as far as it is known without computing."""

from __future__ import annotations

from typing import Any

from cellwright.kernel.namespace.types.description import Description, classes, is_of, own_vars, short_name, type_name
from cellwright.kernel.namespace.types.numpy import shape_words
from cellwright.kernel.namespace.types.plain_values import brief


def describe(value: Any) -> Description | None:
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
