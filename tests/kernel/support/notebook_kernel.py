"""A real kernel with Cellwright loaded, and front ends that talk to it: JupyterLab's ways, nbclient's, a console's."""

from __future__ import annotations

import contextlib
import os
import queue
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

from cellwright.testing import MessagesServer
from forked.forked_python import program_in

SECONDS = 60.0
"""Nothing takes so long, on a busy machine either."""

POLL_SECONDS = 0.1
SOURCES = Path(__file__).parents[3] / "src"
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"

Message = dict[str, Any]


@dataclass
class Cell:
    """What one execute request came to. `messages` are all that were published for it, in order."""

    id: str
    reply: dict[str, Any] = field(default_factory=dict)
    messages: list[Message] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def status(self) -> str:
        return str(self.reply["status"])

    @property
    def error(self) -> str:
        return f"{self.reply.get('ename')}: {self.reply.get('evalue')}"

    @property
    def stdout(self) -> str:
        return "".join(m["content"]["text"] for m in self.messages if m["msg_type"] == "stream")

    def is_ended_by(self, message: Message) -> bool:
        """Whether `message` is the last one that is published for this cell."""
        of_cell = message["parent_header"].get("msg_id") == self.id
        return of_cell and message["msg_type"] == "status" and message["content"]["execution_state"] == "idle"

    def of_type(self, kind: str) -> list[dict[str, Any]]:
        return [message["content"] for message in self.messages if message["msg_type"] == kind]

    @property
    def outputs(self) -> list[dict[str, Any]]:
        """The mimebundles as a notebook would hold them now: updates put in the place of what they update, and what was
        cleared away is gone once something else is shown.
        """
        shown: list[dict[str, Any]] = []
        places: dict[str, int] = {}
        is_cleared = False
        for message in self.messages:
            content = message["content"]
            if message["msg_type"] == "clear_output":
                is_cleared = True
            elif message["msg_type"] == "display_data" and is_cleared:
                is_cleared = False
                shown.clear()
                places.clear()
            display_id = content.get("transient", {}).get("display_id", "")
            if message["msg_type"] == "display_data":
                if display_id:
                    places[display_id] = len(shown)
                shown.append(content["data"])
            elif message["msg_type"] == "update_display_data" and display_id in places:
                shown[places[display_id]] = content["data"]
        return shown


class NotebookKernel:
    """One kernel, its client, and what came from it."""

    def __init__(self, manager: KernelManager, client: BlockingKernelClient) -> None:
        self.manager = manager
        self.client = client
        self.published: list[Message] = []
        self.listeners: list[Callable[[Message], None]] = []
        self._replies: dict[str, dict[str, Any]] = {}

    @property
    def has_subshells(self) -> bool:
        return "kernel subshells" in self.info.get("supported_features", [])

    def begin(
        self,
        code: str,
        *,
        allow_stdin: bool = False,
        cell_id: str | None = "cell-1",
        subshell: str | None = None,
        **content: Any,
    ) -> Cell:
        """Send a cell, as JupyterLab does; `cell_id` None: as nbclient does."""
        request = {
            "code": code,
            "silent": False,
            "store_history": True,
            "user_expressions": {},
            "allow_stdin": allow_stdin,
            "stop_on_error": False,
            **content,
        }
        message = self.client.session.msg("execute_request", request)
        message["metadata"] = {} if cell_id is None else {"cellId": cell_id}
        if subshell is not None:
            message["header"]["subshell_id"] = subshell
        self.client.shell_channel.send(message)
        return Cell(message["header"]["msg_id"])

    def next_message(self, seconds: float = SECONDS) -> Message:
        """The next message that the kernel publishes; what front ends do with it is done."""
        message: Message = self.client.get_iopub_msg(timeout=seconds)
        self.published.append(message)
        for listener in list(self.listeners):
            listener(message)
        return message

    def wait_for(self, found: Callable[[Message], Any], cell: Cell | None = None, seconds: float = SECONDS) -> Message:
        """Read messages until one is what is waited for; the ones of `cell` are kept in it."""
        deadline = time.monotonic() + seconds
        while True:
            left = deadline - time.monotonic()
            try:
                message = self.next_message(max(left, 0.01))
            except queue.Empty:
                raise TimeoutError("what was waited for did not come") from None
            _keep(message, cell)
            if found(message):
                return message
            _must_go_on(message, cell)

    def finish(self, cell: Cell, seconds: float = SECONDS) -> Cell:
        """Wait for the end of `cell`."""
        started = time.monotonic()
        if any(map(cell.is_ended_by, self.published)):  # of two at once, while the other one was waited for
            cell.messages = self.published_for(cell)
        else:
            self.wait_for(cell.is_ended_by, cell, seconds)
        cell.reply = self._reply(cell, seconds)
        cell.seconds = time.monotonic() - started
        return cell

    def published_for(self, cell: Cell) -> list[Message]:
        """All that has been published for `cell` so far, whoever waited for something meanwhile."""
        return [message for message in self.published if message["parent_header"].get("msg_id") == cell.id]

    def _reply(self, cell: Cell, seconds: float) -> dict[str, Any]:
        while cell.id not in self._replies:
            reply = self.client.get_shell_msg(timeout=seconds)
            self._replies[reply["parent_header"].get("msg_id", "")] = dict(reply["content"])
        return self._replies.pop(cell.id)

    def completions(self, code: str, subshell: str | None = None) -> list[str]:
        """What completes the end of `code`."""
        message = self.client.session.msg("complete_request", {"code": code, "cursor_pos": len(code)})
        if subshell is not None:
            message["header"]["subshell_id"] = subshell
        self.client.shell_channel.send(message)
        return list(self._reply(Cell(message["header"]["msg_id"]), SECONDS)["matches"])

    def run(self, code: str, **options: Any) -> Cell:
        return self.finish(self.begin(code, **options))

    def run_ok(self, code: str, **options: Any) -> Cell:
        """Run a cell that must not fail."""
        cell = self.run(code, **options)
        assert cell.status == "ok", cell.error
        return cell

    def value(self, expression: str) -> str:
        """The repr of an expression in the kernel."""
        cell = self.run("", user_expressions={"it": expression}, cell_id=None)
        shown = cell.reply["user_expressions"]["it"]
        assert shown["status"] == "ok", shown
        return str(shown["data"]["text/plain"])

    def answer_input(self, cell: Cell, *answers: str) -> list[str]:
        """Answer the `input()` requests of `cell`, one after another; gives their prompts."""
        prompts = []
        for answer in answers:
            prompts.append(self.input_prompt(cell))
            self.client.input(answer)
        return prompts

    def input_prompt(self, cell: Cell) -> str:
        """The prompt of the next `input()` request; what `cell` publishes meanwhile is kept in it."""
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            with contextlib.suppress(queue.Empty):
                return str(self.client.get_stdin_msg(timeout=POLL_SECONDS)["content"]["prompt"])
            with contextlib.suppress(queue.Empty):
                while True:
                    message = self.next_message(0)
                    _keep(message, cell)
                    _must_go_on(message, cell)
        raise TimeoutError("the kernel did not ask")

    def interrupt(self) -> float:
        """What Stop does; gives the time before it."""
        pressed = time.monotonic()
        self.manager.interrupt_kernel()
        return pressed

    def post(self, kind: str, content: Mapping[str, Any], subshell: str | None, client: str = "") -> None:
        """Send a message on the shell channel, for a subshell or, None, for the main thread; as another `client` does."""
        message = self.client.session.msg(kind, content)
        message["header"]["session"] = client or message["header"]["session"]
        if subshell is not None:
            message["header"]["subshell_id"] = subshell
        self.client.shell_channel.send(message)

    def control(self, kind: str) -> dict[str, Any]:
        """Send a request on the control channel and give its reply."""
        message = self.client.session.msg(kind, {})
        self.client.control_channel.send(message)
        while True:
            reply = self.client.get_control_msg(timeout=SECONDS)
            if reply["parent_header"].get("msg_id") == message["header"]["msg_id"]:
                return dict(reply["content"])

    @property
    def info(self) -> dict[str, Any]:
        if not hasattr(self, "_info"):
            self._info = self.client.kernel_info(reply=True, timeout=SECONDS)["content"]
        return self._info


def kept(kernel: NotebookKernel, cell: Cell) -> dict[str, str]:
    """What the cell holds when its run is over, as the notebook keeps it."""

    def replaced(message: Message) -> bool:
        return message["msg_type"] == "update_display_data" and message["parent_header"]["msg_id"] == cell.id

    if not any(map(replaced, kernel.published)):
        kernel.wait_for(replaced)
    cell.messages = kernel.published_for(cell)
    return cell.outputs[0]


def _keep(message: Message, cell: Cell | None) -> None:
    if cell is not None and message["parent_header"].get("msg_id") == cell.id:
        cell.messages.append(message)


def _must_go_on(message: Message, cell: Cell | None) -> None:
    if cell is not None and cell.is_ended_by(message):
        raise AssertionError(f"the cell ended before: {[error['evalue'] for error in cell.of_type('error')]}")


class Page:
    """A page of JupyterLab: it opens the transcripts that are displayed, and sends on a subshell of its own.

    `client` is the session in what it sends; without one it is the page that runs the cells.
    """

    def __init__(self, kernel: NotebookKernel, *, says_ready: bool = True, client: str = "") -> None:
        self.kernel = kernel
        self.client = client or kernel.client.session.session
        self.says_ready = says_ready
        self.secret = uuid.uuid4().hex
        self.transcripts: dict[str, list[dict[str, Any]]] = {}
        self.opened_by: dict[str, str] = {}
        self.acks: list[str] = []
        self.saved: list[dict[str, Any]] = []
        self.closed: list[str] = []
        self.code: list[bytes] = []
        self.opened: list[dict[str, Any]] = []
        self.subshell = kernel.control("create_subshell_request")["subshell_id"] if kernel.has_subshells else None
        kernel.listeners.append(self._listen)

    def close(self) -> None:
        self.kernel.listeners.remove(self._listen)

    @property
    def ops(self) -> list[dict[str, Any]]:
        """The operations of the newest transcript."""
        return next(reversed(self.transcripts.values()))

    @property
    def newest(self) -> str:
        return next(reversed(self.transcripts))

    def text(self) -> str:
        return "".join(op["text"] for op in self.ops if op["op"] == "text")

    def open(self, comm_id: str) -> None:
        """Show a transcript that was there before this page."""
        self.transcripts[comm_id] = []
        self._begin(comm_id)

    def _begin(self, comm_id: str) -> None:
        self.send({"type": "hello"}, comm_id)
        self.send({"type": "ready", "have": 0, "protocol": 1}, comm_id)

    def send(self, content: dict[str, Any], comm_id: str = "") -> None:
        """Send `content` as the page does: with its secret."""
        self.send_data({"method": "custom", "content": {"secret": self.secret, **content}}, comm_id)

    def send_data(self, data: dict[str, Any], comm_id: str = "") -> None:
        """Send on the widget's comm what any script of the page can send there."""
        message = self.kernel.client.session.msg("comm_msg", {"comm_id": comm_id or self.newest, "data": data})
        message["header"]["session"] = self.client
        if self.subshell is not None:
            message["header"]["subshell_id"] = self.subshell
        self.kernel.client.shell_channel.send(message)

    def wait_for_op(self, kind: str, cell: Cell | None = None, seconds: float = SECONDS) -> dict[str, Any]:
        """The newest operation of this kind in the transcript of `cell` (or in the newest), when there is one."""

        def found() -> list[dict[str, Any]]:
            comm_id = next(reversed(self.transcripts), "") if cell is None else self.opened_by.get(cell.id, "")
            return [op for op in self.transcripts.get(comm_id, []) if op["op"] == kind]

        if not found():
            self.kernel.wait_for(lambda _: found(), cell, seconds)
        return found()[-1]

    def answer(self, question: str, behavior: str, **more: Any) -> None:
        self.send(
            {
                "type": "answer",
                "question": question,
                "behavior": behavior,
                "scope": "once",
                "reason": "",
                "input": None,
                **more,
            }
        )

    def _listen(self, message: Message) -> None:
        content = message["content"]
        if message["msg_type"] == "comm_open" and content.get("target_name") == "jupyter.widget":
            self.opened_by[message["parent_header"]["msg_id"]] = content["comm_id"]
            self._open(content, message.get("buffers", []))
        elif message["msg_type"] == "comm_msg" and content["comm_id"] in self.transcripts:
            self._take(content["comm_id"], content["data"].get("content", {}))
        elif message["msg_type"] == "comm_close" and content["comm_id"] in self.transcripts:
            self.closed.append(content["comm_id"])

    def _open(self, content: dict[str, Any], buffers: list[Any]) -> None:
        state = content["data"]["state"]
        self.opened.append(state)
        if "code_model" in state and state["part"] == 0:
            self.transcripts[content["comm_id"]] = []
            if self.says_ready:
                self._begin(content["comm_id"])
        elif state.get("_model_name") == "WidgetModel":
            self.code.append(bytes(buffers[0]))

    def _take(self, comm_id: str, content: dict[str, Any]) -> None:
        if content.get("type") == "ack":
            self.acks.append(content["question"])
        elif content.get("type") == "saved":
            self.saved.append(content)
        elif content.get("type") == "ops":
            ops = self.transcripts[comm_id]
            assert content["first"] <= len(ops), "operations were lost"
            ops += content["ops"][len(ops) - content["first"] :]


def python_path(*folders: Path) -> str:
    """What a kernel's PYTHONPATH is: `folders`, then the tests' own, where another ipykernel may lie."""
    return os.pathsep.join([*map(str, folders), *filter(None, [os.environ.get("PYTHONPATH")])])


@contextlib.contextmanager
def running_kernel(
    folder: Path, environ: dict[str, str], *, sources: Sequence[Path] = (SOURCES,), as_for_users: bool = False
) -> Iterator[NotebookKernel]:
    """A kernel in `folder` that finds Cellwright in `sources`.

    It is forked with its libraries and ours imported, unless it is to begin as users' kernels do or finds others.
    """
    # PYTEST_CURRENT_TEST would turn off what ipykernel does with file descriptors
    inherited = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    python = program_in(os.environ) if SOURCES in sources and not as_for_users else sys.executable
    known = {**inherited, **environ, "PYTHONPATH": python_path(*sources)}
    with started_kernel(folder, known, python=Path(python)) as (manager, client):
        yield NotebookKernel(manager, client)


@contextlib.contextmanager
def started_kernel(
    folder: Path, environ: dict[str, str], *, python: Path | None = None
) -> Iterator[tuple[KernelManager, BlockingKernelClient]]:
    """A kernel in `folder` that answers, with the environment `environ`; by another `python` than this one.

    It listens at sockets that are files: a free port that jupyter_client chooses for it may be another process's by the
    time it has started, and then it ends (jupyter/jupyter_client#154).
    """
    with tempfile.TemporaryDirectory(prefix="kernel-") as sockets:  # a socket's path has 107 bytes at most
        manager = KernelManager(kernel_name="python3", transport="ipc", connection_file=f"{sockets}/kernel.json")
        if python is not None:
            assert manager.kernel_spec is not None
            manager.kernel_spec.argv[0] = str(python)
        manager.start_kernel(env=environ, cwd=str(folder))
        client = manager.client()
        client.start_channels()
        try:
            client.wait_for_ready(timeout=SECONDS)
            yield manager, client
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)


def model_of(server: MessagesServer) -> dict[str, str]:
    """The environment that makes `server` the model."""
    return {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key}
