"""The tool `Python` in an IPython shell without a kernel: its descriptors are the user's screen, its figures windows."""

from __future__ import annotations

import asyncio
import base64
import concurrent.futures
import io
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from cellwright.agent.thread import AgentTask, AgentThread, CallerJobs
from cellwright.agent.tool import ToolContext, ToolResult
from cellwright.kernel.execute.python_tool import python_tool


class Session:
    """An IPython session whose prompt waits for the agent."""

    def __init__(self) -> None:
        self.shell = InteractiveShell.instance(config=Config({"HistoryManager": {"enabled": False}}))
        self.thread = AgentThread()
        self.jobs = CallerJobs()
        self.tool = python_tool(self.shell, self.jobs, in_kernel=False)

    def call(self, code: str) -> ToolResult:
        task = self.start(code)
        self.jobs.work_until_done(task)
        return task.result()

    def start(self, code: str) -> AgentTask[Any]:
        async def call() -> Any:
            return await self.tool.call({"code": code}, ToolContext("toolu_1", lambda **_: None))

        return self.thread.submit(call())


@pytest.fixture
def session() -> Iterator[Session]:
    opened = Session()
    yield opened
    opened.thread.stop()
    InteractiveShell.clear_instance()


def test_what_is_printed_comes_back_and_stays_off_the_screen(
    session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    result = session.call("x = 20\nprint('printed')\nx + 1")
    assert result.content == "printed\n21"
    assert session.shell.user_ns["x"] == 20
    assert session.shell.user_ns["Out"] == {}
    assert session.shell.execution_count == 1
    assert capsys.readouterr().out == ""


def test_code_that_awaits_gets_a_loop_when_there_is_none(session: Session) -> None:
    result = session.call("import asyncio\nawait asyncio.sleep(0.001)\n'awaited'")
    assert result.content == "'awaited'"


def test_what_the_shell_replaced_is_itself_again(session: Session) -> None:
    before = {name: getattr(session.shell, name) for name in ("showtraceback", "display_pub", "display_trap")}
    streams = (sys.stdin, sys.stdout, sys.stderr, sys.displayhook)
    write = vars(sys.stdout).get("write")  # another library may have put one there
    session.call("1 / 0")
    assert {name: getattr(session.shell, name) for name in before} == before
    assert streams == (sys.stdin, sys.stdout, sys.stderr, sys.displayhook)
    assert vars(sys.stdout).get("write") == write
    assert "showtraceback" not in vars(session.shell)


def test_a_call_that_was_cancelled_before_its_turn_never_runs(session: Session) -> None:
    task = session.start("never = True")
    task.cancel()
    concurrent.futures.wait([task.future], timeout=60)
    assert task.future.cancelled()
    assert session.call("'never' in globals()").content == "False"


def test_figures_come_back_as_pictures_and_stay_open(session: Session) -> None:
    drawn = session.call(
        "import matplotlib\nmatplotlib.use('agg')\n"
        "import matplotlib.pyplot as plt\nfigure, axes = plt.subplots()\naxes.plot([1, 2]);"
    )
    from PIL import Image  # another test runs this file in a process that must not import it

    [picture] = drawn.content
    assert Image.open(io.BytesIO(base64.b64decode(picture["source"]["data"]))).format == "PNG"
    assert session.call("'nothing new'").content == "'nothing new'"
    changed = session.call("axes.set_title('now with a title');")
    assert [block["type"] for block in changed.content] == ["image"]
    session.call("plt.close('all')")


def test_the_question_shows_the_code(session: Session) -> None:
    assert session.tool.preview is not None
    preview = asyncio.run(session.tool.preview({"code": "import os\nos.getcwd()"}))
    assert preview.title == "Run Python in this IPython session"
    assert preview.detail.split("\n") == ["import os", "os.getcwd()"]
    assert preview.kind == "code"
    assert session.tool.title is not None
    found = session.tool.title({"code": "\nimport os\nos.getcwd()"})
    assert found == "os.getcwd() …"
    assert session.tool.title({"code": "1 + 1"}) == "1 + 1"


def test_a_shell_without_matplotlib_does_not_get_it() -> None:
    program = (
        f"import runpy, sys\nSession = runpy.run_path({__file__!r})['Session']\n"
        "Session().call('1 + 1')\nprint([name for name in ('matplotlib', 'PIL') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_the_policy_is_told_where_the_kernel_is(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert session.tool.facts is not None
    assert session.tool.facts({"code": "1"}) == {"cwd": str(tmp_path)}
