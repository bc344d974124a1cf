"""`%%claude` looks at variables, and secrets stay in the kernel: in a real one."""

from __future__ import annotations

from typing import Any

import pytest
from notebook_kernel import NotebookKernel, Page

from cellwright.testing import MessagesServer, say, turn, use

pytestmark = pytest.mark.kernel

AWS = "AKIA" + "IOSFODNN7EXAMPLE"


def results(model: MessagesServer) -> list[Any]:
    """The results that the last request gave back."""
    return [
        block["content"]
        for block in model.requests[-1].body["messages"][-1]["content"]
        if block["type"] == "tool_result"
    ]


def test_variables_are_looked_at_without_asking(kernel: NotebookKernel, page: Page, model: MessagesServer) -> None:
    kernel.run(
        "import time\nprices = {'bonn': 1.5}\nclass Slow:\n    def __repr__(self): time.sleep(600)\nslow = Slow()\n"
        "def f(a=slow): pass"
    )
    model.add(
        turn(use("Variables"), use("Variables", names=["prices", "f", "nothing"]), use("FindDefinitions", name="f")),
        say("seen"),
    )
    cell = kernel.run("%%claude --new --context none\nWhat is there?")
    assert cell.status == "ok"
    listed, described, defined = results(model)
    assert listed.splitlines()[:2] == ["slow: Slow", "prices: dict (len 1) = {'bonn': 1.5}"]
    assert 'include="all"' in listed
    assert "f: function = f(a=<Slow>)\n  defined in Cell In[" in described
    assert "in the kernel (In [" in defined
    assert "): function f | def f(a)" in defined
    assert "Variable nothing was" in described
    assert not [op for op in page.ops if op["op"] == "ask"]


def test_an_agent_that_explores_has_the_index_and_the_kernels_variables(
    kernel: NotebookKernel, model: MessagesServer
) -> None:
    kernel.run("prices = {'bonn': 1.5}")
    model.add(
        use("Agent", description="look", prompt="What is there?", subagent_type="Explore"),
        use("Variables", names=["prices"]),
        say("A dict."),
        say("seen"),
    )
    kernel.run_ok("%%claude --new --context none\nExplore")
    asked = model.requests[-2].body
    assert {"FindDefinitions", "FindReferences", "Variables"} <= {tool["name"] for tool in asked["tools"]}
    assert not [tool for tool in asked["tools"] if tool.get("defer_loading")]
    assert "'bonn': 1.5" in str(asked["messages"][-1])


def test_a_secret_that_code_prints_stays_in_the_kernel(
    kernel: NotebookKernel, page: Page, model: MessagesServer
) -> None:
    kernel.run(
        f"import os\nos.environ['A_SERVICE_KEY'] = 'my-own-key-123'\nconfig = {{'id': {AWS!r}, 'password': 'hunter2222'}}"
    )
    model.add(
        turn(use("Variables", names=["config"])),
        turn(use("Python", code="print(os.environ['A_SERVICE_KEY'])")),
        say("seen"),
    )
    cell = kernel.run("%%claude --new --context none --mode bypassPermissions\nWhat is there?")
    assert cell.status == "ok"
    sent = str([request.body for request in model.requests])
    assert AWS not in sent
    assert "hunter2222" not in sent
    assert "my-own-key-123" not in sent
    assert ": AWS access key]" in sent
    assert "[secret removed: value of $A_SERVICE_KEY]" in results(model)[0]
    said = "".join(str(op) for op in page.ops)
    assert "Kept from Claude" in said
