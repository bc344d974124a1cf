"""Looking at variables: what is told of each kind, and that nothing of the user's runs, hangs, or goes on for ever."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import datetime
import enum
import pathlib
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from cellwright.agent.thread import AgentThread, CallerJobs, agent_code_running
from cellwright.agent.tool import ToolContext
from cellwright.errors import ToolError
from cellwright.kernel.namespace.describe import MAX_BITS
from cellwright.kernel.namespace.namespace import (
    CHARS_EACH,
    LINE_CHARS,
    SECONDS_EACH,
    describe_all,
    fingerprint,
    line,
    user_variables,
)
from cellwright.kernel.namespace.variables_tool import variables_tool
from cellwright.permissions.policy import PermissionPolicy
from eventual import paces
from row_tables import for_each_row

np = pytest.importorskip("numpy")
pd = pytest.importorskip("pandas")


class Touchy:
    """Whatever is asked of it hurts, once it is `armed`: libraries that hold it may ask before."""

    armed = False
    touched: ClassVar[list[str]] = []

    def __init__(self) -> None:
        self.inside = [1, 2]

    def _hurt(self, *_: object) -> Any:
        if not Touchy.armed:
            raise AttributeError
        Touchy.touched.append("touched")
        raise SystemExit

    __repr__ = __str__ = __len__ = __iter__ = __bool__ = __hash__ = __eq__ = __getattr__ = __sizeof__ = __format__ = (
        _hurt
    )
    shape = columns = property(_hurt)


class TouchyList(list):  # type: ignore[type-arg]
    __repr__ = __len__ = __iter__ = __getitem__ = Touchy._hurt  # type: ignore[assignment]


class TouchyDict(dict):  # type: ignore[type-arg]
    __repr__ = __len__ = __iter__ = __getitem__ = items = keys = Touchy._hurt  # type: ignore[assignment]


class TouchyMeta(type):
    __repr__ = Touchy._hurt
    __name__ = property(Touchy._hurt)  # type: ignore[assignment]


class TouchyClass(metaclass=TouchyMeta):
    pass


@dataclasses.dataclass
class Point:
    x: float
    password: str = "hunter22"
    near: list[int] = dataclasses.field(default_factory=lambda: [1, 2])


class Color(enum.Enum):
    RED = 1


class Slotted:
    __slots__ = ("empty", "full")

    def __init__(self) -> None:
        self.full = 3


Pair = collections.namedtuple("Pair", ["left", "right"])


def saying(words: Callable[[], Any]) -> Any:
    class Speaker:
        def _repr_claude_(self) -> Any:
            return words()

    return Speaker()


def told(value: object) -> str:
    """All that is told of a value, in one line, from its type on."""
    return re.sub(
        r"\s+", " ", dict(describe_all({"it": value}, seconds=60, seconds_each=60))["it"].removeprefix("it: ")
    )


@contextlib.contextmanager
def untouched() -> Iterator[None]:
    """Nothing of what is touchy is touched in the block."""
    Touchy.touched.clear()
    Touchy.armed = True
    try:
        yield
    finally:
        Touchy.armed = False
    assert Touchy.touched == []


RECURSIVE: list[Any] = []
RECURSIVE.append(RECURSIVE)


class Node:
    """In a circle with its parent, as a tree's nodes are."""

    def __init__(self, parent: Node | None, depth: int) -> None:
        self.parent = parent
        self.children = [Node(self, depth - 1) for _ in range(2)] if depth else []
        self.left, self.right = self.children or (None, None)


class NoDict:
    __dict__ = property(Touchy._hurt)  # type: ignore[assignment]


class SecretText(str):
    __slots__ = ()


@for_each_row(
    ("value", "words"),
    [
        (None, "NoneType = None"),
        (1.5, "float = 1.5"),
        (10**1000, f"int = <int of {(10**1000).bit_length():,} bits>"),
        ("x" * 10**6, "str (len 1,000,000, 1 MB) = 'xx"),
        (b"abc", "bytes (len 3) = b'abc'"),
        (list(range(1000)), "list (len 1,000, 8.06 kB) = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, … 988 more]"),
        ((1,), "tuple (len 1) = (1,)"),
        (set(), "set (len 0) = set()"),
        (RECURSIVE, "list (len 1) = [[[[…]]]]"),
        ({"a": {"b": {"c": {"d": 1}}}}, "{'a': {'b': {'c': {'d': 1}}}}"),
        ({"api_key": "abc", "n": 1}, "{'api_key': [secret removed: api_key], 'n': 1}"),
        (collections.Counter("aab"), "Counter({'a': 2, 'b': 1})"),
        (collections.deque([1]), "collections.deque (len 1) = deque([1])"),
        (frozenset({1}), "frozenset({1})"),
        ([], "list (len 0) = []"),
        ((), "tuple (len 0) = ()"),
        (Pair(1, "b"), "Pair (len 2) = Pair(left=1, right='b')"),
        (Color.RED, "Color = Color.RED"),
        (Point(1.0), ".password str [secret removed: password]"),
        (Slotted(), "Slotted = Slotted(full=3)"),
        (datetime.datetime(2026, 1, 2), "2026-01-02 00:00:00"),
        (pathlib.PurePosixPath("/x"), "PurePosixPath('/x')"),
        (ValueError("x", 1), "ValueError = ('x', 1)"),
        (range(3), "range(0, 3, 1)"),
        ((each for each in ()), "generator = "),
        (iter([1]), "list_iterator"),
        (threading.Lock(), "lock"),
        (sys, "module = sys"),
        (Point, "class = "),
        (Touchy(), "Touchy = Touchy(inside=[1, 2]) .inside list [1, 2]"),
        (TouchyList([1, 2]), "TouchyList (len 2) = TouchyList([1, 2])"),
        (TouchyDict(a=1), "TouchyDict (len 1) = TouchyDict({'a': 1})"),
        ([Touchy(), TouchyClass()], "[<"),
        (TouchyClass, "class = "),
        (Node(None, 8), "Node(parent=None, children=[<tests.Node>, <tests.Node>], left=<tests.Node>, right="),
        (NoDict(), "NoDict"),
        ([NoDict(), 1], "[<tests.NoDict>, 1]"),
        (saying(lambda: "I am a speaker"), "I am a speaker"),
        (saying(lambda: {"text/plain": "plain", "text/markdown": "*marked*"}), "*marked*"),
        (saying(lambda: 1 / 0), "[its _repr_claude_ raised ZeroDivisionError]"),
        (saying(lambda: sys.exit(3)), "[its _repr_claude_ raised SystemExit]"),
        (saying(lambda: 7), "[its _repr_claude_ returned no text but int]"),
    ],
)
def test_what_is_told(value: object, words: str) -> None:
    with untouched():
        text = told(value)
        assert len(line("it", value)) <= LINE_CHARS + 1
    assert words in text
    assert len(text) <= CHARS_EACH + 200


@pytest.mark.parametrize("value", ["s3cr3t", b"s3cr3t", bytearray(b"s3cr3t"), SecretText("s3cr3t")])
def test_a_text_under_the_name_of_a_secret_is_not_told_whatever_its_class(value: object) -> None:
    def connect(password: object = value) -> None: ...

    frame = pd.DataFrame({"host": ["db"], "password": [value]})
    values: dict[str, object] = {"db_password": value, "connect": connect, "frame": frame, "row": frame.iloc[0]}
    texts = dict(describe_all(values, seconds=60, seconds_each=60))
    assert "s3cr3t" not in str(texts)
    assert all("[secret removed: " in text for text in texts.values())
    assert "'db' | [secret removed: password]" in texts["row"]


def test_a_secret_that_would_be_cut_through_is_removed_before() -> None:
    payload = "eyJhbGciOiJIUzI1NiJ9." + "a1B2c3D4" * 60 + "." + "c2ln" * 10
    for text in (f"token {payload}", "https://x.org/" + "a/" * 60 + f" postgresql://bob:{'s3cr3t' * 20}@db/x"):
        words = line("it", text)
        assert "[secret removed: " in words
        assert "a1B2" not in words
        assert "s3cr3t" not in words


def test_a_small_number_is_told_whole() -> None:
    assert str(2 ** (MAX_BITS - 1)) in told(2 ** (MAX_BITS - 1))


def described_function(a, b: int = 1, /, c=Touchy, *rest, d: str = "x", **more) -> None:
    """What it does.

    And more.
    """


def test_a_functions_signature_is_told_without_asking_its_defaults() -> None:
    text = told(described_function)
    assert "described_function(a, b: int=1, /, c=<class>, *rest, d: str='x', **more)" in text
    assert "What it does. defined in" in text
    assert "And more" not in text


def forever() -> None:
    while True:
        time.sleep(60)


def swallowing() -> str:
    for _ in range(3):
        try:
            time.sleep(60)
        except BaseException:  # noqa: BLE001  as users write it
            continue
    return "at last"


@pytest.mark.parametrize("words", [forever, swallowing, lambda: "x" * 10**8])
def test_what_an_object_says_of_itself_is_bounded_in_time_and_length(words: Callable[[], Any]) -> None:
    started = time.monotonic()
    texts = dict(describe_all({"it": saying(words), "next": 1}))
    assert time.monotonic() - started < 3 * SECONDS_EACH + 20
    assert len(texts["it"]) <= CHARS_EACH + 200
    assert texts["next"] == "next: int = 1"


def test_what_it_prints_goes_nowhere(capsys: pytest.CaptureFixture[str]) -> None:
    assert "said" in told(saying(lambda: print("printed") or "said"))
    assert capsys.readouterr().out == ""


def test_all_together_have_a_time_limit() -> None:
    slow = {f"v{number}": saying(forever) for number in range(20)}
    started = time.monotonic()
    texts = dict(describe_all(slow, seconds=1.0))
    assert time.monotonic() - started < 30
    assert texts.keys() == slow.keys()
    assert "the others took" in texts["v19"]


def test_the_users_own_interrupt_is_not_taken_for_the_limit() -> None:
    import signal

    def interrupted() -> str:
        signal.raise_signal(signal.SIGINT)
        return "not reached"

    with pytest.raises(KeyboardInterrupt):
        dict(describe_all({"it": saying(interrupted)}))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def odd_objects() -> Any:
    values = np.empty(3, dtype=object)
    values[0], values[1], values[2] = Touchy(), "text", [1]
    return values


class Sub(pd.DataFrame):
    @property
    def shape(self) -> Any:
        raise SystemExit


@for_each_row(
    ("value", "words"),
    [
        (
            pd.DataFrame({"a": [1, 2, None], "o": odd_objects(), "password": ["a1", "b2", "c3"]}),
            [
                "pandas.DataFrame (3 × 3,",
                "a float64 1 1.0 | 2.0 | nan",
                "o object 0 <tests.Touchy> | 'text' | [1]",
                "[secret removed: password]",
            ],
        ),
        (Sub({"a": [1]}), ["Sub (1 × 1,", "a int64 0 1"]),
        (pd.DataFrame({"c": pd.Categorical(["u", "v"])}), ["category(2)"]),
        (pd.DataFrame([[1, 2]], columns=["same", "same"]), ["same int64 0 1 same int64 0 2"]),
        (pd.DataFrame(np.zeros((2, 500))), ["(2 × 500,", "… 440 more columns"]),
        (pd.DataFrame(), ["(0 × 0"]),
        (pd.Series([1.5, None], name="q"), ["pandas.Series (2,", "q: float64", "1.5 | nan"]),
        (pd.date_range("2026", periods=4), ["pandas.DatetimeIndex (4,", "2026-01-01 00:00:00"]),
        (pd.MultiIndex.from_tuples([(1, "a")], names=["n", "m"]), ["MultiIndex (n, m): (1, 'a')"]),
        (pd.DataFrame({"k": [1, 2]}).groupby("k"), ["of 2 × 1, by 'k'", "not computed"]),
        (np.zeros((3, 4)), ["numpy.ndarray (3 × 4, 96 B) = float64", "from 0 to 0, mean 0, 0 NaN"]),
        (np.zeros(2, dtype=[("a", "i4"), ("b", "f8")]), ["(0, 0.0), (0, 0.0)"]),
        (np.array(["2026"], dtype="datetime64[D]"), ["datetime64[D]"]),
        (odd_objects(), ["object", "<tests.Touchy>, 'text', [1]"]),
        (np.array([np.inf, -np.inf]), ["from -inf to inf, mean nan"]),
        (np.array(3), ["(scalar, 8 B)", "first values: 3"]),
        (np.zeros((0, 3)), ["(0 × 3"]),
        (np.ma.array([1, 2], mask=[0, 1]), ["masked: 1"]),
        (np.float64(1.5), ["numpy.float64 = 1.5"]),
    ],
)
def test_what_is_told_of_frames_and_arrays(value: object, words: list[str]) -> None:
    with untouched():
        text = told(value)
    for each in words:
        assert each in text


def test_a_file_in_memory_is_not_read(tmp_path: pathlib.Path) -> None:
    mapped = np.memmap(tmp_path / "large", mode="w+", shape=(1000, 1000), dtype="f4")
    assert "mapped from a file, not read" in told(mapped)
    assert "first values" not in told(mapped)


def test_a_large_frame_takes_milliseconds_and_its_nulls_are_estimated() -> None:
    frame = pd.DataFrame({"a": np.arange(10_000_000), "b": np.where(np.arange(10_000_000) % 4 == 0, np.nan, 1.0)})
    told(frame.head())
    text = told(frame)
    assert paces(lambda: told(frame), 40) < 40
    assert "a int64 ~0.0%" in text
    assert "10,000 rows at equal distances" in text


def test_two_hundred_variables_take_a_moment() -> None:
    values = {f"v{number}": value for number in range(50) for value in [pd.DataFrame({"a": [1], "b": ["x"]})]}
    values |= {f"w{number}": {"a": [number] * 10, "b": "text"} for number in range(150)}
    dict(describe_all(values, line))
    assert len(dict(describe_all(values, line))) == 200
    assert paces(lambda: dict(describe_all(values, line)), 40) < 40


def test_polars_is_not_collected() -> None:
    pl = pytest.importorskip("polars")
    text = told(pl.DataFrame({"a": [1, None], "s": ["x", "y"]}))
    assert "polars.DataFrame (2 × 2" in text
    assert "a Int64 1 1 | None" in text
    assert "k: Int64" in told(pl.Series("k", [1, 2]))
    collected: list[int] = []
    lazy = pl.LazyFrame({"a": [1]}).map_batches(lambda frame: collected.append(1) or frame)
    assert "not collected" in told(lazy)
    assert collected == []


def test_arrow_tables_and_datasets(tmp_path: pathlib.Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.dataset
    import pyarrow.parquet

    table = pa.table({"a": [1, None], "b": ["x", "y"]})
    assert "a int64 1 1 | None" in told(table)
    assert "pyarrow.Int64Array (3" in told(pa.array([1, 2, None]))
    pyarrow.parquet.write_table(table, tmp_path / "t.parquet")
    dataset = pyarrow.dataset.dataset(tmp_path / "t.parquet")
    (tmp_path / "t.parquet").unlink()
    assert "not scanned; a, b a: int64 b: string" in told(dataset)


def test_xarray_values_are_told_only_from_memory(tmp_path: pathlib.Path) -> None:
    xr = pytest.importorskip("xarray")
    data = xr.DataArray(np.arange(6.0).reshape(2, 3), dims=("x", "y"), coords={"x": [10, 20]}, name="heat")
    assert "x: 2, y: 3" in told(data)
    assert "first values: 0.0, 1.0, 2.0" in told(data)
    text = told(xr.Dataset({"v": ("x", [1, 2])}, attrs={"units": "m"}))
    assert "v x int64 : 1, 2" in text
    assert "attribute units: 'm'" in text


def test_what_dask_would_compute_is_not_computed() -> None:
    array = pytest.importorskip("dask.array")
    xr = pytest.importorskip("xarray")
    computed: list[int] = []
    lazy = array.map_blocks(
        lambda block: computed.append(1), array.ones((4, 4), chunks=2), dtype=float, meta=np.array(())
    )
    assert "dask.Array (4 × 4) = float64, not computed, chunks ((2, 2), (2, 2))" in told(lazy)
    assert "lazy x, y float64 chunked, not computed" in told(xr.Dataset({"lazy": (("x", "y"), lazy)}))
    assert computed == []


def test_a_pipeline_is_fitted_when_its_last_step_is() -> None:
    pytest.importorskip("sklearn")
    from sklearn.linear_model import LinearRegression
    from sklearn.pipeline import make_pipeline

    pipeline = make_pipeline(LinearRegression(fit_intercept=False))
    assert "not fitted" in told(pipeline)
    assert "LinearRegression(fit_intercept=False" in told(LinearRegression(fit_intercept=False))
    assert ", fitted" in told(pipeline.fit([[1], [2]], [1, 2]))


def test_a_relation_is_not_executed() -> None:
    duckdb = pytest.importorskip("duckdb")
    relation = duckdb.connect().sql("select error('it was executed') as run, 'x' as b")
    text = told(relation)
    assert "not executed; run, b run: " in text
    assert "b: VARCHAR" in text


def test_a_result_can_still_be_fetched_and_no_password_is_told() -> None:
    sa = pytest.importorskip("sqlalchemy")
    engine = sa.create_engine("sqlite://")
    assert "sqlite:// (sqlite)" in told(engine)
    assert "postgresql://u:***@h/db" in told(sa.engine.make_url("postgresql://u:hunter22@h/db"))
    with engine.connect() as connection:
        result = connection.execute(sa.text("select 1 as one, 'a' as two"))
        assert "rows not fetched, so that they can still be; one, two" in told(result)
        row = result.one()
        assert ".one int 1 .two str 'a'" in told(row)
        assert "used up" in told(result)


def test_models_of_pydantic() -> None:
    pydantic = pytest.importorskip("pydantic")

    class Setup(pydantic.BaseModel):
        rounds: int = 3
        key: pydantic.SecretStr = pydantic.SecretStr("hunter22")

    assert "rounds=3, key=<pydantic.SecretStr>" in told(Setup())
    assert "hunter22" not in told(Setup().key)


def test_figures_are_told_by_their_plots() -> None:
    pytest.importorskip("matplotlib")
    from matplotlib.figure import Figure

    figure = Figure()
    plot = figure.subplots()
    plot.set_title("Prices")
    plot.plot([1, 2])
    assert "1 plot plot: title 'Prices', 1 line" in told(figure)


def test_tensors_and_modules() -> None:
    torch = pytest.importorskip("torch")
    assert "(2 × 3, 24 B) = float32 on cpu, requires_grad" in told(torch.ones(2, 3, requires_grad=True))
    assert "6 parameters (6 trainable)" in told(torch.nn.Linear(5, 1))


def test_no_library_is_imported() -> None:
    code = (
        "import sys\nfrom cellwright.kernel.namespace.namespace import describe_all\n"
        "values = {'a': 1, 'b': [object()], 'c': type('C', (), {'__module__': 'pandas'})()}\n"
        "print(len(list(describe_all(values))), sorted({'numpy', 'pandas', 'polars', 'torch'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "3 []\n"


@pytest.fixture(scope="module")
def shell() -> InteractiveShell:
    shell = InteractiveShell(config=Config({"HistoryManager": {"enabled": False}}))
    shell.run_cell(
        "import sys\ndef helper():\n    pass\n_hidden = first = 1\nsecond = {'db': {'host': 'h'}}\napi_key = 'abcdef'"
    )
    return shell


def look(shell: InteractiveShell, redacts: bool = True, **tool_input: Any) -> str:
    """What the tool gives back; the main thread works off jobs, as a cell that waits does."""
    thread, jobs = AgentThread(), CallerJobs()
    tool = variables_tool(shell, jobs, redacts=redacts)
    try:
        task = thread.submit(tool.call(tool_input, ToolContext("toolu_1", lambda **_: None)))  # type: ignore[arg-type]
        jobs.work_until_done(task)
        return str(task.result().content)
    finally:
        thread.stop()


def test_the_list_has_data_newest_first_and_says_what_it_leaves_out(shell: InteractiveShell) -> None:
    lines = look(shell).splitlines()
    assert lines == [
        "api_key: str (len 6) = [secret removed: api_key]",
        "second: dict (len 1) = {'db': {'host': 'h'}}",
        "first: int = 1",
        '[functions, classes and modules: 2; include="all" lists them]',
    ]
    assert list(user_variables(shell)) == ["sys", "helper", "first", "second", "api_key"]


def test_a_list_is_filtered_sorted_and_paged(shell: InteractiveShell) -> None:
    names = [text.partition(":")[0] for text in look(shell, include="all", order="name").splitlines()]
    assert names == ["api_key", "first", "helper", "second", "sys"]
    assert look(shell, pattern="f*").splitlines()[0] == "first: int = 1"
    assert look(shell, limit=1, offset=1).splitlines()[:2] == [
        "second: dict (len 1) = {'db': {'host': 'h'}}",
        "[1 more: go on with offset=2]",
    ]
    assert look(shell, pattern="zzz").startswith("There is no variable that fits zzz.")


def test_where_nobody_works_off_jobs_the_kernel_is_said_to_be_busy(shell: InteractiveShell) -> None:
    thread = AgentThread()
    tool = variables_tool(shell, CallerJobs(), busy_seconds=0.05)
    try:
        task = thread.submit(tool.call({}, ToolContext("toolu_1", lambda **_: None)))  # type: ignore[arg-type]
        with pytest.raises(ToolError, match="busy with other code"):
            task.future.result(60)
    finally:
        thread.stop()


def test_without_redaction_names_hide_nothing(shell: InteractiveShell) -> None:
    assert "'abcdef'" in look(shell, redacts=False, names=["api_key"])


def test_names_may_go_into_a_value(shell: InteractiveShell) -> None:
    shell.user_ns.update(point=Point(2.0), frame=pd.DataFrame({"a": [1, 2]}), pair=Pair(1, 2), touchy=Touchy())
    paths = ["second['db'].host", "second['db']['host']", "point.near[1]", "frame.columns", "frame['a']", "frame.a"]
    with untouched():
        text = look(shell, names=[*paths, "pair.left", "touchy.inside", "sys.maxsize"])
    assert "second['db']['host']: str (len 1) = 'h'" in text
    assert "point.near[1]: int = 2" in text
    assert "frame.columns: pandas.Index (1" in text
    assert "frame['a']: pandas.Series (2" in text
    assert "pair.left: int = 1" in text
    assert "touchy.inside: list (len 2) = [1, 2]" in text
    assert f"sys.maxsize: int = {sys.maxsize}" in text
    assert "second['db'], of type dict, has no host of its own." in text


@for_each_row(
    ("path", "problem"),
    [
        ("frist", "Variable frist was not found. Did you mean first?"),
        ("first + 1", "more than names, attributes and [keys]"),
        ("helper()", "more than names, attributes and [keys]"),
        ("first[", "is not the name of a variable"),
        ("second[helper]", "a key is neither text nor a number"),
        ("second['x']", "has nothing at ['x']"),
        ("touchy.shape", "is made by code of Touchy"),
        ("touchy[0]", "would be made by code of Touchy"),
        ("second" + ".a" * 50, "second, of type dict, has no a of its own"),
    ],
)
def test_a_path_that_leads_nowhere_says_why(shell: InteractiveShell, path: str, problem: str) -> None:
    shell.user_ns["touchy"] = Touchy()
    with untouched(), pytest.raises(ToolError) as raised:
        look(shell, names=[path])
    assert problem in raised.value.message


def test_an_objects_own_words_are_called_on_the_main_thread_as_code_of_the_agent(shell: InteractiveShell) -> None:
    seen: list[object] = []

    def words() -> str:
        seen.extend([threading.current_thread(), agent_code_running.get()])
        return "said"

    shell.user_ns["speaker"] = saying(words)
    assert "said" in look(shell, names=["speaker"])
    assert seen == [threading.main_thread(), True]
    assert not agent_code_running.get()


def test_a_fingerprint_changes_with_value_and_size_and_runs_nothing() -> None:
    frame = pd.DataFrame({"a": [1]})
    items = [1]
    before = [fingerprint(each) for each in (1, "a", items, frame, np.zeros(2), Touchy, None)]
    items.append(2)
    frame["b"] = 2
    after = [fingerprint(each) for each in (2, "b", items, frame, np.zeros((2, 1)), Point, 0)]
    assert all(one != other for one, other in zip(before, after, strict=True))
    touchy, other = Touchy(), Touchy()
    with untouched():
        assert fingerprint(touchy) == fingerprint(touchy) != fingerprint(other)


@pytest.mark.parametrize("mode", ["default", "plan", "acceptEdits", "dontAsk"])
def test_looking_needs_no_permission_and_a_rule_can_deny_it(shell: InteractiveShell, mode: str) -> None:
    tool = variables_tool(shell, CallerJobs())
    assert PermissionPolicy(mode=mode).decide(tool, {}).behavior == "allow"
    assert PermissionPolicy(mode=mode, deny=["Variables"]).decide(tool, {}).behavior == "deny"
    assert PermissionPolicy(ask=["Variables"]).decide(tool, {}).behavior == "ask"
