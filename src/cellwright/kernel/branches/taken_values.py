"""The variables of a branch that the kernel may take: which the code has changed, and a value as data.

A value is written there into memory, and read in the kernel, where nothing of it is believed. Frames go as Arrow's stream,
arrays as npy without pickles, plain values as JSON. A pickle would run what its writer wants, and so would Arrow's extension
types; compressed buffers could be far larger than what was sent. All of these are refused, and so is what would come back as
something else than it was.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import mmap
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import Struct

from cellwright.kernel.branches.snapshot import NoBranch
from cellwright.kernel.branches.undo_values import IPYTHONS, Value, difference, look_at, size_of
from cellwright.kernel.namespace.arrays import shape_words
from cellwright.kernel.namespace.description import is_exactly, is_of, short_name
from cellwright.text import counted, lazy_pattern, visible_line

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from cellwright.kernel.branches.branch import Branch


MOST_BYTES = 2 << 30
MOST_PLAIN_BYTES = 8 << 20
MOST_NESTED = 50

_TRIED_ROWS = 1000
"""Rows of a pandas frame that are written and read once in the branch, to see that they come back as they are."""

_LEAST_ARROW = (14, 0, 1)
"""Older ones unpickle what the type of a column says, before anybody can look at it."""

_EXTENSION = b"ARROW:extension"
_EXACT_DTYPES = lazy_pattern(
    r"U?Int(8|16|32|64)|Float(32|64)|boolean|string|str|object|(u?int(8|16|32|64)|float|double|bool|string)\[pyarrow\]"
)
"""The dtypes of pandas that a column of Arrow's does not say by itself."""

Scalar = str | int | float | bool | None
Label = Scalar | list[Scalar]
"""The name of a column or an index; a list is a tuple."""

MOST_NAMES = 200

_before: dict[str, Value] = {}


class Offered(Struct, frozen=True):
    """The description of the value that a branch has written. `problem`: it has written none, a sentence.

    Of a pandas frame: `columns` and `dtypes` of its columns, `index` the names of the levels that are the last columns, and
    `steps` the start, stop and step of an index that is a range. `attrs` are plain values.
    """

    kind: Literal["pandas", "pandas series", "polars", "polars series", "arrow", "array", "scalar", "plain"] = "plain"
    columns: list[Label] = []
    dtypes: list[str] = []
    index: list[Label] = []
    steps: tuple[int, int, int] | None = None
    attrs: dict[str, Any] = {}
    problem: str = ""


class CannotTake(Exception):
    """A value is no data that can be taken over; the text says why."""


# ---------------------------------------------------------------- in the branch


def offer(shell: InteractiveShell, name: str, descriptors: Sequence[int]) -> object:
    """In a branch: write the variable `name` into the file `descriptors[0]`, and say what it is."""
    if name not in shell.user_ns:
        return {"problem": f"The branch has no variable {name}."}
    try:
        with open(os.dup(descriptors[0]), "wb", buffering=0) as file:  # noqa: PTH123 - a descriptor
            return msgspec.to_builtins(written(shell.user_ns[name], file))
    except CannotTake as why:
        return {"problem": f"{name} was not taken: {why}."}
    except OSError as error:  # the limit of a branch's files
        return {"problem": f"{name} was not taken: it is too large ({error.strerror})."}


def why_not(value: Any) -> str:
    """Say why `value` is no data that can be taken; "" if it is, as far as its type and its first rows show."""
    if is_exactly(value, "numpy", "ndarray"):
        value = value.flat[:0]
    elif is_exactly(value, "pandas", "DataFrame") or is_exactly(value, "pandas", "Series"):
        value = value.iloc[:_TRIED_ROWS]
    elif is_exactly(value, "polars", "DataFrame") or is_exactly(value, "polars", "Series"):
        value = value.head(0)
    elif is_exactly(value, "pyarrow", "Table"):
        value = value.slice(0, 0)
    try:
        written(value, io.BytesIO())
    except CannotTake as why:
        return str(why)
    return ""


def written(value: Any, file: IO[bytes]) -> Offered:
    if is_exactly(value, "pandas", "DataFrame"):
        return _write_pandas(_returning(value), "pandas", file)
    if is_exactly(value, "pandas", "Series"):
        return _write_pandas(_returning(value.to_frame(name=value.name)), "pandas series", file)
    if is_exactly(value, "polars", "DataFrame"):
        return _write_table(_table_of_polars(value), "polars", file)
    if is_exactly(value, "polars", "Series"):
        return _write_table(_table_of_polars(value.to_frame()), "polars series", file)
    if is_exactly(value, "pyarrow", "Table"):
        return _write_table(value, "arrow", file)
    is_array = is_exactly(value, "numpy", "ndarray")
    if is_array or (is_of(value, "numpy", "generic") and type(value).__module__ == "numpy"):
        np = _library("numpy")

        if value.dtype.hasobject:
            message = f"an array of {value.dtype} holds Python's objects, which are no data"
            raise CannotTake(message)
        np.lib.format.write_array(file, np.asarray(value), allow_pickle=False)
        return Offered("array" if is_array else "scalar")
    return _write_plain(value, file)


def _write_plain(value: Any, file: IO[bytes]) -> Offered:
    if not _is_plain(value):
        message = f"{short_name(type(value))} is no frame, no array and no plain value; run its code in your kernel"
        raise CannotTake(message)
    try:
        data = json.dumps(value).encode()
    except ValueError:  # an integer of thousands of digits
        message = "it holds a number that is too long"
        raise CannotTake(message) from None
    if len(data) > MOST_PLAIN_BYTES:
        message = f"as a plain value it may have {MOST_PLAIN_BYTES >> 20} MB"
        raise CannotTake(message)
    file.write(data)
    return Offered("plain")


def _is_plain(value: object, depth: int = 0) -> bool:
    """Return whether `value` is the same again when it was written as JSON."""
    if depth > MOST_NESTED:
        return False
    if type(value) is dict:
        return all(type(key) is str and _is_plain(each, depth + 1) for key, each in value.items())
    if type(value) is list:
        return all(_is_plain(each, depth + 1) for each in value)
    return type(value) in (str, int, float, bool, type(None))


def _table_of_polars(frame: Any) -> Any:
    """The table of a polars frame: column by column, since only that needs none of the threads which a branch has not."""
    polars: Any = sys.modules["polars"]
    arrays = []
    for column in frame.get_columns():
        try:
            array = column.to_arrow()
            is_same = polars.from_arrow(array.slice(0, 0)).dtype == column.dtype
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # noqa: BLE001 - a panic of polars, as after a fork, is no `Exception`
            is_same = False
        if not is_same:
            raise CannotTake(_no_data(column.name, column.dtype))
        arrays.append(array)
    return _arrow().table(arrays, names=frame.columns)


def _returning(frame: Any) -> Any:
    """Give `frame` if its first rows come back as they are."""
    head = frame.iloc[:_TRIED_ROWS]
    file = io.BytesIO()
    offered = msgspec.json.decode(msgspec.json.encode(_write_pandas(head, "pandas", file)), type=Offered)
    data = bytearray(file.getvalue())
    found = _as_pandas(_read_table(data), offered, data)
    if not (found.index.equals(head.index) and found.columns.equals(head.columns) and found.attrs == head.attrs):
        message = "its index, its columns' names or its attrs do not come back as they are; reset or rename them first"
        raise CannotTake(message)
    for number, name in enumerate(head.columns):
        if not found.iloc[:, number].equals(head.iloc[:, number]):
            raise CannotTake(_no_data(name, f"{head.dtypes.iloc[number]}, with what it holds,"))
    return frame


def _no_data(column: object, kind: object) -> str:
    return f"its column {column} of {kind} does not go as data; convert or drop it first"


def _write_pandas(frame: Any, kind: Literal["pandas", "pandas series"], file: IO[bytes]) -> Offered:
    pd = _library("pandas")

    if not _is_plain(frame.attrs):
        message = "its attrs hold more than plain values; drop them first"
        raise CannotTake(message)
    index = frame.index
    is_range = type(index) is pd.RangeIndex
    levels = [] if is_range else [index.get_level_values(number) for number in range(index.nlevels)]
    columns = [frame.iloc[:, number] for number in range(frame.shape[1])]
    names = [*map(_label, frame.columns)]
    shown = [*map(str, frame.columns), *("of the index" for _ in levels)]
    parts = [*columns, *(level.to_series() for level in levels)]
    offered = Offered(
        kind,
        names,
        [str(each.dtype) for each in parts],
        [_label(each) for each in index.names],
        (index.start, index.stop, index.step) if is_range else None,
        frame.attrs,
    )
    arrow = _arrow()
    arrays = []
    for name, part in zip(shown, parts, strict=True):
        try:
            arrays.append(arrow.array(part))
        except (arrow.ArrowException, TypeError, ValueError, OverflowError):
            raise CannotTake(_no_data(name, part.dtype)) from None
    return _write_table(arrow.table(arrays, [str(number) for number in range(len(arrays))]), offered, file)


def _label(name: object) -> Label:
    return [_scalar(each) for each in name] if isinstance(name, tuple) else _scalar(name)


def _scalar(name: object) -> Scalar:
    plain = name.item() if hasattr(name, "item") else name
    if isinstance(plain, (str, int, float, bool, type(None))):
        return plain
    message = f"the name of a column, {short_name(type(name))}, is neither text nor a number; rename it first"
    raise CannotTake(message)


def _write_table(table: Any, offered: Any, file: IO[bytes]) -> Offered:
    arrow = _arrow()
    told = offered if isinstance(offered, Offered) else Offered(offered)
    for field in table.schema:
        if (problem := _unfit(arrow, field.type)) is not None:
            column = told.columns[int(field.name)] if told.columns and field.name.isdigit() else field.name
            raise CannotTake(_no_data(column, problem))
    table = table.replace_schema_metadata(None)
    if table.nbytes > MOST_BYTES:
        message = f"it has {table.nbytes / 1e9:.1f} GB, and at most {MOST_BYTES / 1e9:.1f} GB are taken"
        raise CannotTake(message)
    with arrow.ipc.new_stream(arrow.PythonFile(file, "w"), table.schema) as stream:
        stream.write_table(table)
    return told


# ---------------------------------------------------------------- in the kernel


async def take_from(branch: Branch, name: str) -> Any:
    """The variable `name` of `branch`, made anew here of data. Raises `NoBranch` with why it was not taken."""
    with _sealable_file() as file:
        try:
            offered = msgspec.convert(await branch.ask(f"{__name__}:offer", name, (file,), timeout=60.0), Offered)
        except msgspec.ValidationError as error:
            message = f"{name} was not taken: what the branch says of it cannot be read."
            raise NoBranch(message) from error
        if offered.problem:
            raise NoBranch(offered.problem[:500])
        try:
            _seal(file)
            return read(offered, file)
        except CannotTake as why:
            message = f"{name} was not taken: {why}."
            raise NoBranch(message) from why
        except Exception as error:  # what libraries raise for data that is none
            message = f"{name} was not taken: the data from the branch cannot be read ({type(error).__name__})."
            raise NoBranch(message) from error


@contextlib.contextmanager
def _sealable_file() -> Iterator[int]:
    file = os.memfd_create("cellwright-taken", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        yield file
    finally:
        os.close(file)


def _seal(file: int) -> None:
    """From now on nobody can change `file`."""
    fcntl.fcntl(
        file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
    )


def read(offered: Offered, file: int) -> Any:
    """Make the value of the sealed `file`: nobody can change it any more."""
    size = os.fstat(file).st_size
    if not 0 < size <= MOST_BYTES + (1 << 20):
        message = f"it has {size / 1e9:.1f} GB"
        raise CannotTake(message)
    # pages of our own once they are written: arrays stand in them, and nothing is copied
    data = mmap.mmap(file, size, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)
    match offered.kind:
        case "plain":
            if size > MOST_PLAIN_BYTES:
                message = "it is too large"
                raise CannotTake(message)
            return json.loads(data[:])
        case "array" | "scalar":
            array = _read_array(data)
            return array if offered.kind == "array" else array[()]
    table = _read_table(data)
    match offered.kind:
        case "arrow":
            return table
        case "polars" | "polars series":
            pl = _library("polars")

            frame = pl.from_arrow(table)
            return frame if offered.kind == "polars" or isinstance(frame, pl.Series) else frame.to_series()
    return _as_pandas(table, offered, data)


def _read_array(data: mmap.mmap) -> Any:
    np = _library("numpy")

    head = io.BytesIO(data[: 1 << 16])
    version = np.lib.format.read_magic(head)
    readers: Mapping[Any, Callable[[io.BytesIO], Any]] = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }
    shape, by_columns, dtype = readers[version](head)
    count = 1
    for length in shape:
        count *= length
    if dtype.hasobject or count < 0 or count * dtype.itemsize != len(data) - head.tell():
        message = "its size is not what it says"
        raise CannotTake(message)
    array = np.frombuffer(data, dtype, count, head.tell()) if count and dtype.itemsize else np.empty(count, dtype)
    return array.reshape(shape, order="F" if by_columns else "C")


def _read_table(data: mmap.mmap | bytearray) -> Any:
    """The table of Arrow's stream in `data`, checked before and after it is read."""
    arrow = _arrow()
    if data[:4] != b"\xff\xff\xff\xff" or _EXTENSION in data[8 : 8 + int.from_bytes(data[4:8], "little")]:
        message = "its types are not Arrow's own"
        raise CannotTake(message)
    buffer = arrow.py_buffer(data)
    for message in arrow.ipc.MessageReader.open_stream(buffer):
        if _is_compressed(bytes(message.metadata), message.type):
            why = "it is compressed"
            raise CannotTake(why)
    table = arrow.ipc.open_stream(buffer).read_all().replace_schema_metadata(None)
    table.validate(full=True)
    if any(_unfit(arrow, field.type) is not None for field in table.schema) or table.num_rows > 8 * len(data):
        why = "its size is not what it says"
        raise CannotTake(why)
    return table


def _is_compressed(message: bytes, kind: str) -> bool:
    """Return whether a message of Arrow's holds compressed buffers: the fourth field of its record batch is there."""
    batch = _field(message, int.from_bytes(message[:4], "little"), 2)
    if kind == "dictionary batch" and batch is not None:
        batch = _field(message, batch, 1)
    return batch is not None and _field(message, batch, 3) is not None


def _field(message: bytes, table: int, number: int) -> int | None:
    """The place of the table that is field `number` of the FlatBuffers table at `table`; None if it is not there."""
    fields = table - int.from_bytes(message[table : table + 4], "little", signed=True)
    entry = fields + 4 + 2 * number
    if entry >= fields + int.from_bytes(message[fields : fields + 2], "little"):
        return None
    offset = int.from_bytes(message[entry : entry + 2], "little")
    place = table + offset
    return place + int.from_bytes(message[place : place + 4], "little") if offset else None


def _as_pandas(table: Any, offered: Offered, data: mmap.mmap | bytearray) -> Any:
    pd = _library("pandas")

    if len(offered.columns) > table.num_columns or len(offered.dtypes) != table.num_columns:
        message = "its columns are not what it says"
        raise CannotTake(message)
    parts = []
    for column, dtype in zip(table.columns, offered.dtypes, strict=True):
        exact: Any = pd.api.types.pandas_dtype(dtype) if _EXACT_DTYPES.fullmatch(dtype) else None
        if hasattr(exact, "__from_arrow__"):
            parts.append(pd.Series(exact.__from_arrow__(column)))
        elif dtype != "object" and (numbers := _numbers_in(data, column)) is not None:
            parts.append(pd.Series(numbers, copy=False))
        else:
            # copied: what is Arrow's own memory cannot be written
            values = column.to_pandas(integer_object_nulls=dtype == "object")
            parts.append(pd.Series(values, dtype=exact, copy=True))
    count = len(offered.columns)
    if offered.steps is not None:
        index: Any = pd.RangeIndex(*offered.steps, name=_named(offered.index[0]))
    elif len(parts) - count == 1:
        index = pd.Index(parts[-1], name=_named(offered.index[0]))
    else:
        index = pd.MultiIndex.from_arrays(parts[count:], names=[_named(each) for each in offered.index])
    frame = pd.DataFrame(dict(enumerate(parts[:count])), copy=False)
    if not count:
        frame = pd.DataFrame(index=index)
    frame.index = index
    labels = [_named(each) for each in offered.columns]
    in_levels = bool(labels) and all(type(label) is tuple for label in labels)
    frame.columns = pd.MultiIndex.from_tuples(labels) if in_levels else pd.Index(labels)
    frame.attrs = offered.attrs
    return frame if offered.kind == "pandas" else frame.iloc[:, 0]


def _numbers_in(data: mmap.mmap | bytearray, column: Any) -> Any:
    """The array that a column of plain numbers is in `data`; None for other columns, and those with gaps."""
    np = _library("numpy")

    types = _arrow().types
    if (
        column.num_chunks != 1
        or column.null_count
        or not (types.is_integer(column.type) or types.is_floating(column.type))
    ):
        return None
    [chunk] = column.chunks
    dtype = np.dtype(column.type.to_pandas_dtype())
    start = chunk.buffers()[1].address - np.frombuffer(data, np.uint8).ctypes.data + chunk.offset * dtype.itemsize
    return np.frombuffer(data, dtype, len(chunk), start)


def _named(label: Label) -> Any:
    return tuple(label) if isinstance(label, list) else label


# ---------------------------------------------------------------- on both sides


def _library(name: str) -> Any:
    """A library that is heavy, and may not be there: it is loaded with the first value of its kind."""
    return importlib.import_module(name)


def _arrow() -> Any:
    try:
        arrow = _library("pyarrow")
    except ImportError:
        message = "a frame is taken by pyarrow, which is not installed"
        raise CannotTake(message) from None
    if tuple(int(part) for part in re.findall(r"\d+", arrow.__version__)[:3]) < _LEAST_ARROW:
        message = f"a frame is taken by pyarrow from version 14.0.1 on; this is {arrow.__version__}"
        raise CannotTake(message)
    return arrow


def _unfit(arrow: Any, kind: Any) -> str | None:
    """The type in `kind` whose values are no plain data in buffers of their own size; None if there is none."""
    types = arrow.types
    if types.is_dictionary(kind):
        return _unfit(arrow, kind.value_type)
    if types.is_list(kind) or types.is_large_list(kind):
        return _unfit(arrow, kind.value_type)
    if types.is_struct(kind):
        return next(filter(None, (_unfit(arrow, kind.field(at).type) for at in range(kind.num_fields))), None)
    fits = (
        types.is_primitive(kind)
        or types.is_null(kind)
        or types.is_decimal(kind)
        or types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_binary(kind)
        or types.is_large_binary(kind)
        or str(kind) in ("string_view", "binary_view")
    )
    return None if fits else str(kind)


def extent(value: Any) -> str:
    """Say how large a value is that was taken.

    >>> extent({"a": 1}), extent("abc")
    ('dict with 1 item', 'str')
    """
    if is_exactly(value, "numpy", "ndarray"):
        return f"array of {shape_words(value.shape) if value.shape else 'one number'}, {value.dtype}"
    shape: tuple[int, ...] = getattr(value, "shape", ())
    if len(shape) == 2:
        return f"{counted(shape[0], 'row')} × {counted(shape[1], 'column')}"
    if len(shape) == 1:
        return counted(shape[0], "row")
    if type(value) in (list, dict):
        return f"{type(value).__name__} with {counted(len(value), 'item')}"
    return short_name(type(value))


# ---------------------------------------------------------------- the variables that the code has changed


class ChangedVariable(Struct, frozen=True):
    """A variable that the preview's code made, changed or deleted.

    `text` says how, `why_not` why it is no data that can be taken ("": it is).
    """

    name: str
    text: str
    why_not: str = ""


def remember_variables(shell: Any, folder: str, _descriptors: Sequence[int]) -> None:
    """Work in `folder`, and remember the variables as they are. In the branch."""
    os.chdir(folder)
    _before.clear()
    _before.update(look_at(shell.user_ns, _users_names(shell)))


def report_changes(shell: Any, _arguments: object, _descriptors: Sequence[int]) -> object:
    """Tell what has changed since. In the branch, beside code of Claude's: it is shown, and believed in nothing."""
    now = look_at(shell.user_ns, _users_names(shell))
    found = []
    for name in sorted({*_before, *now}):
        was, value = _before.get(name), now.get(name)
        same = was is not None and value is not None and was.address == value.address
        if was is not None and value is not None and (was.digest == value.digest if was.digest else same):
            continue
        if value is not None and value.kind == "module":
            continue  # code that needs it imports it
        problem = "only the code deletes it" if value is None else why_not(shell.user_ns[name])
        found.append(ChangedVariable(name, change_text(name, was, value), problem))
    return msgspec.to_builtins(found[:MOST_NAMES])


def _users_names(shell: Any) -> list[str]:
    hidden = shell.user_ns_hidden
    return [name for name in shell.user_ns if not name.startswith("_") and name not in hidden and name not in IPYTHONS]


def change_text(name: str, was: Value | None, now: Value | None) -> str:
    """Say how a variable has changed.

    >>> table = Value(1, "x", "DataFrame", rows=68846, columns=3)
    >>> change_text("df", table, Value(2, "y", "DataFrame", rows=70112, columns=3))
    '`df`: 68,846 rows → 70,112'
    >>> change_text("model", None, Value(1, "y", "Ridge"))
    '`model`: new, Ridge'
    """
    if now is None:
        return f"`{name}`: deleted"
    if was is None:
        size = f" of {size_of(now)}" if size_of(now) else f" {now.text}" if now.text else ""
        return f"`{name}`: new, {now.kind}{size}"
    return f"`{name}`: {difference(was, now) or 'other contents'}"


def reported(told: object) -> list[ChangedVariable]:
    """The variables that `report_changes` has told, judged: names are names, texts one line. Raises `NoBranch`."""
    try:
        found = msgspec.convert(told, list[ChangedVariable])
    except msgspec.ValidationError as error:
        message = "What the copy of the kernel says of its variables cannot be read."
        raise NoBranch(message) from error
    return [
        ChangedVariable(each.name, visible_line(each.text, 300), visible_line(each.why_not, 300))
        for each in found[:MOST_NAMES]
        if each.name.isidentifier() and not each.name.startswith("_")
    ]
