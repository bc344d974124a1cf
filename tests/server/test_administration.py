"""The policy in the page that JupyterLab is given, and for clients of the interface."""

import html
import json
import re

import pytest
from jupyter_process import QUIET_EXTENSIONS, jupyter_server

from cellwright.testing.rules.models import MODELS

LISTS = ("allowed_models", "allowed_modes", "allowed_tools", "allowed_mcp_servers")


def test_the_page_knows_what_is_switched_off(tmp_path):
    arguments = ["--CellwrightApp.inline_completion_policy=force-off"]
    extensions = {**QUIET_EXTENSIONS, "jupyterlab": True}
    with jupyter_server(tmp_path / "server", arguments, extensions=extensions) as server:
        page = server.request("GET", "lab").body.decode()
        told = server.api("GET", "policy").json()
    found = re.search(r'id="jupyter-config-data"[^>]*>(.*?)</script>', page, re.DOTALL)
    assert found
    policy = json.loads(html.unescape(found[1]))["cellwrightPolicy"]
    assert policy["choices"]["inline_completion"] == "force-off"
    assert policy["choices"]["bash"] == "user-choice"
    assert told == {**policy, "proxy": False, "proxy_problem": None, "spent_usd_today": None}


def test_the_policy_is_for_the_servers_users(start_server):
    server = start_server("--CellwrightApp.allowed_models=haiku", "--CellwrightApp.budget_usd_per_day=2")
    assert server.api("GET", "policy", Authorization=None).status == 403
    policy = server.api("GET", "policy").json()
    assert [policy[name] for name in LISTS] == [["haiku"], None, None, None]
    assert policy["budget_usd_per_day"] == 2
    models = server.api("GET", "models").json()
    assert models["default"] == "claude-haiku-5-5"
    assert models["source"] == "api"
    assert {model["id"] for model in models["models"]} == {name for name in MODELS if "haiku" in name}


def test_a_wrong_word_in_a_policy_keeps_the_server_from_starting(start_server):
    with pytest.raises(RuntimeError, match="bash_policy"):
        start_server("--CellwrightApp.bash_policy=force-of")
