"""A `%%claude` cell and a `%claude` line work by every way that runs a magic, and the kernel goes on after it."""

from __future__ import annotations

from pathlib import Path

import pytest
from nbformat import v4, writes
from notebook_kernel import NotebookKernel

from cellwright.testing import MessagesServer, say
from row_tables import for_each_row

pytestmark = [pytest.mark.kernel, pytest.mark.kernel_version]

CELL = "%%claude\nare you\nthere?\n"
NOTEBOOK = v4.new_notebook(cells=[v4.new_code_cell(source) for source in ("x = 41", CELL, "x += 1")])
FILES = {
    "asks.ipynb": writes(NOTEBOOK),
    "line.ipy": "%claude are you there?\n",
    "asks.ipy": f"get_ipython().run_cell({CELL!r})\n",
    "asks.py": f"from IPython import get_ipython\nget_ipython().run_cell_magic('claude', '', {CELL[9:]!r})\n",
    "worker.py": "import cellwright\ndef ask(_): return cellwright.ask('are you there?').text\n",
    "python.py": "import cellwright\nprint(cellwright.ask('are you there?').text)\n",
}
IN_THREAD = "import threading\nthread = threading.Thread(target=lambda: {})\nthread.start()\nthread.join()"
RUN = f"get_ipython().run_cell({CELL!r})"
IN_CALLBACK = f"""
import asyncio
done = asyncio.Event()
asyncio.get_running_loop().call_soon(lambda: ({RUN}, done.set()))
await done.wait()
"""
OWN_MAGIC = """
from IPython.core.magic import register_cell_magic
@register_cell_magic
def unless(line, cell):
    get_ipython().run_cell(cell)
"""
NESTED = "import nest_asyncio2 as nest, asyncio\nnest.apply()\nasync def ask(): {}\nasyncio.run(ask())"

WAYS = [
    ("the cell", CELL),
    ("a line", "%claude are you there?"),
    ("blank lines before it", f"\n\n{CELL}"),
    ("comments before it", f"# @title Ask\n\n#| echo: false\n{CELL}"),
    ("run_cell", RUN),
    ("run_cell of a line", "get_ipython().run_cell('%claude are you there?')"),
    ("run_cell with history", f"get_ipython().run_cell({CELL!r}, store_history=True)"),
    ("run_cell_magic", f"get_ipython().run_cell_magic('claude', '', {CELL[9:]!r})"),
    ("run_line_magic", "get_ipython().run_line_magic('claude', 'are you there?')"),
    (
        "run_cell_async",
        f"shell = get_ipython()\nawait shell.run_cell_async({CELL!r}, transformed_cell=shell.transform_cell({CELL!r}))",
    ),
    (
        "run_cell_async in a task",
        "import asyncio\nshell = get_ipython()\n"
        f"await asyncio.create_task(shell.run_cell_async({CELL!r}, transformed_cell=shell.transform_cell({CELL!r})))",
    ),
    ("%run of a notebook", "%run asks.ipynb\nassert x == 42"),
    ("%run of an .ipy", "%run line.ipy"),
    ("%run of an .ipy that runs a cell", "%run asks.ipy"),
    ("%run of a .py", "%run asks.py"),
    ("%run -i", "%run -i asks.py"),
    ("%run of a script that calls ask", "%run python.py"),
    ("%%time", f"%%time\n{CELL}"),
    ("%%timeit", f"%%timeit -n1 -r1\n{CELL}"),
    ("%%capture", f"%%capture shown\n{CELL}"),
    ("%%prun", f"%%prun -q\n{CELL}"),
    ("%time", "%time get_ipython().run_line_magic('claude', 'are you there?')"),
    ("two magics above it", f"%%time\n%%capture shown\n{CELL}"),
    ("a magic of the user's", f"{OWN_MAGIC}get_ipython().run_cell_magic('unless', '', {CELL!r})"),
    ("exec of the transformed source", f"exec(get_ipython().transform_cell({CELL!r}))"),
    ("exec of the transformed line", "exec(get_ipython().transform_cell('%claude are you there?'))"),
    ("in a loop", "for _ in range(1):\n    %claude are you there?"),
    ("in a function", "def ask():\n    %claude are you there?\nask()"),
    ("in a coroutine", "async def ask():\n    %claude are you there?\nawait ask()"),
    ("in a with block", "import contextlib\nwith contextlib.nullcontext():\n    %claude are you there?"),
    ("in try", "try:\n    %claude are you there?\nfinally:\n    done = True"),
    ("among other lines", "import asyncio\nawait asyncio.sleep(0)\n%claude are you there?\nx = 1"),
    ("assigned", "answer = %claude are you there?"),
    ("a thread that runs a cell", IN_THREAD.format(RUN)),
    ("a thread with a loop", f"import asyncio\nasync def ask(): {RUN}\n" + IN_THREAD.format("asyncio.run(ask())")),
    ("to_thread", f"import asyncio\nawait asyncio.to_thread(lambda: {RUN})"),
    ("redirected", f"import contextlib, io\nwith contextlib.redirect_stdout(io.StringIO()):\n    {RUN}"),
    ("a callback of the loop", IN_CALLBACK),
    (
        "a forked worker",
        "from concurrent.futures import ProcessPoolExecutor\nimport multiprocessing, worker\n"
        "with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context('fork')) as workers:\n"
        "    assert list(workers.map(worker.ask, [1])) == ['All done.']",
    ),
    # last: these stay in the kernel
    ("autoawait off", "%autoawait off"),
    ("nested loops", NESTED.format(RUN)),
    ("nested loops, a line", NESTED.format("get_ipython().run_line_magic('claude', 'are you there?')")),
    ("the cell with nested loops", CELL),
]  # fmt: skip


@pytest.fixture
def files(project: Path) -> None:
    for name, text in FILES.items():
        (project / name).write_text(text, "utf-8")


def is_asked(model: MessagesServer, requests: int) -> bool:
    """Whether the model was asked once since there were so many `requests`, with the prompt as it is written."""
    asked = [" ".join(request.last_user_text.split()) for request in model.requests[requests:]]
    return len(asked) == 1 and asked[0].endswith("are you there?")


@for_each_row(("name", "source"), WAYS, ids=[name for name, _ in WAYS])
def test_it_is_asked_once_and_the_kernel_goes_on(
    kernel: NotebookKernel, model: MessagesServer, files: None, name: str, source: str
) -> None:
    if name == "autoawait off":
        assert kernel.run(source).status == "ok"
        source = CELL
    requests = len(model.requests)
    model.add(say("All done."))
    try:
        cell = kernel.run(source)
        assert cell.status == "ok", cell.error
        assert cell.of_type("error") == []
        assert is_asked(model, requests), cell.stdout
        assert kernel.value("6 * 7") == "42"
    finally:
        kernel.run("%autoawait on")


def test_what_the_history_holds_runs_again(kernel: NotebookKernel, model: MessagesServer) -> None:
    model.add(*[say("All done.")] * 6)
    requests = len(model.requests)
    assert kernel.run(CELL).status == "ok"
    for again in ("%rerun", "exec(In[-2])"):
        kernel.run(CELL) if again.startswith("exec") else None
        cell = kernel.run(again)
        assert (cell.status, cell.of_type("error")) == ("ok", []), again
    count = int(kernel.value("get_ipython().execution_count")) - 2
    kernel.run(f"%macro ask {count}")
    kernel.run(f"%save -f saved {count}")
    for again in ("ask", "%run saved.py"):
        cell = kernel.run(again)
        assert (cell.status, cell.of_type("error")) == ("ok", []), again
    assert len(model.requests) - requests == 6


def test_text_below_a_line_gets_a_hint_and_nothing_runs(kernel: NotebookKernel, model: MessagesServer) -> None:
    for source in ("%claude\nare you there?", "%claude --new\nran = True", "# a question\n%claude\n\nare you there?"):
        cell = kernel.run(source)
        assert "with %%claude" in cell.error, source
    cell = kernel.run("%claude explain this\nin a few words, please")
    assert "not Python" in cell.error
    assert kernel.value("'ran' in dir()") == "False"
    cell = kernel.run("%claude\n")
    assert "--model" in cell.stdout
