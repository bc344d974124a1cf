"""The tool `Python` in a real kernel, called from a cell as Claude's loop calls it."""

from __future__ import annotations

import ast
import base64
import io
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from notebook_kernel import SOURCES, NotebookKernel, running_kernel
from PIL import Image

pytestmark = [pytest.mark.kernel, pytest.mark.kernel_version]

ALLOWED_SECONDS = 30.0
"""Far from the 300 s that the code would take, on a busy machine as well."""


@dataclass
class Reply:
    """What a cell came to: the value of its one user expression, and what was published for it."""

    value: Any
    status: str
    streams: str = ""
    displays: list[dict[str, Any]] = field(default_factory=list)
    payload: list[Any] = field(default_factory=list)


class Kernel:
    """A kernel whose cells call the tool."""

    def __init__(self, notebook: NotebookKernel) -> None:
        self.notebook = notebook

    def cell(
        self, source: str, *, value: str = "", on_stream: Callable[[str], None] = lambda _: None, stdin: bool = False
    ) -> Reply:
        """Run a cell and wait for its end; `on_stream` sees each piece of its output as it comes."""
        wanted = {"value": value} if value else {}
        cell = self.notebook.begin(source, allow_stdin=stdin, cell_id=None, user_expressions=wanted)

        def hear(message: dict[str, Any]) -> None:
            if message["msg_type"] == "stream" and message["parent_header"].get("msg_id") == cell.id:
                on_stream(message["content"]["text"])

        self.notebook.listeners.append(hear)
        try:
            self.notebook.finish(cell)
        finally:
            self.notebook.listeners.remove(hear)
        reply = Reply(None, cell.status, payload=cell.reply.get("payload", []))
        reply.streams = cell.stdout + "\n".join(line for error in cell.of_type("error") for line in error["traceback"])
        for kind in ("display_data", "execute_result", "update_display_data"):
            reply.displays += [content["data"] for content in cell.of_type(kind)]
        if value and reply.status == "ok":
            shown = cell.reply["user_expressions"]["value"]
            assert shown["status"] == "ok", shown
            reply.value = json.loads(ast.literal_eval(shown["data"]["text/plain"]))
        return reply

    def call(self, code: str, how: str = "await cell.awaited", **more: Any) -> dict[str, Any]:
        """What the tool gave back for `code`, called from a cell that shows nothing itself."""
        reply = self.cell(f"told = {how}({code!r})", value="told", **more)
        assert reply.status == "ok", reply.streams
        reply.value["cell"] = reply
        return dict(reply.value)


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    home = tmp_path_factory.mktemp("home")
    places = {"HOME": str(home), "IPYTHONDIR": str(home / "ipython")}
    with running_kernel(home, places, sources=[SOURCES, Path(__file__).parents[1] / "support"]) as started:
        running = Kernel(started)
        found = running.cell("import python_tool_cell as cell")
        assert found.status == "ok"
        yield running


def text_of(told: dict[str, Any]) -> str:
    return str(told["text"])


def test_output_comes_back_in_order_and_not_into_the_cell(kernel: Kernel) -> None:
    told = kernel.call(
        "import sys, os\n"
        "from IPython.display import display, Markdown\n"
        "print('one')\n"
        "print('two', file=sys.stderr)\n"
        "display(Markdown('**three**'))\n"
        "display({'four': 4})\n"
        "'five'"
    )
    assert text_of(told).split("\n") == ["one", "two", "**three**", "{'four': 4}", "'five'"]
    assert told["status"] == "ok"
    assert "".join(news.get("text", "") for news in told["live"]).split("\n") == [
        "one",
        "two",
        "**three**",
        "{'four': 4}",
        "'five'",
        "",
    ]
    assert told["cell"].streams == ""
    assert told["cell"].displays == []


def test_the_namespace_is_the_users_and_stays(kernel: Kernel) -> None:
    kernel.cell("import math\nradius = 2.0")
    found = text_of(kernel.call("area = math.pi * radius ** 2\nround(area, 2)"))
    assert found == "12.57"
    got = kernel.cell("", value="repr(round(area, 2)) if True else ''")
    assert got.value == 12.57


def test_ipythons_memory_of_the_user_is_untouched(kernel: Kernel) -> None:
    kernel.cell("40 + 2")
    codes = ["print('x'); 7 * 6", "import asyncio\nawait asyncio.sleep(0)\n'y'", "1 / 0", "def f(:", "display('z')"]
    reply = kernel.cell(
        "before = cell.traces()\n"
        f"for code in {codes!r}:\n"
        "    await cell.awaited(code)\n"
        "pair = '[' + before + ',' + cell.traces() + ']'",
        value="pair",
    )
    before, after = reply.value
    assert after == before
    assert before["_"] == "42"


def test_the_result_of_the_cell_that_waits_is_its_own(kernel: Kernel) -> None:
    reply = kernel.cell("await cell.awaited('\"of the code\"'); 'of the cell'")
    assert [shown["text/plain"] for shown in reply.displays] == ["'of the cell'"]


def test_a_semicolon_leaves_the_result_out(kernel: Kernel) -> None:
    assert text_of(kernel.call("'not shown';")) == ""


def test_a_failure_comes_with_a_short_traceback(kernel: Kernel) -> None:
    kernel.cell("def parse(text):\n    import json\n    return json.loads(text)")
    told = kernel.call("print('before')\nparse('{')")
    lines = text_of(told).splitlines()
    assert told["status"] == "error"
    assert lines[:2] == ["before", "Traceback (most recent call last):"]
    files = [line.strip() for line in lines if line.strip().startswith("File")]
    assert files[0] == 'File "<this call\'s code>", line 2, in <module>'
    assert files[1].startswith('File "Cell In[')
    assert files[2].endswith("in raw_decode")
    assert len(files) == 3
    assert lines[-1].startswith("json.decoder.JSONDecodeError: ")
    assert "\x1b" not in text_of(told)
    assert told["cell"].streams == ""


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("def f(:", "SyntaxError"),
        ("if True:\nprint(1)", "IndentationError"),
        ("raise ExceptionGroup('several', [ValueError('inner')])", "ValueError: inner"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("exit()", "was not done"),
        ("%no_such_magic", "no_such_magic"),
        ("class A:\n    def __repr__(self): return 1 / 0\nA()\nraise KeyError('k')", "KeyError: 'k'"),
    ],
)
def test_every_kind_of_failure_is_told(kernel: Kernel, code: str, said: str) -> None:
    told = kernel.call(code)
    assert told["status"] == "error"
    assert said in text_of(told)
    assert told["cell"].streams == ""
    assert kernel.cell("'alive'").displays


def size_of(picture: str) -> tuple[int, int]:
    """The width and height of a picture in base64."""
    return Image.open(io.BytesIO(base64.b64decode(picture))).size


def test_a_figure_is_a_picture_of_moderate_size(kernel: Kernel) -> None:
    told = kernel.call(
        "import matplotlib.pyplot as plt\n"
        "print('plotting')\n"
        "figure, axes = plt.subplots(figsize=(40, 30), dpi=100)\n"
        "axes.plot([1, 3, 2]);"
    )
    kinds = [block["type"] for block in told["blocks"]]
    assert kinds == ["text", "image"]
    source = told["blocks"][1]["source"]
    assert source["media_type"] == "image/png"
    width, height = size_of(source["data"])
    assert width * height <= 1_100_000
    assert width > height > 500
    assert told["cell"].displays == []
    shown = [news["output"] for news in told["live"] if news.get("output")]
    assert [sorted(data) for data in shown] == [["image/png", "text/plain"]]
    assert size_of(shown[0]["image/png"]) > (width, height)


TOKENS_PER_PIXEL = 1 / 750


@pytest.mark.parametrize(
    ("code", "pictures"),
    [
        ("plt.plot([1, 2]);", 1),
        ("plt.figure(figsize=(16, 9), dpi=200); plt.plot([1, 2]);", 1),
        ("plt.figure(figsize=(80, 80), dpi=100); plt.plot([1, 2]);", 1),
        ("figure, axes = plt.subplots(); axes.plot([1, 2]); figure", 1),
        ("for i in range(12):\n    plt.figure(); plt.plot([i, 1])", 8),
        ("import PIL.Image\nPIL.Image.new('RGB', (9000, 9000))", 1),
    ],
    ids=["usual", "large", "8000 pixels", "shown twice", "many", "picture"],
)
def test_pictures_cost_few_tokens_and_come_once(kernel: Kernel, code: str, pictures: int) -> None:
    told = kernel.call(f"import matplotlib.pyplot as plt\n{code}")
    sizes = [size_of(block["source"]["data"]) for block in told["blocks"] if block["type"] == "image"]
    assert len(sizes) == pictures
    assert all(0 < width * height * TOKENS_PER_PIXEL <= 1_600 for width, height in sizes)
    if code.startswith("for"):
        assert "4 more pictures left out" in text_of(told)


def test_a_figure_of_another_backend_is_a_picture_too(kernel: Kernel) -> None:
    kernel.call("import matplotlib\nbackend = matplotlib.get_backend()\nmatplotlib.use('agg')")
    try:
        for code in ("plt.figure(); plt.plot([1, 2]);", "plt.title('again');"):
            told = kernel.call(f"import matplotlib.pyplot as plt\n{code}")
            assert [block["type"] for block in told["blocks"]] == ["image"]
        assert text_of(kernel.call("'nothing drawn'")) == "'nothing drawn'"
    finally:
        kernel.call("plt.close('all')\nmatplotlib.use(backend)")


def test_a_rich_frame_is_a_few_lines_of_text(kernel: Kernel) -> None:
    pytest.importorskip("pandas")
    text = text_of(kernel.call("import pandas as pd\npd.DataFrame({'a': range(100_000), 'b': 'x'})"))
    assert text.endswith("[100000 rows x 2 columns]")
    assert len(text) < 500
    assert "<" not in text


def test_a_traceback_is_short_whatever_the_message(kernel: Kernel) -> None:
    told = kernel.call("raise KeyError('x' * 1_000_000)")
    assert told["status"] == "error"
    assert len(text_of(told)) < 13_000
    assert text_of(told).startswith("Traceback (most recent call last):")
    assert "characters left out" in text_of(told)
    chain = "error = None\nfor i in range(2000):\n    new = ValueError(i); new.__context__ = error; error = new\nraise error"
    assert text_of(kernel.call(chain)).endswith("ValueError: 1999")


def test_a_warning_names_the_calls_code(kernel: Kernel) -> None:
    text = text_of(kernel.call("import warnings\nwarnings.warn('careful')"))
    assert text.startswith("<this call's code>:2: UserWarning: careful")


# Python warns of a fork beside other threads since 3.12
NO_WARNING_OF_FORKS = "import warnings\nwarnings.filterwarnings('ignore', '.*multi-threaded, use of fork')"


def test_the_end_of_the_process_is_refused_and_a_forks_is_its_own(kernel: Kernel) -> None:
    for code, said in (("os._exit(0)", "was not done"), ("sys.exit(3)", "SystemExit: 3")):
        told = kernel.call(f"import os, sys\n{code}")
        assert told["status"] == "error"
        assert text_of(told).splitlines()[-1].startswith(("RuntimeError: ", "SystemExit: "))
        assert said in text_of(told)
    kernel.call(NO_WARNING_OF_FORKS)
    found = text_of(kernel.call("if (child := os.fork()) == 0:\n    os._exit(7)\nos.waitpid(child, 0)[1] >> 8"))
    assert found == "7"


def test_a_figure_is_not_shown_again_by_the_next_call(kernel: Kernel) -> None:
    kernel.call("import matplotlib.pyplot as plt\nplt.plot([1, 2])")
    assert text_of(kernel.call("'nothing drawn'")) == "'nothing drawn'"


def test_a_display_is_updated_in_its_place(kernel: Kernel) -> None:
    told = kernel.call("handle = display('first', display_id=True)\nprint('between')\nhandle.update('second')")
    assert text_of(told) == "'second'\nbetween"


def test_a_display_of_the_users_is_updated_where_it_stands(kernel: Kernel) -> None:
    kernel.cell("from IPython.display import display\nusers = display('old', display_id='the-users')")
    told = kernel.call("users.update('new')")
    assert text_of(told) == ""
    assert [data["text/plain"] for data in told["cell"].displays] == ["'new'"]


def test_clear_output_forgets_what_was_there(kernel: Kernel) -> None:
    told = kernel.call(
        "from IPython.display import clear_output\nfor i in range(3):\n    clear_output(wait=True)\n    print(i)"
    )
    assert text_of(told) == "2"


def test_a_progress_bar_leaves_its_last_state(kernel: Kernel) -> None:
    told = kernel.call(
        "import sys\nfor i in range(2000):\n    print(f'\\r{i}', end='', file=sys.stderr)\nprint('\\ndone')"
    )
    assert text_of(told) == "1999\ndone"


def test_long_output_is_cut_in_the_middle(kernel: Kernel) -> None:
    text = text_of(kernel.call("for i in range(100_000):\n    print('line', i)"))
    assert text.startswith("line 0\nline 1\n")
    assert text.endswith("line 99999")
    assert "characters left out" in text
    assert len(text) < 101_000


def test_top_level_await_leaves_the_kernels_loop_free(kernel: Kernel) -> None:
    told = kernel.call(
        "import asyncio\n"
        "seen = asyncio.get_running_loop().create_future()\n"
        "asyncio.get_running_loop().call_later(0.01, seen.set_result, 'the loop ran')\n"
        "await seen"
    )
    assert text_of(told) == "'the loop ran'"


def test_top_level_await_is_refused_where_the_loop_is_blocked(kernel: Kernel) -> None:
    told = kernel.call("await something()", how="cell.blocking")
    assert told["status"] == "EXECUTION_ERROR"
    assert "asyncio.run" in text_of(told)
    assert text_of(kernel.call("6 * 7", how="cell.blocking")) == "42"


def test_code_may_run_a_loop_of_its_own_in_a_thread(kernel: Kernel) -> None:
    told = kernel.call(
        "import asyncio, threading\n"
        "async def work():\n    await asyncio.sleep(0)\n    print('worked')\n"
        "thread = threading.Thread(target=asyncio.run, args=(work(),))\nthread.start(); thread.join()",
        how="cell.blocking",
    )
    assert text_of(told) == "worked"


def test_nobody_is_asked_for_input(kernel: Kernel) -> None:
    for code in ("input('Your name? ')", "import getpass\ngetpass.getpass()"):
        told = kernel.call(code, stdin=True)
        assert told["status"] == "error"
        assert "cannot ask here" in text_of(told)
    found = text_of(kernel.call("import sys\nsys.stdin.read()"))
    assert found == "''"


def test_what_threads_children_and_forks_print_comes_back(kernel: Kernel) -> None:
    kernel.call(NO_WARNING_OF_FORKS)
    told = kernel.call(
        "import os, subprocess, sys, threading\n"
        "thread = threading.Thread(target=print, args=('from a thread',))\n"
        "thread.start(); thread.join()\n"
        "subprocess.run([sys.executable, '-c', 'print(\"from a child\")'], check=True)\n"
        "os.system('echo from a shell')\n"
        "if os.fork() == 0:\n    print('from a fork')\n    os._exit(0)\n"
        "os.wait();"
    )
    assert set(text_of(told).splitlines()) == {"from a thread", "from a child", "from a shell", "from a fork"}
    assert told["cell"].streams == ""


def test_a_child_that_outlives_the_call_is_not_killed_by_it(kernel: Kernel) -> None:
    told = kernel.call(
        "import subprocess, sys\n"
        "program = \"import sys; print('early', flush=True); sys.stdin.readline(); print('late', flush=True)\"\n"
        "child = subprocess.Popen([sys.executable, '-c', program], stdin=subprocess.PIPE, stdout=None)\n"
        "import select, time\n"
    )
    assert "late" not in text_of(told)
    reply = kernel.cell("child.communicate(b'go\\n')\nexit_code = child.returncode", value="str(exit_code)")
    assert reply.value == 0


def test_a_pager_and_what_is_meant_for_the_next_cell_are_text(kernel: Kernel, tmp_path: Path) -> None:
    assert "Return the number of items" in text_of(kernel.call("len?"))
    source = tmp_path / "loaded.py"
    source.write_text("from_the_file = 1\n", encoding="utf-8")
    told = kernel.call(f"%load {source}")
    assert "from_the_file = 1" in text_of(told)
    assert told["cell"].payload == []


def test_code_knows_that_the_agent_runs_it(kernel: Kernel) -> None:
    asked = "from cellwright.agent.thread import agent_code_running\n"
    assert text_of(kernel.call(f"{asked}agent_code_running.get()")) == "True"
    found = text_of(kernel.call(f"{asked}import asyncio\nawait asyncio.sleep(0)\nagent_code_running.get()"))
    assert found == "True"
    assert kernel.cell(f"{asked}print(agent_code_running.get())").streams.strip() == "False"


def test_a_logger_the_user_set_up_is_captured_and_goes_on(kernel: Kernel) -> None:
    kernel.cell("import logging\nlog = logging.getLogger('mine')\nlog.addHandler(logging.StreamHandler())")
    assert text_of(kernel.call("log.warning('inside')")) == "inside"
    assert kernel.cell("log.warning('outside')").streams == "outside\n"


def interrupt_when_running(kernel: Kernel, code: str) -> tuple[dict[str, Any], float]:
    """Interrupts the kernel once the code says `ready`; what was told, and the seconds from interrupt to the end."""
    pressed: list[float] = []

    def on_stream(text: str) -> None:
        if "running" in text and not pressed:
            pressed.append(kernel.notebook.interrupt())

    told = kernel.call(code, on_stream=on_stream)
    seconds = time.monotonic() - pressed[0]
    print(f"ended {seconds:.2f} s after the interrupt")
    return told, seconds


@pytest.mark.parametrize(
    "code",
    [
        "print('ready')\nwhile True: pass",
        "print('ready')\nimport time\ntime.sleep(300)",
        "print('ready')\nimport asyncio\nawait asyncio.sleep(300)",
        "print('ready')\nimport asyncio\nawait asyncio.sleep(0)\nwhile True: pass",
        "print('ready')\nimport subprocess\nsubprocess.run(['sleep', '300'])",
    ],
    ids=["busy", "asleep", "awaiting", "busy after an await", "child"],
)
def test_an_interrupt_ends_the_code_and_the_run(kernel: Kernel, code: str) -> None:
    told, seconds = interrupt_when_running(kernel, code)
    assert told["status"] == "cancelled"
    assert seconds <= ALLOWED_SECONDS
    assert text_of(kernel.call("'goes on'")) == "'goes on'"


@pytest.mark.parametrize(
    "code",
    [
        "print('ready')\nwhile True: pass",
        "print('ready')\nimport time\ntime.sleep(300)",
        "print('ready')\nimport asyncio\nawait asyncio.sleep(300)",
    ],
    ids=["busy", "asleep", "awaiting"],
)
def test_cancelling_the_run_ends_the_code(kernel: Kernel, code: str) -> None:
    assert kernel.call(code, how="await cell.cancelled")["status"] == "cancelled"
    assert text_of(kernel.call("'goes on'")) == "'goes on'"


def test_code_that_swallows_interrupts_is_reported(kernel: Kernel) -> None:
    code = (
        "import threading\nrelease = threading.Event()\n"
        "while True:\n"
        "    try:\n        print('ready')\n        release.wait()\n        break\n"
        "    except KeyboardInterrupt:\n        pass"
    )
    for told in (interrupt_when_running(kernel, code)[0], kernel.call(code, how="await cell.cancelled")):
        assert told["status"] == "cancelled"
        assert "[stuck: toolu_1]" in told["cell"].streams


def test_code_that_sits_in_c_is_reported(kernel: Kernel) -> None:
    # who waits for a lock of the C library looks at no signals; here until it is told that the code is stuck
    code = (
        "import ctypes, threading\n"
        "libc, lock, release = ctypes.CDLL(None), ctypes.create_string_buffer(64), threading.Event()\n"
        "libc.pthread_mutex_lock(lock)\n"
        "def unlock():\n    release.wait()\n    libc.pthread_mutex_unlock(lock)\n"
        "threading.Thread(target=unlock).start()\n"
        "print('ready')\n"
        "libc.pthread_mutex_lock(lock);"
    )
    told, _ = interrupt_when_running(kernel, code)
    assert told["status"] == "cancelled"
    assert "[stuck: toolu_1]" in told["cell"].streams


def test_a_time_limit_tells_what_was_printed_so_far(kernel: Kernel) -> None:
    for seconds in (0.2, 5, 60):  # a busy machine takes longer to begin
        told = kernel.cell(
            f"told = await cell.awaited(\"print('so far')\\nwhile True: pass\", seconds={seconds})", value="told"
        ).value
        assert told["status"] == "EXECUTION_TIMEOUT"
        assert f"{seconds} s" in told["text"]
        assert told["details"]["requested_timeout"] == seconds
        assert told["details"]["actual_execution_time"] >= seconds
        if told["text"].startswith("so far\n"):
            break
    assert told["text"].startswith("so far\n")


def test_a_call_can_have_a_time_limit_of_its_own_within_the_users(kernel: Kernel) -> None:
    for own, users, shorter in ((1, None, 1), (60, 0.3, 0.3)):
        code = "import time\ntime.sleep(300)"
        reply = kernel.cell(
            f"told = await cell.awaited({code!r}, seconds={users}, timeout_seconds={own})", value="told"
        )
        assert reply.value["status"] == "EXECUTION_TIMEOUT"
        assert reply.value["details"]["requested_timeout"] == shorter
    assert text_of(kernel.call("'goes on'")) == "'goes on'"


def test_an_interrupt_between_calls_is_the_kernels_own(kernel: Kernel) -> None:
    kernel.call("'a call'")

    def on_stream(text: str) -> None:
        if "waiting" in text:
            kernel.notebook.interrupt()

    # not one long sleep: a signal that comes just before the system call wakes nobody, and nobody sends it again
    reply = kernel.cell("print('waiting', flush=True)\nwhile True: pass", on_stream=on_stream)
    assert reply.status == "error"
    assert "KeyboardInterrupt" in reply.streams


def test_a_kernel_whose_folder_is_gone_says_so(kernel: Kernel, tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    kernel.cell(f"import os; before = os.getcwd(); os.chdir({str(tmp_path / 'gone')!r}); os.rmdir(os.getcwd())")
    try:
        reply = kernel.cell("try:\n    cell.tool.facts({'code': '1'})\nexcept Exception as error:\n    print(error)")
        assert reply.streams == (
            "The folder that the kernel is in has been deleted. Ask the user to change to another one (`%cd`).\n"
        )
    finally:
        kernel.cell("os.chdir(before)")
