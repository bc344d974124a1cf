"""What a cell's prompt tells Claude besides its words: looked at in the requests that a real kernel sends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from notebook_kernel import NotebookKernel, Page

from cache_marks import without_cache_marks
from cellwright.testing import MessagesServer, say, turn, use

pytestmark = pytest.mark.kernel


def blocks(model: MessagesServer) -> list[dict[str, Any]]:
    """The content of the newest user message that was sent."""
    content = model.requests[-1].body["messages"][-1]["content"]
    assert isinstance(content, list)
    return content


def texts(model: MessagesServer) -> list[str]:
    return [block["text"] for block in blocks(model) if block["type"] == "text"]


def context(model: MessagesServer) -> str:
    """The notebook's context in the newest user message; "" where there is none."""
    found = [text for text in texts(model) if text.startswith("<notebook_context")]
    assert len(found) <= 1
    return found[0] if found else ""


@pytest.fixture(autouse=True)
def fresh(kernel: NotebookKernel) -> Iterator[None]:
    yield
    kernel.run("%config Claude.context = 'auto'", cell_id=None)


def test_what_changed_is_told_and_nothing_twice(kernel: NotebookKernel, model: MessagesServer):
    model.add(say("one"), say("two"), say("three"), say("four"))
    kernel.run("price = 12.5\ncities = ['Bern', 'Basel']", cell_id="cell-a")
    kernel.run("%%claude --new\nhi", cell_id="prompt")
    first = context(model)
    assert "In[" in first
    assert "(cell-a)" in first
    assert "price = 12.5" in first
    assert "price: float = 12.5" in first
    assert "cities: list (len 2" in first
    assert "the cell prompt." in first
    kernel.run("%%claude\nagain", cell_id="prompt")
    assert context(model) == ""
    assert texts(model) == ["again"]
    kernel.run("cities.append('Chur')\nnew = None", cell_id="cell-b")
    kernel.run("%%claude\nand now?", cell_id="prompt")
    third = context(model)
    assert "cities.append('Chur')" in third
    assert "cities: list (len 3" in third
    assert "new: None" in third
    assert "price" not in third
    kernel.run("%%claude\nfrom another cell", cell_id="prompt-2")
    assert "the cell prompt-2." in context(model)
    assert "cities" not in context(model)


def test_what_was_told_is_never_changed(kernel: NotebookKernel, model: MessagesServer):
    model.add(say("one"), say("two"))
    kernel.run("a = 1")
    kernel.run("%%claude --new\nfirst", cell_id="prompt")
    before = model.requests[-1].body["messages"]
    kernel.run("b = 2")
    kernel.run("%%claude\nsecond", cell_id="prompt")
    after = model.requests[-1].body["messages"]
    assert without_cache_marks(after[: len(before)]) == without_cache_marks(before)
    assert model.requests[-1].body["system"] == model.requests[-2].body["system"]


def test_an_error_is_told_until_it_is_mended(kernel: NotebookKernel, model: MessagesServer):
    model.add(say("one"), say("two"))
    kernel.run("def ratio(n):\n    return 1 / n\n", cell_id="helpers")
    kernel.run("ratio(0)", cell_id="broken")
    kernel.run("%%claude --new\nwhy?", cell_id="prompt")
    told = context(model)
    assert "(broken) failed:\nZeroDivisionError" in told
    assert "line 1: ratio(0)" in told
    assert "line 2, in ratio" in told
    kernel.run("ratio(2)", cell_id="broken")
    kernel.run("%%claude --new\nand now?", cell_id="prompt")
    assert "ZeroDivisionError" not in context(model)


def test_what_claude_did_itself_is_no_news_to_it(kernel: NotebookKernel, page: Page, model: MessagesServer):
    model.add(turn(use("Python", code="made_by_claude = [1]; grown.append(2)")), say("done"), say("ok"))
    kernel.run("grown = [1]", cell_id="a")
    kernel.run("%%claude --new --mode bypassPermissions\nmake it", cell_id="prompt")
    kernel.run("%%claude\ngo on", cell_id="prompt")
    assert context(model) == ""


def test_none_tells_nothing_and_is_a_trait_too(kernel: NotebookKernel, model: MessagesServer):
    model.add(say("one"), say("two"), say("three"))
    kernel.run("secret_of_mine = 5", cell_id="a")
    kernel.run("%%claude --new --context none\nhi", cell_id="prompt")
    assert context(model) == ""
    kernel.run("%config Claude.context = 'none'")
    kernel.run("%%claude\nhi", cell_id="prompt")
    assert context(model) == ""
    kernel.run("%%claude --context auto\nhi", cell_id="prompt")
    assert "_mine: int = 5" in context(model)


def test_an_unknown_way_is_refused(kernel: NotebookKernel):
    cell = kernel.run("%%claude --context some\nhi")
    assert "--context: 'some' is" in cell.error


def test_a_dry_run_shows_what_would_be_told_and_tells_nothing(kernel: NotebookKernel, model: MessagesServer):
    model.add(say("one"))
    kernel.run("weather = ['sun']", cell_id="a")
    shown = kernel.run("%%claude --new --dry-run\nhi", cell_id="prompt").stdout
    assert "weather: list (len 1" in shown
    kernel.run("%%claude\nhi", cell_id="prompt")
    assert "weather: list (len 1" in context(model)


def test_secrets_in_outputs_and_values_stay_here(kernel: NotebookKernel, model: MessagesServer):
    model.add(say("one"))
    kernel.run("token = 'ghp_' + 'a1B2' * 9", cell_id="a")
    kernel.run("raise ValueError(token)", cell_id="b")
    kernel.run("%%claude --new\nhi", cell_id="prompt")
    told = context(model)
    assert "a1B2a1B2" not in told
    assert "[secret removed" in told


def test_the_user_sees_what_was_told(kernel: NotebookKernel, page: Page, model: MessagesServer, project: Path):
    model.add(say("one"), say("two"), say("three"))
    (project / "notes.md").write_text("# Remember the milk\n")
    kernel.run("count = 3", cell_id="a")
    kernel.run("%%claude --new\nread @notes.md and $count", cell_id="prompt")
    (told,) = [op for op in page.ops if op["op"] == "told"]
    assert [(part["kind"], part["title"]) for part in told["parts"]] == [
        ("environment", "Where Claude works"),
        ("context", "The notebook so far"),
        ("file", "notes.md"),
        ("variable", "$count"),
    ]
    sent = "\n".join(texts(model))
    for part in told["parts"]:
        assert part["text"] in sent
        assert part["chars"] == len(part["text"])
    assert told["tokens"] == sum(part["tokens"] for part in told["parts"])
    assert page.ops.index(told) < next(index for index, op in enumerate(page.ops) if op["op"] == "text")
    kernel.run("%%claude\nnothing new", cell_id="prompt")
    assert [op for op in page.ops if op["op"] == "told"] == []
    (project / "parcels.py").write_text("def send_parcels(): ...\n")
    kernel.run("%%claude --context code\nwhere are parcels sent?", cell_id="prompt")
    (told,) = [op for op in page.ops if op["op"] == "told"]
    assert [part["title"] for part in told["parts"]] == ["Code that fits: 1 place in 1 file"]


def test_ask_from_a_cell_is_told_files_only(kernel: NotebookKernel, model: MessagesServer, project: Path):
    model.add(say("one"))
    (project / "plan.md").write_text("First things first.\n")
    kernel.run("import cellwright\nlocal = 1\nr = cellwright.ask('see @plan.md and $local', session=None)", cell_id="a")
    assert context(model) == ""
    assert any("First things first." in text for text in texts(model))
    assert not any("local: " in text for text in texts(model))
