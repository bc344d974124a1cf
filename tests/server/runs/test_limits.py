"""Kernels that are started for runs, what clients may ask for at most, and who may ask for what."""

from __future__ import annotations

import base64
import json
import os
from urllib.parse import urlsplit

import pytest
from cut_connection import CutConnection

from cellwright.server.api_error import RouteError
from cellwright.server.runs.runs import RequestsAtOnce
from cellwright.testing import Gate, hold, say, turn, use

pytestmark = pytest.mark.kernel

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)

READ_ONLY = """
from jupyter_server.auth import Authorizer

class ReadOnly(Authorizer):
    def is_authorized(self, handler, user, action, resource):
        return action == "read" or resource != "cellwright"
"""


NAMES = """
from jupyter_server.auth import IdentityProvider, User

class ByHeader(IdentityProvider):
    async def get_user(self, handler):
        user = await super()._get_user(handler)
        name = handler.request.headers.get("X-Test-User")
        return user and User(name) if name else user
"""


def _kernels(server):
    return {kernel["id"] for kernel in server.request("GET", "api/kernels").json()}


def _answer(events):
    return "".join(event["data"]["chunk"] for event in events if event["type"] == "claude_response_chunk")


def test_requests_are_counted_for_each_user_at_once_and_in_a_minute():
    now = 0.0
    requests = RequestsAtOnce(2, 3, clock=lambda: now)
    with requests.taken("ada"), requests.taken("ada"):
        with pytest.raises(RouteError, match="are running") as refused, requests.taken("ada"):
            pass
        assert refused.value.status == 429
        with requests.taken("bob"):
            pass
    with requests.taken("ada"):
        pass
    with pytest.raises(RouteError, match="3 requests a minute") as refused, requests.taken("ada"):
        pass
    assert refused.value.retry_after == 60
    now = 60.0
    with requests.taken("ada"):
        pass


def test_a_run_in_a_kernel_of_its_own(server, model):
    (server.root / "project" / "deeper").mkdir(parents=True)
    before = _kernels(server)
    model.add(use("Bash", command="pwd"), say("There."))
    stream = server.stream("POST", "run", {"prompt": "Where are we?", "folder": "project/deeper"})
    events = stream.rest()
    (ran,) = [event["data"] for event in events if event["type"] == "tool_completion"]
    assert str(server.root / "project" / "deeper") in str(ran["result"])
    server.wait_for(lambda: _kernels(server) == before, "the kernel of the run is still there")
    assert server.api("GET", f"runs/{stream.run}").json()["over"] is True


def test_a_kernel_is_kept_goes_on_with_the_conversation_and_is_shut_down_when_it_idles(start_server, model):
    server = start_server("--CellwrightApp.own_kernel_idle_seconds=1")
    gate = Gate()
    model.add(turn(say("One, after "), hold(gate), say("a while.")), say("Two."))
    stream = server.stream("POST", "run", {"prompt": "First", "keep": True})
    kernel = stream.until("run_started")["data"]["kernel"]
    stream.until("claude_response_chunk")
    # before the first is over: how long this machine takes between the two is nobody's promise
    again = server.stream("POST", f"kernels/{kernel}/run", {"prompt": "Second"})
    assert kernel in _kernels(server)
    gate.open()
    assert _answer(stream.rest()) == "One, after a while."
    assert _answer(again.rest()) == "Two."
    assert len(model.requests[-1].body["messages"]) == 3  # the same conversation
    server.wait_for(lambda: kernel not in _kernels(server), "the kernel was not culled")


def test_a_session_is_gone_on_with(server, model):
    model.add(say("Remembered."))
    first = server.stream("POST", "run", {"prompt": "Remember the tides"}).rest()
    session = first[-1]["data"]["metadata"]["session_id"]
    assert session
    model.add(say("As I said."))
    asked = {"prompt": "What was it?", "session": session}
    again = server.stream("POST", "run", asked).rest()
    assert again[-1]["type"] == "session_complete", again[-1]
    assert again[-1]["data"]["metadata"].get("session_id") == session, again
    assert len(model.requests[-1].body["messages"]) == 3
    missing = server.api("POST", "run", {"prompt": "x", "session": "no-such-session"})
    assert (missing.status, missing.json()["code"]) == (404, "SESSION_NOT_FOUND")


def test_a_folder_outside_and_a_kernel_that_is_not_there(server):
    before = _kernels(server)
    reply = server.api("POST", "run", {"prompt": "x", "folder": ".."})
    assert (reply.status, reply.json()["code"]) == (403, "FILE_ACCESS_ERROR")
    reply = server.api("POST", "run", {"prompt": "x", "folder": "nowhere"})
    assert (reply.status, reply.json()["code"]) == (404, "FILE_NOT_FOUND")
    reply = server.api("POST", "run", {"prompt": "x", "kernel_name": "no-such-language"})
    assert (reply.status, reply.json()["code"]) == (502, "EXECUTION_ERROR")
    assert _kernels(server) <= before, "none was started for them"


def test_sessions_are_listed_searched_read_exported_named_and_deleted(server, model):
    folder = server.root / "tides"
    folder.mkdir()
    (server.root / "elsewhere").mkdir()
    secret = "sk-ant-api03-" + "x7Gh2Kq9" * 6
    model.add(say("The spring tide of Brest."))
    run = server.stream("POST", "run", {"prompt": f"Tell me of Brest, my key is {secret}", "folder": "tides"}).rest()
    session = run[-1]["data"]["metadata"]["session_id"]
    server.wait_for(lambda: not server.api("GET", f"sessions/{session}").json()["in_use"], "the session is in use")
    listed = server.api("GET", "sessions?folder=tides").json()
    assert [entry["id"] for entry in listed["sessions"]] == [session]
    assert listed["more"] is False
    assert server.api("GET", "sessions?folder=elsewhere").json() == {"sessions": [], "more": False}
    (found,) = server.api("GET", "sessions?query=spring").json()["sessions"]
    assert (found["id"], found["cwd"]) == (session, str(folder))
    assert "⟪spring⟫" in found["snippet"]
    for form, media in (
        ("markdown", "text/markdown"),
        ("notebook", "application/x-ipynb+json"),
        ("json", "application/json"),
    ):
        export = server.api("GET", f"sessions/{session}/export?format={form}")
        assert export.status == 200
        assert export.headers["content-type"].startswith(media)
        assert "attachment" in export.headers["content-disposition"]
        assert "The spring tide of Brest." in export.body.decode()
        assert secret not in export.body.decode()
    assert json.loads(server.api("GET", f"sessions/{session}/export?format=notebook").body)["nbformat"] == 4
    renamed = server.api("PATCH", f"sessions/{session}", {"title": "Tides of Brest"})
    assert (renamed.status, renamed.json()["title"]) == (200, "Tides of Brest")
    assert server.api("GET", f"sessions/{session}/export?format=pdf").status == 400
    assert server.api("GET", "sessions/nothing").json()["code"] == "SESSION_NOT_FOUND"
    assert server.api("DELETE", f"sessions/{session}").status == 204
    assert server.api("GET", f"sessions/{session}").status == 404
    assert server.api("DELETE", f"sessions/{session}").status == 404


def test_an_exported_conversation_has_its_images(server, model):
    picture = base64.b64encode(PNG).decode()
    model.add(say("A single dot."))
    attachment = {"kind": "image", "name": "dot.png", "media_type": "image/png", "data": picture}
    run = server.stream("POST", "run", {"prompt": "What is it?", "attachments": [attachment]}).rest()
    session = run[-1]["data"]["metadata"]["session_id"]
    text = server.api("GET", f"sessions/{session}/export?format=markdown").body.decode()
    assert f"![image 1](data:image/png;base64,{picture})" in text
    notebook = server.api("GET", f"sessions/{session}/export?format=notebook").json()
    assert [attached for cell in notebook["cells"] for attached in cell.get("attachments", {}).values()] == [
        {"image/png": picture}
    ]


def test_sessions_of_other_folders_are_not_shown(server, model, asked_here, monkeypatch):
    import cellwright

    monkeypatch.setenv("CELLWRIGHT_HOME", str(server.home / "state"))
    monkeypatch.setenv("ANTHROPIC_BASE_URL", model.url)
    monkeypatch.setenv("ANTHROPIC_API_KEY", model.api_key)
    model.add(say("Outside."))
    result = cellwright.ask("Somewhere else")
    assert result.session_id
    assert server.api("GET", f"sessions/{result.session_id}").status == 404
    assert server.api("DELETE", f"sessions/{result.session_id}").status == 404
    listed = server.api("GET", "sessions?limit=200").json()["sessions"]
    assert result.session_id not in [entry["id"] for entry in listed]


def test_limits(start_server, model):
    server = start_server(
        "--CellwrightApp.max_runs_per_user=1",
        "--CellwrightApp.max_request_bytes=2000",
        "--CellwrightApp.heartbeat_seconds=0.2",
    )
    kernel, gate = server.kernel(), Gate()
    large = server.api("POST", f"kernels/{kernel}/run", {"prompt": "x" * 3_000})
    assert (large.status, large.json()["code"]) == (413, "REQUEST_TOO_LARGE")
    model.add(turn(hold(gate), say("Done.")))
    stream = server.stream("POST", f"kernels/{kernel}/run", {"prompt": "Hold"})
    stream.until("run_started")
    stream.read_comment()
    stream.read_comment()
    many = server.api("POST", f"kernels/{kernel}/run", {"prompt": "One more"})
    assert (many.status, many.json()["code"]) == (429, "RATE_LIMIT_EXCEEDED")
    assert int(many.headers["retry-after"]) > 0
    gate.open()
    stream.rest()
    assert server.api("GET", "status").json()["runs"] == 0


def test_runs_in_a_minute_are_limited(start_server):
    server = start_server("--CellwrightApp.runs_per_minute=1")
    asked = {"prompt": "x", "kernel_name": "no-such-language"}
    assert server.api("POST", "run", asked).status == 502
    often = server.api("POST", "run", asked)
    assert (often.status, often.json()["code"]) == (429, "RATE_LIMIT_EXCEEDED")
    assert "1 runs a minute" in often.json()["message"]
    assert int(often.headers["retry-after"]) > 0


def test_own_kernels_are_limited(start_server):
    server = start_server("--CellwrightApp.max_own_kernels=0")
    reply = server.api("POST", "run", {"prompt": "x"})
    assert (reply.status, reply.json()["code"]) == (429, "RATE_LIMIT_EXCEEDED")
    assert "kernels of runs" in reply.json()["message"]
    assert reply.headers["retry-after"]


def test_users_with_names_see_their_own_runs(start_server, model, tmp_path):
    (tmp_path / "my_names.py").write_text(NAMES)
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    server = start_server(
        "--ServerApp.identity_provider_class=my_names.ByHeader",
        "--ByHeader.token=a-token-of-tests",
        "--CellwrightApp.max_runs_per_user=1",
        environ={"PYTHONPATH": path},
    )
    kernel, gate = server.kernel(), Gate()
    ada, bob = {"X_Test_User": "ada"}, {"X_Test_User": "bob"}
    model.add(turn(say("For "), hold(gate), say("Ada.")), say("For Bob."))
    stream = server.stream("POST", f"kernels/{kernel}/run", {"prompt": "Mine"}, **ada)
    stream.until("claude_response_chunk")
    for method, where in (
        ("GET", ""),
        ("GET", "/events"),
        ("POST", "/stop"),
        ("POST", "/answers/x"),
        ("POST", "/steer"),
    ):
        body = {"behavior": "allow", "text": "x"} if where in ("/answers/x", "/steer") else None
        reply = server.api(method, f"runs/{stream.run}{where}", body, **bob)
        assert (reply.status, reply.json()["code"]) == (404, "NOT_FOUND"), where
    assert server.api("GET", f"runs/{stream.run}", **ada).status == 200
    assert server.api("POST", f"kernels/{kernel}/run", {"prompt": "More"}, **ada).status == 429
    bobs = server.stream("POST", f"kernels/{kernel}/run", {"prompt": "His"}, **bob)
    gate.open()
    assert _answer(stream.rest()) == "For Ada."
    assert _answer(bobs.rest()) == "For Bob."


def test_jupyters_authorizer_decides(start_server, tmp_path):
    (tmp_path / "my_authorizer.py").write_text(READ_ONLY)
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    server = start_server("--ServerApp.authorizer_class=my_authorizer.ReadOnly", environ={"PYTHONPATH": path})
    kernel = server.kernel()
    assert server.api("GET", "status").status == 200
    for method, where, body in (
        ("POST", "run", {"prompt": "x"}),
        ("POST", f"kernels/{kernel}/run", {"prompt": "x"}),
        ("PATCH", "sessions/x", {"title": "x"}),
        ("DELETE", "sessions/x", None),
        ("POST", f"runs/{'0' * 32}/stop", None),
    ):
        reply = server.api(method, where, body)
        assert (reply.status, reply.json()["code"]) == (403, "PERMISSION_DENIED"), where


def test_kernels_behind_a_gateway(start_server, model):
    """The kernels run on another server, which this one reaches as Jupyter reaches a gateway: by HTTP and a websocket."""
    far = start_server()
    near = start_server(
        f"--GatewayClient.url={far.url}",
        "--GatewayClient.auth_token=a-token-of-tests",
        "--GatewayClient.auth_scheme=token",
    )
    kernel = near.kernel()
    model.add(use("Bash", command="touch by-a-gateway"), say("From afar."))
    stream = near.stream("POST", f"kernels/{kernel}/run", {"prompt": "Hello there"})
    question = stream.until("permission_request")["data"]["question_id"]
    near.api("POST", f"runs/{stream.run}/answers/{question}", {"behavior": "allow"})
    assert _answer(stream.rest()) == "From afar."
    assert kernel in _kernels(far)


def test_the_network_to_a_gateway_is_lost_in_mid_run(start_server, model):
    far = start_server()
    network = CutConnection(urlsplit(far.url).port)
    near = start_server(
        f"--GatewayClient.url=http://127.0.0.1:{network.port}",
        "--GatewayClient.auth_token=a-token-of-tests",
        "--GatewayClient.auth_scheme=token",
    )
    kernel, gate = near.kernel(), Gate()
    model.add(turn(say("Before the cut, "), hold(gate), say("and after.")))
    stream = near.stream("POST", f"kernels/{kernel}/run", {"prompt": "Go on"})
    stream.until("claude_response_chunk")
    network.cut()
    gate.open()
    events = stream.rest()
    near.stop()  # it ends its kernels, for which it waits long where there is no network
    network.close()
    assert _answer(events) == "Before the cut, and after."
    assert [event["id"] for event in events] == list(range(1, len(events) + 1))
    assert [event["type"] for event in events].count("session_complete") == 1
    assert "error" not in [event["type"] for event in events]
