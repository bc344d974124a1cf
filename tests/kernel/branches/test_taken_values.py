"""Values on their way from a branch to the kernel: what comes back is what was there, and what is no data is refused."""

from __future__ import annotations

import io
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from cellwright.kernel.branches import taken_values
from cellwright.kernel.branches.taken_values import CannotTake, Offered, extent, why_not

np = pytest.importorskip("numpy")
pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="branches are of Linux")


def taken(value: Any) -> Any:
    """Both ends, in one process."""

    def write(file: io.FileIO) -> Offered:
        return taken_values.written(value, file)

    return read(write)


def read(write: Callable[[io.FileIO], Offered]) -> Any:
    with taken_values._sealable_file() as number:
        with open(os.dup(number), "wb", buffering=0) as file:  # noqa: PTH123 - a descriptor
            offered = write(file)
        taken_values._seal(number)
        return taken_values.read(offered, number)


def with_attrs(value: object) -> Any:
    frame = pd.DataFrame({"a": [1]})
    frame.attrs["of"] = value
    return frame


def nested() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


FRAMES = {
    "numbers": pd.DataFrame({"a": [1, 2], "b": [0.5, np.nan]}),
    "an index of text": pd.DataFrame({"a": [1, 2]}, index=pd.Index(["x", "y"], name="key")),
    "levels": pd.DataFrame({"n": [1, 2]}, index=pd.MultiIndex.from_tuples([("a", 1), ("b", 2)], names=["k", None])),
    "levels of columns": pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", "x"), ("a", "y")])),
    "numbers for names": pd.DataFrame({0: [1], 1: ["a"]}),
    "the same name twice": pd.DataFrame([[1, 2.5]], columns=["a", "a"]),
    "nullable": pd.DataFrame({"i": pd.array([2**60 + 1, None], dtype="Int64"), "b": pd.array([True, None])}),
    "times": pd.DataFrame(
        {"t": pd.to_datetime(["2026-01-01", None]), "z": pd.to_datetime(["2026-01-01"] * 2, utc=True)}
    ),
    "categories": pd.DataFrame({"c": pd.Categorical(["a", None, "b"], categories=["b", "a"], ordered=True)}),
    "objects": pd.DataFrame({"o": np.array(["a", None], dtype=object)}),
    "objects that are numbers": pd.DataFrame({"o": np.array([1, 2], dtype=object)}),
    "Arrow's own types": pd.DataFrame({"a": pd.array([1, None], dtype="int64[pyarrow]")}),
    "nothing": pd.DataFrame({"a": np.array([], dtype="float32")}),
    "no columns": pd.DataFrame(index=pd.RangeIndex(3)),
}


@pytest.mark.parametrize("name", FRAMES)
def test_a_frame_is_the_same(name: str) -> None:
    frame = FRAMES[name]
    found = taken(frame)
    pd.testing.assert_frame_equal(found, frame, check_column_type=False, check_freq=False)
    if len(frame) and len(frame.columns):
        found.iloc[0, 0] = found.iloc[-1, 0]  # the user's own from now on


def test_series_arrays_and_plain_values_are_the_same() -> None:
    series = pd.Series([1.5, 2], name="s", index=["a", "b"])
    pd.testing.assert_series_equal(taken(series), series)
    for array in (np.arange(6).reshape(2, 3), np.asfortranarray(np.eye(3)), np.zeros((0, 2)), np.array(["é", "b"])):
        found = taken(array)
        assert (found == array).all()
        assert (found.dtype, found.shape) == (array.dtype, array.shape)
        assert found.flags.writeable
    assert taken(np.float64(0.5)) == 0.5
    table = pa.table({"a": [1, 2]})
    assert taken(table).equals(table)
    plain = {"scores": [1, 2.5, None, True], "best": "ridge"}
    assert taken(plain) == plain


@pytest.mark.parametrize(
    "value",
    [
        object(),
        (1, 2),
        {1: 2},
        np.array([object()]),
        pd.DataFrame({"p": pd.period_range("2026-01", periods=2, freq="M")}),
        pd.DataFrame({"c": [1 + 2j]}),
        pd.DataFrame({pd.Timestamp("2026-01-01"): [1]}),
        pd.DataFrame({"lists": [[1], [2]]}),
        pd.DataFrame({"dicts": [{"a": 1}, {"b": 1}]}),
        np.ma.masked_array([1, 2], mask=[True, False]),
        type("Mine", (pd.DataFrame,), {})({"a": [1]}),
        with_attrs(object()),
        nested(),
        10**5000,
    ],
    ids=[
        *("object", "tuple", "keys", "array", "period", "complex", "label", "lists", "dicts", "masked", "subclass"),
        *("attrs", "nested", "long"),
    ],
)
def test_what_is_no_data_is_named(value: Any) -> None:
    with pytest.raises(CannotTake) as refused:
        taken(value)
    assert why_not(value) == str(refused.value)


def test_what_can_be_taken_is_told_without_taking_it() -> None:
    for value in (*FRAMES.values(), FRAMES["numbers"]["a"], np.eye(3), np.float64(1), pa.table({"a": [1]}), {"a": [1]}):
        assert why_not(value) == ""
    assert taken(with_attrs("survey")).attrs == {"of": "survey"}


def test_frames_of_polars_come_over_in_a_copy_without_its_threads() -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({"a": [1, 2, 3], "b": ["x", "y", None], "c": [0.5, 1.5, 2.5]})
    frame.group_by("b").agg(polars.col("a").sum())  # its threads are there now, and not in the child
    with taken_values._sealable_file() as number:
        pid = os.fork()
        if pid == 0:
            signal.alarm(60)
            with open(os.dup(number), "wb", buffering=0) as file:  # noqa: PTH123 - a descriptor
                os._exit(0 if why_not(frame) == "" and taken_values.written(frame, file).kind == "polars" else 1)
        assert os.waitpid(pid, 0)[1] == 0
        taken_values._seal(number)
        assert taken_values.read(Offered("polars"), number).equals(frame)
    series = polars.Series("k", ["a", "b", "a"], dtype=polars.Categorical)
    assert taken(series).equals(series)
    assert "its column o of Object" in why_not(polars.DataFrame({"o": polars.Series([object()], dtype=polars.Object)}))


class Column:
    """A column whose values make polars do `work`."""

    name, dtype = "p", "Panics"

    def __init__(self, work: Callable[[], Any]) -> None:
        self.to_arrow = work


class Frame:
    columns = ("p",)

    def __init__(self, work: Callable[[], Any]) -> None:
        self.get_columns = lambda: [Column(work)]


def test_a_panic_of_polars_is_no_data_and_an_interrupt_is_an_interrupt() -> None:
    polars = pytest.importorskip("polars")

    def panic() -> None:
        polars.Series([{"o": object()}], dtype=polars.Struct({"o": polars.Object}))

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(BaseException, match="unwrap") as raised:
        panic()
    assert not isinstance(raised.value, Exception)
    with pytest.raises(CannotTake, match="its column p of Panics"):
        taken_values._table_of_polars(Frame(panic))
    with pytest.raises(KeyboardInterrupt):
        taken_values._table_of_polars(Frame(interrupt))


def test_what_a_branch_writes_instead_is_refused() -> None:
    table = pa.table({"a": list(range(1000))})

    def stream(table: pa.Table, **options: Any) -> Callable[[io.FileIO], Offered]:
        def write(file: io.FileIO) -> Offered:
            with pa.ipc.new_stream(pa.PythonFile(file, "w"), table.schema, **options) as out:
                out.write_table(table)
            return Offered("arrow")

        return write

    def bytes_of(data: bytes, kind: Any) -> Callable[[io.FileIO], Offered]:
        def write(file: io.FileIO) -> Offered:
            file.write(data)
            return Offered(kind)

        return write

    pickled = io.BytesIO()
    np.save(pickled, np.array([object], dtype=object))
    huge = io.BytesIO()
    np.lib.format.write_array_header_1_0(huge, {"descr": "<f8", "fortran_order": False, "shape": (1 << 40,)})
    extension = pa.table({"p": pa.array(pd.period_range("2026-01", periods=2, freq="M"))})
    dictionary = pa.table({"d": pa.array(["x" * 1000, "y" * 1000]).dictionary_encode()})
    lz4 = pa.ipc.IpcWriteOptions(compression="lz4")
    hostile = {
        "extension": stream(extension),
        "compressed": stream(table, options=lz4),
        "compressed dictionary": stream(dictionary, options=lz4),
        "cut": bytes_of(b"\xff\xff\xff\xff\x10\0\0\0", "arrow"),
        "no stream": bytes_of(b"PK\x03\x04", "arrow"),
        "pickle": bytes_of(pickled.getvalue(), "array"),
        "huge": bytes_of(huge.getvalue(), "array"),
        "deep": bytes_of(b"[" * 1_000_000, "plain"),
        "other columns": lambda file: (stream(table)(file), Offered("pandas", ["a", "b"], ["int64"]))[1],
        "a dtype of somebody's": lambda file: (
            stream(table)(file),
            Offered("pandas", ["a"], ["int64", "category[x]"], steps=(0, 1, 1)),
        )[1],
        "nothing": lambda _: Offered("plain"),
    }
    for name, write in hostile.items():
        with pytest.raises(Exception) as refused:  # noqa: PT011 - libraries have errors of their own
            read(write)
        seen_before_it_is_read = isinstance(refused.value, CannotTake)
        assert seen_before_it_is_read or name not in ("extension", "compressed", "compressed dictionary", "huge"), name
    assert read(stream(table)).equals(table)
    assert read(stream(dictionary)).equals(dictionary)


def test_a_size_is_said_in_words() -> None:
    assert extent(FRAMES["numbers"]) == "2 rows × 2 columns"
    assert extent(FRAMES["numbers"]["a"]) == "2 rows"
    assert extent(np.zeros((2, 3))) == "array of 2 × 3, float64"
    assert extent([1]) == "list with 1 item"
