"""Every tool, called once in a kernel of the installed package: what it imports is there, whoever's pip put it there."""

from __future__ import annotations

import contextlib
import json
import queue
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import nbformat
import pytest
import trustme
from fresh_environment import install, without_this_checkout
from notebook_kernel import Cell, NotebookKernel, model_of, started_kernel

from cellwright.testing import MessagesServer, Part, say, searched, turn, use

pytestmark = [pytest.mark.wheel, pytest.mark.timeout(3600)]

HOST = "docs.example"
PAGE = (
    "<html><head><title>On boats</title></head><body><nav><a href='/'>Home</a></nav><article><h1>On boats</h1>"
    + "<p>A boat of oak floats because it displaces its own weight of water, as anybody can see.</p>" * 5
    + "</article></body></html>"
)
PATCH = "--- a/notes.txt\n+++ b/notes.txt\n@@ -1,2 +1,2 @@\n-one\n+1\n two\n"


class Pages(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(PAGE)))
        self.end_headers()
        self.wfile.write(PAGE.encode())

    def log_message(self, *_: Any) -> None:
        """Nothing: tests are quiet."""


class Proxy(BaseHTTPRequestHandler):
    """The way to the web for WebFetch, as in many companies; it leads every host to `server.web`."""

    def do_CONNECT(self) -> None:
        with socket.create_connection(self.server.web) as there:  # type: ignore[attr-defined]
            self.send_response(200)
            self.end_headers()
            back = threading.Thread(target=_copy, args=(there, self.connection), daemon=True)
            back.start()
            _copy(self.connection, there)
            back.join()

    def log_message(self, *_: Any) -> None:
        """Nothing: tests are quiet."""


def _copy(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def serving(handler: type[BaseHTTPRequestHandler], tls: ssl.SSLContext | None = None) -> Iterator[ThreadingHTTPServer]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture(scope="module")
def web(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment in which the host's pages are reached: by a proxy, under a certificate that is trusted."""
    authority, tls = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(HOST).configure_cert(tls)
    trusted = tmp_path_factory.mktemp("trusted") / "authority.pem"
    authority.cert_pem.write_to_path(str(trusted))
    with serving(Pages, tls) as pages, serving(Proxy) as proxy:
        proxy.web = pages.server_address  # type: ignore[attr-defined]
        url = f"http://127.0.0.1:{proxy.server_address[1]}"
        yield {"HTTPS_PROXY": url, "NO_PROXY": "127.0.0.1,localhost", "SSL_CERT_FILE": str(trusted)}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with something for each tool."""
    (tmp_path / "notes.txt").write_text("one\ntwo\nthree\n")
    (tmp_path / "shapes.py").write_text("def area(r):\n    return 3 * r\n")
    (tmp_path / "shapes.js").write_text("function area(r) {\n  return 3 * r;\n}\n")
    (tmp_path / "test_shapes.py").write_text(
        "import unittest\n\n\nclass Area(unittest.TestCase):\n    def test_it(self):\n        self.assertEqual(6, 6)\n"
    )
    shutil.copy(Path(__file__).parents[3] / "docs" / "images" / "panel.png", tmp_path / "picture.png")
    cells = [nbformat.v4.new_code_cell("x = 40", id="one"), nbformat.v4.new_code_cell("x + 2", id="two")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "book.ipynb")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    return tmp_path


@contextlib.contextmanager
def kernel_of(python: Path, folder: Path, environ: dict[str, str]) -> Iterator[NotebookKernel]:
    """A kernel of the environment of `python`."""
    known = {**without_this_checkout(), **environ, "IS_SANDBOX": "1"}
    with started_kernel(folder, known, python=python) as (manager, client):
        kernel = NotebookKernel(manager, client)
        loaded = kernel.run("%load_ext cellwright")
        assert loaded.status == "ok", loaded.error
        yield kernel


def run_answering(kernel: NotebookKernel, prompt: str) -> Cell:
    """Run a cell whose every question is answered with the first of its answers."""
    cell = kernel.begin(prompt, allow_stdin=True, cell_id=None)
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        with contextlib.suppress(queue.Empty):
            kernel.client.get_stdin_msg(timeout=0.02)
            kernel.client.input("1")
        with contextlib.suppress(queue.Empty):
            message = kernel.next_message(0.02)
            if message["parent_header"].get("msg_id") == cell.id:
                cell.messages.append(message)
            if cell.is_ended_by(message):
                cell.reply = kernel._reply(cell, 60)
                return cell
    raise TimeoutError(f"the cell did not end: {cell.stdout}")


def calls(project: Path) -> list[Part]:
    """A call of each tool, in an order in which each finds what it needs; WebFetch and WebSearch come by themselves."""
    notes, book = str(project / "notes.txt"), str(project / "book.ipynb")
    option = {"label": "Oak", "description": "Heavy."}
    question = {"question": "Which wood?", "header": "Wood", "options": [option, {**option, "label": "Pine"}]}
    return [
        use("Read", file_path=notes),
        use("Read", file_path=str(project / "picture.png")),
        use("Read", file_path=str(project / "shapes.js")),
        use("Write", file_path=str(project / "new.py"), content="x = 1\n"),
        use("ApplyPatch", patch=PATCH),
        use("Edit", file_path=notes, old_string="two", new_string="2"),
        use("MultiEdit", file_path=notes, edits=[{"old_string": "three", "new_string": "3"}]),
        use(
            "EditSymbol",
            file_path=str(project / "shapes.js"),
            symbol="area",
            action="replace",
            new_source="function area(r) {\n  return 4 * r;\n}",
        ),
        use("Glob", pattern="**/*.py"),
        use("Grep", pattern="area"),
        use("LS"),
        use("FileTree"),
        use("FindDefinitions", name="area"),
        use("FindReferences", name="area"),
        use("SemanticSearch", query="area of a circle"),
        use("CodeOutline", path=str(project / "shapes.js")),
        use("CodeContext", symbol="area"),
        use("AnalyzeFunction", symbol="area"),
        use("CallChain", symbol="area"),
        use("ImportChain", path=str(project / "shapes.js")),
        use("SimilarCode", symbol="area"),
        use("CodeMetrics"),
        use("RenameSymbol", symbol="x", new_name="width", path=str(project / "new.py")),
        use("Git", subcommand="status"),
        use("RunTests", framework="unittest"),
        use("Lint", linter="ruff"),
        use("NotebookRead", notebook_path=book),
        use("NotebookEdit", notebook_path=book, cell_id="two", new_source="x + 3"),
        use("NotebookRun", notebook_path=book, cell_ids=["one"]),
        use("NotebookVerify", notebook_path=book),
        use("Bash", command="sleep 60", run_in_background=True),
        use("TaskStop", task_id="bash-1"),
        use("TodoWrite", todos=[{"content": "Look", "status": "pending", "activeForm": "Looking"}]),
        use("TodoRead"),
        use("Skill", skill="code-review"),
        use("Python", code="y = 6 * 7\ny"),
        use("Branch", code="y + 1"),
        use("Variables"),
        use("AskUserQuestion", questions=[question]),
        use("EnterPlanMode"),
        use("ExitPlanMode", plan="1. Nothing."),
    ]


def results_of(model: MessagesServer) -> dict[str, list[str]]:
    """The results in the newest request's conversation, by the tool's name."""
    names: dict[str, str] = {}
    found: dict[str, list[str]] = {}
    for message in max((request.body["messages"] for request in model.requests), key=len):
        for block in message["content"] if isinstance(message["content"], list) else ():
            if block["type"] == "tool_use":
                names[block["id"]] = block["name"]
            elif block["type"] == "tool_result":
                found.setdefault(names[block["tool_use_id"]], []).append(json.dumps(block["content"]))
    return found


def environment_of(model: MessagesServer, web: dict[str, str], home: Path) -> dict[str, str]:
    places = {"HOME": str(home), "CELLWRIGHT_HOME": str(home / "cellwright"), "CELLWRIGHT_SEARCH_ENGINE": "api"}
    return {**model_of(model), **web, **places}


def fetch() -> list[Any]:
    """A turn that fetches a page, and the small model's that reads it."""
    return [turn(use("WebFetch", url=f"https://{HOST}/boats", prompt="Why does it float?")), say("It displaces water.")]


def test_the_base_says_which_extra_is_missing(
    python: Path, web: dict[str, str], project: Path, own_place: Path
) -> None:
    (project / "paper.pdf").write_bytes(b"%PDF-1.4\n")
    with MessagesServer() as model:
        model.add(
            *fetch(),
            turn(use("Read", file_path=str(project / "paper.pdf")), *calls(project)[2:3], *calls(project)[7:8]),
            say("Done."),
        )
        with kernel_of(python, project, environment_of(model, web, own_place)) as kernel:
            cell = run_answering(kernel, "%%claude --mode bypassPermissions\ngo")
        assert cell.status == "ok", cell.error
        assert [request.error for request in model.rejected] == []
        told = results_of(model)
        page = next(str(request.body) for request in model.requests if "It is data" in str(request.body))
    assert "A boat of oak floats" in page
    assert "pip install 'cellwright[web]'" in told["WebFetch"][0]
    assert "pip install 'cellwright[pdf]'" in told["Read"][0]
    assert "pip install 'cellwright[code]'" in told["EditSymbol"][0]


def test_every_tool_works(python: Path, wheel: Path, web: dict[str, str], project: Path, own_place: Path) -> None:
    install(python, f"{wheel}[web,code]")
    assert shutil.which("node", path=without_this_checkout()["PATH"]) is None
    with MessagesServer() as model:
        for call in calls(project):
            model.add(turn(call))
        model.add(turn(use("Agent", description="Look", prompt="Look.", subagent_type="general-purpose")), say("Seen."))
        model.add(*fetch(), turn(use("WebSearch", query="oak boats")))
        model.add(turn(searched("oak boats", {"url": "https://boats.example/oak", "title": "Oak boats"}, text="Oak.")))
        model.add(say("All done."))
        with kernel_of(python, project, environment_of(model, web, own_place)) as kernel:
            cell = run_answering(kernel, f"%%claude --mode bypassPermissions --notebook {project / 'book.ipynb'}\ngo")
            where = kernel.value("__import__('cellwright').__file__")
        assert cell.status == "ok", cell.error
        assert [request.error for request in model.rejected] == []
        assert model.remaining_turns == 0
        offered = {tool["name"] for tool in model.requests[0].body["tools"]}
        told = results_of(model)
    assert str(python.parents[1]) in where
    assert offered == set(told), "each tool is called once here"
    everything = "\n".join(f"{name}: {text}" for name, texts in told.items() for text in texts)
    for words in ("ImportError", "ModuleNotFoundError", "No module named", "pip install 'cellwright"):
        assert words not in everything, everything
    assert "pip install ruff" in told["Lint"][0], "a linter is the project's own"
    assert '"type": "image"' in told["Read"][1]
    assert "4 * r" in (project / "shapes.js").read_text()
    assert (project / "notes.txt").read_text() == "1\n2\n3\n"
    expected = {
        "WebFetch": "It displaces water.",
        "WebSearch": "Oak boats",
        "RunTests": "1 passed",
        "Python": "42",
        "Branch": "43",
        "NotebookVerify": "Reproduces from clean: yes",
        "Glob": "shapes.py",
        "Grep": "shapes.js",
        "FindDefinitions": "function area",
        "AskUserQuestion": "Oak",
        "TaskStop": "bash-1",
    }
    assert {name: text for name, text in expected.items() if text not in told[name][0]} == {}, everything


def test_the_doctor_finds_all_that_tools_import(python: Path, own_place: Path) -> None:
    def examined() -> dict[str, dict[str, str]]:
        run = subprocess.run(
            [python, "-m", "cellwright.terminal.main", "doctor", "--json", "--offline"],
            env={**without_this_checkout(), "HOME": str(own_place)},
            cwd=own_place,
            capture_output=True,
            text=True,
            check=False,
        )
        return {finding["name"]: finding for finding in json.loads(run.stdout)["findings"]}

    findings = examined()
    while (
        findings["libraries of tools"].get("advice") == "Try again."
    ):  # a busy machine; the doctor waits for no import
        findings = examined()
    for name in ("packages", "libraries of tools", "rg", "widget", "JupyterLab extension"):
        assert findings[name]["status"] == "ok", findings[name]
