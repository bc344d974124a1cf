"""Claude works on the notebook as its user sees it: the open document, unsaved changes included."""

import json
from pathlib import Path

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.timeout(240)]

HERE = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})"
LOAD = f"%load_ext cellwright\n{HERE}\nimport live_cell"


def told(book):
    """What the newest cell printed as JSON."""
    text = book.page.locator(".jp-OutputArea-output pre", has_text="{").last.inner_text()
    return json.loads(text)


@pytest.mark.parametrize(
    "way", ["print(live_cell.blocking(live_cell.conform()))", "print(await live_cell.awaited(live_cell.conform()))"]
)
def test_the_open_document_conforms_while_a_cell_is_busy(notebook, way):
    book = notebook(LOAD, way)
    book.run(0)
    book.wait_done(0)
    book.run(1)
    book.page.locator(".jp-OutputArea-output pre", has_text="{").wait_for(timeout=90_000)
    found = told(book)
    assert found.pop("where") == "JupyterLab"
    assert {name: said for name, said in found.items() if said != "ok"} == {}
