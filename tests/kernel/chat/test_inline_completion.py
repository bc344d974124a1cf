"""Code is completed by the small model: while a cell runs, one request at a time, within a budget, and without values."""

from __future__ import annotations

import ast
import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from notebook_kernel import NotebookKernel
from notebook_page import NotebookPage

from cellwright.testing import Gate, MessagesServer, fault, hold, say, turn

pytestmark = pytest.mark.kernel

NAMESPACE = """
import json
rates = {"secret": "walrus"}
def tide(hour, place):
    return 0
class Gull:
    def __repr__(self):
        raise RuntimeError("nobody asks it")
gull = Gull()
"""

_ids = itertools.count()


class Asking:
    """A page that asks for completions."""

    def __init__(self, page: NotebookPage) -> None:
        self.page = page

    def begin(self, prefix: str, suffix: str = "", *cells: dict[str, Any], method: str = "code") -> str:
        name = f"c{next(_ids)}"
        params = {"prefix": prefix, "suffix": suffix, "cells": cells, "language": "python"}
        self.page.say({"type": "request", "id": name, "method": method, "params": params})
        return name

    def reply(self, name: str) -> dict[str, Any]:
        def found() -> dict[str, Any] | None:
            got = (said for said in self.page.got if said["type"] == "reply")
            return next((said for said in got if said["id"] == name), None)

        if found() is None:
            self.page.kernel.wait_for(lambda _: found() is not None)
        reply = found()
        assert reply is not None
        return reply

    def text(self, *gap: Any) -> str:
        return str(self.reply(self.begin(*gap))["result"]["text"])


@pytest.fixture
def asking(kernel: NotebookKernel, project: Path) -> Iterator[Asking]:
    page = NotebookPage(kernel, project / "notebook.ipynb", ("a1", "code", "x = 1"))
    page.open()
    yield Asking(page)
    page.close()
    kernel.run("")  # the goodbye has arrived before the next test


def asked(model: MessagesServer) -> str:
    """What the newest request told the model."""
    return "\n".join(block["text"] for block in model.requests[-1].body["messages"][0]["content"])


def test_what_is_missing_comes_from_the_small_model_with_the_notebook_as_context(
    asking: Asking, kernel: NotebookKernel, model: MessagesServer
) -> None:
    kernel.run(NAMESPACE)
    model.add(turn(say("<insert>(12, 'Vigo')")))
    above, below = {"source": "import json"}, {"source": "print(high)", "below": True}
    reply = asking.reply(asking.begin("high = tide", "\n", above, below))["result"]
    assert reply["text"] == "(12, 'Vigo')"
    assert 0 < reply["cost_usd"] < 0.01
    request = model.requests[-1].body
    assert request["model"] == "claude-haiku-5-5"
    assert request["stop_sequences"] == ["</insert>"]
    assert request["output_config"] == {"effort": "low"}
    assert request["max_tokens"] <= 1_000
    assert "tools" not in request
    told = asked(model)
    assert "high = tide⟦cursor⟧" in told
    for known in (
        "import json",
        "print(high)",
        "json: module json",
        "tide: function(hour, place)",
        "gull: Gull",
        "rates: dict",
    ):
        assert known in told
    assert "walrus" not in told, "values are the user's"


def test_it_comes_while_a_cell_runs(asking: Asking, kernel: NotebookKernel, model: MessagesServer) -> None:
    if not kernel.has_subshells:
        pytest.skip("ipykernel 6 takes no message while a cell runs")
    model.add(turn(say("<insert>1")))
    cell = kernel.begin("import threading; gate = threading.Event(); gate.wait(60)")
    kernel.wait_for(lambda said: said["msg_type"] == "execute_input")
    assert asking.text("x = ") == "1"
    opened = kernel.control("create_subshell_request")["subshell_id"]
    kernel.begin("gate.set()", subshell=opened)
    assert kernel.finish(cell).status == "ok"


@pytest.mark.parametrize("method", ["code", "code_stop"])
def test_a_newer_request_ends_the_older_one_down_to_its_connection(
    asking: Asking, model: MessagesServer, method: str
) -> None:
    gate = Gate()
    model.add(turn(say("<insert>never"), hold(gate)))
    before = sum(request.disconnected for request in model.requests)
    older = asking.begin("x = ")
    gate.wait_until_reached()
    if method == "code":
        model.add(turn(say("<insert>2")))
    newer = asking.begin("x = 1", method=method)
    model.wait_for_disconnect(before + 1)
    gate.open()
    ended = asking.reply(older)["result"]
    assert ended["text"] == ""
    assert ended["cost_usd"] > 0, "what was begun is paid for"
    assert ended["stopped"]
    answer = asking.reply(newer)["result"]
    assert answer is None if method == "code_stop" else (answer["text"], answer["stopped"]) == ("2", False)


def test_the_answer_is_left_when_no_more_of_it_would_be_used(asking: Asking, model: MessagesServer) -> None:
    gate = Gate()
    model.add(turn(say("<insert>first\nsecond and so on"), hold(gate)))
    before = sum(request.disconnected for request in model.requests)
    assert asking.text("f(", ", b=2)") == "first"
    model.wait_for_disconnect(before + 1)
    gate.open()


def test_nothing_is_tried_again(asking: Asking, model: MessagesServer) -> None:
    model.add(turn(fault("status", status=529, retry_after_ms=60_000)))
    assert asking.reply(asking.begin("x = "))["error"]["code"] == "API_OVERLOADED"


def test_secrets_are_kept_here(asking: Asking, model: MessagesServer) -> None:
    key = "sk-ant-api03-" + "aB3dE5fG7h" * 9
    model.add(turn(say("<insert>1")))
    asking.text("x = ", "", {"source": f"client = connect('{key}')"})
    assert key not in json.dumps(model.requests[-1].body)
    assert "[secret removed:" in asked(model)


def test_what_it_costs_is_counted_with_the_session_and_stops_at_the_days_budget(
    asking: Asking, kernel: NotebookKernel, model: MessagesServer
) -> None:
    settings = Path(ast.literal_eval(kernel.value("__import__('os').environ['HOME']")), ".claude", "settings.json")
    settings.parent.mkdir(exist_ok=True)
    kernel.run(COST)
    model.add(turn(say("Hello.")), turn(say("<insert>1")), turn(say("<insert>2")))
    kernel.run("%%claude --quiet\nHello")
    asking.text("x = ")  # with it, what was spent before there was a session
    before = float(kernel.value("_cost()"))
    cost = asking.reply(asking.begin("y = "))["result"]["cost_usd"]
    assert float(kernel.value("_cost()")) == pytest.approx(before + cost)
    assert "completions" in kernel.run("%claude /status").outputs[0]["text/plain"]
    page = kernel.run("%claude /cost").outputs[0]["text/plain"]
    assert "of it completions" in page
    assert "of $1.00" in page
    settings.write_text(json.dumps({"cellwright": {"inlineCompletionBudget": 0}}))
    try:
        error = asking.reply(asking.begin("x = "))["error"]
        assert error["code"] == "BUDGET_EXCEEDED"
        settings.write_text(json.dumps({"cellwright": {"inlineCompletion": False}}))
        assert asking.reply(asking.begin("x = "))["error"]["code"] == "PERMISSION_DENIED"
        settings.write_text(json.dumps({"deniedModels": ["haiku"]}))
        assert asking.reply(asking.begin("x = "))["error"]["code"] == "CONFIG_INVALID"
    finally:
        settings.unlink()


COST = """
def _cost():
    shell = get_ipython()
    return shell.find_cell_magic("claude").__self__.extension.conversation().conversation.sessions.current.cost_usd
"""


def test_what_makes_no_sense_is_said(asking: Asking) -> None:
    asking.page.say({"type": "request", "id": "bad", "method": "code", "params": {"prefix": 3}})
    assert asking.reply("bad")["error"]["code"] == "invalid"
