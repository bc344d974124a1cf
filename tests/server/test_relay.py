"""A kernel that runs a cell: with subshells it is talked to all the same; without them it is said what waits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from jupyter_process import JupyterServer
from subshells import with_subshells, without_subshells

from cellwright.testing import MessagesServer, say, turn, use

pytestmark = [pytest.mark.kernel, pytest.mark.kernel_version, pytest.mark.timeout(300)]


@pytest.fixture
def kernel(server: JupyterServer, model: MessagesServer) -> Iterator[str]:
    kernel = server.kernel()
    yield kernel
    model.clear()
    server.request("DELETE", f"api/kernels/{kernel}")


@contextmanager
def busy(server: JupyterServer, kernel: str) -> Iterator[None]:
    """A cell runs there as long as the block lasts."""
    flag = server.root / f"go-on-{kernel}"
    flag.unlink(missing_ok=True)
    waiting = f"while not pathlib.Path({str(flag)!r}).exists(): time.sleep(0.02)"
    cell = server.execute(kernel, f"import pathlib, time\nprint('begun', flush=True)\n{waiting}", wait=False)
    cell.printed("begun")
    try:
        yield
    finally:
        flag.touch()
    assert cell.wait() == "ok"


def answer(events: list[dict]) -> str:
    return "".join(event["data"]["chunk"] for event in events if event["type"] == "claude_response_chunk")


@with_subshells
def test_a_prompt_is_answered_while_a_cell_runs(server: JupyterServer, model: MessagesServer, kernel: str) -> None:
    model.add(say("While your cell runs."))
    with busy(server, kernel):
        events = server.stream("POST", f"kernels/{kernel}/run", {"prompt": "Are you there?"}).rest()
    assert answer(events) == "While your cell runs."


LOSES_ONE = """
kernel = get_ipython().kernel
handlers = kernel.control_handlers
usual = handlers["create_subshell_request"]

async def lose(*_):
    handlers["create_subshell_request"] = usual
    raise AssertionError("as in a kernel that has just started")

handlers["create_subshell_request"] = lose
"""


@with_subshells
def test_a_subshell_is_asked_for_again_where_the_request_was_lost(
    server: JupyterServer, model: MessagesServer, kernel: str
) -> None:
    assert server.execute(kernel, LOSES_ONE).wait() == "ok"
    model.add(say("Heard at last."))
    events = server.stream("POST", f"kernels/{kernel}/run", {"prompt": "Hello?"}).rest()
    assert answer(events) == "Heard at last."
    known = {each["id"]: each for each in server.api("GET", "status").json()["kernels"]}
    assert known[kernel]["subshells"] is True


@without_subshells
def test_a_prompt_waits_for_the_cell_and_says_so(server: JupyterServer, model: MessagesServer, kernel: str) -> None:
    model.add(say("After your cell."))
    with busy(server, kernel):
        stream = server.stream("POST", f"kernels/{kernel}/run", {"prompt": "Are you there?"})
        assert "subshells" in stream.until("notice")["data"]["message"]
        about = server.api("GET", f"runs/{stream.run}").json()
        assert (about["state"], about["over"]) == ("waiting", False)
    assert answer(stream.rest()) == "After your cell."


@without_subshells
@pytest.mark.parametrize("connected", [False, True], ids=["not connected", "connected"])
def test_a_prompt_that_waits_for_the_cell_is_stopped(
    server: JupyterServer, model: MessagesServer, kernel: str, *, connected: bool
) -> None:
    if connected:
        model.add(say("Connected."))
        server.stream("POST", f"kernels/{kernel}/run", {"prompt": "Connect"}).rest()
    with busy(server, kernel):
        stream = server.stream("POST", f"kernels/{kernel}/run", {"prompt": "Never mind"})
        stream.until("notice")
        stopped = server.api("POST", f"runs/{stream.run}/stop")
        assert (stopped.status, stopped.json()["state"]) == (202, "interrupted")
        assert stream.rest()[-1]["data"]["metadata"]["stop_reason"] == "interrupted"
    # the prompt may have been on its way to a kernel that is connected, and is stopped there
    model.add(turn(say("Stopped."), when="Never mind"), turn(say("The next."), when="And now?"))
    events = server.stream("POST", f"kernels/{kernel}/run", {"prompt": "And now?"}).rest()
    assert answer(events) == "The next."


@without_subshells
def test_an_answer_that_the_kernel_cannot_hear_is_said_to_be_on_its_way(
    server: JupyterServer, model: MessagesServer, kernel: str
) -> None:
    model.add(use("Bash", command="touch heard-later"), say("Made."))
    stream = server.stream("POST", f"kernels/{kernel}/run", {"prompt": "Make a file"})
    question = stream.until("permission_request")["data"]["question_id"]
    with busy(server, kernel):
        late = server.api("POST", f"runs/{stream.run}/answers/{question}", {"behavior": "allow"})
        assert (late.status, late.json()["code"]) == (504, "EXECUTION_TIMEOUT")
        assert "subshells" in late.json()["message"]
    events = stream.rest()
    assert answer(events) == "Made."
    assert [event["data"]["status"] for event in events if event["type"] == "tool_completion"] == ["success"]
