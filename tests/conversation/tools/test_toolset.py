"""What is told before the first word, what it costs, and the tools that are loaded when they are needed."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from cellwright.agent.agent_setup import AgentSetup
from cellwright.agent.calls.input_schema import offered_schema
from cellwright.agent.context_usage import ContextContents, context_parts, offered_tools
from cellwright.agent.loop import run_agent
from cellwright.agent.tool import TOOL_SEARCH, Tool
from cellwright.config.settings.settings import load_settings
from cellwright.conversation.system_prompt import system_blocks
from cellwright.conversation.tools.built_in_tools import ToolEnvironment
from cellwright.conversation.tools.toolset import all_tools
from cellwright.events import CHARS_PER_TOKEN, RunEnd, ToolEnd, TurnEnd
from cellwright.model.anthropic import connect
from cellwright.permissions.policy import PermissionPolicy
from cellwright.permissions.rules.rule import parse_rule
from cellwright.sessions.session import Session
from cellwright.sessions.transcripts.transcript_file import encode_json
from cellwright.testing import MessagesServer, say, think, turn, use
from cellwright.tools.search.tool_search import with_tool_search
from declared_tools import declared

MAX_TOKENS = 7_650

REHEARSED = """
import sys
from pathlib import Path
import cellwright
from cellwright.agent.calls.input_schema import check_input
from cellwright.config.settings.settings import Settings
from cellwright.conversation.tools.built_in_tools import ToolEnvironment, make_tools
from cellwright.conversation.tools.toolset import rehearse

cwd = Path.cwd()
place = ToolEnvironment(cwd=cwd, settings=Settings(project=cwd))
tools = [tool for tool in make_tools(place) if not tool.rarely_used]
policy = cellwright.PermissionPolicy(cwd=cwd)
before = {*sys.modules}
rehearse(tools, policy)
assert {*sys.modules} > before
known = {*sys.modules}
by_name = {tool.name: tool for tool in tools}
for name, given in (
    ("Read", {"file_path": "a.txt"}),
    ("Grep", {"pattern": "x"}),
    ("Bash", {"command": "ls -l | wc -l"}),
    ("Edit", {"file_path": "a.txt", "old_string": "a", "new_string": "b"}),
):
    policy.decide(by_name[name], check_input(by_name[name], given))
print(sorted({*sys.modules} - known))
"""


def tokens(value: Any) -> float:
    return len(encode_json(value)) / CHARS_PER_TOKEN


def whole_set() -> list[Tool]:
    """All tools that a session in a kernel has, the search engine's included."""
    return [
        tool for name, tool in declared().items() if name not in ("TaskCreate", "TaskGet", "TaskList", "TaskUpdate")
    ]


def test_what_is_told_before_the_first_word_is_small() -> None:
    tools = with_tool_search(whole_set())
    assert {tool.name for tool in tools if tool.defer_loading} == {tool.name for tool in tools if tool.rarely_used}
    told = [tool.to_param() for tool in tools if not tool.defer_loading]
    assert tokens(told) + tokens(system_blocks(tools)) <= MAX_TOKENS


@pytest.mark.parametrize(
    ("environ", "deferred"),
    [
        ({}, True),
        ({"ANTHROPIC_BASE_URL": "https://api.anthropic.com"}, True),
        ({"ANTHROPIC_BASE_URL": "https://gateway.example/anthropic"}, False),
        ({"ANTHROPIC_BASE_URL": "https://gateway.example", "ENABLE_TOOL_SEARCH": "true"}, True),
        ({"ANTHROPIC_BASE_URL": "https://gateway.example", "ENABLE_TOOL_SEARCH": "auto:10"}, False),
        ({"ENABLE_TOOL_SEARCH": "false"}, False),
        ({"CLAUDE_CODE_USE_BEDROCK": "1"}, False),
    ],
)
def test_tools_are_deferred_where_the_api_can_load_them(
    tmp_path: Path, environ: Mapping[str, str], deferred: bool
) -> None:
    environ = {"HOME": str(tmp_path), **environ}
    settings = load_settings(tmp_path, environ)
    tools, _ = all_tools(ToolEnvironment(cwd=tmp_path, settings=settings, environ=environ), ())
    assert any(tool.defer_loading for tool in tools) is deferred
    assert any(tool.name == TOOL_SEARCH for tool in tools) is deferred


class Played:
    """A session of the built-in tools against a server, in the folder `cwd`."""

    def __init__(self, server: MessagesServer, cwd: Path, **environ: str) -> None:
        self.server = server
        self.environ = {
            "HOME": str(cwd),
            "ANTHROPIC_BASE_URL": server.url,
            "ANTHROPIC_API_KEY": server.api_key,
            **environ,
        }
        settings = load_settings(cwd, self.environ)
        tools, _ = all_tools(
            ToolEnvironment(cwd=cwd, settings=settings, environ={**self.environ, "ENABLE_TOOL_SEARCH": "true"}), ()
        )
        self.agent = AgentSetup(
            provider=connect(self.environ),
            model="claude-opus-5-5",
            system=system_blocks(),
            tools=tools,
            policy=PermissionPolicy(mode="bypassPermissions", roots=(cwd,), cwd=cwd),
        )
        self.session = Session.create(cwd, cwd / "sessions")
        self.events: list[Any] = []

    def run(self, prompt: str) -> RunEnd:
        return asyncio.run(run_agent(self.agent, prompt, self.session, self.events.append))

    def results(self) -> list[Any]:
        return [
            block["content"]
            for message in self.session.messages
            for block in message["content"]
            if block["type"] == "tool_result"
        ]

    def bodies(self) -> Sequence[Mapping[str, Any]]:
        return [request.body for request in self.server.requests]


def test_a_tool_is_loaded_behind_what_is_cached(tmp_path: Path) -> None:
    script = [
        turn(think("A tree."), use(TOOL_SEARCH, query="select:FileTree,Nothing")),
        turn(think("Now."), use("FileTree", path=".")),
        say("done"),
    ]
    (tmp_path / "a.txt").write_text("a")
    with MessagesServer(script) as server:
        played = Played(server, tmp_path, ENABLE_TOOL_SEARCH="true")
        assert played.run("What is there?").text == "done"
        assert played.results()[0] == [{"type": "tool_reference", "tool_name": "FileTree"}]
        assert "a.txt" in str(played.results()[1])
        usage = [event.usage for event in played.events if isinstance(event, TurnEnd)]
        cached = [each["cache_read_input_tokens"] + each["cache_creation_input_tokens"] for each in usage]
        assert usage[1]["cache_read_input_tokens"] == cached[0]
        assert usage[2]["cache_read_input_tokens"] == cached[1]
        # the definition comes with the result, once
        tree = next(tool for tool in played.agent.tools if tool.name == "FileTree")
        assert cached[1] - cached[0] > tokens(tree.to_param())
        assert played.bodies()[0]["tools"] == played.bodies()[2]["tools"]
        assert [event.status for event in played.events if isinstance(event, ToolEnd)] == ["success", "success"]
        assert not server.rejected
        contents = ContextContents.of(played.session)
        deferred = [part.name for part in offered_tools(contents) if part.deferred]
        assert "FileTree" in deferred
        # what was loaded counts with the tools, what was not does not
        all_offered = sum(part.tokens for part in offered_tools(contents) if not part.deferred)
        unscaled = {part.name: part.tokens for part in context_parts(structs.replace(contents, counted_tokens=0))}
        assert all_offered < unscaled["tools"] == pytest.approx(all_offered + tokens(tree.to_param()), rel=0.02)


def test_tools_are_found_by_words(tmp_path: Path) -> None:
    queries = {
        "search the web": "WebSearch",
        "fetch a page": "WebFetch",
        "apply a diff": "ApplyPatch",
        "linter": "Lint",
        "edit several places": "MultiEdit",
        "where is X defined": "FindDefinitions",
        "who calls this function": "CallChain",
        "complexity of functions": "CodeMetrics",
        "which module imports what": "ImportChain",
    }
    script = [turn(*[use(TOOL_SEARCH, query=query, max_results=2) for query in queries]), say("done")]
    with MessagesServer(script) as server:
        played = Played(server, tmp_path, ENABLE_TOOL_SEARCH="true", CELLWRIGHT_SEARCH_API_KEY="k")
        played.run("Find tools.")
        found = [[block["tool_name"] for block in content] for content in played.results()]
        assert [name in names for name, names in zip(queries.values(), found, strict=True)] == [True] * len(queries)
        assert all(len(names) <= 2 for names in found)


def test_what_is_not_there_or_denied_is_not_loaded(tmp_path: Path) -> None:
    """The API refuses a reference to a tool that the request does not have, and would refuse the session ever after."""
    script = [turn(use(TOOL_SEARCH, query="select:Lint"), use(TOOL_SEARCH, query="zebra")), say("done")]
    with MessagesServer(script) as server:
        played = Played(server, tmp_path, ENABLE_TOOL_SEARCH="true")
        denied = PermissionPolicy(mode="bypassPermissions", roots=(tmp_path,), cwd=tmp_path, deny=(parse_rule("Lint"),))
        played.agent = dataclasses.replace(played.agent, policy=denied)
        assert played.run("Check it.").ok
        assert "Lint" not in [tool["name"] for tool in played.bodies()[0]["tools"]]
        assert all(str(content).startswith("No tool was") for content in played.results())


def test_where_the_search_itself_is_denied_nothing_is_deferred(tmp_path: Path) -> None:
    with MessagesServer([say("done")]) as server:
        played = Played(server, tmp_path, ENABLE_TOOL_SEARCH="true")
        denied = PermissionPolicy(mode="default", roots=(tmp_path,), cwd=tmp_path, deny=(parse_rule(TOOL_SEARCH),))
        played.agent = dataclasses.replace(played.agent, policy=denied)
        played.run("Hello")
        told = played.bodies()[0]["tools"]
        assert "Lint" in [tool["name"] for tool in told]
        assert not any("defer_loading" in tool for tool in told)


@pytest.mark.parametrize(
    ("model", "environ"), [("claude-haiku-5-5", {"ENABLE_TOOL_SEARCH": "true"}), ("claude-opus-5-5", {})]
)
def test_a_session_goes_on_where_tools_cannot_be_loaded(tmp_path: Path, model: str, environ: Mapping[str, str]) -> None:
    """Another model, or another way to it: the definitions are all there, and the reference is a sentence."""
    script = [use(TOOL_SEARCH, query="select:FileTree"), say("one"), use("FileTree", path="."), say("two")]
    with MessagesServer(script) as server:
        played = Played(server, tmp_path, ENABLE_TOOL_SEARCH="true")
        played.run("Load it.")
        there = connect({**played.environ, "ENABLE_TOOL_SEARCH": "", **environ})
        played.agent = dataclasses.replace(played.agent, model=model, provider=there)
        assert played.run("Show it.").text == "two"
        body = played.bodies()[-1]
        assert not any("defer_loading" in tool for tool in body["tools"])
        assert "tool_reference" not in json.dumps(body["messages"])
        assert "FileTree can be" in json.dumps(body["messages"])
        assert b"tool_reference" in b"".join(played.session.encoded)
        assert not server.rejected


def test_what_a_call_is_written_by_is_told() -> None:
    """Fields, their words, their types and choices, what is required, and bounds that a call may meet."""
    kept = ("type", "description", "enum", "minimum", "maximum", "minItems")
    for name, tool in declared().items():
        told = tool.to_param()["input_schema"]
        for (path, whole), (_, part) in zip(fields_of(tool.input_schema), fields_of(told), strict=True):
            assert {key: whole.get(key) for key in kept} == {key: part.get(key) for key in kept}, (name, path)
            assert set(whole.get("required", ())) == set(part.get("required", ())), (name, path)


def test_what_says_nothing_is_not_told() -> None:
    field = {"type": "string", "minLength": 1, "maxLength": 5_000, "pattern": "x", "title": "Field", "default": ""}
    schema = {
        "type": "object",
        "properties": {
            # a field may be called as a keyword is
            "title": field,
            "default": {"type": "integer", "description": "20 by default.", "default": 20},
            "header": {"type": "string", "maxLength": 12, "default": "x"},
            "more": {"type": "array", "items": {"anyOf": [field, {"type": "null"}]}, "maxItems": 4},
        },
        "required": [],
        "additionalProperties": False,
    }
    assert offered_schema(schema) == {
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "default": {"type": "integer", "description": "20 by default."},
            "header": {"type": "string", "maxLength": 12, "default": "x"},
            "more": {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "maxItems": 4},
        },
    }


def fields_of(schema: Mapping[str, Any], path: str = "") -> list[tuple[str, Mapping[str, Any]]]:
    """The schema and those of its fields, however deep."""
    found = [(path, schema)]
    for name, field in schema.get("properties", {}).items():
        found += fields_of(field, f"{path}.{name}")
    return [*found, *(fields_of(schema["items"], f"{path}[]") if isinstance(schema.get("items"), Mapping) else ())]


def test_a_first_call_imports_nothing_that_was_rehearsed() -> None:
    run = subprocess.run([sys.executable, "-c", REHEARSED], capture_output=True, text=True, check=False)
    assert run.stdout == "[]\n", run.stderr
