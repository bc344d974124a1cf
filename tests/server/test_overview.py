"""All sessions of a server on one screen: real kernels, a real event socket."""

from __future__ import annotations

import json

import pytest
from jupyter_process import TOKEN, JupyterServer
from websocket import create_connection

from cellwright.testing import MessagesServer, say, use

pytestmark = [pytest.mark.kernel, pytest.mark.timeout(120)]

EVENT = "urn:cellwright:events:overview:v1"


def kernels(server: JupyterServer) -> dict[str, dict]:
    return {each["id"]: each for each in server.api("GET", "overview").json()["kernels"]}


def test_it_shows_what_asks_tells_pages_and_stops_it(server: JupyterServer, model: MessagesServer) -> None:
    plain, kernel = server.kernel(), server.kernel()
    assert server.execute(plain, "begun = True").wait() == "ok"
    address = f"{server.url.replace('http', 'ws', 1)}/api/events/subscribe"
    events = create_connection(address, header=[f"Authorization: token {TOKEN}"], timeout=60)
    assert kernels(server) == {}, "no kernel has Cellwright yet"

    model.add(use("Bash", command="touch made"), say("Left alone."))
    stream = server.stream("POST", f"kernels/{kernel}/run", {"prompt": "Make a file"})
    stream.until("permission_request")
    asking = server.wait_for(
        lambda: next((each for each in kernels(server).values() if (each["overview"] or {}).get("questions")), None),
        "the overview has no question",
    )
    assert asking["id"] == kernel
    seen = asking["overview"]
    assert [run["state"] for run in seen["runs"]] == ["asking"]
    assert seen["runs"][0]["title"] == "Make a file"
    assert (seen["questions"][0]["title"], seen["questions"][0]["about"]) == ("Run a shell command", "touch made")
    while json.loads(events.recv())["schema_id"] != EVENT:
        pass

    assert server.api("POST", f"kernels/{kernel}/stop", {"id": "nothing"}).status == 400
    assert server.api("POST", f"kernels/{plain}/stop", {"id": seen["runs"][0]["id"]}).status == 404
    assert server.api("POST", f"kernels/{kernel}/stop", {"id": seen["runs"][0]["id"]}).status == 200
    assert stream.rest()[-1]["data"]["metadata"]["stop_reason"] == "interrupted"
    ended = server.wait_for(
        lambda: (row := kernels(server)[kernel]["overview"])["last"] and not row["runs"] and row, "it did not end"
    )
    assert (ended["last"]["state"], ended["questions"]) == ("interrupted", [])
    assert not (server.root / "made").exists()

    # the other kernel was asked, and nothing was loaded into it
    check = server.execute(plain, "assert begun and 'claude' not in get_ipython().magics_manager.magics['cell']")
    assert check.wait() == "ok"
    server.request("DELETE", f"api/kernels/{kernel}")
    server.wait_for(lambda: kernels(server) == {}, "a kernel that is gone is still shown")
    events.close()
