"""Two users of a real JupyterHub: neither sees the other's sessions, and each has a budget of their own."""

import json
import re
import stat

import httpx2
import pytest
import websocket
from hub import wait_for

from cellwright.testing import say, turn

pytestmark = [pytest.mark.hub, pytest.mark.timeout(400)]

ASK = """
%load_ext cellwright
import cellwright
try:
    print('SAID', cellwright.ask({prompt!r}, model={model!r}, max_tokens=1000).text)
except cellwright.CellwrightError as error:
    print('FAILED', error.code, error.message)
"""


def ask(user, prompt, model="haiku"):
    return user.run(user.kernel(), ASK.format(prompt=prompt, model=model))


@pytest.fixture
def alice(hub):
    return hub.users["alice"]


@pytest.fixture
def bob(hub):
    return hub.users["bob"]


def test_the_key_is_the_hubs_alone(hub, alice, model):
    model.add(turn(say("Hello, Alice."), when="from alice"))
    kernel = alice.kernel()
    printed = alice.run(kernel, "import os, json; print('ENV' + json.dumps(dict(os.environ)) + 'END')")
    environ = json.loads(re.search("ENV(.*)END", printed)[1])
    assert model.api_key not in json.dumps(environ)
    assert environ["ANTHROPIC_API_KEY"].startswith("cellwright-kernel-")
    assert "/user/alice/cellwright/api/anthropic" in environ["ANTHROPIC_BASE_URL"]
    assert "SAID Hello, Alice." in alice.run(kernel, ASK.format(prompt="a word from alice", model="haiku"))
    (request,) = [each for each in model.requests if "a word from alice" in each.last_user_text]
    assert request.headers["authorization"] == f"Bearer {model.api_key}"
    assert "jupyter" not in str(request.headers).lower()
    assert model.api_key not in hub.log


def test_nobody_sees_the_others_sessions(alice, bob, model):
    model.add(turn(say("Noted."), when="the secret of alice"))
    assert "SAID Noted." in ask(alice, "keep the secret of alice")
    own = alice.get("cellwright/api/sessions")
    assert own.status_code == 200
    assert own.json()["sessions"]
    session = own.json()["sessions"][0]["id"]
    assert "alice" not in bob.get("cellwright/api/sessions").text
    assert bob.get(f"cellwright/api/sessions/{session}").status_code == 404
    for path in ("sessions", f"sessions/{session}", f"sessions/{session}/export?format=markdown", "policy", "status"):
        assert bob.get(f"cellwright/api/{path}", of="alice").status_code == 403
        through_browser = bob.browser.get(f"/user/alice/cellwright/api/{path}")
        assert through_browser.status_code in (403, 404) or "/hub/" in str(through_browser.url)
        assert "the secret of alice" not in through_browser.text
    nobody = httpx2.get(f"{alice.hub.url}/user/alice/cellwright/api/sessions", timeout=60)
    assert nobody.status_code in (302, 403)


ROUTES = (
    *(
        "status",
        "openapi.json",
        "doctor",
        "settings",
        "models",
        "cassettes",
        "stale-numbers",
        "sessions",
        "sessions/{session}",
        "policy",
    ),
    *("sessions/{session}/export?format=markdown", "runs/{run}", "runs/{run}/events", "run", "kernels/{kernel}/run"),
    *("runs/{run}/answers/{run}", "runs/{run}/steer", "runs/{run}/stop"),
)


def test_no_route_of_anothers_server_answers(alice, bob, model):
    """Each route of the interface, by each method, tried as Bob on Alice's server: with his token, and by his browser."""
    model.add(turn(say("Noted."), when="a word of alice"))
    assert "SAID Noted." in ask(alice, "a word of alice's own")
    kernel, session = alice.kernel(), alice.get("cellwright/api/sessions").json()["sessions"][0]["id"]
    tried = {route.format(session=session, run="r1", kernel=kernel).partition("?")[0] for route in ROUTES}
    base = f"{alice.hub.url}/user/alice/"
    headers = {"authorization": f"token {bob.token}"}
    before = alice.get("cellwright/api/sessions").json()
    body = {"prompt": "Send me what alice said.", "behavior": "allow", "text": "x", "title": "bob was here"}
    for route in sorted(tried):
        answers: dict[str, int] = {}
        for method in ("GET", "POST", "PATCH", "PUT", "DELETE"):
            answer = httpx2.request(method, f"{base}cellwright/api/{route}", headers=headers, json=body, timeout=60)
            answers[method] = answer.status_code
            by_browser = bob.browser.request(method, f"/user/alice/cellwright/api/{route}", json=body)
            assert by_browser.status_code in (302, 403, 404, 405), (method, route, by_browser.status_code)
            assert "a word of alice" not in by_browser.text + answer.text
        # a method that a route does not have is none for anybody
        assert 403 in answers.values(), (route, answers)
        assert set(answers.values()) <= {403, 405}, (route, answers)
    # the ways around our interface: the kernel itself, its files, the panel's settings
    for path in (f"api/kernels/{kernel}", "api/kernels", "api/sessions", "api/contents", "lab/api/settings"):
        assert bob.get(path, of="alice").status_code == 403, path
    address = base.replace("http", "ws", 1) + f"api/kernels/{kernel}/channels"
    with pytest.raises(websocket.WebSocketBadStatusException) as refused:
        websocket.create_connection(address, header=[f"authorization: token {bob.token}"], timeout=60)
    assert refused.value.status_code == 403
    assert alice.get("cellwright/api/sessions").json() == before


def test_state_is_for_its_owner_alone(alice, bob):
    for user in (alice, bob):
        ask(user, "whatever")
        states = [path for path in user.home.rglob("cellwright") if path.is_dir() and path.parent.name == "share"]
        assert len(states) == 1
        for path in (states[0], *(each for each in states[0].rglob("*") if each.is_dir())):
            assert stat.S_IMODE(path.stat().st_mode) == 0o700, path
        sessions = list(states[0].rglob("*.jsonl"))
        assert sessions
        assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in sessions)


def test_each_user_has_a_budget_of_their_own(hub, bob, model):
    carol = hub.users["carol"]  # nobody else's test is stopped by what she has spent
    model.add(turn(say("dear"), when="a dear thing", usage={"input_tokens": 100, "output_tokens": 19_900}))
    model.add(turn(say("cheap"), when="a cheap thing"))
    assert "SAID dear" in ask(carol, "a dear thing")
    refused = ask(carol, "one more")
    assert "FAILED BUDGET_EXCEEDED" in refused
    assert "administrator" in refused
    assert "SAID cheap" in ask(bob, "a cheap thing")
    log = hub.folder / "proxy" / "egress.jsonl"

    def lines(user):
        return [line for line in map(json.loads, log.read_text().splitlines()) if line["user"] == user]

    # a line is written after its answer
    wait_for(lambda: len(lines("carol")) >= 2 and lines("bob"), "the log has not all lines", hub)
    assert [line["refused"] for line in lines("carol")] == ["", "cellwright_budget_exceeded"]
    assert "dear thing" not in log.read_text()


def test_models_and_tools_are_the_administrators(alice, bob):
    assert "FAILED PERMISSION_DENIED" in ask(bob, "with a dear model", model="opus")
    assert bob.get("cellwright/api/policy").json()["choices"]["bash"] == "force-off"


def test_the_hubs_proxy_knows_its_users_tokens_only(hub, alice):
    url = f"{hub.service}/services/cellwright/anthropic/v1/models"

    def status(token: str) -> int:
        return httpx2.get(url, headers={"authorization": f"Bearer {token}"}, timeout=60).status_code

    assert status(alice.token) == 200
    assert status("no-token") == 401
    mine = {"authorization": f"token {alice.token}"}
    narrow = httpx2.post(
        f"{hub.url}/hub/api/users/alice/tokens", headers=mine, json={"scopes": ["read:users:name!user"]}, timeout=60
    )
    assert narrow.status_code == 201, narrow.text
    assert status(narrow.json()["token"]) == 401
    through_the_front = httpx2.get(f"{hub.url}/services/cellwright/anthropic/v1/models", timeout=60)
    assert through_the_front.status_code == 401
