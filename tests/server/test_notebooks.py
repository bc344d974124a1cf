"""A run over HTTP works on the server's notebooks: by its contents manager, in a shared room, or on the file itself.

The server is a process with real kernels; where its contents manager keeps the files elsewhere, no kernel sees them.
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jupyter_process import JupyterServer, jupyter_server
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager, LargeFileManager
from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager
from jupyter_server.services.sessions.sessionmanager import SessionManager
from jupyter_ydoc import YNotebook
from open_notebook_conformance import CASES, reset
from shared_room import EXTENSIONS, Coauthor
from subshells import with_subshells

from cellwright.errors import ToolError
from cellwright.kernel.pages.comm import PageError
from cellwright.kernel.pages.open_notebooks import LiveNotebook, SeenSources
from cellwright.server.kernel_connection import KernelConnection
from cellwright.server.notebooks import NotebookRefusal, ServedNotebooks, difference
from cellwright.server.relay import KernelRelay
from cellwright.server.server_page import ServerPage
from cellwright.testing import Gate, MessagesServer, hold, say, turn, use
from cellwright.tools.notebook.file_notebook import FileNotebook
from cellwright.tools.notebook.open_notebook import CellConflict, CellPosition, Delete, Insert, OpenNotebook, Replace
from row_tables import for_each_row

pytestmark = [pytest.mark.kernel, pytest.mark.kernel_version, pytest.mark.timeout(300)]

TESTS = Path(__file__).parents[1]
# not by a cell: when `sys.path` changes, coverage takes modules away that another thread is importing
IN_KERNELS = (TESTS / "e2e", TESTS / "tools")
CONFORM = """
import live_cell
print(live_cell.blocking(live_cell.conform(), 240))
"""


def environ_with(model: MessagesServer) -> dict[str, str]:
    path = os.pathsep.join([*map(str, IN_KERNELS), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": model.api_key, "PYTHONPATH": path}


def write_notebook(folder: Path, name: str, indent: int = 1) -> Path:
    cell = nbformat.v4.new_code_cell("x = 1", id="a1")
    path = folder / name
    path.write_text(json.dumps(nbformat.v4.new_notebook(cells=[cell]), indent=indent), "utf-8")
    return path


def kernel_of_notebook(server: JupyterServer, name: str) -> str:
    """The kernel of a new notebook session, as JupyterLab makes one."""
    said = {"path": name, "name": name, "type": "notebook", "kernel": {"name": "python3"}}
    reply = server.request("POST", "api/sessions", said)
    assert reply.status == 201, reply.body
    return str(reply.json()["kernel"]["id"])


def run(server: JupyterServer, kernel: str) -> list[dict[str, Any]]:
    """The results of the tools of a run."""
    said = {"prompt": "Work on it", "options": {"mode": "acceptEdits"}}
    events = server.stream("POST", f"kernels/{kernel}/run", said).rest()
    assert events[-1]["data"]["metadata"]["stop_reason"] == "end_turn", events
    return [event["data"] for event in events if event["type"] == "tool_completion"]


def read(name: str) -> Any:
    return turn(use("NotebookRead", notebook_path=name))


def edit(name: str, source: str) -> Any:
    return turn(use("NotebookEdit", notebook_path=name, cell_id="a1", new_source=source))


def source_of(path: Path) -> str:
    return str(nbformat.read(path, 4).cells[0].source)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the contents manager of `elsewhere` keeps what it has; kernels are not told."""
    return tmp_path_factory.mktemp("contents")


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory, model: MessagesServer, files: Path) -> Iterator[JupyterServer]:
    """A server whose notebooks are no files below its root."""
    environ = environ_with(model)
    arguments = (f"--FileContentsManager.root_dir={files}",)
    with jupyter_server(tmp_path_factory.mktemp("server"), arguments, environ) as running:
        yield running


def conforms(server: JupyterServer, kernel: str, model: MessagesServer, where: str) -> None:
    """Run all cases in a cell of that kernel, while a run over HTTP goes on there; the notebook is said to be `where`."""
    gate = Gate()
    model.add(turn(say("I am at it, "), hold(gate), say("and done.")))
    going_on = server.stream("POST", f"kernels/{kernel}/run", {"prompt": "Take your time"})
    going_on.until("claude_response_chunk")
    cell = server.execute(kernel, CONFORM, wait=False)
    cell.printed("}\n")  # it may come after the reply
    cell.wait()
    gate.open()
    going_on.rest()
    told = json.loads(cell.text)
    assert told == {"where": where, **dict.fromkeys(CASES, "ok")}


def test_a_notebook_that_no_kernel_sees_is_changed_by_the_contents_manager(elsewhere, model, files):
    path = write_notebook(files, "edited.ipynb")
    kernel = kernel_of_notebook(elsewhere, path.name)
    model.add(read(path.name), edit(path.name, "x = 2"), turn(say("Done.")))
    seen, changed = run(elsewhere, kernel)
    assert "x = 1" in str(seen["result"])
    assert changed["status"] == "success", changed
    assert source_of(path) == "x = 2"


def test_what_was_saved_meanwhile_is_a_conflict(elsewhere, model, files):
    path = write_notebook(files, "conflict.ipynb")
    kernel = kernel_of_notebook(elsewhere, path.name)
    model.add(read(path.name), turn(say("I know it.")))
    run(elsewhere, kernel)
    notebook = nbformat.read(path, 4)
    notebook.cells[0].source = "x = 1  # typed since"
    saved = {"type": "notebook", "format": "json", "content": notebook}
    assert elsewhere.request("PUT", f"api/contents/{path.name}", saved).status == 200
    model.add(edit(path.name, "x = 2"), edit(path.name, "x = 2  # typed since"), turn(say("Done.")))
    conflict, changed = run(elsewhere, kernel)
    assert "Nothing was changed" in str(conflict["result"])
    assert "x = 1  # typed since" in str(conflict["result"])
    assert changed["status"] == "success", changed
    assert source_of(path) == "x = 2  # typed since"


def test_a_notebook_that_is_opened_later_is_known_to_the_next_run(elsewhere, model, files):
    first, second = write_notebook(files, "first.ipynb"), write_notebook(files, "second.ipynb")
    kernel = kernel_of_notebook(elsewhere, first.name)
    model.add(say("Connected."))
    run(elsewhere, kernel)
    kernel_of_notebook(elsewhere, second.name)
    model.add(read(second.name), edit(second.name, "x = 2"), turn(say("Done.")))
    assert [each["status"] for each in run(elsewhere, kernel)] == ["success", "success"]
    assert source_of(second) == "x = 2"


@with_subshells
def test_the_contents_manager_conforms(elsewhere, model, files):
    path = write_notebook(files, "conforms.ipynb")
    conforms(elsewhere, kernel_of_notebook(elsewhere, path.name), model, "the file on the server")
    nbformat.validate(nbformat.read(path, 4))


def test_a_file_that_the_kernel_sees_keeps_its_bytes(server, model):
    path = write_notebook(server.root, "seen.ipynb", indent=3)
    before = path.read_text("utf-8")
    kernel = kernel_of_notebook(server, path.name)
    model.add(read(path.name), edit(path.name, "x = 2"), turn(say("Done.")))
    _, changed = run(server, kernel)
    assert "Open in" not in str(changed["result"])
    assert path.read_text("utf-8") == before.replace("x = 1", "x = 2")


def test_a_kernel_that_knows_no_such_comm_is_talked_to_all_the_same(server, model):
    kernel = server.kernel()
    forget = "%load_ext cellwright\nimport comm\ndel comm.get_comm_manager().targets['cellwright.notebook']"
    assert server.execute(kernel, forget).wait() == "ok"
    model.add(use("Bash", command="echo one"), say("As ever."))
    events = server.stream(
        "POST", f"kernels/{kernel}/run", {"prompt": "Go", "options": {"mode": "bypassPermissions"}}
    ).rest()
    assert events[-1]["data"]["final_response"] == "As ever."


SERVED = (
    "get_ipython().find_cell_magic('claude').__self__.extension.conversation().conversation.tools.open_notebooks.served"
)


async def until_served(connection: KernelConnection, path: str, *, served: bool) -> None:
    """Ask the kernel until it has that notebook from the server, or has it no more."""
    code = {"code": "", "silent": True, "user_expressions": {"found": f"{SERVED}({path!r}) is not None"}}
    async with asyncio.timeout(60):
        while True:
            reply = await connection.request("shell", "execute_request", code)
            if reply["content"]["user_expressions"]["found"]["data"]["text/plain"] == str(served):
                return


def test_the_kernel_is_told_what_is_there_as_long_as_the_server_is_connected(tmp_path, monkeypatch):
    monkeypatch.setenv("CELLWRIGHT_HOME", str(tmp_path / "state"))
    (root := tmp_path / "root").mkdir()
    (files := tmp_path / "files").mkdir()
    for name in ("first.ipynb", "second.ipynb"):
        write_notebook(files, name)

    async def follow() -> None:
        kernels = AsyncMappingKernelManager(root_dir=str(root), connection_dir=str(tmp_path))
        contents = LargeFileManager(root_dir=str(files))
        sessions = SessionManager(kernel_manager=kernels, contents_manager=contents)
        session = await sessions.create_session("first.ipynb", "first.ipynb", "notebook", "python3")
        kernel_id = session["kernel"]["id"]
        page_of = functools.partial(ServerPage, ServedNotebooks(contents), sessions, str(root))
        relay = KernelRelay(kernels, kernel_id, 60.0, page_of)
        connection = KernelConnection(kernels.get_kernel(kernel_id), lambda _: None, lambda: None)
        try:
            await relay.open(lambda _: None)
            await connection.open(60.0)
            await until_served(connection, "first.ipynb", served=True)
            await sessions.create_session("second.ipynb", "second.ipynb", "notebook", kernel_id=kernel_id)
            await relay.refresh()
            await until_served(connection, "second.ipynb", served=True)
            await relay.close()
            await until_served(connection, "first.ipynb", served=False)
        finally:
            await connection.close()
            await kernels.shutdown_all()
            sessions.close()  # its database belongs to this thread

    asyncio.run(follow())


@pytest.fixture(scope="module")
def collaborating(tmp_path_factory: pytest.TempPathFactory, model: MessagesServer) -> Iterator[JupyterServer]:
    """A server with jupyter-collaboration's documents."""
    environ = environ_with(model)
    folder = tmp_path_factory.mktemp("server")
    arguments = (f"--ArbitraryFileIdManager.db_path={folder / 'file_ids.db'}",)
    with jupyter_server(folder, arguments, environ, extensions=EXTENSIONS) as running:
        yield running


@pytest.fixture
def open_room(collaborating: JupyterServer) -> Iterator[Callable[[str], Coauthor]]:
    """`open_room(path)`: somebody who has that notebook open, and what is in it."""
    people: list[Coauthor] = []

    def come(path: str) -> Coauthor:
        people.append(Coauthor(collaborating, path))
        people[-1].until(bool)
        return people[-1]

    yield come
    for person in people:
        person.leave()


def test_a_shared_notebook_is_changed_in_its_room(collaborating, model, open_room):
    path = write_notebook(collaborating.root, "shared.ipynb")
    kernel = kernel_of_notebook(collaborating, path.name)
    author = open_room(path.name)
    author.type("a1", "x = 1  # not saved yet")
    model.add(read(path.name), edit(path.name, "x = 2"), turn(say("Done.")))
    seen, changed = run(collaborating, kernel)
    assert "not saved yet" in str(seen["result"])
    assert changed["status"] == "success", changed
    author.until(lambda sources: sources == {"a1": "x = 2"})


@pytest.mark.thorough
@with_subshells
def test_a_shared_notebook_conforms(collaborating, model, open_room):
    path = write_notebook(collaborating.root, "conforms.ipynb")
    kernel = kernel_of_notebook(collaborating, path.name)
    open_room(path.name)
    conforms(collaborating, kernel, model, "Jupyter")


class Wire:
    """What a `LiveNotebook` needs of the kernel's pages: one page, the server. All goes over as JSON."""

    def __init__(self, served: ServedNotebooks, path: Path) -> None:
        self.methods = {"cells": served.cells, "change": served.change, "outputs": served.outputs}
        self.page = SimpleNamespace(front_end="Jupyter Server 2.17", shows=lambda _: self.notebook)
        self.notebook = SimpleNamespace(served_path=path.name, route="contents")

    def showing(self, path: Path) -> list[Any]:
        return [self.page]

    async def answering(self, path: Path) -> Any:
        return self.page

    async def request(self, page: Any, method: str, params: Mapping[str, Any]) -> Any:
        try:
            return json.loads(json.dumps(await self.methods[method](json.loads(json.dumps(params)))))
        except NotebookRefusal as refused:
            raise PageError(refused.code, refused.message, refused.details) from None


class Collaboration:
    """What the extension `jupyter_server_ydoc` offers: the documents that somebody has open, by their paths."""

    def __init__(self) -> None:
        self.documents: dict[str, Any] = {}

    async def get_document(self, *, path: str, content_type: str, file_format: str, copy: bool) -> Any:
        assert (content_type, file_format, copy) == ("notebook", "json", False)
        return self.documents.get(path)


NAME = "notebook.ipynb"


@pytest.fixture(autouse=True)
def own_signatures(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The contents manager signs what it saves, for the user whose data these are."""
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path_factory.mktemp("jupyter")))


@pytest.fixture(params=["contents", "async contents", "shared"])
def served(request: pytest.FixtureRequest, tmp_path: Path) -> ServedNotebooks:
    (tmp_path / NAME).write_text(nbformat.writes(nbformat.v4.new_notebook()), "utf-8")
    if request.param == "async contents":
        return ServedNotebooks(AsyncLargeFileManager(root_dir=str(tmp_path)))
    contents = LargeFileManager(root_dir=str(tmp_path))
    if request.param == "contents":
        return ServedNotebooks(contents)
    collaboration = Collaboration()
    collaboration.documents[NAME] = YNotebook()
    collaboration.documents[NAME].set(nbformat.v4.new_notebook())
    return ServedNotebooks(contents, collaboration)


def opened(served: ServedNotebooks, folder: Path) -> OpenNotebook:
    path = folder / NAME
    return LiveNotebook(Wire(served, path), path, SeenSources())  # type: ignore[arg-type]


@pytest.mark.parametrize("case", CASES)
def test_conforms(served: ServedNotebooks, tmp_path: Path, case: str) -> None:
    async def run() -> None:
        notebook = opened(served, tmp_path)
        await reset(notebook)
        await CASES[case](notebook)

    asyncio.run(run())


def contents(folder: Path) -> ServedNotebooks:
    return ServedNotebooks(LargeFileManager(root_dir=str(folder)))


def test_what_is_saved_is_a_valid_notebook(tmp_path: Path) -> None:
    (tmp_path / NAME).write_text(nbformat.writes(nbformat.v4.new_notebook()), "utf-8")
    asyncio.run(reset(opened(contents(tmp_path), tmp_path)))
    saved = nbformat.read(tmp_path / NAME, 4)
    nbformat.validate(saved)
    assert [cell.id for cell in saved.cells] == ["a1", "b2", "c3"]


def test_a_notebook_whose_cells_have_no_ids_gets_none(tmp_path: Path) -> None:
    old = nbformat.v4.new_notebook(nbformat_minor=4, cells=[])
    old.cells = [{"cell_type": "markdown", "metadata": {}, "source": "# One"}]
    (tmp_path / NAME).write_text(json.dumps(old), "utf-8")

    async def run() -> None:
        notebook = opened(contents(tmp_path), tmp_path)
        [cell] = await notebook.cells()
        assert cell.id == "cell-0"
        [changed, added] = await notebook.change(
            [
                Replace(cell_id="cell-0", expect=cell.sha256, source="# Two"),
                Insert(place=CellPosition("end"), cell_type="code", source="x = 1"),
            ]
        )
        assert changed.after is not None
        assert (changed.after.source, added.id) == ("# Two", "cell-1")

    asyncio.run(run())
    saved = json.loads((tmp_path / NAME).read_text("utf-8"))
    assert saved["nbformat_minor"] == 4
    assert [cell.get("id") for cell in saved["cells"]] == [None, None]


@for_each_row("is_served", [True, False])
def test_cells_without_ids_are_named_by_their_positions_after_each_change(tmp_path: Path, is_served: bool) -> None:
    old = nbformat.v4.new_notebook(nbformat_minor=4, cells=[])
    old.cells = [{"cell_type": "markdown", "metadata": {}, "source": source} for source in "ABC"]
    (tmp_path / NAME).write_text(json.dumps(old), "utf-8")
    notebook = opened(contents(tmp_path), tmp_path) if is_served else FileNotebook(tmp_path / NAME)

    def sources() -> list[str]:
        return ["".join(cell["source"]) for cell in json.loads((tmp_path / NAME).read_text("utf-8"))["cells"]]

    async def run() -> None:
        a, b, c = [cell.sha256 for cell in await notebook.cells()]
        with pytest.raises(CellConflict):  # B is cell-0 when A has gone
            await notebook.change([Delete(cell_id="cell-0", expect=a), Delete(cell_id="cell-1", expect=b)])
        assert sources() == ["A", "B", "C"]
        first = Insert(place=CellPosition("start"), cell_type="markdown", source="NEW")
        with pytest.raises(CellConflict):
            await notebook.change([first, Delete(cell_id="cell-0", expect=a)])
        assert sources() == ["A", "B", "C"]
        last = Insert(place=CellPosition("end"), cell_type="markdown", source="LAST")
        await notebook.change(
            [last, first, Delete(cell_id="cell-1", expect=a), Replace(cell_id="cell-2", expect=c, source="c")]
        )
        assert sources() == ["NEW", "B", "c", "LAST"]

    asyncio.run(run())


def test_what_somebody_else_saved_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_text(nbformat.writes(nbformat.v4.new_notebook()), "utf-8")
    theirs = nbformat.writes(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("theirs")]))

    class Meanwhile(LargeFileManager):
        """Somebody saves between our reading and our writing."""

        def get(self, path: str, content: bool = True, **more: Any) -> Any:
            model = super().get(path, content=content, **more)
            if content:
                (tmp_path / NAME).write_text(theirs, "utf-8")
                os.utime(tmp_path / NAME, (1, 1))
            return model

    async def run() -> None:
        notebook = opened(ServedNotebooks(Meanwhile(root_dir=str(tmp_path))), tmp_path)
        with pytest.raises(ToolError, match="changed by someone else"):
            await notebook.change([Insert(place=CellPosition("end"), cell_type="code", source="mine")])

    asyncio.run(run())
    assert path.read_text("utf-8") == theirs


def test_a_notebook_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="cannot be read by the server"):
        asyncio.run(opened(contents(tmp_path), tmp_path).cells())


def test_others_see_each_change_of_a_shared_document_and_keep_what_they_type() -> None:
    collaboration, document = Collaboration(), YNotebook()
    source = "# ä 😀 begin\nx = 1\n# end"
    document.set(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source, id="a1")]))
    collaboration.documents[NAME] = document
    seen_by_others: list[Any] = []
    document.observe(lambda topic, event: seen_by_others.append((topic, event)))
    text = document.ycells[0]["source"]
    change = {**REPLACED, "expect": source, "source": source.replace("x = 1", "x = 22")}
    asyncio.run(ServedNotebooks(None, collaboration).change({"path": NAME, "changes": [change]}))
    assert str(text) == "# ä 😀 begin\nx = 22\n# end"  # the same text, not another in its place
    assert seen_by_others


REPLACED = {
    "type": "replace",
    "id": "a1",
    "cell_type": None,
    "outputs": None,
    "execution_count": None,
    "attachments": None,
}


@given(st.text(alphabet="aä😀\n"), st.text(alphabet="aä😀\n"))
def test_the_difference_of_two_texts_makes_one_the_other(old: str, new: str) -> None:
    start, end, text = difference(old, new)
    assert old[:start] + text + old[end:] == new
