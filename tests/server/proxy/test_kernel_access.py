"""Kernels that have a token in place of the key: what they start with, what they can ask, and when it ends."""

import json
import re
import subprocess

import pytest
import websocket
from jupyter_process import TOKEN, jupyter_server
from proxy_calls import MODEL, error_of, message, send

from cellwright.testing import MessagesServer, say, turn

KEY = "sk-ant-local-0000"
ENVIRONMENT = "import os, json; print('ENV' + json.dumps(dict(os.environ)) + 'END')"
ASK = """
%load_ext cellwright
import cellwright
try:
    print('SAID', cellwright.ask('Hello', model='haiku', max_tokens=1000).text)
except cellwright.CellwrightError as error:
    print('FAILED', error.code, error.message)
"""

pytestmark = pytest.mark.kernel


def printed(server, kernel, code):
    """What `code` prints: the reply may come before the last of it."""
    execution = server.execute(kernel, f"{code}\nprint('FINIS' + 'HED')", wait=False)
    execution.printed("FINISHED")
    assert execution.wait() == "ok"
    return execution.text


def environment_of(server, kernel):
    found = re.search(r"ENV(.*)END", printed(server, kernel, ENVIRONMENT), re.DOTALL)
    assert found
    return json.loads(found[1])


@pytest.fixture(scope="module")
def shared(tmp_path_factory, model: MessagesServer):
    """A server that keeps its key, for the tests that need no other limits."""
    environ = {"ANTHROPIC_BASE_URL": model.url, "ANTHROPIC_API_KEY": KEY, "MY_COPY_OF_IT": f"prefix {KEY}"}
    # what dies stays dead, so that a test can look at it
    arguments = ["--CellwrightApp.anthropic_proxy=True", "--ServerKernelManager.autorestart=False"]
    with jupyter_server(tmp_path_factory.mktemp("shared"), arguments, environ, "/user/ada/") as server:
        yield server


@pytest.fixture
def guarded(start_server, model: MessagesServer):
    """A server that keeps its key."""

    def start(*arguments: str, **options):
        environ = {"MY_COPY_OF_IT": f"prefix {KEY}", "CLAUDE_CODE_USE_BEDROCK": "", **options.pop("environ", {})}
        return start_server("--CellwrightApp.anthropic_proxy=True", *arguments, environ=environ, **options)

    assert model.api_key == KEY
    return start


def test_a_kernel_has_a_token_and_not_the_key(shared, model):
    server = shared
    kernel = server.kernel()
    environ = environment_of(server, kernel)
    assert KEY not in json.dumps(environ)
    assert environ["ANTHROPIC_API_KEY"].startswith("cellwright-kernel-")
    assert environ["ANTHROPIC_BASE_URL"] == f"{server.url}/cellwright/api/anthropic".replace("localhost", "127.0.0.1")
    model.clear()
    model.add(say("through the server"))
    assert "SAID through the server" in printed(server, kernel, ASK)
    assert model.requests[-1].headers["authorization"] == f"Bearer {KEY}"
    assert environ["ANTHROPIC_API_KEY"] not in str(model.requests[-1].headers)
    report = server.api("GET", "policy").json()
    assert report["proxy"]
    assert report["spent_usd_today"] > 0
    log = server.log.read_text() + (server.home / "state" / "proxy" / "egress.jsonl").read_text()
    assert KEY not in log
    assert environ["ANTHROPIC_API_KEY"] not in log


def test_every_start_of_a_kernel_has_its_own_token(shared, model):
    server = shared
    kernel, other = server.kernel(), server.kernel()
    first, of_other = environment_of(server, kernel), environment_of(server, other)
    assert first["ANTHROPIC_API_KEY"] != of_other["ANTHROPIC_API_KEY"]
    assert server.request("POST", f"api/kernels/{kernel}/restart", {}).status == 200
    second = environment_of(server, kernel)
    assert KEY not in json.dumps(second)
    url = second["ANTHROPIC_BASE_URL"]
    model.clear()
    model.add(say("yes"))
    assert send(url, token=first["ANTHROPIC_API_KEY"]).status_code == 401
    assert send(url, token=second["ANTHROPIC_API_KEY"]).status_code == 200
    assert server.request("DELETE", f"api/kernels/{kernel}").status == 204
    assert send(url, token=second["ANTHROPIC_API_KEY"]).status_code == 401


def test_the_token_of_a_kernel_that_died_is_good_for_nothing(shared, model):
    server = shared
    kernel = server.kernel()
    environ = environment_of(server, kernel)
    model.clear()
    model.add(say("while it lives"))
    url, token = environ["ANTHROPIC_BASE_URL"], environ["ANTHROPIC_API_KEY"]
    assert send(url, token=token).status_code == 200
    pid = int(re.search(r"PID (\d+)", printed(server, kernel, "import os; print('PID', os.getpid())"))[1])
    subprocess.run(["kill", "-9", str(pid)], check=True)
    server.wait_for(lambda: send(url, token=token).status_code == 401, "the token is still good")


def test_one_token_does_not_open_what_the_other_opens(shared):
    server = shared
    token = environment_of(server, server.kernel())["ANTHROPIC_API_KEY"]
    for said in (f"token {token}", f"Bearer {token}"):
        assert server.request("GET", "api/kernels", Authorization=said).status == 403
        assert server.api("GET", "policy", Authorization=said).status == 403
        assert server.api("GET", "sessions", Authorization=said).status == 403
    body = json.dumps(message()).encode()
    assert server.api("POST", "anthropic/v1/messages", body).status == 401  # with Jupyter's own token


def test_over_budget_the_user_is_told_by_whom_and_when_it_ends(guarded, model):
    server = guarded("--CellwrightApp.budget_usd_per_day=0.01")
    kernel = server.kernel()
    model.clear()
    model.add(turn(say("dear"), usage={"input_tokens": 1000, "output_tokens": 19_500}))
    assert "SAID dear" in printed(server, kernel, ASK)
    text = printed(server, kernel, ASK)
    assert "FAILED BUDGET_EXCEEDED" in text
    assert "administrator" in text
    assert "00:00 UTC" in text
    assert len(model.requests[-1:]) == 1
    assert model.remaining_turns == 0


def test_a_forbidden_model_is_refused_by_the_kernel_and_by_the_proxy(guarded, model):
    server = guarded("--CellwrightApp.allowed_models=claude-haiku-*")
    kernel = server.kernel()
    model.clear()
    asked = len(model.requests)
    text = printed(server, kernel, ASK.replace("haiku", "opus"))
    assert "FAILED PERMISSION_DENIED" in text
    assert "administrator of this Jupyter server" in text
    environ = environment_of(server, kernel)
    without = "import os\nos.environ.pop('CELLWRIGHT_POLICY')\n" + ASK.replace("haiku", "opus")
    assert "FAILED PERMISSION_DENIED" in printed(server, server.kernel(), without)  # the proxy holds it
    refused = send(environ["ANTHROPIC_BASE_URL"], message(model="claude-opus-5-5"), token=environ["ANTHROPIC_API_KEY"])
    assert error_of(refused)["type"] == "permission_error"
    assert len(model.requests) == asked


def test_terminals_of_the_server_have_no_key(shared):
    name = shared.request("POST", "api/terminals", {}).json()["name"]
    place = f"{shared.url.replace('http', 'ws')}/terminals/websocket/{name}"
    link = websocket.create_connection(place, header={"Authorization": f"token {TOKEN}"}, timeout=60)
    link.send(json.dumps(["stdin", "env; echo FINI$((1+1))SHED\r"]))
    seen = ""
    while "FINI2SHED" not in seen:
        kind, *said = json.loads(link.recv())
        seen += "".join(said) if kind == "stdout" else ""
    link.close()
    assert shared.request("DELETE", f"api/terminals/{name}").status == 204
    assert "PATH=" in seen
    assert KEY not in seen
    assert "ANTHROPIC" not in seen


def test_a_kernelspec_cannot_bring_the_key_back(shared):
    server = shared
    kernelspec = server.home / "data" / "kernels" / "own"
    kernelspec.mkdir(parents=True)
    spec = {"argv": ["python", "-m", "ipykernel_launcher", "-f", "{connection_file}"], "display_name": "own"}
    spec |= {"language": "python", "env": {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": "https://own", "A": "1"}}
    (kernelspec / "kernel.json").write_text(json.dumps(spec))
    environ = environment_of(server, server.kernel("own"))
    assert environ["A"] == "1"
    assert KEY not in json.dumps(environ)
    assert environ["ANTHROPIC_BASE_URL"].startswith("http://127.0.0.1")
    assert "MY_COPY_OF_IT" not in environ


def test_without_a_key_kernels_have_no_way_to_a_model_and_the_log_says_why(guarded):
    server = guarded(environ={"ANTHROPIC_API_KEY": "", "ANTHROPIC_AUTH_TOKEN": ""})
    environ = environment_of(server, server.kernel())
    assert "ANTHROPIC_API_KEY" not in environ
    assert "ANTHROPIC_BASE_URL" not in environ
    assert "the proxy's key is missing" in server.log.read_text().lower()
    assert not server.api("GET", "policy").json()["proxy"]


def test_a_server_that_is_set_up_for_a_cloud_says_that_the_proxy_is_not_for_it(guarded):
    server = guarded(environ={"CLAUDE_CODE_USE_BEDROCK": "1", "AWS_REGION": "eu-central-1"})
    environ = environment_of(server, server.kernel())
    assert not {"ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "CLAUDE_CODE_USE_BEDROCK"} & set(environ)
    assert "CLAUDE_CODE_USE_BEDROCK" in server.log.read_text()
    policy = server.api("GET", "policy").json()
    assert not policy["proxy"]
    assert "CLAUDE_CODE_USE_BEDROCK" in policy["proxy_problem"]
    assert KEY not in server.log.read_text()


def test_a_key_in_a_file(guarded, tmp_path, model):
    file = tmp_path / "key"
    file.write_text(KEY + "\n")
    server = guarded(
        f"--CellwrightApp.anthropic_key_file={file}",
        f"--CellwrightApp.anthropic_upstream={model.url}",
        # a key that is named stands before what the environment leads to
        environ={"ANTHROPIC_API_KEY": "", "ANTHROPIC_BASE_URL": "", "CLAUDE_CODE_USE_BEDROCK": "1"},
    )
    environ = environment_of(server, server.kernel())
    model.clear()
    model.add(say("yes"))
    assert send(environ["ANTHROPIC_BASE_URL"], token=environ["ANTHROPIC_API_KEY"]).status_code == 200
    assert model.requests[-1].body["model"] == MODEL


def test_the_policy_reaches_kernels_without_a_proxy_as_well(start_server):
    server = start_server(
        "--CellwrightApp.bash_policy=force-off", "--CellwrightApp.bypass_permissions_policy=force-off"
    )
    environ = environment_of(server, server.kernel())
    assert environ["ANTHROPIC_API_KEY"] == KEY
    policy = json.loads(environ["CELLWRIGHT_POLICY"])
    assert policy["cellwright"]["deniedTools"] == ["Bash", "TaskStop"]
    assert policy["permissions"]["disableBypassPermissionsMode"] == "disable"
    report = server.api("GET", "policy").json()
    assert (report["choices"]["bash"], report["choices"]["mcp"], report["proxy"]) == ("force-off", "user-choice", False)
    assert report["spent_usd_today"] is None
