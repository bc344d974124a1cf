"""Runs in kernels over HTTP: their events, questions, words to them, their end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager
from subshells import HAS_SUBSHELLS

from cellwright.server.runs.runs import OwnKernels
from cellwright.testing import Gate, hold, say, turn, use

pytestmark = [pytest.mark.kernel, pytest.mark.kernel_version]


WITHOUT_CELLWRIGHT = """
import sys

class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name == "cellwright":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, NotInstalled())
"""


@pytest.fixture(scope="module")
def kernel(server):
    return server.kernel()


def _ids(events):
    return [event["id"] for event in events]


def _answer(events):
    return "".join(event["data"]["chunk"] for event in events if event["type"] == "claude_response_chunk")


def test_a_run_as_server_sent_events(server, model, kernel):
    model.add(say("Forty-two."))
    stream = server.stream("POST", f"kernels/{kernel}/run", {"prompt": "What is it?"})
    assert stream.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert "no-cache" in stream.headers["cache-control"]
    assert stream.headers["x-accel-buffering"] == "no"
    events = stream.rest()
    assert _ids(events) == list(range(1, len(events) + 1))
    assert events[0]["type"] == "run_started"
    assert events[0]["data"] == {"run": stream.run, "kernel": kernel}
    assert _answer(events) == "Forty-two."
    assert events[-1]["type"] == "session_complete"
    assert events[-1]["data"]["final_response"] == "Forty-two."
    assert events[-1]["data"]["metadata"]["stop_reason"] == "end_turn"


def test_the_same_as_json_lines(server, model, kernel):
    model.add(say("Line by line."))
    reply = server.api("POST", f"kernels/{kernel}/run", {"prompt": "Once more"}, Accept="application/x-ndjson")
    assert reply.headers["content-type"] == "application/x-ndjson; charset=utf-8"
    events = [json.loads(line) for line in reply.body.splitlines() if line]
    assert _ids(events) == list(range(1, len(events) + 1))
    assert _answer(events) == "Line by line."


RAISING = """
import logging
from cellwright.telemetry.log_file import RUNS

class Raising(logging.Handler):
    raised = 0

    def emit(self, record):
        Raising.raised += 1
        raise RuntimeError("a handler that the user has added")

raising = Raising()
logging.getLogger(RUNS).addHandler(raising)
logging.getLogger(RUNS).setLevel(logging.INFO)
"""


def test_a_run_has_one_end_when_what_looks_on_fails(server, model, kernel):
    assert server.execute(kernel, RAISING, wait=False).wait() == "ok"
    answers = turn(say("I look. "), use("LS", path=".")), say("There it is.")
    model.add(*answers, *answers)
    events = server.stream("POST", f"kernels/{kernel}/run", {"prompt": "go"}).rest()
    reply = server.api("POST", f"kernels/{kernel}/run", {"prompt": "go"}, Accept="application/x-ndjson")
    lines = [json.loads(line) for line in reply.body.splitlines() if line]
    for told in (events, lines):
        assert [event["type"] for event in told].count("session_complete") == 1
        assert told[-1]["type"] == "session_complete"
        assert told[-1]["data"]["final_response"] == "There it is."
    after = "logging.getLogger(RUNS).removeHandler(raising)\nassert Raising.raised >= 8"
    assert server.execute(kernel, after, wait=False).wait() == "ok"


def test_a_question_is_answered_over_http(server, model, kernel):
    model.add(use("Bash", command="touch made-by-claude"), say("Made."))
    stream = server.stream("POST", f"kernels/{kernel}/run", {"prompt": "Make a file"})
    question = stream.until("permission_request")["data"]["question_id"]
    assert server.api("GET", f"runs/{stream.run}").json()["questions"] == [question]
    assert server.api("POST", f"runs/{stream.run}/answers/nothing", {"behavior": "allow"}).status == 404
    decision = server.api("POST", f"runs/{stream.run}/answers/{question}", {"behavior": "allow"})
    assert (decision.status, decision.json()["behavior"]) == (200, "allow")
    events = stream.rest()
    assert [event["data"]["status"] for event in events if event["type"] == "tool_completion"] == ["success"]
    assert _answer(events) == "Made."
    late = server.api("POST", f"runs/{stream.run}/answers/{question}", {"behavior": "deny"})
    assert (late.status, late.json()["code"]) == (409, "CONFLICT")
    assert late.json()["details"]["decision"]["behavior"] == "allow"


def test_of_answers_that_come_at_once_the_first_counts_and_all_are_told(server, model, kernel):
    model.add(use("Bash", command="touch made-by-the-first"), say("Decided."))
    stream = server.stream("POST", f"kernels/{kernel}/run", {"prompt": "Ask everybody"})
    question = stream.until("permission_request")["data"]["question_id"]

    def answered(behavior):
        reply = server.api("POST", f"runs/{stream.run}/answers/{question}", {"behavior": behavior})
        said = reply.json() if reply.status == 200 else reply.json()["details"]["decision"]
        return reply.status, said["behavior"]

    with ThreadPoolExecutor(6) as clients:
        told = list(clients.map(answered, ["allow", "deny"] * 3))
    (decided,) = [event["data"] for event in stream.rest() if event["type"] == "permission_decision"]
    assert {behavior for _, behavior in told} == {decided["behavior"]}
    assert {status for status, _ in told} <= {200, 409}


def test_a_slash_command_answers_or_says_why_it_does_not(server, kernel):
    events = server.stream("POST", f"kernels/{kernel}/run", {"prompt": "/status"}).rest()
    assert _answer(events).startswith("**Status**")
    assert events[-1]["data"]["final_response"] == _answer(events)
    assert events[-1]["data"]["metadata"]["stop_reason"] == "end_turn"
    failed = server.stream("POST", f"kernels/{kernel}/run", {"prompt": "/resume no-such-session"})
    errors = [event["data"]["error_code"] for event in failed.rest() if event["type"] == "error"]
    assert errors == ["SESSION_NOT_FOUND"]
    assert server.api("GET", f"runs/{failed.run}").json()["state"] == "failed"


def test_a_denial_reaches_claude_with_its_reason(server, model, kernel):
    model.add(use("Bash", command="touch never-made"), say("Then not."))
    stream = server.stream("POST", f"kernels/{kernel}/run", {"prompt": "Make another file"})
    question = stream.until("permission_request")["data"]["question_id"]
    answer = {"behavior": "deny", "reason": "not on a Sunday"}
    assert server.api("POST", f"runs/{stream.run}/answers/{question}", answer).json()["behavior"] == "deny"
    (end,) = [event["data"] for event in stream.rest() if event["type"] == "tool_completion"]
    assert end["status"] == "denied"
    assert "not on a Sunday" in str(end["result"])


def test_who_comes_back_gets_each_event_once(server, model, kernel):
    gate = Gate()
    model.add(turn(say("First half, "), hold(gate), say("second half.")))
    stream = server.stream("POST", f"kernels/{kernel}/run", {"prompt": "Two halves"})
    stream.until("claude_response_chunk")
    stream.close()
    had = [dict(event) for event in stream.events]
    again = server.stream("GET", f"runs/{stream.run}/events", Last_Event_ID=str(had[-1]["id"]))
    gate.open()
    events = had + again.rest()
    assert _ids(events) == list(range(1, len(events) + 1))
    assert _answer(events) == "First half, second half."
    whole = server.stream("GET", f"runs/{stream.run}/events").rest()
    assert whole == events
    last = str(events[-1]["id"])
    assert server.api("GET", f"runs/{stream.run}/events", Last_Event_ID=last, Accept="text/event-stream").status == 204
    assert server.stream("GET", f"runs/{stream.run}/events?after={len(events) - 1}").rest() == events[-1:]
    assert server.api("GET", f"runs/{stream.run}/events", Last_Event_ID="999").status == 400
    assert server.api("GET", f"runs/{stream.run}/events", Last_Event_ID="x").status == 400


def test_several_clients_read_the_same_run(server, model, kernel):
    gate = Gate()
    model.add(turn(hold(gate), say("For all.")))
    first = server.stream("POST", f"kernels/{kernel}/run", {"prompt": "To everybody"})
    second = server.stream("GET", f"runs/{first.run}/events")
    gate.open()
    assert first.rest() == second.rest()


def test_json_is_answered_at_once_and_the_run_goes_on(server, model, kernel):
    model.add(say("In its time."))
    taken = server.api("POST", f"kernels/{kernel}/run", {"prompt": "Later"})
    assert taken.status == 202
    run = taken.json()["run"]
    assert taken.headers["location"] == f"/cellwright/api/runs/{run}"
    assert _answer(server.stream("GET", f"runs/{run}/events").rest()) == "In its time."
    about = server.api("GET", f"runs/{run}").json()
    assert (about["over"], about["metadata"]["stop_reason"]) == (True, "end_turn")


def test_stop(server, model, kernel):
    gate = Gate()
    model.add(turn(say("I go on and "), hold(gate), say("on.")))
    stream = server.stream("POST", f"kernels/{kernel}/run", {"prompt": "Go on"})
    stream.until("claude_response_chunk")
    assert server.api("POST", f"runs/{stream.run}/stop").status == 202
    assert stream.rest()[-1]["data"]["metadata"]["stop_reason"] == "interrupted"
    gate.open()
    assert server.api("POST", f"runs/{stream.run}/stop").json()["over"] is True


def test_a_run_that_waits_for_its_turn_is_taken_out_of_the_line(server, model, kernel):
    gate = Gate()
    model.add(turn(say("Busy "), hold(gate), say("here.")))
    first = server.stream("POST", f"kernels/{kernel}/run", {"prompt": "First in line"})
    first.until("claude_response_chunk")
    second = server.stream("POST", f"kernels/{kernel}/run", {"prompt": "Second in line"})
    assert server.api("GET", f"runs/{second.run}").json()["state"] == "waiting"
    early = server.api("POST", f"runs/{second.run}/steer", {"text": "Not for the first"})
    assert (early.status, early.json()["code"]) == (409, "CONFLICT")
    assert server.api("POST", f"runs/{second.run}/stop").status == 202
    assert second.rest()[-1]["data"]["metadata"]["stop_reason"] == "interrupted"
    gate.open()
    assert _answer(first.rest()) == "Busy here."


def test_words_to_a_run_that_goes_on(server, model, kernel):
    model.add(use("Bash", command="touch steered"), turn(say("In blue, then."), when="Make it blue"))
    stream = server.stream("POST", f"kernels/{kernel}/run", {"prompt": "Paint it"})
    question = stream.until("permission_request")["data"]["question_id"]
    steered = server.api("POST", f"runs/{stream.run}/steer", {"text": "Make it blue"})
    assert (steered.status, steered.json()["state"], steered.json()["text"]) == (202, "waiting", "Make it blue")
    server.api("POST", f"runs/{stream.run}/answers/{question}", {"behavior": "allow"})
    events = stream.rest()
    assert [event["data"]["state"] for event in events if event["type"] == "steer"] == ["waiting", "delivered"]
    assert _answer(events) == "In blue, then."
    late = server.api("POST", f"runs/{stream.run}/steer", {"text": "Too late"})
    assert (late.status, late.json()["code"]) == (409, "CONFLICT")


def test_runs_of_several_kernels_at_once(server, model, kernel):
    other = server.kernel()
    gate = Gate()
    model.add(turn(hold(gate), say("From one."), when="One"), turn(say("From the other."), when="Other"))
    one = server.stream("POST", f"kernels/{kernel}/run", {"prompt": "One"})
    two = server.stream("POST", f"kernels/{other}/run", {"prompt": "Other"})
    assert _answer(two.rest()) == "From the other."
    gate.open()
    assert _answer(one.rest()) == "From one."
    known = {each["id"]: each for each in server.api("GET", "status").json()["kernels"]}
    assert known[other]["subshells"] is HAS_SUBSHELLS
    assert known[other]["version"]
    server.request("DELETE", f"api/kernels/{other}")


@pytest.mark.parametrize("end", ["killed", "shut down", "restarted"])
def test_a_kernel_that_ends_while_claude_works(server, model, end):
    kernel, gate = server.kernel(), Gate()
    pid = server.root / f"pid-{end}"
    server.execute(kernel, f"import os, pathlib\npathlib.Path({str(pid)!r}).write_text(str(os.getpid()))")
    model.add(turn(say("Half a "), hold(gate), say("sentence.")))
    stream = server.stream("POST", f"kernels/{kernel}/run", {"prompt": "Tell me"})
    stream.until("claude_response_chunk")
    if end == "killed":
        os.kill(int(pid.read_text()), signal.SIGKILL)
    elif end == "shut down":
        assert server.request("DELETE", f"api/kernels/{kernel}").status == 204
    else:
        assert server.request("POST", f"api/kernels/{kernel}/restart").status == 200
    events = stream.rest()
    gate.open()
    kinds = [event["type"] for event in events]
    assert kinds[-1] == "session_complete"
    assert "error" in kinds
    assert _ids(events) == list(range(1, len(events) + 1))
    if end != "shut down":
        model.add(say("Back again."))
        assert _answer(server.stream("POST", f"kernels/{kernel}/run", {"prompt": "And now?"}).rest()) == "Back again."
        server.request("DELETE", f"api/kernels/{kernel}")


def test_a_question_whose_kernel_was_restarted_takes_no_answer(server, model):
    kernel = server.kernel()
    model.add(use("Bash", command="touch never-answered"))
    stream = server.stream("POST", f"kernels/{kernel}/run", {"prompt": "Make a third file"})
    question = stream.until("permission_request")["data"]["question_id"]
    assert server.request("POST", f"api/kernels/{kernel}/restart").status == 200
    assert stream.rest()[-1]["type"] == "session_complete"
    late = server.api("POST", f"runs/{stream.run}/answers/{question}", {"behavior": "allow"})
    assert (late.status, late.json()["code"]) == (409, "CONFLICT")
    # a restart ends the run in good order, and with it the question
    assert late.json()["details"]["decision"]["reason"] == "interrupted"
    server.request("DELETE", f"api/kernels/{kernel}")


def test_the_run_goes_on_without_its_client(server, model, kernel):
    gate = Gate()
    model.add(turn(say("Nobody "), hold(gate), say("listens.")))
    stream = server.stream("POST", f"kernels/{kernel}/run", {"prompt": "Alone"})
    stream.until("claude_response_chunk")
    stream.close()
    gate.open()
    assert _answer(server.stream("GET", f"runs/{stream.run}/events").rest()) == "Nobody listens."


def test_a_run_that_ends_with_its_client(server, model, kernel):
    gate = Gate()
    model.add(turn(say("Somebody "), hold(gate), say("listens.")))
    asked = {"prompt": "Together", "cancel_on_disconnect": True}
    stream = server.stream("POST", f"kernels/{kernel}/run", asked)
    stream.until("claude_response_chunk")
    stream.close()
    about = lambda: server.api("GET", f"runs/{stream.run}").json()  # noqa: E731
    server.wait_for(lambda: about()["over"], "the run goes on")
    gate.open()
    assert about()["metadata"]["stop_reason"] == "interrupted"


def test_what_makes_no_sense_is_said(server, kernel):
    path = f"kernels/{kernel}/run"
    for body, words in (
        (b"{", "not valid JSON"),
        (b"[]", "The body must be object"),
        ({}, "The body must contain ['prompt']"),
        ({"prompt": ""}, "prompt"),
        ({"prompt": "x", "option": {}}, "must not contain {'option'}"),
        ({"prompt": "x", "options": {"mode": "yolo"}}, "options.mode"),
        ({"prompt": "x", "options": {"budget_usd": -1}}, "options.budget_usd"),
        ({"prompt": "x", "attachments": [{"kind": "image"}]}, "attachments[0]"),
        ({"prompt": "x", "session": "s" * 5_000}, "session must be shorter than"),
    ):
        reply = server.api("POST", path, body)
        assert (reply.status, reply.json()["code"]) == (400, "INVALID_PARAMETERS"), body
        assert words in reply.json()["message"]
    missing = server.api("POST", "kernels/no-such-kernel/run", {"prompt": "x"})
    assert (missing.status, missing.json()["code"]) == (404, "NOT_FOUND")
    missing = server.api("GET", f"runs/{'0' * 32}")
    assert (missing.status, missing.json()["code"]) == (404, "NOT_FOUND")


def test_half_a_character_in_a_prompt_is_no_failure_of_the_server(server, model, kernel):
    model.add(say("Half understood."))
    events = server.stream("POST", f"kernels/{kernel}/run", b'{"prompt": "half \\ud83d of it"}').rest()
    assert _answer(events) == "Half understood."


@pytest.mark.parametrize(
    "name", ["..%2f..%2fetc%2fpasswd", "%2e%2e", "a%00b", "%2fetc%2fpasswd", "x%0d%0aX-Evil:%20a", "%ff"]
)
def test_ids_are_no_paths_and_no_headers(server, name):
    for method, path in (
        ("GET", f"sessions/{name}"),
        ("GET", f"sessions/{name}/export"),
        ("DELETE", f"sessions/{name}"),
        ("GET", f"runs/{name}"),
        ("GET", f"runs/{name}/events"),
        ("POST", f"kernels/{name}/run"),
    ):
        reply = server.api(method, path, {"prompt": "x"} if method == "POST" else None)
        assert reply.status in (400, 404), (path, reply.status, reply.body)
        assert "x-evil" not in reply.headers
        assert b"root:" not in reply.body


def test_a_kernel_whose_environment_has_no_cellwright(server):
    startup = server.home / "bare" / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "none.py").write_text(WITHOUT_CELLWRIGHT)
    spec = server.home / "data" / "kernels" / "bare"
    spec.mkdir(parents=True)
    argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    about = {
        "argv": argv,
        "display_name": "Bare",
        "language": "python",
        "env": {"IPYTHONDIR": str(server.home / "bare")},
    }
    (spec / "kernel.json").write_text(json.dumps(about))
    kernel = server.kernel("bare")
    reply = server.api("POST", f"kernels/{kernel}/run", {"prompt": "x"}, Accept="text/event-stream")
    assert (reply.status, reply.json()["code"]) == (409, "EXTENSION_MISSING")
    assert reply.json()["details"]["install"] == f"{sys.executable} -m pip install cellwright"
    assert reply.json()["details"]["install"] in reply.json()["message"]
    server.request("DELETE", f"api/kernels/{kernel}")


def test_a_server_that_ends_while_a_kernel_is_shut_down_ends(tmp_path):
    async def end() -> list[str]:
        kernels = AsyncMappingKernelManager(root_dir=str(tmp_path), connection_dir=str(tmp_path))
        own = OwnKernels(kernels, 1, 60.0, lambda _: False)
        kernel_id = await own.start("", None)
        shutting_down = asyncio.create_task(own.shut_down(kernel_id))
        while kernels.get_kernel(kernel_id).ready.done():
            await asyncio.sleep(0)  # until it has begun
        shutting_down.cancel()
        await own.close()
        await kernels.shutdown_all()
        return kernels.list_kernel_ids()

    assert asyncio.run(asyncio.wait_for(end(), 60)) == []
