"""torch: tensors and modules. Values are told of what is in the machine's own memory; another device is not asked."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from cellwright.kernel.namespace.types.description import Description, is_of, own_vars, type_name
from cellwright.kernel.namespace.types.numpy import SAMPLE, shape_words
from cellwright.kernel.namespace.types.plain_values import brief

MAX_MODULES = 10_000


def describe(value: Any) -> Description | None:
    """A description of a tensor or a module; None for what is not known here."""
    if is_of(value, "torch", "Tensor"):
        grad = ", requires_grad" if value.requires_grad else ""
        words = f"{str(value.dtype).removeprefix('torch.')} on {value.device}{grad}"
        size = int(value.numel()) * int(value.element_size())
        shape = shape_words(tuple(value.shape))
        return Description(type_name(type(value)), shape, words, size, lambda: _values(value))
    if is_of(value, "torch.nn", "Module"):
        return _module(value)
    return None


def _values(tensor: Any) -> Iterator[str]:
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
    return Description(type_name(type(module)), summary=words, more=lambda: _children(module))


def _modules(module: Any) -> Iterator[Any]:
    waiting, seen = [module], set()
    while waiting:
        each = waiting.pop()
        if id(each) not in seen:
            seen.add(id(each))
            yield each
            waiting += [child for child in own_vars(each).get("_modules", {}).values() if child is not None]


def _children(module: Any) -> Iterator[str]:
    for name, child in itertools.islice(own_vars(module).get("_modules", {}).items(), 40):
        yield f".{name}: {type_name(type(child))}"
