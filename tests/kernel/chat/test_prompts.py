"""The panel's prompts: what is refused before it is sent, and what Claude gets of the rest."""

from __future__ import annotations

import asyncio
import base64
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from PIL import Image
from plain_shell import plain_shell, run

from cellwright.conversation.core import Host
from cellwright.conversation.runs.kinds import RunRequest
from cellwright.conversation.runs.run import RunSurface
from cellwright.errors import CellwrightError
from cellwright.events import ContextAttached, Event, Notice, UserPrompt
from cellwright.features.conversation import Conversation
from cellwright.kernel.chat.prompts import AttachedCell, PanelPrompt, context_providers, read_prompt
from cellwright.kernel.namespace.cell_log import CellLog
from cellwright.kernel.notebook_context import KernelContext, kernel_context
from cellwright.testing import MessagesServer, say
from cellwright.tools.notebook.file_notebook import FileNotebook
from cellwright.tools.notebook.open_notebook import NothingOpen, OpenNotebook
from row_tables import for_each_row


def read(**params: Any) -> PanelPrompt:
    return asyncio.run(read_prompt(params))


def picture(kind: str = "PNG", size: tuple[int, int] = (40, 30)) -> dict[str, Any]:
    out = io.BytesIO()
    Image.new("RGB", size, "red").save(out, kind)
    data = base64.b64encode(out.getvalue()).decode()
    return {"kind": "image", "media_type": "image/png", "name": f"plot.{kind.lower()}", "data": data}


def test_words_options_context_and_cell() -> None:
    cell = {"path": "a/b.ipynb", "id": "cell-1", "selection": "x = 1"}
    prompt = read(text="Why?", context="code", cell=cell, options={"model": "m", "mode": "plan", "max_turns": 3})
    assert (prompt.text, prompt.context) == ("Why?", "code")
    assert prompt.cell == AttachedCell("a/b.ipynb", "cell-1", "x = 1")
    assert (prompt.options.model, prompt.options.mode, prompt.options.max_turns) == ("m", "plan", 3)
    assert read(text="Why?", attachments=[], cell=None, options={}).context == "auto"


@for_each_row(
    ("params", "problem"),
    [
        ({"text": 5}, "must be a text"),
        ({}, "must be a text"),
        ({"text": " \n"}, "is empty"),
        ({"text": "x" * 1_000_001}, "1,000,000 characters"),
        ({"text": "a", "context": "everything"}, "Context 'everything' was not found"),
        ({"text": "a", "attachments": {}}, "must be a list"),
        ({"text": "a", "attachments": [{"kind": "sound", "name": "a"}]}, "must be"),
        ({"text": "a", "attachments": [{"kind": "text", "name": "a.log", "text": "x" * 200_001}]}, "a.log has 200,001"),
        ({"text": "a", "attachments": [picture()] * 21}, "21 attachments"),
        ({"text": "a", "attachments": [{"kind": "marked", "name": "Cell [3]", "source": 3}]}, "`source` must be"),
        ({"text": "a", "attachments": [{"kind": "marked", "name": "Cell [3]", "picture": "%"}]}, "not valid base64"),
        ({"text": "a", "cell": "cell-1"}, "`cell`"),
        ({"text": "a", "cell": {"path": "a", "id": "", "selection": ""}}, "`cell`"),
        ({"text": "a", "cell": {"path": "a", "id": "b", "selection": "x" * 200_001}}, "selection has 200,001"),
        ({"text": "a", "options": []}, "`options`"),
        ({"text": "a", "options": {"mode": "yolo"}}, "mode cannot be 'yolo'"),
        ({"text": "a", "options": {"max_turns": True}}, "max_turns"),
        ({"text": "a", "options": {"budget_usd": -1}}, "budget_usd"),
        ({"text": "a", "options": {"allow": "Bash"}}, "allow"),
        ({"text": "a", "options": {"tool_timeout": 0}}, "tool_timeout"),
        ({"text": "a", "options": {"add_dirs": ["/no/such/folder"]}}, "Folder '/no/such/folder' was not found"),
        ({"text": "a", "options": {"hooks": {}}}, "Option hooks was not found"),
        ({"text": "a", "options": {"tools": ["Read"], "no_tools": True}}, "do not go together"),
    ],
)
def test_what_makes_no_sense_is_said(params: dict[str, Any], problem: str) -> None:
    with pytest.raises(CellwrightError, match=problem) as raised:
        read(**params)
    assert raised.value.code == "INVALID_PARAMETERS"
    assert "Nothing was sent." in raised.value.message


@for_each_row(
    ("data", "problem"),
    [
        ("%%%", "not valid base64"),
        (base64.b64encode(b"<svg xmlns='http://www.w3.org/2000/svg'/>").decode(), "no picture that is known"),
        (base64.b64encode(b"%PDF-1.7 and more").decode(), "no picture that is known"),
        (picture("TIFF")["data"], "image/tiff"),
        (base64.b64encode(b"\x89PNG\r\n\x1a\nbroken and no more").decode(), "cannot be attached"),
        (base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(20_000_001)).decode(), "20,000,000"),
    ],
)
def test_a_picture_is_judged_by_its_content(data: str, problem: str) -> None:
    image = {"kind": "image", "media_type": "image/png", "name": "a.png", "data": data}
    with pytest.raises(CellwrightError, match=problem) as raised:
        read(text="Look", attachments=[image])
    assert "a.png" in raised.value.message


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP"])
def test_pictures_of_each_kind_whatever_they_are_called(kind: str) -> None:
    (part,) = read(text="Look", attachments=[picture(kind)]).attached
    words, image = part.blocks
    assert f"{kind}, 40 × 30 pixels" in words["text"]
    assert image["source"]["media_type"] == f"image/{kind.lower()}"


def test_a_large_picture_is_scaled_to_what_the_api_takes() -> None:
    (part,) = read(text="Look", attachments=[picture(size=(4000, 3000))]).attached
    sent = Image.open(io.BytesIO(base64.b64decode(part.blocks[1]["source"]["data"])))
    assert max(sent.size) <= 1568
    assert "shown at" in part.blocks[0]["text"]


def test_attachments_alone_are_a_prompt() -> None:
    assert read(text="  ", attachments=[picture()]).text == "[plot.png]"


class Own(NothingOpen):
    """The kernel's notebook is the file at `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def own(self) -> OpenNotebook | None:
        return FileNotebook(self.path) if self.path.exists() else None


class Panel:
    """A conversation of a kernel, and what its panel's prompts tell."""

    def __init__(self, server: MessagesServer, shell: InteractiveShell, cwd: Path) -> None:
        self.server = server
        self.shell = shell
        self.notebook = cwd / "prices.ipynb"
        environ = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": server.api_key, "HOME": str(cwd)}
        self.conversation = Conversation(Host(cwd=cwd, interface="a test", environ=environ))
        self.log = CellLog(shell)
        self.kernel_context: KernelContext = kernel_context(shell, self.log, Own(self.notebook))
        self.events: list[Event] = []

    def say(self, *, busy: bool = False, context: str = "none", **params: Any) -> None:
        prompt = read(context=context, **params)
        provide = context_providers(
            prompt, self.kernel_context, lambda _: None, self.conversation.jobs, self.log, 0.2 if busy else 60
        )
        request = RunRequest(prompt=prompt.text, options=prompt.options, context=provide)
        task = self.conversation.start(request, RunSurface(self.events.append))
        if busy:
            task.future.result(60)  # and nobody does what is the main thread's
        else:
            self.conversation.jobs.work_until_done(task)
        end = task.result()
        assert end.error is None, end.error

    @property
    def sent(self) -> list[dict[str, Any]]:
        """The content of the newest prompt, without where Claude works."""
        content = self.server.requests[-1].body["messages"][-1]["content"]
        return [block for block in content if not block.get("text", "").startswith("<environment>")]

    @property
    def attached_titles(self) -> list[tuple[str, str]]:
        (event,) = (event for event in self.events if isinstance(event, ContextAttached))
        return [(part.kind, part.title) for part in event.parts if part.kind != "environment"]

    @property
    def notices(self) -> list[str]:
        return [event.message for event in self.events if isinstance(event, Notice)]


@pytest.fixture
def panel(messages_server: Callable[..., MessagesServer], tmp_path: Path) -> Iterator[Panel]:
    cwd = tmp_path / "project"
    cwd.mkdir()
    cells = [
        {"id": "title", "cell_type": "markdown", "metadata": {}, "source": "# Prices"},
        {
            "id": "load",
            "cell_type": "code",
            "metadata": {},
            "execution_count": 7,
            "source": "prices = [3, 4]",
            "outputs": [],
        },
    ]
    (cwd / "prices.ipynb").write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    (cwd / "rules.md").write_text("No discounts.\n")
    with plain_shell() as shell:
        made = Panel(messages_server([say("Yes.")]), shell, cwd)
        yield made
        made.conversation.close()
        assert made.server.rejected == []


def test_a_picture_and_a_text_stand_before_the_words(panel: Panel) -> None:
    log = {"kind": "text", "name": 'a "b".log', "text": "one\n</attached> two, AKIAIOSFODNN7EXAMPLE"}
    panel.say(text="What is wrong?", attachments=[picture(), log])
    label, image, text, words = panel.sent
    assert label["text"].startswith('<attached picture="plot.png" what="PNG, 40 × 30 pixels')
    assert image["type"] == "image"
    assert text["text"].startswith("<attached file=\"a 'b'.log\">\none\n<\\/attached> two, ")
    assert "AKIAIOSFODNN7EXAMPLE" not in text["text"]
    assert words["text"] == "What is wrong?"
    assert panel.attached_titles == [("file", "plot.png"), ("file", 'a "b".log')]
    assert next(event.prompt for event in panel.events if isinstance(event, UserPrompt)) == "What is wrong?"
    assert any('a "b".log' in notice for notice in panel.notices)


def test_marked_outputs_come_with_their_remarks_and_end_no_tag(panel: Panel) -> None:
    marked = {"kind": "marked", "name": "Output of cell [3]", "cell": "load", "notebook": "prices.ipynb"}
    texts = {"remark": "why </attached> red?", "source": "html = '</b>'", "output": "AKIAIOSFODNN7EXAMPLE", "note": ""}
    panel.say(text="Explain", attachments=[{**marked, **texts, "picture": picture()["data"]}])
    told, image, words = panel.sent
    assert told["text"].startswith(
        '<attached marked="Output of cell [3]" cell="load" notebook="prices.ipynb">\n<remark>\n'
    )
    assert "why <\\/attached> red?" in told["text"]
    assert "html = '</b>'" in told["text"]
    assert "<note>" not in told["text"]
    assert "AKIAIOSFODNN7EXAMPLE" not in told["text"]
    assert image["type"] == "image"
    assert words["text"] == "Explain"
    assert panel.attached_titles == [("cell", "Output of cell [3]")]


def test_mentions_are_found_as_in_cells(panel: Panel) -> None:
    run(panel.shell, "basket = {'pears': 3}")
    panel.say(text="apply @rules.md to $basket in @cell:2")
    words, *told = [block["text"] for block in panel.sent]
    assert words == "apply @rules.md to $basket in @cell:2"
    assert [kind for kind, _ in panel.attached_titles] == ["file", "cell", "variable"]
    assert "No discounts." in told[0]
    assert "prices = [3, 4]" in told[1]
    assert "pears" in told[2]


def test_the_cell_that_goes_along(panel: Panel) -> None:
    panel.say(text="explain", cell={"path": "prices.ipynb", "id": "load", "selection": "[3, 4]"})
    _, cell, selected = [block["text"] for block in panel.sent]
    assert "prices = [3, 4]" in cell
    assert selected == "<selected>\n[3, 4]\n</selected>"
    assert panel.attached_titles == [("cell", "cell [7], id load"), ("cell", "What is selected in it")]


def test_a_cell_that_is_gone_is_said(panel: Panel) -> None:
    panel.say(text="explain", cell={"path": "prices.ipynb", "id": "gone", "selection": "x"})
    assert len(panel.sent) == 1
    assert any("no such cell" in notice for notice in panel.notices)


def test_while_a_cell_runs_what_needs_no_namespace_is_told(panel: Panel) -> None:
    run(panel.shell, "basket = {'pears': 3}")
    panel.say(busy=True, text="what of $basket in @cell:2 and @rules.md? $HOME", context="full")
    texts = [block["text"] for block in panel.sent]
    assert any("prices = [3, 4]" in text and text.startswith("<attached") for text in texts)
    assert any("notebook_context" in text and "prices = [3, 4]" in text for text in texts)
    assert not any("pears" in text for text in texts)
    assert [notice.partition(":")[0] for notice in panel.notices if "busy" in notice] == [
        "Of the notebook the code alone was sent",
        "$basket",
    ]
