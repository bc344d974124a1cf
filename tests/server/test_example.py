"""The example web application, over real HTTP and in a real browser."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from jupyter_process import EventReader

from cellwright.testing import say, use

pytestmark = pytest.mark.kernel

APP = Path(__file__).parents[2] / "examples" / "web_application" / "app.py"


@pytest.fixture(scope="module")
def app(server):
    command = [sys.executable, str(APP), "--jupyter", server.url, "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "JUPYTER_TOKEN": "a-token-of-tests"})
    try:
        yield json.loads(process.stdout.readline())["url"]
    finally:
        process.terminate()
        process.communicate(timeout=30)


def _open(app, method, path, body=None, **headers):
    connection = HTTPConnection(urlsplit(app).netloc, timeout=60)
    data = None if body is None else json.dumps(body)
    connection.request(method, f"/{path}", data, {"Accept": "text/event-stream", **headers})
    return connection, connection.getresponse()


def test_the_page_is_there_and_holds_no_token(app):
    connection, response = _open(app, "GET", "")
    page = response.read().decode()
    connection.close()
    assert "Ask the data" in page
    assert "a-token-of-tests" not in page


def test_a_run_through_the_application(app, model):
    model.add(use("Bash", command="touch by-the-application"), say("It is there now."))
    reader = EventReader(*_open(app, "POST", "api/run", {"prompt": "Make it"}))
    assert reader.status == 200
    assert reader.headers["content-type"].startswith("text/event-stream")
    question = reader.until("permission_request")["data"]["question_id"]
    _, answered = _open(app, "POST", f"api/runs/{reader.run}/answers/{question}", {"behavior": "allow"})
    assert answered.status == 200
    events = reader.rest()
    assert events[-1]["data"]["final_response"] == "It is there now."
    again = EventReader(*_open(app, "GET", f"api/runs/{reader.run}/events", **{"Last-Event-ID": "1"}))
    assert again.rest() == events[1:]


def test_nothing_else_of_the_server_is_behind_it(app):
    for path in ("api/sessions", "api/../../api/contents", "api/runs/x", "api/settings", "api/kernels"):
        _, response = _open(app, "GET", path)
        assert response.status == 404, path
    _, response = _open(app, "POST", "api/run", {"prompt": "x"}, Origin="https://elsewhere.example")
    assert response.status == 403


@pytest.mark.browser
def test_in_a_browser(app, model, browser):
    model.add(use("Bash", command="touch from-the-browser"), say("Done, as you allowed."))
    page = browser.new_page()
    page.set_default_timeout(60_000)
    page.goto(app)
    page.get_by_label("Prompt").fill("Make a file")
    page.get_by_role("button", name="Ask").click()
    page.get_by_role("button", name="Allow once").click()
    page.get_by_text("Done, as you allowed.").wait_for()
    page.get_by_text("done").last.wait_for()
    page.close()
