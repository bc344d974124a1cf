"""MCP servers in a conversation: real ones, as processes of their own, and a project that brings one along."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cellwright.agent.calls.approval import Allow, Deny, ToolUse
from cellwright.commands.command import CommandCall
from cellwright.commands.extensions.pages import mcp_page
from cellwright.config.mcp.servers import McpPlace, ServerOrigin, find_servers, read_entries, refusal
from cellwright.config.settings.settings import McpSettings
from cellwright.conversation.core import Host
from cellwright.conversation.runs.kinds import RunRequest
from cellwright.conversation.runs.run import Run, RunSurface
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.errors import CellwrightError
from cellwright.events import Asked, Event, Notice, RunEnd, ToolEnd, ToolProgress
from cellwright.features.conversation import Conversation
from cellwright.testing import MessagesServer, fault, say, turn, use
from cellwright.tools.process.child_processes import child_processes
from forked.forked_python import program_in

SERVERS = Path(__file__).parents[2] / "shared" / "mcp_servers"
SOON = 120


def entry(name: str, *arguments: str, **more: Any) -> dict[str, Any]:
    """The entry of a server of `tests/shared/mcp_servers`."""
    return {"command": program_in(os.environ), "args": [str(SERVERS / f"{name}.py"), *arguments], **more}


class Talk:
    """A conversation in a project, with the servers of the user's and of the project's."""

    def __init__(self, server: MessagesServer, root: Path) -> None:
        self.server, self.home = server, root / "home"
        self.project = self.home / "project"
        (self.project / ".git").mkdir(parents=True)
        self.events: list[Event] = []
        self.asked: list[ToolUse] = []
        self.answer: Callable[[ToolUse], Allow | Deny] = lambda _: Deny("not now", "terminal")
        self.environ = {
            "ANTHROPIC_BASE_URL": server.url,
            "ANTHROPIC_API_KEY": server.api_key,
            "HOME": str(self.home),
            "PATH": os.environ["PATH"],
            "ENABLE_TOOL_SEARCH": "true",
            "MCP_TIMEOUT": str(SOON * 1_000),
            "CELLWRIGHT_MCP_WAIT": str(SOON),
        }
        self._conversation: Conversation | None = None

    @property
    def conversation(self) -> Conversation:
        if self._conversation is None:
            self._conversation = Conversation(Host(cwd=self.project, interface="a test", environ=self.environ))
        return self._conversation

    def close(self) -> None:
        if self._conversation is not None:
            self._conversation.close()
            self._conversation = None

    def user_servers(self, **servers: Any) -> None:
        (self.home / ".claude.json").write_text(json.dumps({"mcpServers": servers}), "utf-8")

    def project_servers(self, **servers: Any) -> None:
        (self.project / ".mcp.json").write_text(json.dumps({"mcpServers": servers}), "utf-8")

    def settings(self, **values: Any) -> None:
        (self.home / ".claude").mkdir(exist_ok=True)
        (self.home / ".claude" / "settings.json").write_text(json.dumps(values), "utf-8")

    async def can_use_tool(self, use: ToolUse) -> Allow | Deny:
        self.asked.append(use)
        return self.answer(use)

    def start(self, prompt: str, *turns: Any, **options: Any) -> Run:
        self.server.add(*turns or (say("Good."),))
        self.events.clear()
        self.asked.clear()
        surface = RunSurface(self.events.append, self.can_use_tool, self.can_use_tool)
        return self.conversation.start(RunRequest(prompt=prompt, options=RunOptions(**options)), surface)

    def say(self, prompt: str, *turns: Any, **options: Any) -> RunEnd:
        run = self.start(prompt, *turns, **options)
        self.conversation.jobs.work_until_done(run)
        end = run.result()
        assert end.error is None, end.error
        return end

    @property
    def results(self) -> list[ToolEnd]:
        return [event for event in self.events if isinstance(event, ToolEnd)]

    @property
    def notices(self) -> list[str]:
        return [event.message for event in self.events if isinstance(event, Notice)]

    @property
    def declared(self) -> list[str]:
        """The tools of servers in the newest request."""
        names = [tool["name"] for tool in self.server.requests[-1].body["tools"]]
        return [name for name in names if name.startswith("mcp__")]

    @property
    def told(self) -> str:
        """What was told of servers so far."""
        contents = [m["content"] for m in self.server.requests[-1].body["messages"] if m["role"] == "user"]
        texts = [b["text"] for content in contents for b in content if b["type"] == "text"]
        return "\n".join(text for text in texts if text.startswith("<mcp_servers"))


@pytest.fixture
def talk(messages_server: Callable[..., MessagesServer], tmp_path: Path) -> Iterator[Talk]:
    made = Talk(messages_server(), tmp_path)
    yield made
    made.close()
    assert made.server.rejected == []


def load(*names: str) -> Any:
    return use("ToolSearch", query=f"select:{','.join(names)}")


def test_a_server_of_the_users_is_connected_and_its_tools_are_called_with_a_permission(talk: Talk) -> None:
    talk.user_servers(plain=entry("plain_server"))
    talk.answer = lambda _: Allow(by="terminal")
    talk.say("go", load("mcp__plain__add"), use("mcp__plain__add", a=2, b=3), say("5"))
    assert "__add: Add two" in talk.told
    assert "numbers with add." in talk.told
    assert talk.results[-1].content == "5"
    asked = [event for event in talk.events if isinstance(event, Asked)]
    assert [event.preview.title for event in asked] == ["Call add of the MCP server plain"], "a hint is not believed"
    assert len(talk.declared) == 11


def test_a_projects_server_runs_only_after_a_yes_to_what_it_is(talk: Talk, tmp_path: Path) -> None:
    talk.project_servers(plain=entry("plain_server", env={"WHO": "${ANTHROPIC_API_KEY}"}))
    talk.say("go")
    assert [use.preview.title for use in talk.asked] == [
        f"Let the MCP server plain of {talk.project / '.mcp.json'} run"
    ]
    shown = talk.asked[0].preview
    assert "plain_server.py" in shown.detail
    assert "variable: WHO=${ANTHROPIC_API_KEY}" in shown.detail, "as it is written: no value is shown"
    assert "your ANTHROPIC_API_KEY" in shown.warning
    assert not talk.declared
    assert not talk.conversation.features.mcp.connections, "nothing was started"
    talk.say("again")
    assert talk.asked == [], "a no holds for the conversation"
    talk.close()
    talk.answer = lambda _: Allow(by="terminal")
    talk.say("go")
    assert len(talk.asked) == 1
    assert "mcp__plain__add" in talk.declared
    talk.close()
    talk.say("go")
    assert talk.asked == [], "a yes is kept"
    assert "mcp__plain__add" in talk.declared
    talk.project_servers(plain=entry("plain_server", env={"WHO": "another"}))
    talk.answer = lambda _: Deny("no", "terminal")
    talk.say("again")
    assert len(talk.asked) == 1, "what was approved was another entry"
    assert "has changed since" in talk.asked[0].decision.reason
    assert not talk.conversation.features.mcp.connections, "the one that runs is ended"


def test_a_projects_server_is_bound_to_the_script_that_it_runs(talk: Talk) -> None:
    program = talk.project / "tools" / "own_server.py"
    program.parent.mkdir()
    shutil.copy(SERVERS / "plain_server.py", program)
    talk.project_servers(own={"command": sys.executable, "args": ["tools/own_server.py"]})
    talk.answer = lambda _: Allow(by="terminal")
    talk.say("go")
    assert "bound to the content of tools/own_server.py" in talk.asked[0].preview.detail
    assert "mcp__own__add" in talk.declared
    talk.say("again")
    assert talk.asked == []
    with program.open("a") as opened:
        opened.write("# another\n")
    talk.answer = lambda _: Deny("no", "terminal")
    talk.say("once more")
    assert len(talk.asked) == 1
    assert "changed since you" in talk.asked[0].preview.detail
    assert not talk.conversation.features.mcp.connections, "the one that runs is ended"


@pytest.mark.parametrize(
    ("entry_", "named"),
    [
        ({"type": "http", "url": "https://x.example", "command": "ruff"}, "`command`"),
        ({"command": "run", "url": "https://x.example"}, "`url`"),
        ({"command": "run", "headers": {"A": "b"}}, "`headers`"),
        ({"command": "run", "shell": "bash"}, "`shell`"),
        ({"type": "sse", "url": "https://x.example", "env": {"A": "b"}}, "`env`"),
    ],
    ids=str,
)
def test_a_projects_server_with_a_field_that_means_nothing_is_none(
    talk: Talk, entry_: dict[str, Any], named: str
) -> None:
    talk.project_servers(odd=entry_, own={"command": "run", "cwd": ".", "disabled": False})
    talk.conversation.features.mcp.refresh()
    found = talk.conversation.features.mcp.found
    assert list(found.pending) == ["own"]
    assert named in found.notices[0]
    assert str(talk.project / ".mcp.json") in found.notices[0]


@pytest.mark.parametrize(("scope", "enabled"), [("project", True), ("project", False), ("user", True)])
def test_a_projects_server_is_confined_where_the_sandbox_is_on(
    talk: Talk, tmp_path: Path, scope: str, enabled: bool
) -> None:
    program = talk.project / "writing_server.py"
    shutil.copy(SERVERS / "writing_server.py", program)
    servers = talk.project_servers if scope == "project" else talk.user_servers
    servers(writing={"command": sys.executable, "args": [str(program)]})
    talk.settings(sandbox={"enabled": enabled})
    talk.answer = lambda _: Allow(by="terminal")
    outside = tmp_path / "outside.txt"
    talk.say("go", load("mcp__writing__write"), use("mcp__writing__write", path=str(outside)), say("Done."))
    confined = enabled and scope == "project"
    assert outside.exists() is not confined
    assert str(talk.results[-1].content).startswith("refused: " if confined else "written")


def test_a_yes_of_a_program_is_none(talk: Talk) -> None:
    talk.project_servers(plain=entry("plain_server"))
    talk.answer = lambda _: Allow(by="callback")
    talk.say("go")
    assert not talk.conversation.features.mcp.connections


def test_settings_of_the_users_approve_a_projects_server_and_the_projects_own_do_not(talk: Talk) -> None:
    talk.project_servers(plain=entry("plain_server"), other=entry("plain_server"))
    (talk.project / ".claude").mkdir()
    own = {"enableAllProjectMcpServers": True, "enabledMcpjsonServers": ["plain", "other"]}
    (talk.project / ".claude" / "settings.json").write_text(json.dumps(own), "utf-8")
    talk.conversation.features.mcp.refresh()
    assert sorted(talk.conversation.features.mcp.found.pending) == ["other", "plain"]
    talk.close()
    talk.settings(enabledMcpjsonServers=["plain"], disabledMcpjsonServers=["other"])
    talk.conversation.features.mcp.refresh()
    found = talk.conversation.features.mcp.found
    assert (list(found.entries), list(found.pending)) == (["plain"], [])
    assert found.refused == {"other": "`disabledMcpjsonServers` switches it off"}
    talk.project_servers(plain=entry("plain_server", "another"))
    talk.conversation.features.mcp.refresh()
    assert list(talk.conversation.features.mcp.found.pending) == ["plain"], "a name is no yes to whatever takes it"


def test_a_server_gets_no_secrets_but_those_that_its_entry_names(talk: Talk) -> None:
    talk.environ |= {"MY_TOKEN": "t", "OTHER_TOKEN": "o", "HARMLESS": "h"}
    talk.user_servers(plain=entry("plain_server", env={"GIVEN": "${MY_TOKEN}"}))
    name = "mcp__plain__environment"
    talk.say("go", load(name), use(name), say("Done."), allow=("mcp__plain",))
    names = json.loads(str(talk.results[-1].content))
    assert {"GIVEN", "HARMLESS", "CLAUDE_PROJECT_DIR"} <= set(names)
    assert not {"ANTHROPIC_API_KEY", "MY_TOKEN", "OTHER_TOKEN"} & set(names)
    assert talk.asked == [], "a rule for the server allows its tools"


def test_results_are_bounded_pictures_are_pictures_and_failures_are_errors(talk: Talk) -> None:
    talk.environ["MAX_MCP_OUTPUT_TOKENS"] = "1000"
    talk.user_servers(plain=entry("plain_server"))
    names = [f"mcp__plain__{name}" for name in ("picture", "long_text", "fail", "add")]
    calls = [use(names[0]), use(names[1], characters=50_000), use(names[2]), use(names[3], a="one", b=2)]
    talk.say("go", load(*names), *calls, say("Done."), allow=("mcp__plain__*",))
    picture, long_text, failed, wrong = talk.results[-4:]
    assert [block["type"] for block in picture.content if isinstance(block, dict)] == ["image"]
    assert 4_000 <= len(str(long_text.content)) < 5_000
    assert "Read can page" in str(long_text.content)
    assert (failed.status, "fail" in str(failed.content)) == ("error", True)
    assert wrong.status == "error"
    assert "type 'integer'" in str(wrong.content)


def test_stop_cancels_a_call_on_the_server_and_progress_is_shown(talk: Talk, tmp_path: Path) -> None:
    talk.user_servers(plain=entry("plain_server"))
    file = tmp_path / "state"
    name = "mcp__plain__wait"
    run = talk.start("go", load(name), use(name, started=str(file)), allow=("mcp__plain",))
    told = [None]

    def heard(event: Event) -> None:
        if isinstance(event, ToolProgress) and event.message == "a quarter":
            told[0] = event.fraction
            run.cancel()

    run.bus.subscribe(heard)
    talk.conversation.jobs.work_until_done(run)
    assert run.state == "interrupted"
    assert told == [0.25]
    wait_until(lambda: file.read_text("utf-8") == "cancelled")


def test_a_server_that_ends_is_an_error_of_the_call_and_is_connected_again(talk: Talk) -> None:
    talk.user_servers(plain=entry("plain_server"))
    names = ["mcp__plain__end", "mcp__plain__add"]
    talk.say("go", load(*names), use(names[0]), use(names[1], a=1, b=1), say("Done."), allow=("mcp__plain",))
    ended, added = talk.results[-2:]
    assert (ended.status, "plain" in str(ended.content)) == ("error", True)
    assert (added.status, added.content) == ("success", "2"), "it waits for the new connection"


def test_tools_that_come_later_are_declared_behind_the_others_and_survive_a_resume(talk: Talk) -> None:
    talk.user_servers(plain=entry("plain_server"))
    talk.say("go", load("mcp__plain__grow"), use("mcp__plain__grow"), say("Done."), allow=("mcp__plain",))
    before = talk.server.requests[-1].body["tools"]
    connection = talk.conversation.features.mcp.connections["plain"]
    wait_until(lambda: "mcp__plain__grown" in connection.tools)
    talk.say("again", load("mcp__plain__grown"), use("mcp__plain__grown"), say("Done."), allow=("mcp__plain",))
    after = talk.server.requests[-1].body["tools"]
    assert after[: len(before)] == before, "what was told stays"
    assert [tool["name"] for tool in after[len(before) :]] == ["mcp__plain__grown"]
    assert talk.results[-1].content == "grown"
    session = talk.conversation.sessions.current.id
    talk.close()
    talk.user_servers()
    talk.conversation.sessions.resume(session)
    talk.say("once more", use("mcp__plain__grown"), say("Gone."))
    assert talk.server.requests[-1].body["tools"] == after, "what a reference names is declared, or it is refused"
    assert "mcp__plain__grown was there earlier in this session and is gone now" in str(talk.results[-1].content)


def test_a_server_that_is_slow_holds_nothing_up(talk: Talk, tmp_path: Path) -> None:
    talk.environ["CELLWRIGHT_MCP_WAIT"] = "0.01"
    go = tmp_path / "go"
    talk.user_servers(slow=entry("evil_server", "late", str(go)))
    talk.say("go")
    assert not talk.declared
    assert "server slow (connecting" in talk.told
    go.write_text("", "utf-8")
    connection = talk.conversation.features.mcp.connections["slow"]
    wait_until(lambda: connection.state == "connected")
    talk.say("again", load("mcp__slow__hello"), use("mcp__slow__hello"), say("Done."), allow=("mcp__slow",))
    assert talk.results[-1].content == "hello"


def test_a_slow_servers_tools_are_not_promised_where_none_can_be_loaded(talk: Talk, tmp_path: Path) -> None:
    talk.environ |= {"CELLWRIGHT_MCP_WAIT": "0.01", "ENABLE_TOOL_SEARCH": "false"}
    go = tmp_path / "go"
    talk.user_servers(slow=entry("evil_server", "late", str(go)))
    talk.say("go")
    assert "server slow (connecting:" in talk.told
    assert "ToolSearch" not in talk.told
    go.write_text("", "utf-8")
    connection = talk.conversation.features.mcp.connections["slow"]
    wait_until(lambda: connection.state == "connected")
    talk.conversation.sessions.start_new()
    talk.say("again", use("mcp__slow__hello"), say("Done."), allow=("mcp__slow",))
    assert talk.declared == ["mcp__slow__hello"]
    assert talk.results[-1].content == "hello"


def test_resources_are_listed_read_and_mentioned(talk: Talk) -> None:
    talk.user_servers(plain=entry("plain_server"))
    names = ["ListMcpResourcesTool", "ReadMcpResourceTool"]
    calls = [use(names[0]), use(names[1], server="plain", uri="memo://one")]
    talk.say("What says @plain:memo://one?", load(*names), *calls, say("42."))
    assert "memo://one: one A" in str(talk.results[-2].content)
    assert "The memo says 42." in str(talk.results[-1].content)
    first = talk.server.requests[0].body["messages"][0]["content"]
    assert any("The memo says 42." in block.get("text", "") for block in first)
    talk.say("And @plain:memo://two?")
    assert any("memo://two: not" in notice for notice in talk.notices)


def test_a_prompt_of_a_servers_is_a_command(talk: Talk) -> None:
    talk.user_servers(plain=entry("plain_server"))
    talk.say("/mcp__plain__review the parser")
    content = talk.server.requests[-1].body["messages"][-1]["content"]
    assert any("Review the parser" in block.get("text", "") for block in content)
    run = talk.start("/mcp__plain__nothing")
    talk.conversation.jobs.work_until_done(run)
    error = run.result().error
    assert error is not None
    assert "__nothing was" in error["message"]
    assert ": /mcp__plain__review." in error["message"]


def test_a_servers_question_is_a_question_card(talk: Talk) -> None:
    talk.user_servers(plain=entry("plain_server"))

    def answer(asked: ToolUse) -> Allow | Deny:
        if asked.kind != "question":
            return Allow(by="terminal")
        texts = [question["question"] for question in asked.input["questions"]]
        replies = ["Ada", "many" if "number" in texts[1] and not seen else "3", "Yes"] if len(texts) > 1 else ["3"]
        seen.append(texts)
        return Allow({**asked.input, "answers": dict(zip(texts, replies, strict=True))}, by="terminal")

    seen: list[Any] = []
    talk.answer = answer
    name = "mcp__plain__ask"
    talk.say("go", load(name), use(name), say("Done."))
    assert talk.results[-1].content == "accept name='Ada' count=3 fine=True"
    assert len(seen) == 2, "what did not fit was asked again"
    assert "plain (an MCP server, which gets your answer): Who are you?" in seen[0][0]
    talk.answer = lambda use: Deny("no", "terminal") if use.kind == "question" else Allow(by="terminal")
    talk.say("again", use(name), say("Done."))
    assert str(talk.results[-1].content).startswith("cancel")


def test_many_wrong_entries_are_named_and_the_others_work(talk: Talk) -> None:
    talk.user_servers(
        plain=entry("plain_server"),
        empty={},
        number=3,
        address={"url": "https://x"},
        kind={"type": "ws", "url": "ws://x"},
    )
    talk.say("go")
    assert "mcp__plain__add" in talk.declared
    named = "\n".join(talk.conversation.features.mcp.found.notices)
    assert all(f"the MCP server {name} " in named for name in ("empty", "number", "address", "kind"))


def page(talk: Talk, text: str = "") -> str:
    """The page of `/mcp` with `text` after it."""
    task = talk.conversation.thread.submit(mcp_page(CommandCall(talk.conversation, RunOptions(), text)))
    return task.future.result(SOON).plain()


def test_the_page_shows_servers_and_switches_them(talk: Talk) -> None:
    talk.user_servers(plain=entry("plain_server"), broken={"command": "no-such-program"})
    talk.project_servers(shared=entry("plain_server"))
    shown = page(talk)
    assert "connected" in next(line for line in shown.splitlines() if line.strip().startswith("plain"))
    assert "no-such-program" in shown
    assert "/mcp approve shared" in shown
    assert {"mcp__plain__", "add"} <= set(re.findall(r"\bmcp__plain__|\badd\b", page(talk, "plain")))
    assert "switched off" in page(talk, "disable plain")
    talk.say("go")
    assert "mcp__plain__add" not in talk.declared
    assert "is switched on" in page(talk, "enable plain")
    assert "from now on" in page(talk, "approve shared")
    talk.say("again")
    assert {"mcp__plain__add", "mcp__shared__add"} <= set(talk.declared)
    with pytest.raises(CellwrightError, match="MCP server 'x' was not found"):
        page(talk, "reconnect x")


def test_a_server_that_a_rule_denies_as_a_whole_is_not_started(talk: Talk) -> None:
    talk.user_servers(plain=entry("plain_server"), other=entry("plain_server"), third=entry("plain_server"))
    talk.settings(permissions={"deny": ["mcp__plain", "mcp__other__end"]}, deniedMcpServers=[{"serverName": "third"}])
    talk.say("go")
    assert list(talk.conversation.features.mcp.connections) == ["other"]
    assert "mcp__other__add" in talk.declared
    assert "mcp__other__end" not in talk.declared


def test_the_administrators_servers_are_the_only_ones(talk: Talk, tmp_path: Path) -> None:
    talk.user_servers(plain=entry("plain_server"))
    in_force = talk.conversation.in_force
    place = McpPlace(
        cwd=talk.project,
        project=talk.project,
        managed=tmp_path,
        environ=talk.environ,
        settings=in_force.settings,
    )
    assert list(find_servers(place).entries) == ["plain"]
    (tmp_path / "managed-mcp.json").write_text(json.dumps({"mcpServers": {"ours": {"command": "x"}}}), "utf-8")
    assert list(find_servers(place).entries) == ["ours"]


RULES: list[tuple[Any, dict[str, Any], bool]] = [
    ([{"serverName": "a"}], {"command": "x"}, True),
    ([{"serverName": "b"}], {"command": "x"}, False),
    ([], {"command": "x"}, False),
    ([{"serverCommand": ["x", "y"]}], {"command": "x", "args": ["y"]}, True),
    ([{"serverCommand": ["x"]}, {"serverName": "a"}], {"command": "x", "args": ["y"]}, False),
    ([{"serverUrl": "https://*.example.com/*"}], {"type": "http", "url": "https://a.example.com/mcp"}, True),
    ([{"serverUrl": "https://*.example.com/*"}], {"type": "http", "url": "https://example.org/mcp"}, False),
    ([{"serverUrl": "https://x/*"}, {"serverName": "a"}], {"command": "x"}, True),
]


def test_the_administrator_says_which_servers_may_be(tmp_path: Path) -> None:
    origin = ServerOrigin(scope="user", label="here", cwd=tmp_path)
    wrong = [
        (rules, value)
        for rules, value, allowed in RULES
        if (refusal(read_entries({"a": value}, origin, {}).entries["a"], McpSettings(allowed=tuple(rules))) == "")
        is not allowed
    ]
    assert wrong == []


def test_a_hook_calls_a_servers_tool(talk: Talk) -> None:
    talk.user_servers(plain=entry("plain_server"))
    talk.say("go")
    mcp = talk.conversation.features.mcp
    called = talk.conversation.thread.submit(mcp.call_for_text("plain", "add", {"a": 1, "b": 2}))
    assert called.future.result(SOON) == "3"
    missing = talk.conversation.thread.submit(mcp.call_for_text("nobody", "add", {}))
    with pytest.raises(LookupError):
        missing.future.result(SOON)


def test_a_server_ends_with_the_conversation(talk: Talk, tmp_path: Path) -> None:
    talk.user_servers(slow=entry("evil_server", "silent"))
    talk.environ["CELLWRIGHT_MCP_WAIT"] = "0.01"
    talk.say("go")
    running = child_processes()
    wait_until(lambda: running.running)
    talk.close()
    wait_until(lambda: not running.running)


EVIL = {
    "silent": (2, "it did not answer"),
    "garbage": (2, "it did not answer"),
    "flood": (2, "it did not answer"),
    "huge_line": (SOON, "a message of more than"),
    "dies": (SOON, "Connection closed"),
}


@pytest.mark.parametrize("kind", EVIL)
def test_a_server_that_never_speaks_sense_is_told_of_and_nothing_else_waits(talk: Talk, kind: str) -> None:
    seconds, problem = EVIL[kind]
    talk.environ["MCP_TIMEOUT"] = str(seconds * 1_000)
    talk.user_servers(evil=entry("evil_server", kind))
    talk.environ["CELLWRIGHT_MCP_WAIT"] = "0.01"
    assert talk.say("go").text == "Good."
    connection = talk.conversation.features.mcp.connections["evil"]
    wait_until(lambda: connection.state == "failed")
    assert problem in connection.problem


@pytest.mark.parametrize(("kind", "path"), [("http", "/mcp"), ("sse", "/sse")])
def test_a_server_is_reached_by_its_address(talk: Talk, tmp_path: Path, kind: str, path: str) -> None:
    file = tmp_path / "port"
    with running(f"--{kind}", str(file)):
        wait_until(file.exists)
        url = f"http://127.0.0.1:{file.read_text('utf-8')}{path}"
        talk.user_servers(plain={"type": kind, "url": url, "headers": {"X-Key": "1"}})
        name = "mcp__plain__add"
        talk.say("go", load(name), use(name, a=40, b=2), say("42"), allow=("mcp__plain",))
        assert talk.results[-1].content == "42"
        connection = talk.conversation.features.mcp.connections["plain"]
        assert connection.state == "connected"
    talk.say("again", use(name, a=1, b=1), say("Gone."), allow=("mcp__plain",))
    assert talk.results[-1].status == "error"
    with running(f"--{kind}", str(tmp_path / "other"), file.read_text("utf-8")):
        wait_until((tmp_path / "other").exists)
        talk.conversation.thread.call(connection.reconnect)
        talk.say("more", use(name, a=1, b=1), say("2"), allow=("mcp__plain",))
        assert talk.results[-1].content == "2"


@contextlib.contextmanager
def running(*arguments: str) -> Iterator[None]:
    """The plain server as a process beside."""
    process = subprocess.Popen([program_in(os.environ), str(SERVERS / "plain_server.py"), *arguments])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def test_definitions_that_lie_break_no_request(talk: Talk) -> None:
    talk.user_servers(evil=entry("evil_server", "schemas"))
    talk.say("go")
    assert talk.server.rejected == []
    assert "mcp__evil__good" in talk.declared
    talk.say(
        "again", load(*talk.declared), use("mcp__evil__good", x="a" * 60 + "!"), say("Done."), allow=("mcp__evil",)
    )
    assert talk.results[-1].status == "success", talk.results[-1].content
    definitions = json.dumps([tool for tool in talk.server.requests[-1].body["tools"] if "evil" in tool["name"]])
    assert "\\udb40" not in definitions, "what nobody sees is not told either"
    assert len(definitions) < 100_000


def wait_until(is_so: Callable[[], bool]) -> None:
    """Wait for something that another process or thread does."""
    deadline = time.monotonic() + SOON
    while not is_so():
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.02)


SUMMARY = turn(say("<summary>Two numbers were added.</summary>"), when="Everything above will be replaced by a summary")
IMPORTED = "7f3c1a52-98d4-4c55-9a3e-0a4f1d2b6c11"
TOO_LONG = fault(
    "status", status=400, error_type="invalid_request_error", message="prompt is too long: 9 tokens > 8 maximum"
)


def test_resources_tools_are_no_news_of_the_next_prompt(talk: Talk) -> None:
    talk.user_servers(plain=entry("plain_server"))
    talk.say("go")
    assert "ListMcpResourcesTool" in talk.conversation.sessions.current.tool_names
    talk.say("again")
    assert "<tools-since" not in json.dumps(talk.server.requests[-1].body["messages"])
    assert talk.notices == []


def test_behind_a_summary_the_servers_are_told_again_and_their_tools_can_be_loaded_again(talk: Talk) -> None:
    talk.user_servers(plain=entry("plain_server"))
    talk.answer = lambda _: Allow(by="terminal")
    add = use("mcp__plain__add", a=2, b=3)
    talk.say("go", load("mcp__plain__add"), add, TOO_LONG, SUMMARY, load("mcp__plain__add"), add, say("5"))
    assert [each.content for each in talk.results if each.name == "mcp__plain__add"] == ["5", "5"]
    assert len(talk.conversation.sessions.current.encoded) == 7, "the summary, what is told again, two calls, the end"
    assert "__add: Add two" in talk.told
    assert len(talk.declared) == 11


def test_a_tool_that_was_loaded_just_before_a_summary_is_said_to_be_gone(talk: Talk) -> None:
    talk.user_servers(plain=entry("plain_server"))
    talk.say("go", load("mcp__plain__add"), TOO_LONG, SUMMARY, say("Again."))
    assert "__add has to" in json.dumps(talk.server.requests[-1].body["messages"])


def test_a_session_that_is_imported_has_the_servers_from_its_first_prompt_on(talk: Talk) -> None:
    talk.user_servers(plain=entry("plain_server"))
    transcript = (
        talk.home / ".claude" / "projects" / re.sub(r"[^a-zA-Z0-9]", "-", str(talk.project)) / f"{IMPORTED}.jsonl"
    )
    transcript.parent.mkdir(parents=True)
    answer = {"role": "assistant", "model": "claude-opus-5-5", "content": [{"type": "text", "text": "Five."}]}
    lines = [
        {"type": "user", "uuid": "1", "parentUuid": None, "message": {"role": "user", "content": "Two and three?"}},
        {"type": "assistant", "uuid": "2", "parentUuid": "1", "message": {**answer, "id": "m1", "usage": {}}},
    ]
    transcript.write_text("".join(f"{json.dumps(line)}\n" for line in lines), "utf-8")
    talk.conversation.sessions.resume(IMPORTED)
    talk.say("go")
    assert "Five." in json.dumps(talk.server.requests[-1].body["messages"])
    assert len(talk.declared) == 11
    assert "__add: Add two" in talk.told
