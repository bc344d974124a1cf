"""Pages connect to the kernel, and Claude works on what they show: while a cell runs, and when they are gone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from chat_panel import ChatPanel
from notebook_kernel import NotebookKernel
from notebook_page import NotebookPage

from cellwright.testing import MessagesServer, say, turn, use

pytestmark = [pytest.mark.kernel, pytest.mark.kernel_version]

ASK = "%%claude --mode acceptEdits\nWork on it"
LIVE = (("a1", "code", "x = 1  # unsaved"), ("b2", "markdown", "# Title"))


def write_notebook(path: Path, *sources: str) -> Path:
    cells: list[dict[str, Any]] = [
        {"cell_type": "code", "id": f"f{at}", "metadata": {}, "execution_count": None, "outputs": [], "source": text}
        for at, text in enumerate(sources)
    ]
    path.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1), "utf-8")
    return path


@pytest.fixture
def path(project: Path, request: pytest.FixtureRequest) -> Path:
    return write_notebook(project / f"{request.node.name.partition('[')[0]}.ipynb", "x = 1")


@pytest.fixture
def shown(kernel: NotebookKernel, path: Path) -> Iterator[NotebookPage]:
    page = NotebookPage(kernel, path, *LIVE)
    page.open()
    yield page
    page.close()
    kernel.run("")  # the goodbye has arrived before the next test


def server_page(kernel: NotebookKernel, path: Path, route: str, source: str) -> NotebookPage:
    """The server, which shows the notebook as `route`."""
    page = NotebookPage(kernel, path, ("a1", "code", source), front_end="Jupyter Server")
    page.route = route
    page.open()
    return page


def read(path: Path, **more: Any) -> Any:
    return turn(use("NotebookRead", notebook_path=path.name, **more))


def edit(path: Path, cell: str, source: str) -> Any:
    return turn(use("NotebookEdit", notebook_path=path.name, cell_id=cell, new_source=source))


def told(model: MessagesServer) -> list[str]:
    """The results of the newest prompt's calls."""
    results: list[str] = []
    for message in reversed(model.requests[-1].body["messages"]):
        if message["role"] == "assistant":
            continue
        found = [block for block in message["content"] if isinstance(block, dict) and block["type"] == "tool_result"]
        if not found:
            break
        results[:0] = [_text(block["content"]) for block in found]
    return results


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


def test_a_cell_that_is_awaited_works_on_the_open_document(
    kernel: NotebookKernel, model: MessagesServer, shown: NotebookPage, path: Path
) -> None:
    on_disk = path.read_bytes()
    model.add(read(path), edit(path, "a1", "x = 2"), turn(say("Done.")))
    assert kernel.run(ASK).status == "ok"
    seen, done = told(model)
    assert "x = 1  # unsaved" in seen
    assert "unsaved changes included" in seen
    assert "Open in JupyterLab" in done
    assert "saved to disk" in done
    assert shown.source("a1") == "x = 2"
    assert path.read_bytes() == on_disk


def test_a_cell_that_blocks_does_so_too(
    kernel: NotebookKernel, model: MessagesServer, shown: NotebookPage, path: Path
) -> None:
    if not kernel.has_subshells:
        pytest.skip("ipykernel 6 takes no message while a cell blocks")
    model.add(read(path), edit(path, "a1", "x = 2"), turn(say("Done.")))
    code = "import cellwright\nprint(cellwright.ask('Work on it', mode='acceptEdits').text)"
    assert kernel.run(code).status == "ok"
    assert "Open in JupyterLab" in told(model)[1]
    assert shown.source("a1") == "x = 2"


def test_what_the_user_types_meanwhile_is_a_conflict_with_both_versions(
    kernel: NotebookKernel, model: MessagesServer, shown: NotebookPage, path: Path
) -> None:
    model.add(read(path), turn(say("I know it.")))
    kernel.run(ASK)
    shown.cells[0]["source"] = "x = 1  # typed since"
    model.add(edit(path, "a1", "x = 2"), edit(path, "a1", "x = 2  # typed since"), turn(say("Done.")))
    kernel.run(ASK)
    conflict, done = told(model)
    assert "Nothing was changed" in conflict
    assert "x = 1  # unsaved" in conflict
    assert "x = 1  # typed since" in conflict
    assert "Replaced the source" in done
    assert shown.source("a1") == "x = 2  # typed since"


def test_a_cell_that_was_not_shown_is_not_changed(
    kernel: NotebookKernel, model: MessagesServer, shown: NotebookPage, path: Path
) -> None:
    model.add(edit(path, "a1", "x = 2"), turn(say("Ah.")))
    kernel.run(ASK)
    assert "was not shown" in told(model)[0]
    assert shown.source("a1") == "x = 1  # unsaved"


def test_large_cells_travel_in_pieces(
    kernel: NotebookKernel, model: MessagesServer, shown: NotebookPage, path: Path
) -> None:
    large = "# ä" + "x" * 450_000
    shown.cells.append(NotebookPage.cell("large", "code", large))
    model.add(read(path, outline=True), read(path, cell_ids=["a1"]), edit(path, "a1", large), turn(say("Done.")))
    kernel.run(ASK)
    assert "large" in told(model)[0]
    assert shown.source("a1") == large


def test_a_page_that_says_goodbye_leaves_the_file(
    kernel: NotebookKernel, model: MessagesServer, shown: NotebookPage, path: Path
) -> None:
    shown.say({"type": "bye"})
    kernel.run("")
    model.add(read(path), edit(path, "f0", "x = 3"), turn(say("Done.")))
    kernel.run(ASK)
    assert "Open in" not in "".join(told(model))
    assert "x = 3" in path.read_text("utf-8")


def test_a_page_that_is_reloading_is_waited_for(
    kernel: NotebookKernel, model: MessagesServer, shown: NotebookPage, path: Path
) -> None:
    shown.say({"type": "bye", "page_left": True})
    kernel.run("")
    model.add(read(path), edit(path, "a1", "x = 2"), turn(say("Done.")))
    cell = kernel.begin(ASK)
    again = NotebookPage(kernel, path, *LIVE)
    again.say_hello()
    kernel.finish(cell)
    again.close()
    assert "Open in JupyterLab" in told(model)[1]
    assert again.source("a1") == "x = 2"
    assert "x = 2" not in path.read_text("utf-8")


@pytest.mark.parametrize("unsaved", [False, True])
def test_a_page_that_was_killed_does_not_hang_the_cell(
    kernel: NotebookKernel, model: MessagesServer, shown: NotebookPage, path: Path, unsaved: bool
) -> None:
    shown.unsaved = unsaved
    shown.say({"type": "hello", **shown.hello()})
    kernel.run("import time; time.sleep(2.1)  # a page that was heard just now is not asked whether it is there")
    shown.dead = True
    model.add(read(path), read(path), edit(path, "f0", "x = 3"), turn(say("Done.")))
    kernel.run(ASK)
    gone, seen, done = told(model)
    assert "not answer any" in gone
    assert "x = 1" in seen
    if unsaved:
        assert "may come back" in done
        assert "Nothing was changed" in done
    else:
        assert "Open in" not in done
    assert ("x = 3" in path.read_text("utf-8")) is not unsaved


def test_the_users_page_goes_before_the_servers_document(
    kernel: NotebookKernel, model: MessagesServer, shown: NotebookPage, path: Path
) -> None:
    server = server_page(kernel, path, "shared", "at_the_server = 1")
    model.add(read(path), turn(say("Read.")))
    assert kernel.run(ASK).status == "ok"
    assert "x = 1  # unsaved" in told(model)[0]
    shown.say({"type": "bye"})
    model.add(read(path), turn(say("Read.")))
    assert kernel.run(ASK).status == "ok"
    assert "at_the_server = 1" in told(model)[0]
    server.close()
    kernel.run("")


def test_a_file_that_the_kernel_sees_is_not_asked_of_the_server(
    kernel: NotebookKernel, model: MessagesServer, path: Path
) -> None:
    here = server_page(kernel, path, "contents", "at_the_server = 1")
    away = server_page(kernel, path.with_name("elsewhere.ipynb"), "contents", "elsewhere = 1")
    model.add(read(path), read(away.path), turn(say("Read.")))
    assert kernel.run(ASK).status == "ok"
    in_file, at_server = told(model)
    assert "x = 1" in in_file
    assert "at_the_server" not in in_file
    assert "elsewhere = 1" in at_server
    assert "the file on the server holds" in at_server
    for page in (here, away):
        page.close()
    kernel.run("")


def test_every_page_is_told_that_files_have_changed(
    kernel: NotebookKernel, model: MessagesServer, shown: NotebookPage, path: Path
) -> None:
    other = NotebookPage(kernel, path.with_name("other.ipynb"))
    other.own = False
    other.open()
    server = server_page(kernel, path, "contents", "x = 1")

    def told_so_often(*times: int) -> bool:
        return tuple(page.asked.count("files_changed") for page in (shown, other, server)) == times

    def wait_until_told(*times: int) -> None:
        if not told_so_often(*times):
            kernel.wait_for(lambda _: told_so_often(*times))

    read_one = use("Read", file_path=path.name)
    model.add(turn(read_one), turn(say("Read.")))
    kernel.run(ASK)
    wait_until_told(1, 1, 0)  # as the run ends

    model.add(turn(use("Write", file_path="new.txt", content="new\n")), turn(say("Done.")))
    kernel.run(ASK)
    wait_until_told(3, 3, 0)  # by the call, and as the run ends

    kernel.run("%%claude\n/undo yes force")
    wait_until_told(4, 4, 0)
    assert not (path.parent / "new.txt").exists()
    for page in (other, server):
        page.close()
    kernel.run("")


def test_pages_are_told_of_what_a_panels_command_and_the_button_of_an_answer_take_back(
    kernel: NotebookKernel, model: MessagesServer, shown: NotebookPage, panel: ChatPanel
) -> None:
    def told() -> int:
        return shown.asked.count("files_changed")

    panel.wait_for_end(panel.prompt("/redo yes"))
    panel.wait(lambda: told() == 1)

    model.add(turn(use("Write", file_path="newer.txt", content="newer\n")), turn(say("Done.")))
    kernel.run(ASK)
    panel.wait(lambda: told() == 3)
    to_undo = asked_by(shown, panel, "undo_turns", {})
    newest = {"session": to_undo["session"], "turn": to_undo["turns"][-1]}
    assert asked_by(shown, panel, "undo_turn", {**newest, "preview": True})["does_something"]
    asked_by(shown, panel, "undo_turn", {**newest, "preview": False})
    panel.wait(lambda: told() == 4)


def asked_by(page: NotebookPage, panel: ChatPanel, method: str, params: dict[str, Any]) -> Any:
    """What the kernel answers to a request of the page."""
    request = f"p{len(page.got)}"

    def replies() -> list[Any]:
        return [message for message in page.got if message["type"] == "reply" and message["id"] == request]

    page.say({"type": "request", "id": request, "method": method, "params": params})
    panel.wait(replies)
    return replies()[0]["result"]


def test_another_version_of_the_protocol_is_refused(kernel: NotebookKernel, path: Path) -> None:
    page = NotebookPage(kernel, path, *LIVE)
    page.say_hello(protocol=99)
    kernel.wait_for(lambda _: page.closed)
    assert page.got == [{"type": "unsupported", "protocol": 1}]
    kernel.listeners.remove(page._listen)


def test_the_kernel_answers_what_the_page_asks(kernel: NotebookKernel, shown: NotebookPage) -> None:
    shown.say({"type": "request", "id": "p1", "method": "ping", "params": {}})
    shown.say({"type": "request", "id": "p2", "method": "dance", "params": {}})

    def replies() -> dict[str, Any]:
        return {message["id"]: message for message in shown.got if message["type"] == "reply"}

    kernel.wait_for(lambda _: {"p1", "p2"} <= replies().keys())
    assert replies()["p1"]["result"] is None
    assert replies()["p2"]["error"]["code"] == "unknown_method"


def test_without_a_front_end_the_running_notebook_is_left_alone(
    kernel: NotebookKernel, model: MessagesServer, project: Path
) -> None:
    running = write_notebook(project / "running.ipynb", "x = 1", ASK)
    other = write_notebook(project / "other.ipynb", "x = 1")
    script = [read(running), edit(running, "f0", "x = 2"), read(other), edit(other, "f0", "x = 2"), turn(say("Done."))]
    kernel.run("%reload_ext cellwright")  # a kernel that no page has connected to
    model.add(*script)
    kernel.run(ASK, cell_id=None)
    _, refused, _, done = told(model)
    assert "notebook that is" in refused
    assert "--notebook running.ipynb" in refused
    assert "Replaced the source" in done
    assert "x = 2" not in running.read_text("utf-8")


def test_the_running_notebook_can_be_named(kernel: NotebookKernel, model: MessagesServer, project: Path) -> None:
    ask = "%%claude --mode acceptEdits --notebook named.ipynb\nWork on it"
    running = write_notebook(project / "named.ipynb", "x = 1", ask)
    kernel.run("%reload_ext cellwright")
    model.add(read(running), edit(running, "f0", "x = 2"), turn(say("Done.")))
    kernel.run(ask, cell_id=None)
    assert "x = 2" in running.read_text("utf-8")
