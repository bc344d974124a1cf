"""The variables that a branch of the template is given: those that the code names, by value.

Modules and what can be imported go by their names, functions and classes of the notebook as their source, frames and arrays
as data (`taken_values.py`), plain values as JSON, objects of the notebook's classes as their attributes. What is none of
these is named for Claude: the code runs without it.
"""

from __future__ import annotations

import ast
import contextlib
import datetime
import importlib
import json
import linecache
import os
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import IO, TYPE_CHECKING, Any, Literal

import msgspec
from IPython.core.inputtransformer2 import TransformerManager
from msgspec import Struct

from cellwright.kernel.branches.taken_values import (
    MOST_BYTES,
    MOST_NESTED,
    MOST_PLAIN_BYTES,
    CannotTake,
    Offered,
    read,
    written,
)
from cellwright.kernel.namespace.description import is_exactly, short_name
from cellwright.text import lazy_pattern

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

_WORD = lazy_pattern(r"[^\W\d]\w*")
_OURS = frozenset({"In", "Out", "exit", "quit", "get_ipython", "open"})
_ATOMS: Mapping[str, Any] = {"datetime": datetime.datetime, "date": datetime.date, "time": datetime.time}


class Given(Struct, frozen=True):
    """A variable on its way to a branch; `offered` says what its file holds.

    `kind` says what `text` is. module: its name; imported: "module:name"; source: the statement that defines it; object: its
    class, a name in the namespace, and the file has its attributes. A file without `offered` holds what `_tagged` gives.
    """

    name: str
    kind: Literal["module", "imported", "source", "data", "object"]
    text: str = ""
    offered: Offered | None = None


class CannotGive(Exception):
    """A variable does not go by value; the text says what it is."""


# ---------------------------------------------------------------- in the kernel
def names_in(code: str, namespace: Mapping[str, Any]) -> list[str]:
    """The variables of `namespace` that `code`, a cell, reads or changes, in the order in which it names them.

    Words of its texts count: `df.query("x > @limit")`, `%timeit f(x)` and SQL name variables there.

    >>> names_in("y = f(x)[0]; x = 1", {"f": abs, "x": [1], "y": 2, "z": 3})
    ['f', 'x']
    """
    try:
        tree = ast.parse(TransformerManager().transform_cell(code))
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # running it says what is wrong
        return []
    return [name for name in dict.fromkeys(_words_of(tree)) if name in namespace and name not in _OURS]


def _words_of(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Name(name, ast.Load() | ast.Del()) | ast.AugAssign(target=ast.Name(name)):
                yield name
            case ast.Global(names):
                yield from names
            case ast.Constant(str(text)):
                yield from _WORD.findall(text)


def given(name: str, value: Any, namespace: Mapping[str, Any], file: IO[bytes]) -> tuple[Given, list[str]]:
    """The variable `name` as it goes to a branch, its data written into `file`, and the names that its source needs.

    Raises CannotGive, and what libraries raise for a value that changes meanwhile.
    """
    kind = type(value)
    if isinstance(value, ModuleType):
        return Given(name, "module", value.__name__), []
    if isinstance(value, (type, FunctionType, BuiltinFunctionType)):
        module, qualified = value.__module__, value.__qualname__
        if module and module != "__main__" and _found(module, qualified) is value:
            return Given(name, "imported", f"{module}:{qualified}"), []
        source = _source_of(name, value, namespace)
        return Given(name, "source", source), names_in(source, namespace)
    if is_exactly(value, "numpy", "ufunc") and _found("numpy", ufunc := str(getattr(value, "__name__", ""))) is value:
        return Given(name, "imported", f"numpy:{ufunc}"), []
    if kind.__module__ == "__main__" and namespace.get(kind.__name__) is kind and "__slots__" not in vars(kind):
        try:
            file.write(json.dumps(_tagged(dict(object.__getattribute__(value, "__dict__")))).encode())
        except (AttributeError, CannotTake, ValueError):
            message = f"{kind.__name__}, whose attributes are not all plain values"
            raise CannotGive(message) from None
        return Given(name, "object", kind.__name__), [kind.__name__]
    return _given_data(name, value, file), []


def _given_data(name: str, value: Any, file: IO[bytes]) -> Given:
    if is_exactly(value, "numpy", "ndarray") and value.nbytes > MOST_BYTES:
        raise CannotGive(_what(value, f"more than {MOST_BYTES >> 30} GB"))
    try:
        return Given(name, "data", "", written(value, file))
    except CannotTake as why:
        file.seek(0)
        file.truncate()
        try:
            plain = json.dumps(_tagged(value)).encode()
        except (CannotTake, ValueError):
            raise CannotGive(_what(value, why)) from None
    if len(plain) > MOST_PLAIN_BYTES:
        raise CannotGive(_what(value, f"more than {MOST_PLAIN_BYTES >> 20} MB"))
    file.write(plain)
    return Given(name, "data")


def _what(value: object, why: object) -> str:
    kind, module = type(value).__name__, type(value).__module__.partition(".")[0]
    described = short_name(type(value)) if module in ("builtins", "__main__") else f"{kind} of {module}"
    return described if "is no frame" in str(why) else f"{described}: {why}" if str(why) else described


def _found(module: str, qualified: str) -> object:
    found: Any = sys.modules.get(module)
    for part in qualified.split("."):
        found = getattr(found, part, None)
    return found


def _source_of(name: str, value: Any, namespace: Mapping[str, Any]) -> str:
    """The statement of a cell that defines a function or class of the notebook. Raises CannotGive."""
    functions = (
        [value] if isinstance(value, FunctionType) else [*vars(value).values()] if isinstance(value, type) else []
    )
    for function in functions:
        if not isinstance(function, FunctionType) or function.__globals__ is not namespace:
            continue
        if function.__closure__ and function is value:
            break
        code = function.__code__
        source = "".join(linecache.getlines(code.co_filename))
        with contextlib.suppress(SyntaxError, ValueError):
            for statement in ast.parse(source).body:
                if _defines(statement, name, code.co_firstlineno):
                    first = min([statement.lineno, *(each.lineno for each in getattr(statement, "decorator_list", ()))])
                    return textwrap.dedent("".join(source.splitlines(keepends=True)[first - 1 : statement.end_lineno]))
    kind = "class" if isinstance(value, type) else "function"
    raise CannotGive(f"a {kind} whose source is not known by itself")


def _defines(statement: ast.stmt, name: str, line: int) -> bool:
    if not statement.lineno - len(getattr(statement, "decorator_list", ())) <= line <= (statement.end_lineno or 0):
        return False
    match statement:
        case ast.FunctionDef(name=found) | ast.AsyncFunctionDef(name=found) | ast.ClassDef(name=found):
            return found == name
        case ast.Assign(targets=[ast.Name(found)], value=ast.Lambda()):
            return found == name
    return False


def _tagged(value: Any, depth: int = 0) -> Any:
    """A plain value as JSON that keeps tuples, sets, bytes, times and all keys. Raises CannotTake."""
    if depth > MOST_NESTED:
        raise CannotTake
    kind = type(value)
    if kind in (str, int, float, bool, type(None)):
        return value
    if kind in (list, tuple, set, frozenset):
        return [kind.__name__, [_tagged(each, depth + 1) for each in value]]
    if kind is dict:
        return ["dict", [[_tagged(key, depth + 1), _tagged(each, depth + 1)] for key, each in value.items()]]
    if kind is bytes:
        return ["bytes", value.hex()]
    if kind is complex:
        return ["complex", [value.real, value.imag]]
    if kind is datetime.timedelta:
        return ["timedelta", [value.days, value.seconds, value.microseconds]]
    if kind in _ATOMS.values() and getattr(value, "tzinfo", None) in (None, datetime.UTC):
        return [kind.__name__, value.isoformat()]
    raise CannotTake


# ---------------------------------------------------------------- in the branch
def missing(shell: InteractiveShell, names: Sequence[str], _descriptors: Sequence[int]) -> object:
    """Tell which of `names` are not here yet: what an earlier call has bound stays."""
    return [name for name in names if name not in shell.user_ns]


def bind(shell: InteractiveShell, arguments: object, descriptors: Sequence[int]) -> object:
    """Bind a variable that the kernel gives; what that raised, or ""."""
    gift = msgspec.convert(arguments, Given)
    try:
        match gift.kind:
            case "module":
                shell.user_ns[gift.name] = importlib.import_module(gift.text)
            case "imported":
                module, _, qualified = gift.text.partition(":")
                importlib.import_module(module)
                shell.user_ns[gift.name] = _found(module, qualified)
            case "source":
                filename = f"<the notebook's {gift.name}>"
                linecache.cache[filename] = (len(gift.text), None, gift.text.splitlines(keepends=True), filename)
                exec(compile(gift.text, filename, "exec"), shell.user_ns)
            case "object":
                made = object.__new__(shell.user_ns[gift.text])
                made.__dict__.update(_read_tagged(descriptors[0]))
                shell.user_ns[gift.name] = made
            case "data":
                if gift.offered is None:
                    shell.user_ns[gift.name] = _read_tagged(descriptors[0])
                else:
                    shell.user_ns[gift.name] = read(gift.offered, descriptors[0])
    except Exception as error:  # noqa: BLE001 - libraries and the user's modules raise anything
        return f"{type(error).__name__}: {error}"[:300]
    return ""


def _read_tagged(file: int) -> Any:
    with open(os.dup(file), "rb") as data:  # noqa: PTH123 - a descriptor
        data.seek(0)
        return _untagged(json.loads(data.read()))


def _untagged(value: Any) -> Any:
    if not isinstance(value, list):
        return value
    kind, content = value
    match kind:
        case "list" | "tuple" | "set" | "frozenset":
            made: Any = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}[kind]
            return made(map(_untagged, content))
        case "dict":
            return {_untagged(key): _untagged(each) for key, each in content}
        case "bytes":
            return bytes.fromhex(content)
        case "complex":
            return complex(*content)
        case "timedelta":
            return datetime.timedelta(*content)
        case _:
            return _ATOMS[kind].fromisoformat(content)
