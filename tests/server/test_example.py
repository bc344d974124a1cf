"""The example web application, over real HTTP and in a real browser, and what the documents say to a server."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "docs"))  # importlib mode leaves it out

from fences import fences
from jupyter_process import TOKEN

from cellwright.testing import say, use

pytestmark = pytest.mark.kernel

ROOT = Path(__file__).parents[2]
APP = ROOT / "examples" / "web_application" / "app.py"
HERE = str(Path(__file__).relative_to(ROOT))

PAGE = """
const fetch = (path, options) => globalThis.fetch(new URL(path, process.argv[1]), options);
const asked = await fetch("api/run", {method: "POST", body: JSON.stringify({prompt: "Make it"})});
const run = asked.headers.get("cellwright-run"), told = [];
READ
for await (const {id: last, type, data} of events(asked)) {
  told.push([last, type]);
  if (type === "permission_request") { ANSWER }
}
const last = 1, again = [];
for await (const {id, type} of events(await LATER)) again.push([id, type]);
console.log(JSON.stringify({told, again}));
"""
"""A page's script, of the blocks of the document: a run is begun, read and answered, and its events are read again."""


def _blocks(language):
    """What the documents leave to this file to run."""
    return [fence.code for fence in fences() if fence.run_by == HERE and fence.language == language]


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
    reading, answering, later = _blocks("js")
    script = PAGE.replace("READ", reading).replace("ANSWER", answering).replace("LATER", later.rstrip().rstrip(";"))
    command = ["node", "--input-type=module", "--eval", script, app]
    page = subprocess.run(command, capture_output=True, text=True, check=False)
    assert page.returncode == 0, page.stderr
    seen = json.loads(page.stdout)
    assert [kind for _, kind in seen["told"] if kind.startswith(("permission", "session"))] == [
        "permission_request",
        "permission_decision",
        "session_complete",
    ]
    assert seen["again"] == seen["told"][1:]


def test_the_documents_commands_and_program(server, model):
    environ = {**os.environ, "TOKEN": TOKEN, "RUN": "none", "QUESTION": "none"}
    (server.root / "reports").mkdir()
    ask, look = (code.replace("http://localhost:8888", server.url) for code in _blocks("sh"))
    model.add(say("The column `price` has 3."))
    asked = subprocess.run(["bash", "-eu", "-c", ask], env=environ, capture_output=True, text=True, check=True).stdout
    assert asked.count("event: run_started") == asked.count("event: session_complete") == 1
    looked = subprocess.run(["bash", "-eu", "-c", look], env=environ, capture_output=True, text=True, check=True).stdout
    assert re.findall(r'"code": ?"(\w+)"', looked) == ["NOT_FOUND", "NOT_FOUND"], "as no run has the id"

    (program,) = _blocks("python")
    model.add(say("All of it."))
    named = f"server, token = {server.url!r}, {TOKEN!r}\n"
    done = subprocess.run([sys.executable, "-c", named + program], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("All of it.", "")


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
