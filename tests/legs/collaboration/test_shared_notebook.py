"""Several people have one notebook open: what Claude writes stands in it once, in every page and in the file."""

import json
import re

import pytest
from playwright.sync_api import expect

from cellwright.testing import Gate, hold, say, turn, use
from eventual import eventually

pytestmark = [pytest.mark.collaboration, pytest.mark.timeout(300)]

LOAD = "%load_ext cellwright"
ASK = "%%claude --mode bypassPermissions\nWork on it"
OUTPUTS = """index => window.jupyterapp.shell.currentWidget.content.model.cells.get(index).toJSON().outputs"""
SOURCES = """() => [...window.jupyterapp.shell.currentWidget.content.model.cells].map(cell => cell.toJSON().source)"""
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
DRAWS = """
from IPython.display import Image, display
display(Image(bytes.fromhex("89504e470d0a1a0a") + bytes(40), format="png"))
"""


def text(value):
    return value if isinstance(value, str) else "".join(value)


def outline(outputs):
    """What a cell shows, in order."""
    return [_of(output) for output in outputs]


def _of(output):
    if "data" not in output:
        return text(output.get("text", output.get("evalue", "")))
    data = output["data"]
    if WIDGET_VIEW in data:
        return "working"
    return "picture" if "image/png" in data else text(data.get("text/markdown", data.get("text/plain", "")))


def shows(outputs, *parts):
    """True where a cell has these outputs and no other, each with its words."""
    found = outline(outputs)
    return len(found) == len(parts) and all(part in each for part, each in zip(parts, found, strict=True))


def holds_once(notebook, index, *parts, books):
    """Wait until the cell has these outputs in all pages and in the file; then nothing comes after them any more."""

    def everywhere():
        pages = [book.page.evaluate(OUTPUTS, index) for book in books]
        return [outline(each) for each in (*pages, notebook.on_disk()["cells"][index]["outputs"])]

    def is_so(found):
        return all(len(each) == len(parts) and all(map(str.__contains__, each, parts)) for each in found)

    eventually(everywhere, is_so)


def loaded(shared, *sources):
    """The notebook in two people's pages, with the extension loaded."""
    notebook = shared(LOAD, *sources)
    one, two = notebook.open(), notebook.open()
    run(one, 0)
    return notebook, one, two


def run(book, index):
    book.run(index)
    book.wait_done(index)


def test_an_answer(shared, model):
    model.add(say("There **it** is."))
    notebook, one, two = loaded(shared, ASK)
    run(one, 1)
    holds_once(notebook, 1, "There **it** is.", books=(one, two))


def test_an_answer_with_what_its_code_displays(shared, model):
    model.add(turn(say("I draw. "), use("Python", code=DRAWS)), turn(use("Python", code=DRAWS)), say("There."))
    notebook, one, two = loaded(shared, ASK)
    run(one, 1)
    holds_once(notebook, 1, "I draw.", "picture", "display(", "picture", "There.", books=(one, two))
