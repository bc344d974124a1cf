"""A cell's run and the interrupts that come at its edges."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import importlib
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from notebook_kernel import NotebookKernel, Page

from cellwright.agent.prompt import ContextItems, PromptContext
from cellwright.agent.thread import AgentTask
from cellwright.conversation.core import Host
from cellwright.conversation.runs.kinds import RunRequest
from cellwright.conversation.runs.run import Run, RunSurface
from cellwright.features.conversation import Conversation
from cellwright.kernel.output.cell_output import ViewOutput
from cellwright.kernel.run.cell_run import CellWait
from cellwright.terminal.views.plain_view import Unseen
from cellwright.testing import MessagesServer, fault, say, turn, use
from eventual import eventually

pytestmark = [pytest.mark.kernel, pytest.mark.kernel_version]


@pytest.mark.parametrize("awaited", [True, False])
def test_an_interrupt_while_the_run_starts_ends_it(tmp_path: Path, awaited: bool):
    conversation = Conversation(Host(cwd=tmp_path, interface="a test", environ={}))

    def start() -> AgentTask[Any]:
        signal.raise_signal(signal.SIGINT)
        _after_turns_of(conversation.thread.loop)
        return conversation.thread.submit(asyncio.sleep(3600))

    with (
        pytest.raises(KeyboardInterrupt, match="continues in the next cell"),
        CellWait(conversation, ViewOutput(Unseen()), None) as wait,
    ):
        asyncio.run(wait.awaited(start())) if awaited else wait.blocking(start())
    conversation.close()


def test_stop_pressed_again_and_again_is_one_interrupt(tmp_path: Path):
    """Not in a kernel: ipykernel drops a cell's reply when an interrupt meets its own code after the cell."""
    conversation = Conversation(Host(cwd=tmp_path, interface="a test", environ={}))
    begun, cut_off = threading.Event(), []

    async def work() -> Any:
        cleaned = asyncio.Event()
        loop = asyncio.get_running_loop()
        try:
            begun.set()
            await asyncio.sleep(3600)
        finally:
            done = functools.partial(loop.call_soon_threadsafe, cleaned.set)
            threading.Thread(target=press, args=(20, done)).start()
            try:
                await cleaned.wait()
            except asyncio.CancelledError:
                cut_off.append(True)

    def press(times: int, then: Callable[[], object] = lambda: None) -> None:
        begun.wait()
        for _ in range(times):
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        _after_turns_of(conversation.thread.loop)
        then()

    # a machine that is busy elsewhere may take its time between two signals
    presses = threading.Thread(target=press, args=(1,))
    presses.start()
    with (
        pytest.raises(KeyboardInterrupt, match="continues in the next cell"),
        CellWait(conversation, ViewOutput(Unseen()), None, 60.0) as wait,
    ):
        wait.blocking(conversation.thread.submit(work()))
    assert cut_off == []
    presses.join()
    conversation.close()


class Noted(ViewOutput):
    """Notes on which thread it was opened, with what of the cell's; it may be one that cannot be."""

    def __init__(self, *, fails: bool = False) -> None:
        super().__init__(Unseen())
        self.opened: list[tuple[str, str]] = []
        self._fails = fails

    def open(self) -> None:
        self.opened.append((threading.current_thread().name, CELL.get()))
        if self._fails:
            raise OSError("the front end is gone")


CELL: contextvars.ContextVar[str] = contextvars.ContextVar("CELL", default="none")


def asked(conversation: Conversation, output: Noted) -> None:
    """Have a cell ask; its request leaves when the cell waits for that."""
    runs: list[Run] = []

    async def waits_for_the_cell(_: PromptContext) -> ContextItems:
        await asyncio.to_thread(eventually, lambda: runs[0].when_sent is not None)
        return ContextItems()

    request = RunRequest(prompt="Say hello.", context=(waits_for_the_cell,))
    with CellWait(conversation, output, None, seconds_for_request=60.0) as wait:
        wait.blocking(conversation.start(request, RunSurface(belongs_to=runs.append)))


@pytest.fixture
def conversation(messages_server: Callable[..., MessagesServer], tmp_path: Path) -> Iterator[Conversation]:
    importlib.import_module("ipywidgets")  # as it is from the second cell on
    server = messages_server([turn(say("Hello."))])
    environ = {"HOME": str(tmp_path), "ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key}
    conversation = Conversation(Host(cwd=tmp_path, interface="a test", environ=environ))
    yield conversation
    conversation.close()


def test_the_thread_that_has_sent_the_request_opens_the_output_in_the_cells_context(conversation: Conversation):
    output = Noted()
    contextvars.copy_context().run(lambda: (CELL.set("this one"), asked(conversation, output)))
    ((thread, cell),) = output.opened
    assert cell == "this one"
    assert thread != threading.main_thread().name


def test_the_cell_says_why_its_output_cannot_be_opened(conversation: Conversation):
    output = Noted(fails=True)
    with pytest.raises(OSError, match="the front end is gone"):
        asked(conversation, output)
    ((thread, _),) = output.opened
    assert thread != threading.main_thread().name


def _after_turns_of(loop: asyncio.AbstractEventLoop) -> None:
    """Return when the agent's loop has looked at all that had come before."""
    for _ in range(3):
        looked = threading.Event()
        loop.call_soon_threadsafe(looked.set)
        looked.wait()


def allow_python(kernel: NotebookKernel, page: Page, code: str, **options: object) -> object:
    """Run a cell whose one question is answered with yes."""
    cell = kernel.begin(code, **options)  # type: ignore[arg-type]
    page.answer(page.wait_for_op("ask", cell)["question"], "allow")
    return kernel.finish(cell)


def test_a_line_in_a_loop_blocks_and_works(kernel: NotebookKernel, page: Page, model: MessagesServer):
    model.add(say("one"), say("two"))
    cell = kernel.run("for number in (1, 2):\n    %claude what is $number?\n")
    assert cell.status == "ok"
    assert [output["text/markdown"].split("\n")[0] for output in cell.outputs] == ["one", "two"]
    # the magic leaves the text as it is: what it names is attached
    told = model.requests[-1].last_user_text
    assert "what is $number?" in told
    assert "number: int = 2" in told


def test_a_blocking_cell_is_answered_in_the_widget(kernel: NotebookKernel, page: Page, model: MessagesServer):
    if not kernel.has_subshells:
        pytest.skip("without subshells nothing from the page arrives while a cell blocks")
    model.add(turn(use("Python", code="blocking = 1")), say("Done."))
    cell = allow_python(kernel, page, "%autoawait off\nget_ipython().run_cell_magic('claude', '--new', 'go')")
    kernel.run("%autoawait on")
    assert cell.status == "ok"
    assert kernel.value("blocking") == "1"


def test_a_blocking_cell_asks_by_input_where_no_widget_answers(kernel: NotebookKernel, model: MessagesServer):
    silent = Page(kernel, says_ready=False)
    model.add(turn(use("Python", code="typed = 1")), say("Done."))
    cell = kernel.begin("if True:\n    %claude --new go\n", allow_stdin=True)
    kernel.answer_input(cell, "y")
    kernel.finish(cell)
    silent.close()
    assert cell.status == "ok"
    assert kernel.value("typed") == "1"


def test_a_blocking_cell_is_interrupted(kernel: NotebookKernel, page: Page, model: MessagesServer):
    model.add(turn(say("I will now"), fault("stall")))
    cell = kernel.begin("if True:\n    %claude --new go\n")
    kernel.wait_for(lambda _: page.transcripts and page.text() == "I will now", cell)
    kernel.interrupt()
    kernel.finish(cell)
    assert cell.reply["ename"] == "KeyboardInterrupt"
    assert "**Stopped.**" in cell.outputs[0]["text/markdown"]


def test_ask_shares_the_notebooks_conversation_and_shows_itself(
    kernel: NotebookKernel, page: Page, model: MessagesServer
):
    if not kernel.has_subshells:
        pytest.skip("without subshells nothing from the page arrives while a cell blocks")
    model.add(say("first"), turn(use("Python", code="asked_for = 1")), say("second"))
    kernel.run("%%claude --new\nhello")
    cell = allow_python(kernel, page, "import cellwright\nresult = cellwright.ask('and now?')")
    assert cell.status == "ok"
    value = kernel.value("result.text, asked_for")
    assert value == "('second', 1)"
    assert len(model.requests[-1].body["messages"]) == 5
    assert "second" in cell.outputs[0]["text/markdown"]


def test_ask_fails_with_its_own_error(kernel: NotebookKernel, page: Page, model: MessagesServer):
    model.add(turn(say("I would"), stop_reason="refusal"))
    cell = kernel.run("import cellwright\ncellwright.ask('go', session=None)")
    assert cell.reply["ename"] == "RunError"
    assert "REFUSED" in cell.reply["evalue"]


@pytest.mark.parametrize(
    "code",
    [
        "%%claude\nwho are you?",
        "%claude who are you?",
        "if True:\n    %claude who are you?\n",
        "import cellwright\ncellwright.ask('who are you?')",
        "import cellwright\ncellwright.ask('who are you?', session=None)",
        "import cellwright, threading\ndef work():\n    try:\n        cellwright.ask('who are you?')\n"
        "    except Exception as error:\n        print(error)\nt = threading.Thread(target=work)\nt.start()\nt.join()",
        "import cellwright\nasync for event in cellwright.stream('who are you?'):\n    print(event)",
        "%unload_ext cellwright",
    ],
    ids=["cell", "line", "plain-line", "ask", "ask-apart", "thread", "stream", "unload"],
)
def test_code_that_claude_runs_cannot_ask_claude(kernel: NotebookKernel, page: Page, model: MessagesServer, code: str):
    model.add(turn(use("Python", code=code)), say("I see."))
    cell = allow_python(kernel, page, "%%claude --new\ngo", allow_stdin=True)
    assert cell.status == "ok"
    (result,) = [
        block for block in model.requests[-1].body["messages"][-1]["content"] if block["type"] == "tool_result"
    ]
    told = result["content"] if isinstance(result["content"], str) else result["content"][0]["text"]
    assert "runs cannot" in told or "still working" in told
    assert len(cell.outputs) == 1


def test_a_dry_run_shows_the_request_and_sends_nothing(kernel: NotebookKernel, model: MessagesServer):
    model.add(say("first"))
    kernel.run("%%claude --new\nhello")
    before = len(model.all_requests)
    cell = kernel.run("%%claude --dry-run\nand what would you say now?")
    assert cell.status == "ok"
    assert "you say now?" in cell.stdout
    assert "hello" in cell.stdout
    assert " tokens " in cell.stdout
    assert "Python" in cell.stdout
    assert len(model.all_requests) == before
    kernel.run("%%claude --dry-run --no-tools --format json --out tried\nand in JSON?")
    value = kernel.value("tried['tools'], tried['messages'][-1]['content'][-1]['text']")
    assert value == "([], 'and in JSON?')"
    cell = kernel.run("%%claude --dry-run --budget 0.00001\nand for nothing?")
    assert cell.reply["evalue"].startswith("BUDGET_EXCEEDED: ")
    model.add(say("second"))
    kernel.run("%%claude\nreally")
    assert "would you say" not in str(model.requests[-1].body)


def test_a_recording_is_played_without_a_request(
    kernel: NotebookKernel, page: Page, model: MessagesServer, project: Path
):
    model.add(turn(use("Python", code="recorded = 6 * 7\nprint(recorded)")), say("It is **42**."))
    cell = allow_python(kernel, page, "%%claude --new --record turns.jsonl\nWhat is it?")
    assert cell.status == "ok"
    assert (project / "turns.jsonl").exists()
    kernel.run("del recorded")
    before = len(model.all_requests)
    for _ in range(1):
        cell = kernel.run("%%claude --new --replay turns.jsonl --out played\nWhat is it?")
        assert cell.status == "ok"
    assert len(model.all_requests) == before
    assert "It is **42**." in cell.outputs[0]["text/markdown"]
    assert kernel.value("recorded, played.text") == "(42, 'It is **42**.')"
    cell = kernel.run("%%claude --new --replay turns.jsonl\nWhat is that?")
    assert cell.reply["evalue"].startswith("INVALID_PARAMETERS: ")
    assert "-What is it?" in cell.reply["evalue"]


def test_code_that_swallows_interrupts_is_ended_by_a_restart(kernel: NotebookKernel, page: Page, model: MessagesServer):
    """The last test of this module: the kernel ends."""
    if not kernel.has_subshells:
        pytest.skip("without subshells nothing from the page arrives while code holds the main thread")
    stubborn = (
        "import threading\nforever = threading.Event()\n"
        "while True:\n    try:\n        print('begun')\n        forever.wait()\n"
        "    except KeyboardInterrupt:\n        pass\n"
    )
    model.add(turn(use("Python", code=stubborn)))
    cell = kernel.begin("%%claude --new\ngo")
    page.answer(page.wait_for_op("ask", cell)["question"], "allow")
    page.wait_for_op("output", cell)
    page.send({"type": "restart"})  # nothing is stuck yet: it is not offered
    page.answer("of-no-cell", "allow")
    kernel.wait_for(lambda _: "of-no-cell" in page.acks, cell)  # what was sent before has been looked at
    kernel.interrupt()
    stuck = page.wait_for_op("stuck", cell)
    assert stuck["id"] == page.wait_for_op("tool")["id"]
    assert kernel.manager.is_alive()
    page.send({"type": "restart"})
    assert kernel.manager.provisioner.process.wait(60) != 0
