"""docs/protocol/chat-examples.json against the kernel's side: what it sends looks so, and it takes what is shown there."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from chat_comms import Panels

from cellwright.conversation.core import Host
from cellwright.conversation.runs.run import Run
from cellwright.features.conversation import Conversation
from cellwright.kernel.chat.conversation_log import LoggedRun
from cellwright.kernel.chat.panel_state import Choices
from cellwright.kernel.chat.prompts import read_prompt
from cellwright.kernel.magic.options import Claude
from cellwright.kernel.output.protocol import read_message
from cellwright.kernel.pages.comm import PROTOCOL
from row_tables import for_each_row

PROTOCOL_PAGES = Path(__file__).parents[3] / "docs/protocol"
EXAMPLES: dict[str, list[dict[str, Any]]] = json.loads((PROTOCOL_PAGES / "chat-examples.json").read_text("utf-8"))
PAGE = (PROTOCOL_PAGES / "chat.md").read_text("utf-8")


def example(kind: str) -> dict[str, Any]:
    return next(message for message in EXAMPLES["kernel_to_panel"] if message["type"] == kind)


def test_every_message_of_the_page_has_an_example() -> None:
    named = set(re.findall(r'`\{"type": "(\w+)"', PAGE)) - {"request"}  # they stand among the requests
    shown = {message["type"] for name in ("kernel_to_panel", "panel_to_kernel") for message in EXAMPLES[name]}
    assert named <= shown
    assert shown <= named | {"reply", "request"}


@for_each_row("message", EXAMPLES["panel_to_kernel"], ids=lambda message: message["type"])
def test_what_a_panel_says_in_a_run_is_understood(message: dict[str, Any]) -> None:
    if message["type"] in ("answer", "steer", "withdraw"):
        assert read_message(message) is not None


def test_a_run_is_described_with_these_fields() -> None:
    run = Run("run-3", "Plot the prices", "sidebar", background=True)
    described = LoggedRun(id="run-3", prompt="Plot the prices", origin="sidebar", kind="prompt", asked_at=1.0, run=run)
    assert described.describe().keys() == example("run")["run"].keys()
    assert described.describe()["state"] == "waiting"


@pytest.mark.parametrize("said", EXAMPLES["open"], ids=lambda said: said["view"])
def test_what_opens_the_comm_is_understood(said: dict[str, Any]) -> None:
    connection = Panels().connect(said)
    assert (connection.view, connection.page) == (said["view"], said["page"])
    assert connection.is_server == (said["client"] == "server")
    assert said["protocol"] == PROTOCOL


def test_the_prompt_is_understood() -> None:
    request = next(request for request in EXAMPLES["requests"] if request["method"] == "prompt")
    prompt = asyncio.run(read_prompt(request["params"]))
    assert prompt.text == "Plot the prices"
    assert prompt.options.max_turns == 3


def test_what_is_chosen_is_understood(tmp_path: Path) -> None:
    request = next(request for request in EXAMPLES["requests"] if request["method"] == "set")
    choices = Choices(Conversation(Host(cwd=tmp_path, interface="a test")), Claude())
    choices.set(request["params"])
    assert (choices.model, choices.mode, choices.effort) == ("claude-haiku-5-5", "plan", "high")
    names = {model["id"]: model["name"] for model in choices.models}
    assert {model["id"]: model["name"] for model in example("state")["models"]}.items() <= names.items()
    about = {mode["id"]: mode for mode in choices.modes}
    assert [about[mode["id"]] for mode in example("state")["modes"]] == example("state")["modes"]
    assert choices.efforts == example("state")["efforts"]
