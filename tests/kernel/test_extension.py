"""`%load_ext cellwright` costs next to nothing and leaves no traces; `%unload_ext` takes everything back."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from notebook_kernel import NotebookKernel, Page, model_of, running_kernel

from cellwright.testing import MessagesServer, say, turn, use
from eventual import eventually

pytestmark = pytest.mark.kernel

HEAVY = ("anthropic", "mcp", "httpx2", "ipywidgets", "anywidget", "pydantic", "rich", "nbformat", "jsonschema")

LATER = (
    "cellwright.agent.recording.replay_drift",
    "cellwright.commands.usage",
    "cellwright.kernel.cells.cell_outputs",
    "cellwright.kernel.cells.fresh_kernel",
    "cellwright.kernel.cells.run_cells",
    "cellwright.kernel.execute.captured_output",
    "cellwright.kernel.execute.code_run",
    "cellwright.kernel.namespace.tables",
    "cellwright.sessions.claude_code",
    "cellwright.tools.mcp.connection",
    "cellwright.tools.mcp.tools",
    "cellwright.tools.planning.tasks",
)
"""What a prompt without servers, commands, calls and runs of cells has no use for."""

MEASURED = f"""
import gc, sys, threading, time
gc.collect()
# what its threads import beside it does not count: they begin when it is measured
_start, _threads = threading.Thread.start, []
threading.Thread.start = lambda thread: _threads.append(thread)
_modules, _started = set(sys.modules), time.thread_time()
get_ipython().extension_manager.load_extension("cellwright")
_milliseconds, _new = (time.thread_time() - _started) * 1000, set(sys.modules) - _modules
threading.Thread.start = _start
for _thread in _threads:
    _thread.start()
_heavy = [name for name in {HEAVY!r} if name in _new]
_started = time.thread_time()
sum(len(str(_number)) for _number in range(100_000))
_pace = (time.thread_time() - _started) * 1000
print(len(_new), _milliseconds / _pace, _heavy)
"""

STATE = """
import builtins, json, os, re, signal, sys, threading
from cellwright.features.process_conversation import registered as _registered
_shell, _manager = get_ipython(), get_ipython().input_transformer_manager
print(json.dumps({
    "transforms": [repr(t) for t in _manager.cleanup_transforms + _manager.token_transformers],
    "magics": {kind: sorted(found) for kind, found in _shell.magics_manager.magics.items()},
    "configurables": [type(c).__name__ for c in _shell.configurables],
    "targets": sorted(set(_shell.kernel.comm_manager.targets) - {"jupyter.widget", "jupyter.widget.control"}),
    "comms": len(_shell.kernel.comm_manager.comms),
    "threads": sorted(t.name for t in threading.enumerate() if "ellwright" in t.name),
    "children": [p for p in os.listdir("/proc") if p.isdigit() and _parent(p) == os.getpid()],
    "sigint": repr(signal.getsignal(signal.SIGINT)),
    "names": sorted(n for n in _shell.user_ns if not re.fullmatch(r"_+|_i*[0-9]*|_\\w|_oh|_dh|_ih|_exit_code", n)),
    "hooks": {name: [repr(f) for f in found] for name, found in _shell.events.callbacks.items()},
    "input": repr(builtins.input),
    "asked_in": type(_registered()).__name__,
}))
"""

PARENT = """
def _parent(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except OSError:
        return 0
"""


def state(kernel: NotebookKernel) -> dict[str, Any]:
    return dict(json.loads(kernel.run(STATE, cell_id=None).stdout))


STARTED = """
import gc, json
from cellwright.features.process_conversation import starting_up
with starting_up():
    imported = [[] for _ in range(300_000)]
young = sum(len(gc.get_objects(generation)) for generation in (0, 1))
print(json.dumps([gc.isenabled(), gc.get_freeze_count(), young < len(imported)]))
"""


@pytest.fixture
def bare(model: MessagesServer, tmp_path: Path, own_place: Path) -> Iterator[NotebookKernel]:
    """A kernel that has neither loaded the extension nor imported anything for it."""
    with running_kernel(tmp_path, model_of(model), as_for_users=True) as kernel:
        kernel.run(PARENT)
        kernel.run("%unload_ext nothing")  # IPython loads these magics when they are first used
        yield kernel


def test_loading_is_cheap_and_imports_nothing_heavy(bare: NotebookKernel):
    modules, paces, heavy = bare.run(MEASURED).stdout.split(maxsplit=2)
    assert ast.literal_eval(heavy) == []
    assert int(modules) <= 45
    # as long as counting the digits of 100,000 numbers, or five times that: `benchmarks` measure it
    assert float(paces) < 5


# what is imported while Claude thinks delays nothing, and may come before a cell that looks or after it
WATCHED = """
import sys, threading
class Watch:
    imported = set()
    def find_spec(self, name, path=None, target=None):
        if threading.current_thread().name != "cellwright-thinking":
            self.imported.add(name)
sys.meta_path.insert(0, Watch())
"""


def test_loading_and_asking_import_neither_the_sdk_nor_mcp(bare: NotebookKernel, model: MessagesServer):
    model.add(say("ok"))
    bare.run(WATCHED)
    bare.run("%load_ext cellwright")
    assert bare.run("%%claude\nhi").status == "ok"
    value = bare.value(f"[name for name in {(*LATER, 'anthropic', 'mcp')!r} if name in Watch.imported]")
    assert value == "[]"
    found = int(bare.value("sum(name.startswith('cellwright.') for name in Watch.imported)"))
    assert found <= 356


def test_loading_writes_nothing(bare: NotebookKernel, tmp_path: Path, own_place: Path):
    before = {path for place in (tmp_path, own_place) for path in place.rglob("*")}
    assert bare.run("%load_ext cellwright").status == "ok"
    bare.run("import threading; [t.join() for t in threading.enumerate() if t.name == 'cellwright-warm-up']")
    after = {path for place in (tmp_path, own_place) for path in place.rglob("*")}
    assert {path for path in after - before if ".ipython" not in path.parts} == set()


BY_THE_PAGE = 'get_ipython().extension_manager.load_extension("cellwright")'
SAID = "The cellwright extension is already loaded"


def test_the_first_load_of_ones_own_is_quiet_if_the_page_loaded_it_before(bare: NotebookKernel):
    bare.run(BY_THE_PAGE, silent=True)
    assert bare.run("1 / 0\n%load_ext cellwright").status == "error"
    assert bare.run("%load_ext cellwright").stdout == ""
    assert SAID in bare.run("%load_ext cellwright").stdout
    # the other two mean what they always do
    assert bare.run("%reload_ext cellwright").stdout == ""
    assert bare.run("%unload_ext cellwright").stdout == ""
    assert bare.value("get_ipython().find_line_magic('claude')") == "None"
    bare.run(BY_THE_PAGE, silent=True)
    assert bare.run("%unload_ext cellwright").stdout == ""
    assert "is not loaded" in bare.run("%unload_ext cellwright").stdout


def test_a_second_load_of_ones_own_is_said(bare: NotebookKernel):
    assert bare.run("%load_ext cellwright").stdout == ""
    bare.run(BY_THE_PAGE, silent=True)
    assert SAID in bare.run("%load_ext cellwright").stdout


def test_unloading_takes_everything_back(bare: NotebookKernel, model: MessagesServer):
    model.add(turn(use("Bash", command="sleep 300 & echo begun > begun")), say("Hello."), say("Again."))
    before = state(bare)
    bare.run("%load_ext cellwright")
    page = Page(bare)
    cell = bare.begin("%%claude\nhi")
    page.answer(page.wait_for_op("ask", cell)["question"], "allow")
    assert bare.finish(cell).status == "ok"
    loaded = state(bare)
    assert loaded["threads"]
    assert "claude" in loaded["magics"]["cell"]
    assert loaded["children"]
    assert "Claude" in loaded["configurables"]
    assert loaded["asked_in"] == "NotebookConversation"
    assert loaded["names"] == before["names"]
    assert bare.run("%unload_ext cellwright").status == "ok"
    assert state(bare) == before
    page.close()
    bare.run("%load_ext cellwright")
    assert bare.run("%%claude\nagain").status == "ok"


def test_loading_twice_is_loading_once(bare: NotebookKernel):
    bare.run("%load_ext cellwright")
    once = state(bare)
    bare.run("%reload_ext cellwright")
    again = state(bare)
    assert len(again["transforms"]) == len(once["transforms"])
    assert again["configurables"].count("Claude") == 1


def test_without_a_key_the_cell_says_how_to_give_one(tmp_path: Path):
    with running_kernel(tmp_path, {}) as kernel:
        assert kernel.run("%load_ext cellwright").status == "ok"
        cell = kernel.run("%%claude\nhi")
        assert cell.status == "error"
        assert cell.reply["evalue"].startswith("API_KEY_MISSING: ")
        (shown,) = cell.of_type("error")[0]["traceback"]
        assert "ANTHROPIC_API_KEY" in shown


def test_a_key_that_is_set_later_is_found(model: MessagesServer, tmp_path: Path):
    with running_kernel(tmp_path, {}) as kernel:
        kernel.run("%load_ext cellwright")
        kernel.run("%%claude\nhi")
        kernel.run(f"import os; os.environ.update({model_of(model)!r})")
        model.add(say("Hello."))
        assert kernel.run("%%claude\nhi").status == "ok"
        with MessagesServer([say("From elsewhere.")]) as other:
            kernel.run(f"os.environ.update({model_of(other)!r})")
            assert "From elsewhere." in kernel.run("%%claude --new\nhi").outputs[0]["text/markdown"]


def test_a_killed_kernel_takes_its_children_along(bare: NotebookKernel, model: MessagesServer, tmp_path: Path):
    model.add(turn(use("Bash", command="echo $$ > pid; exec sleep 300")))
    bare.run("%load_ext cellwright")
    page = Page(bare)
    cell = bare.begin("%%claude --new\ngo")
    page.answer(page.wait_for_op("ask", cell)["question"], "allow")
    page.wait_for_op("answered", cell)
    pid = eventually(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip())
    page.close()
    bare.manager.shutdown_kernel(now=True)
    eventually(lambda: not Path(f"/proc/{pid}").exists())


def test_what_a_start_made_is_not_looked_through_by_the_next_collections() -> None:
    # in a process of its own: this one's objects are frozen
    shown = subprocess.run([sys.executable, "-c", STARTED], capture_output=True, text=True, check=True).stdout
    assert json.loads(shown) == [True, 0, True]
