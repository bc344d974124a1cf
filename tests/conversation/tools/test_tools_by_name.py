"""The built-in tools of a run chosen by name, also by the names that other agents have for them."""

from __future__ import annotations

import pytest

import cellwright
from cellwright.agent.agent_setup import AgentSetup
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.testing import say


@pytest.fixture
def asked(messages_server, monkeypatch, asked_here):
    """The tools that a request was sent with, given the options of `ask`."""

    def ask(**options):
        server = messages_server([say("Done.")])
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", server.api_key)
        cellwright.ask("Go.", **options)
        return {tool["name"]: tool for tool in server.requests[-1].body["tools"]}

    return ask


@cellwright.tool(read_only=True)
def run_command(command: str) -> str:
    """Run a command."""
    return command


def test_only_those_that_are_named_are_there(asked):
    assert list(asked(tools=["read_file", "Grep", "run_command"], builtin_tools=False)) == ["Read", "Grep", "Bash"]


def test_an_agent_of_ones_own_has_them_too(tmp_path, own_place):
    tools = cellwright.builtin_tools("read_file", "Edit", cwd=tmp_path)
    assert [tool.name for tool in tools] == ["Read", "Edit"]
    assert "Bash" in {tool.name for tool in cellwright.builtin_tools(cwd=tmp_path)}
    with pytest.raises(CellwrightError, match="Tool reed_file was not found"):
        cellwright.builtin_tools("reed_file", cwd=tmp_path)
    policy = cellwright.PermissionPolicy()
    given = {"provider": None, "model": "m", "system": (), "policy": policy}
    assert [tool["name"] for tool in AgentSetup(tools=tools, **given).tool_params] == ["Read", "Edit"]
    with pytest.raises(TypeError, match=r"cellwright\.builtin_tools\('read_file'\)"):
        AgentSetup(tools=["read_file"], **given)


def test_each_says_its_limits(asked):
    tools = asked(tools=["Write", "Glob", "WebFetch", "TodoWrite", "Grep"], builtin_tools=False)
    ends = {name: tool["description"].splitlines()[-1] for name, tool in tools.items()}
    assert "files of 10 MB." in ends["Write"]
    assert ends["Glob"] == "Limits: 100 entries."
    assert ends["WebFetch"].endswith("60 calls a minute.")
    assert ends["TodoWrite"] == "Limits: 100 entries."
    assert "Limits" not in ends["Grep"]


def test_a_name_that_there_is_not(asked):
    with pytest.raises(CellwrightError, match=r"Tool Raed was not found\. The tools are: .*Read, ") as caught:
        asked(tools=["Raed"], builtin_tools=False)
    assert caught.value.code == ErrorCode.TOOL_NOT_FOUND


def test_a_tool_that_rules_would_take_for_another_is_refused_beside_it(asked):
    with pytest.raises(CellwrightError, match=r"run_command \(Bash\)\. Give your tools other names"):
        asked(tools=[run_command])
    assert list(asked(tools=[run_command], builtin_tools=False)) == ["run_command"]
