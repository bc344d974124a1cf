"""What was run in the kernel, and what gave each name its value."""

from __future__ import annotations

import gc
import time
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell
from plain_shell import plain_shell, run, run_as_claude

from cellwright.kernel.namespace.cell_log import (
    RUNS_KEPT,
    SAMPLE,
    SOURCE_CHARS,
    SOURCES_READ,
    CellLog,
    sha256_of,
)
from cellwright.kernel.namespace.cell_names import cell_names
from eventual import paces
from row_tables import for_each_row


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    with plain_shell() as shell:
        yield shell


def test_a_run_is_written_down(shell: InteractiveShell, log: CellLog):
    before = time.time()
    run(shell, "x = 1\ny = 'a'", "cell-a")
    (entry,) = log.runs()
    assert (entry.cell_id, entry.source, entry.execution_count) == ("cell-a", "x = 1\ny = 'a'", 1)
    assert entry.sha256 == sha256_of("x = 1\ny = 'a'")
    assert (entry.by, entry.success, entry.error) == ("user", True, None)
    assert before <= entry.started <= entry.ended <= time.time()
    assert (entry.new, entry.rebound, entry.deleted) == (("x", "y"), (), ())


def test_names_are_new_once_then_rebound_then_deleted(shell: InteractiveShell, log: CellLog):
    run(shell, "x = [1]", "a")
    run(shell, "x = [2]; z = x", "b")
    run(shell, "del x", "c")
    _, second, third = log.runs()
    assert (second.new, second.rebound) == (("z",), ("x",))
    assert third.deleted == ("x",)
    assert set(log.bindings()) == {"z"}


def test_a_binding_says_which_run_made_it(shell: InteractiveShell, log: CellLog):
    run(shell, "x = [1]", "a")
    run(shell, "y = 2.5", "b")
    run(shell, "x = {}", "c")
    bindings = log.bindings()
    assert (bindings["x"].cell_id, bindings["y"].cell_id) == ("c", "b")
    assert bindings["y"].order < bindings["x"].order <= log.order


def test_an_object_with_the_identity_of_the_one_before_is_seen(shell: InteractiveShell, log: CellLog):
    run(shell, "x = 1", "a")
    run(shell, "x = 1", "b")  # the very same object
    assert log.runs()[-1].rebound == ()
    assert log.bindings()["x"].cell_id == "b"


def test_claudes_own_code_is_no_cell_and_its_names_are_claudes(shell: InteractiveShell, log: CellLog):
    run(shell, "x = [1]", "a")
    run_as_claude(shell, "x = [2]; made = 3")
    assert [entry.cell_id for entry in log.runs()] == ["a"]
    bindings = log.bindings()
    assert (bindings["x"].by, bindings["x"].cell_id, bindings["made"].by) == ("claude", None, "claude")
    run(shell, "x = [3]", "a")
    assert log.bindings()["x"].by == "user"


def test_claudes_code_within_a_cell_is_not_the_cells_doing(shell: InteractiveShell, log: CellLog):
    shell.user_ns["_as_claude"] = lambda source: run_as_claude(shell, source)
    run(shell, "_as_claude('inner = [1]')\nouter = [2]", "a")
    (entry,) = log.runs()
    assert entry.new == ("outer",)
    assert log.bindings()["inner"].by == "claude"


def test_a_cell_that_claude_runs_is_entered(shell: InteractiveShell, log: CellLog):
    log.begin("b", "y = 5")
    run_as_claude(shell, "y = 5")
    entry = log.end(execution_count=7)
    assert log.runs() == (entry,)
    assert (entry.cell_id, entry.by, entry.execution_count, entry.success, entry.new) == (
        "b",
        "claude",
        7,
        True,
        ("y",),
    )
    log.begin("b", "1/0")
    failed = log.end(ZeroDivisionError("division by zero"))
    assert failed.error is not None
    assert (failed.success, failed.error.name) == (False, "ZeroDivisionError")
    assert log.last_run("b") is not None
    assert log.last_run("b").sha256 == sha256_of("1/0")  # type: ignore[union-attr]


def test_what_changes_between_cells_is_nobodys(shell: InteractiveShell, log: CellLog):
    shell.user_ns["from_a_callback"] = 1
    run(shell, "x = 1", "a")
    assert log.bindings()["from_a_callback"].by == "other"
    assert log.runs()[0].new == ("x",)


def test_a_failed_cell_has_its_error(shell: InteractiveShell, log: CellLog):
    run(shell, "def f(n):\n    return 1 / n\n", "a")
    run(shell, "good = 1\nf(0)", "b")
    entry = log.runs()[-1]
    assert entry.success is False
    assert entry.new == ("good",)
    error = entry.error
    assert error is not None
    assert (error.name, error.message) == ("ZeroDivisionError", "division by zero")
    assert [(frame.line, frame.function, frame.text) for frame in error.frames] == [
        (2, "<module>", "f(0)"),
        (2, "f", ""),
    ]


def test_an_error_in_a_library_names_the_users_frame_and_the_last(shell: InteractiveShell, log: CellLog):
    run(shell, "import json\njson.loads('{')", "a")
    error = log.runs()[0].error
    assert error is not None
    assert [frame.text for frame in error.frames] == ["json.loads('{')", ""]
    assert error.frames[-1].file.endswith("decoder.py")


def test_a_syntax_error_has_its_line(shell: InteractiveShell, log: CellLog):
    run(shell, "x = 1\ny = = 2", "a")
    error = log.runs()[0].error
    assert error is not None
    assert error.name == "SyntaxError"
    assert (error.frames[0].line, error.frames[0].text) == (2, "y = = 2")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("import broken_module", ["In[1], line 1: import broken", "broken_module.py, line 2: def f(:"]),
        ("exec('def f(:')", ["Cell In[1], line 1: exec('def f(:')", "<string>, line 1: def f(:"]),
        (
            "raise ExceptionGroup('many', [ValueError('a'), ExceptionGroup('inner', [KeyError('b')])])",
            [
                "ExceptionGroup: many (2 errors)",
                "  ValueError: a",
                "  ExceptionGroup: inner (1 error)",
                "    KeyError: 'b'",
            ],
        ),
        (
            "try:\n    int('a')\nexcept ValueError as e:\n    raise KeyError('k') from e",
            ["Caused by ValueError: invalid"],
        ),
        ("try:\n    int('a')\nexcept ValueError:\n    raise KeyError('k')", ["While handling ValueError: invalid"]),
        ("e = ValueError('v')\ne.add_note('try 5')\nraise e", ["ValueError: v", "try 5"]),
        ("name = 'no' + 'where'\nopen(name)", ["FileNotFoundError: 2, No such file or directory: 'nowhere'"]),
    ],
)
def test_all_that_an_error_says_is_written_down(
    shell: InteractiveShell, log: CellLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, said: list[str]
):
    (tmp_path / "broken_module.py").write_text("x = 1\ndef f(:\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    run(shell, source)
    text = str(log.runs()[-1].error)
    for each in said:
        assert each in text


def test_a_hidden_cause_stays_hidden(shell: InteractiveShell, log: CellLog):
    run(shell, "try:\n    int('a')\nexcept ValueError:\n    raise KeyError('k') from None")
    assert "ValueError" not in str(log.runs()[-1].error)


def test_no_code_of_the_users_is_called(shell: InteractiveShell, log: CellLog):
    run(
        shell,
        "class Meta(type):\n"
        "    __name__ = property(lambda cls: 1 / 0)\n"
        "class Odd(metaclass=Meta):\n"
        "    def __getattribute__(self, name): called.append(name)\n"
        "    def __eq__(self, other): called.append('eq')\n"
        "    __hash__ = None\n"
        "class Loud(Exception):\n"
        "    def __str__(self): called.append('str'); return 'x'\n"
        "called = []",
    )
    # IPython itself looks at what a line begins with
    run(shell, "for odd in [Odd()]: called.clear()")
    run(shell, "for odd in [Odd()]: pass")
    assert shell.user_ns["called"] == []
    assert "odd" in log.bindings()
    called = shell.user_ns["called"]
    log.begin("x", "raise Loud(odd)")
    error = log.end(shell.user_ns["Loud"](shell.user_ns["odd"])).error
    assert called == []
    assert error is not None
    assert (error.name, error.message) == ("Loud", "<Odd>")


def test_nothing_of_the_users_is_kept_alive(shell: InteractiveShell, log: CellLog):
    run(shell, "class Big: pass\nbig = Big()")
    gone = weakref.ref(shell.user_ns["big"])
    run(shell, "def f(it):\n    raise ValueError(it)\nf(big)")
    # IPython and Python keep the latest error until there is another one
    run(shell, "del big")
    run(shell, "1/0")
    gc.collect()
    assert gone() is None
    assert log.runs()[1].error is not None


def test_an_interrupted_awaited_cell_ends(shell: InteractiveShell, log: CellLog):
    class Info:
        store_history, cell_id, raw_cell = True, "a", "await forever()"

    shell.events.trigger("pre_run_cell", Info())
    assert log.runs()[0].success is None
    shell.events.trigger("post_run_cell", None)
    (entry,) = log.runs()
    assert entry.error is not None
    assert (entry.success, entry.error.name) == (False, "KeyboardInterrupt")


def test_cells_from_before_are_what_the_history_says(shell: InteractiveShell):
    run(shell, "early = 1")
    run(shell, "later = 2")
    log = CellLog(shell)
    log.start()
    run(shell, "now = 3", "c")
    assert [(entry.source, entry.execution_count, entry.success) for entry in log.runs(-10)] == [
        ("early = 1", 1, None),
        ("later = 2", 2, None),
        ("now = 3", 3, True),
    ]
    assert [entry.source for entry in log.runs()] == ["now = 3"]
    assert set(log.bindings()) == {"now"}
    log.stop()


def test_the_cell_that_loads_the_extension_is_in_it(shell: InteractiveShell):
    log = CellLog(shell)
    shell.user_ns["_log"] = log
    run(shell, "_log.start()\nx = 1", "a")
    (entry,) = log.runs(-10)
    assert (entry.cell_id, entry.started, entry.new) == ("a", 0.0, ("x",))
    log.stop()


def test_requests_without_history_are_no_cells(shell: InteractiveShell, log: CellLog):
    shell.run_cell("probe = 1", store_history=False)
    assert log.runs() == ()
    assert log.bindings()["probe"].by == "other"


def test_prompts_are_known_as_such(shell: InteractiveShell, log: CellLog):
    shell.register_magic_function(lambda line, cell=None: None, "line_cell", "claude")
    run(shell, "%%claude\nfix it", "a")
    run(shell, "x = 1", "b")
    assert [entry.is_prompt for entry in log.runs()] == [True, False]


def test_it_is_bounded(shell: InteractiveShell, log: CellLog):
    log.begin("long", "x = 1 #" + "y" * SOURCE_CHARS)
    entry = log.end()
    assert len(entry.source or "") == SOURCE_CHARS
    for number in range(RUNS_KEPT + 5):
        log.begin(f"cell-{number}", f"# {'z' * 2_000}{number}")
        log.end()
    runs = log.runs()
    assert len(runs) == RUNS_KEPT
    assert sum(len(run.source or "") for run in runs) <= 2_000_000
    assert runs[-1].source
    assert runs[0].source is None
    assert runs[0].sha256
    assert log.last_run("long") is None


def test_a_stopped_log_hears_nothing(shell: InteractiveShell):
    log = CellLog(shell)
    callbacks = {name: list(found) for name, found in shell.events.callbacks.items()}
    log.start()
    log.stop()
    run(shell, "x = 1")
    assert log.runs() == ()
    assert shell.events.callbacks == callbacks


def test_a_cell_costs_microseconds(shell: InteractiveShell, log: CellLog):
    shell.user_ns.update({f"name_{number}": object() for number in range(500)})

    class Info:
        store_history, cell_id, raw_cell = True, "a", "x = 1\n" * 50

    class Result:
        info, execution_count, error_before_exec, error_in_exec = Info(), 1, None, None

    def fifty_cells() -> None:
        for _ in range(50):
            log._before(Result.info)
            log._after(Result)

    assert paces(fifty_cells, 8) < 8


def test_names_of_a_source():
    names = cell_names(
        "import numpy as np\n"
        "from a import b as c\n"
        "df['x'] = w\n"
        "model.rate = 1\n"
        "n += 1\n"
        "for i in items: last = i\n"
        "def f(p): return p + outer\n"
        "squares = [k for k in source]\n"
        "del gone\n"
        "await later()\n"
    )
    assert names.bound == {"np", "c", "n", "i", "last", "f", "squares"}
    assert names.changed == {"df", "model", "n"}
    assert names.deleted == {"gone"}
    assert {"outer", "w", "items", "source", "later", "df"} <= names.used
    assert not {"p", "k"} & names.used
    assert cell_names("[x for x in x]\nk = [k for k in y]").used >= {"x", "y"}
    assert cell_names("k = [k for k in y]").bound == {"k"}


@for_each_row(
    ("source", "bound"),
    [
        ("%matplotlib inline\nx = 1", {"x"}),
        ("files = !ls\ny = 2", {"files", "y"}),
        ("if a:\n    !rm x\nz = 1", {"z"}),
        ("%%time\nx = slow()", {"x"}),
        ("%%bash\nx=1", set()),
        ("%%claude\nmake x = 1", set()),
        ("x = = 1", set()),
        ("df?\nx = 1", {"x"}),
        ("", set()),
    ],
)
def test_names_of_cells_with_magics(source: str, bound: set[str]):
    assert cell_names(source).bound == bound


MANY = 50_000


def test_of_a_large_namespace_what_a_cell_has_to_do_with_is_looked_at(shell: InteractiveShell, log: CellLog):
    shell.user_ns.update({f"name_{number}": object() for number in range(MANY)})
    run(shell, "x = [1]", "a")
    run(shell, "x = [2]; y = x\nname_7 = 'mine'\ndel name_8", "b")
    second = log.runs()[-1]
    assert (second.new, second.rebound, second.deleted) == (("y",), ("x", "name_7"), ("name_8",))
    assert "name_8" not in log.bindings()
    assert log.bindings()["name_7"].cell_id == "b"
    # what no source names: many at once are seen by their number, one is seen in its turn
    run(shell, "for name in [each for each in dir() if each.startswith('name_4')]: del globals()[name]", "c")
    assert len(log.runs()[-1].deleted) == sum(f"{number}".startswith("4") for number in range(MANY))
    shell.user_ns["name_9"] = "from elsewhere"
    for _ in range(MANY // SAMPLE + 2):
        run(shell, "z = 1", "d")
    assert (log.bindings()["name_9"].by, log.bindings()["name_9"].cell_id) == ("other", None)


def test_a_cell_costs_the_same_in_a_large_namespace(shell: InteractiveShell, log: CellLog):
    class Info:
        store_history, cell_id, raw_cell = True, "a", "x = 1\n" * 50

    class Result:
        info, execution_count, error_before_exec, error_in_exec = Info(), 1, None, None

    def seconds() -> float:
        took = []
        for _ in range(20):
            started = time.thread_time()
            log._before(Result.info)
            log._after(Result)
            took.append(time.thread_time() - started)
        return min(took)

    shell.user_ns.update({f"name_{number}": object() for number in range(2_000)})
    small = seconds()
    shell.user_ns.update({f"name_{number}": object() for number in range(2 * MANY)})
    seconds()
    assert seconds() < 3 * small


def test_who_asks_waits_for_few_sources(shell: InteractiveShell, log: CellLog):
    for number in range(10 * SOURCES_READ):
        log.begin(f"cell-{number}", f"unread_{number} = {number}\ntable['{number}'] = 1")
        shell.user_ns[f"unread_{number}"] = number
        log.end()
    read = cell_names.cache_info().misses
    assert log.bindings()["unread_0"].cell_id == "cell-0"
    assert log.stored().keys() <= {"table"}
    assert cell_names.cache_info().misses - read <= SOURCES_READ
