"""The first page of the panel: a key that is entered there counts at once, and the demo is there for who has none."""

from __future__ import annotations

import json
import stat

from cellwright.testing import say

WITHOUT = {"ANTHROPIC_API_KEY": "", "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring"}


def test_a_key_counts_at_once_in_a_kernel_that_runs(start_server, model):
    server = start_server(environ=WITHOUT)
    assert server.api("GET", "key").json() == {"source": None, "own_credentials": True}
    kernel = server.kernel()
    asks = 'import cellwright\nprint(cellwright.ask("Hello?").text)'
    before = server.execute(kernel, asks, wait=False)
    assert before.wait() == "error"
    wrong = server.api("PUT", "key", {"key": "sk-ant-wrong-key"})
    assert (wrong.status, wrong.json()["code"]) == (409, "API_KEY_INVALID")
    assert b"sk-ant-wrong-key" not in wrong.body
    assert server.api("GET", "key").json()["source"] is None
    kept = server.api("PUT", "key", {"key": model.api_key})
    assert kept.status == 200, kept.body
    file = server.home / "state" / "api-key.json"
    assert kept.json()["kept_in"] == f"{file}, which only you can read"
    assert (kept.json()["tried"], kept.json()["overruled_by"]) == (True, "")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    model.add(say("Here I am."))
    after = server.execute(kernel, asks, wait=False)
    assert after.wait() == "ok"
    assert "Here I am." in after.text
    for shown in (kept.body, server.log.read_bytes(), after.text.encode()):
        assert model.api_key.encode() not in shown
        assert b"sk-ant-wrong-key" not in shown
    assert server.api("DELETE", "key").json()["source"] is None
    assert not file.exists()


def test_an_administrator_may_allow_none(start_server, model):
    server = start_server('--CellwrightApp.own_credentials_policy="force-off"', environ=WITHOUT)
    assert server.api("GET", "key").json() == {"source": None, "own_credentials": False}
    refused = server.api("PUT", "key", {"key": model.api_key})
    assert (refused.status, refused.json()["code"]) == (403, "PERMISSION_DENIED")
    assert "administrator" in refused.json()["message"]
    assert server.api("PUT", "key", {"key": "two words"}).status == 403
    proxied = start_server("--CellwrightApp.anthropic_proxy=True", environ={"ANTHROPIC_API_KEY": model.api_key})
    assert proxied.api("GET", "key").json() == {"source": "the server's own key", "own_credentials": False}
    assert proxied.api("PUT", "key", {"key": model.api_key}).status == 403
    assert json.dumps(model.api_key).encode() not in proxied.log.read_bytes()


def test_the_demo_is_copied_once_and_its_notebook_trusted(start_server):
    server = start_server(environ=WITHOUT)
    first = server.api("POST", "demo")
    assert (first.status, first.json()) == (200, {"path": "cellwright-demo/01-first-cell.ipynb"})
    project = server.root / "cellwright-demo"
    (project / "tides.py").write_text("# mine\n")
    assert server.api("POST", "demo").json() == first.json()
    assert (project / "tides.py").read_text() == "# mine\n"
    notebook = server.request("GET", f"api/contents/{first.json()['path']}").json()["content"]
    assert all(cell["metadata"].get("trusted") for cell in notebook["cells"] if cell["cell_type"] == "code")


def test_a_cloud_is_tried_and_counts_at_once_in_a_kernel_that_runs(start_server, model):
    server = start_server(environ={**WITHOUT, "ANTHROPIC_FOUNDRY_BASE_URL": f"{model.url}/anthropic/"})
    clouds = {cloud["id"]: cloud for cloud in server.api("GET", "cloud").json()["clouds"]}
    assert clouds["gateway"]["settings"] == ["ANTHROPIC_BASE_URL", "ANTHROPIC_AUTH_TOKEN"]
    assert "CLAUDE_CODE_USE_VERTEX=1" in clouds["vertex"]["settings"]
    kernel = server.kernel()
    asks = 'import cellwright\nprint(cellwright.ask("Hello?").text)'
    assert server.execute(kernel, asks, wait=False).wait() == "error"
    settings = server.home / ".claude" / "settings.json"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text('{"env": {"MINE": "1", "CLAUDE_CODE_USE_VERTEX": "1"}}')
    form = {"ANTHROPIC_BASE_URL": model.url}
    wrong = server.api("PUT", "cloud", {"id": "gateway", "values": form, "key": "sk-ant-wrong-key"})
    assert (wrong.status, wrong.json()["code"]) == (409, "API_KEY_INVALID")
    no_address = server.api("PUT", "cloud", {"id": "gateway", "values": {"ANTHROPIC_BASE_URL": "ftp://x"}, "key": "k"})
    assert no_address.status == 400
    assert json.loads(settings.read_text())["env"] == {"MINE": "1", "CLAUDE_CODE_USE_VERTEX": "1"}
    kept = server.api("PUT", "cloud", {"id": "gateway", "values": form, "key": model.api_key})
    assert kept.status == 200, kept.body
    assert (kept.json()["kept_in"], kept.json()["overruled_by"]) == (str(settings), "")
    assert json.loads(settings.read_text())["env"] == {"MINE": "1", "ANTHROPIC_BASE_URL": model.url}
    model.add(say("By the gateway."))
    after = server.execute(kernel, asks, wait=False)
    assert after.wait() == "ok", after.text
    assert "By the gateway." in after.text
    # a platform's own name for the model is what it is tried with, and what counts
    named = {"ANTHROPIC_FOUNDRY_RESOURCE": "mine", "ANTHROPIC_MODEL": "claude-opus-4-6"}
    model.add(say("A"), say("By Foundry."))
    kept = server.api("PUT", "cloud", {"id": "foundry", "values": named, "key": model.api_key})
    assert kept.status == 200, kept.body
    after = server.execute(kernel, asks, wait=False)
    assert after.wait() == "ok", after.text
    assert "By Foundry." in after.text
    assert [request.body["model"] for request in model.requests[-2:]] == ["claude-opus-4-6"] * 2
    for shown in (kept.body, server.log.read_bytes(), settings.read_bytes()):
        assert model.api_key.encode() not in shown
