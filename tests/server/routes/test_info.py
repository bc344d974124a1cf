"""What clients may know of the server, and who may ask."""

from __future__ import annotations

import json

from cellwright.features.numbers.sources import TRANSCRIPT, source
from cellwright.features.numbers.stale import answer_record
from cellwright.features.numbers.trace import trace
from cellwright.tools.notebook.open_notebook import Cell
from cellwright.version import VERSION


def test_the_extension_is_there_without_being_asked_for(server):
    status = server.api("GET", "status")
    assert status.status == 200
    assert status.json()["version"] == VERSION
    assert status.json()["limits"]["max_runs"] == 16
    assert status.headers["content-type"].startswith("application/json")


def test_who_has_no_token_is_refused(server):
    for method, path in (("GET", "status"), ("GET", "sessions"), ("POST", "run"), ("GET", "runs/x/events")):
        reply = server.api(method, path, {"prompt": "hi"} if method == "POST" else None, Authorization=None)
        assert reply.status == 403, path
        assert reply.json()["code"] == "PERMISSION_DENIED"


def test_a_cookie_alone_changes_nothing_without_the_xsrf_token(server):
    login = server.request("GET", "api/me?token=a-token-of-tests", Authorization=None)
    cookie = login.headers["set-cookie"].split(";")[0]
    assert server.api("GET", "status", Authorization=None, Cookie=cookie).status == 200
    refused = server.api("POST", "run", {"prompt": "hi"}, Authorization=None, Cookie=cookie)
    assert refused.status == 403
    assert "_xsrf" in refused.json()["message"]


def test_what_is_no_route_is_said_as_json(server):
    reply = server.api("GET", "nothing/here")
    assert (reply.status, reply.json()["code"]) == (404, "NOT_FOUND")
    reply = server.api("DELETE", "status")
    assert (reply.status, reply.json()["code"]) == (405, "METHOD_NOT_ALLOWED")


def test_settings_with_their_origins_and_without_secrets(server):
    folder = server.root / "project" / ".claude"
    folder.mkdir(parents=True)
    settings = {
        "permissions": {"deny": ["Bash(rm *)"]},
        "env": {"MY_API_KEY": "not for eyes", "PLAIN": "visible"},
        "model": "haiku",
    }
    (folder / "settings.json").write_text(json.dumps(settings))
    home = server.home / ".claude"
    home.mkdir()
    (home / "settings.json").write_text(json.dumps({"env": {"SERVICE_TOKEN": "secret-of-home", "COLOUR": "blue"}}))
    reply = server.api("GET", "settings?folder=project")
    assert reply.status == 200
    found = reply.json()["settings"]
    (rule,) = found["permissions.deny"]["origins"]
    assert rule["value"] == "Bash(rm *)"
    assert rule["scope"] == "project"
    assert rule["file"] == str(folder / "settings.json")
    assert found["env.COLOUR"]["value"] == "blue"
    assert found["env.SERVICE_TOKEN"]["value"] == "(secret)"
    assert b"secret-of-home" not in reply.body
    assert b"not for eyes" not in reply.body


def test_doctor(server):
    findings = {each["name"]: each for each in server.api("GET", "doctor?offline=true").json()["findings"]}
    assert findings["credential"]["status"] == "ok"
    assert "API" not in findings
    everything = server.api("GET", "doctor").json()
    assert {each["name"]: each["status"] for each in everything["findings"]}["API"] == "ok"
    assert server.api("GET", "doctor?offline=perhaps").status == 400


def test_recordings_below_a_folder(server):
    folder = server.root / "recorded"
    folder.mkdir()
    (folder / "tides.cellwright.jsonl").write_text('{"cellwright_recording":1}\n{"prompt":"a"}\n{"prompt":"b"}\n')
    (folder / "other.jsonl").write_text('{"something": "else"}\n')
    (folder / "link.jsonl").symlink_to(folder / "tides.cellwright.jsonl")
    (found,) = server.api("GET", "cassettes?folder=recorded").json()["cassettes"]
    assert (found["path"], found["turns"], found["format"]) == ("recorded/tides.cellwright.jsonl", 2, 1)


def test_folders_outside_the_root_are_refused(server, tmp_path):
    (server.root / "way-out").symlink_to(tmp_path)
    for path in ("settings?folder=..", "settings?folder=way-out", "cassettes?folder=../..", "models?folder=%2e%2e%2f"):
        reply = server.api("GET", path)
        assert (reply.status, reply.json()["code"]) == (403, "FILE_ACCESS_ERROR"), path
    reply = server.api("GET", "settings?folder=nowhere")
    assert (reply.status, reply.json()["code"]) == (404, "FILE_NOT_FOUND")


def test_below_another_base_url(start_server):
    server = start_server("--ServerApp.allow_origin=https://app.example", base_url="/user/ada/")
    assert server.url.endswith("/user/ada")
    assert server.api("GET", "status").status == 200
    description = server.api("GET", "openapi.json").json()
    assert description["servers"] == [{"url": "/user/ada/cellwright/api"}]
    assert server.api("GET", "nowhere").status == 404
    assert server.api("GET", "status").headers["access-control-allow-origin"] == "https://app.example"
    preflight = server.api("OPTIONS", "run", Authorization=None, Origin="https://app.example")
    assert preflight.status in (200, 204)
    allowed = preflight.headers["access-control-allow-headers"].split(", ")
    assert {"authorization", "content-type", "last-event-id"} <= set(allowed)
    foreign = {"Origin": "https://evil.example", "Authorization": None}
    assert server.api("GET", "status", **foreign).status in (403, 404)


def test_folders_of_a_root_below_the_home_folder_are_found(start_server, tmp_path):
    server = start_server(environ={"HOME": str(tmp_path)})
    (server.root / "project").mkdir()
    assert server.api("GET", "settings?folder=project").status == 200
    assert server.api("GET", "settings?folder=").status == 200
    assert server.api("GET", "cassettes?folder=").json() == {"cassettes": []}


def test_stale_numbers_of_a_notebook_s_answers(server):
    (server.root / "visits").mkdir()
    (server.root / "visits/waits.csv").write_text("harbour,51\n")
    answer = "The harbour waits 48.25 minutes, 2.41 in the mean."
    printed = {"output_type": "stream", "name": "stdout", "text": "mean 2.4123\n"}
    wait = Cell(id="wait", cell_type="code", source="print(wait)", position=0, execution_count=3, outputs=(printed,))
    (server.root / "visits/before.csv").write_text("harbour,48.25\n")
    sources = [
        source("file", "before.csv", "harbour,48.25", path="before.csv"),
        source("cell", "cell [3]", "mean 2.4123", id="wait"),
    ]
    record = answer_record(answer, trace(answer, sources), sources, [wait], server.root / "visits")
    transcript = {"ops": [{"op": "text", "block": 0, "text": answer}, {"op": "numbers", "answer": "a1", "numbers": []}]}
    output = {
        "output_type": "display_data",
        "data": {TRANSCRIPT: transcript},
        "metadata": {"cellwright": {"numbers": record}},
    }
    asked = {"id": "ask", "source": "%%claude\nHow long?", "execution_count": 4, "outputs": [output]}

    def found(text: str, folder: str = "visits"):
        cell = {"id": "wait", "source": "print(wait)", "execution_count": 5, "outputs": [{**printed, "text": text}]}
        return server.api("POST", f"stale-numbers?folder={folder}", {"cells": [cell, asked]})

    assert found("mean 2.4123\n").json() == {"answers": {}}
    (server.root / "visits/before.csv").write_text("harbour,51\n")
    stale = found("mean 2.6\n").json()["answers"]["ask"]
    assert (stale["answer"], [number["words"] for number in stale["numbers"]]) == (
        "a1",
        ["before.csv gave 48.25 then, 51 now", "cell [5] gave 2.4123 then, 2.6 now"],
    )
    assert found("mean 2.6\n", "..").status == 403
    assert server.api("POST", "stale-numbers", {"cells": [{"id": 3}]}).status == 400
