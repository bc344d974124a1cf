"""Questions of MCP servers: addresses to open, and the hooks that hear of them; servers of agents."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cellwright.agent.calls.approval import Allow, Deny, ToolUse
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.features.agents.subagents import in_worktree
from cellwright.features.agents.worktree import Worktree
from cellwright.testing import MessagesServer, say, use
from cellwright.tools.mcp.tools import resource_tools
from forked.forked_python import program_in
from project_talk import ProjectTalk

SERVERS = Path(__file__).parents[2] / "shared" / "mcp_servers"


class Talk(ProjectTalk):
    """With a server of the user's, and an answer to each question."""

    def __init__(self, server: MessagesServer, root: Path) -> None:
        super().__init__(server, root)
        self.environ |= {"ENABLE_TOOL_SEARCH": "true", "MCP_TIMEOUT": "120000", "CELLWRIGHT_MCP_WAIT": "120"}
        self.environ |= {"CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1"}
        self.write(
            ".claude.json",
            json.dumps(
                {
                    "mcpServers": {
                        "plain": {"command": program_in(os.environ), "args": [str(SERVERS / "plain_server.py")]}
                    }
                }
            ),
        )
        self.reply: Callable[[dict[str, Any]], str] = lambda _: "No"

    def settings(self, **values: Any) -> None:
        self.write(".claude/settings.json", json.dumps(values))

    def on(self, event: str, answer: dict[str, Any]) -> dict[str, Any]:
        """A hook that keeps what it is told, and gives `answer`."""
        program = self.write(
            f"{event}.py",
            "import json, pathlib, sys\n"
            "with pathlib.Path(__file__).with_suffix('.jsonl').open('a') as file: file.write(sys.stdin.read() + '\\n')\n"
            "print(pathlib.Path(__file__).with_suffix('.answer').read_text())\n",
        )
        self.answers(event, answer)
        return {event: [{"matcher": "plain", "hooks": [{"type": "command", "command": f"{sys.executable} {program}"}]}]}

    def answers(self, event: str, answer: dict[str, Any]) -> None:
        """Have the hook give another answer."""
        self.write(f"{event}.answer", json.dumps(answer))

    def heard(self, event: str) -> list[dict[str, Any]]:
        file = self.home / f"{event}.jsonl"
        return [json.loads(line) for line in file.read_text("utf-8").splitlines()] if file.exists() else []

    async def _can_use_tool(self, use: ToolUse) -> Allow | Deny:
        self.asked.append(use)
        if use.kind != "question":
            return Allow(by="terminal")
        answers = {each["question"]: self.reply(each) for each in use.input["questions"]}
        return Allow({**use.input, "answers": answers}, by="terminal")

    @property
    def questions(self) -> list[str]:
        return [q["question"] for use in self.asked if use.kind == "question" for q in use.input["questions"]]

    def call(self, name: str, **values: Any) -> str:
        """The result of one call of the server's tool."""
        self.asked.clear()
        tool = f"mcp__plain__{name}"
        self.say("go", use("ToolSearch", query=f"select:{tool}"), use(tool, **values), say("Done."))
        return str(self.results[-1].content)


@pytest.fixture
def talk(messages_server: Callable[..., MessagesServer], tmp_path: Path) -> Iterator[Talk]:
    made = Talk(messages_server(), tmp_path)
    yield made
    made.end()


def test_an_address_is_shown_with_its_host_and_never_opened(talk: Talk) -> None:
    talk.begin()
    talk.reply = lambda _: "I have opened it"
    assert talk.call("open_page") == "accept"
    (question,) = talk.questions
    assert question.startswith("The MCP server")
    assert "of example.com" in question
    assert "/pay\nPlease pay." in question
    talk.reply = lambda _: "No"
    assert talk.call("open_page") == "decline"
    talk.call("open_page", url="https://exаmple.com/pay")  # the first `a` is Cyrillic
    assert "address of xn--" in talk.questions[0]
    for url in ("file:///etc/passwd", "javascript:alert(1)", "https://", "https://other.example\\@example.com/"):
        assert talk.call("open_page", url=url) == "decline", url
        assert talk.questions == [], "nobody is asked to open that"
    talk.reply = lambda _: "I have opened it"
    assert talk.call("order") == "ordered", "a call that needs a page first is made again"
    assert "Pay first." in talk.questions[0]


def test_hooks_hear_of_questions_and_may_answer(talk: Talk) -> None:
    talk.settings(hooks={**talk.on("Elicitation", {}), **talk.on("ElicitationResult", {})})
    talk.begin()
    replies = iter(["Ada", "3", "Yes"])
    talk.reply = lambda _: next(replies)
    assert "name='Ada' count=3 fine=" in talk.call("ask")
    (asked,) = talk.heard("Elicitation")
    assert {key: asked[key] for key in ("mcp_server_name", "mode", "message")} == {
        "mcp_server_name": "plain",
        "mode": "form",
        "message": "Who are you?",
    }
    assert set(asked["requested_schema"]["properties"]) == {"name", "count", "fine"}
    (told,) = talk.heard("ElicitationResult")
    assert (told["action"], told["content"]) == ("accept", {"name": "Ada", "count": 3, "fine": True})
    talk.reply = lambda _: "I have opened it"
    assert talk.call("open_page") == "accept"
    asked, told = talk.heard("Elicitation")[-1], talk.heard("ElicitationResult")[-1]
    assert (asked["mode"], asked["url"], asked["elicitation_id"]) == ("url", "https://example.com/pay", "order-1")
    assert (told["action"], told["elicitation_id"]) == ("accept", "order-1")


def specific(event: str, **values: Any) -> dict[str, Any]:
    return {"hookSpecificOutput": {"hookEventName": event, **values}}


ANSWERS: dict[str, tuple[str, dict[str, Any], str, int]] = {
    "answers": (
        "Elicitation",
        specific("Elicitation", action="accept", content={"name": "Hook", "count": 1}),
        "accept name='Hook' count=1 fine=True",
        0,
    ),
    "declines": ("Elicitation", specific("Elicitation", action="decline"), "decline None", 0),
    "blocks": ("Elicitation", {"decision": "block", "reason": "no"}, "decline None", 0),
    "says nonsense": (
        "Elicitation",
        specific("Elicitation", action="perhaps"),
        "decline None",
        0,
    ),
    "fits nothing": (
        "Elicitation",
        specific("Elicitation", action="accept", content={"a": {"b": 1}}),
        "decline None",
        0,
    ),
    "changes the answer": (
        "ElicitationResult",
        specific("ElicitationResult", action="accept", content={"name": "Other", "count": 2, "fine": False}),
        "accept name='Other' count=2 fine=False",
        1,
    ),
    "keeps it back": ("ElicitationResult", {"decision": "block", "reason": "no"}, "decline None", 1),
}


def test_what_a_hook_says_counts(talk: Talk) -> None:
    wrong = []
    talk.settings(hooks={**talk.on("Elicitation", {}), **talk.on("ElicitationResult", {})})
    talk.begin()
    for name, (event, answer, result, asked) in ANSWERS.items():
        talk.answers(event, answer)
        replies = iter(["Ada", "3", "Yes"])
        talk.reply = lambda _, replies=replies: next(replies)  # type: ignore[misc]
        found = talk.call("ask")
        cards = len([use for use in talk.asked if use.kind == "question"])
        if (found, cards) != (result, asked):
            wrong.append((name, found, cards))
        talk.answers(event, {})
    assert wrong == []


def hand(prompt: str, kind: str) -> Any:
    return use("Agent", description="a task", prompt=prompt, subagent_type=kind)


def define(talk: Talk, where: str, front: str) -> None:
    talk.write(f"{where}/.claude/agents/helper.md", f"---\nname: helper\ndescription: Helps.\n{front}---\nYou help.\n")


OWN = f"""mcpServers:
  - own:
      command: {sys.executable}
      args: [{SERVERS / "plain_server.py"}]
  - nowhere
"""


def tools_of(talk: Talk, words: str) -> list[str]:
    """The tools of servers in the newest request of whoever was told these words first."""
    body = next(r.body for r in reversed(talk.server.requests) if words in json.dumps(r.body["messages"][0]))
    return [tool["name"] for tool in body["tools"] if "mcp__" in tool["name"] or "Mcp" in tool["name"]]


def test_an_agent_has_the_servers_that_it_names_alone_and_nobody_else_has_its_own(talk: Talk) -> None:
    define(talk, ".", f"{OWN}tools: Read\n")
    talk.begin()
    talk.answer = Allow(by="terminal")
    talk.say("Go", hand("an errand", "helper"), use("mcp__own__add", a=2, b=3), say("It is 5."), say("Five."))
    names = tools_of(talk, "an errand")
    assert "mcp__own__add" in names
    assert not [name for name in names if name.startswith("mcp__plain__")]
    assert "ReadMcpResourceTool" in names
    assert not [name for name in tools_of(talk, "Go") if name.startswith("mcp__own__")]
    told = json.dumps(talk.server.requests[-2].body["messages"][0])
    assert "nowhere: there" in told
    assert list(talk.conversation.features.mcp.connections) == ["plain"], "it is ended with the agent"
    define(talk, ".", "mcpServers: [plain]\n")
    talk.say("Again", hand("other task", "helper"), say("Done."), say("Good."))
    assert "mcp__plain__add" in tools_of(talk, "other task")
    define(talk, ".", "mcpServers: []\n")
    talk.say("Again", hand("third task", "helper"), say("Done."), say("Good."))
    assert tools_of(talk, "third task") == []


def test_an_agent_that_works_itself_has_the_servers_that_it_names_alone(talk: Talk) -> None:
    define(talk, ".", f"{OWN}tools: Read, ToolSearch\n")
    talk.begin()
    talk.answer = Allow(by="terminal")
    load = use("ToolSearch", query="select:mcp__own__add")
    end = talk.say("Go", load, use("mcp__own__add", a=2, b=3), say("It is 5."), agent="helper")
    assert (end.text, [each.status for each in talk.results]) == ("It is 5.", ["success", "success"])
    told = json.dumps(talk.server.requests[-1].body["messages"])
    assert "mcp__own__add" in told
    assert "mcp__plain__" not in told
    assert any("nowhere: there" in str(getattr(e, "message", "")) for e in talk.events)
    talk.say("Once more", use("mcp__own__add", a=1, b=1), say("Two."))
    assert [each.status for each in talk.results] == ["success"], "it stays connected for the session"


def test_a_server_of_a_projects_agent_waits_for_a_yes(talk: Talk) -> None:
    define(talk, "project", OWN)
    talk.begin()
    question = talk.conversation.features.mcp.question()
    assert question is not None
    assert "the agent helper (" in question.title
    assert "plain_server.py" in question.detail
    talk.conversation.features.mcp.answer(question, yes=False)
    talk.say("Go", hand("an errand", "helper"), say("Nothing."), say("No."))
    assert tools_of(talk, "an errand") == []
    talk.conversation.features.mcp.ask_again()
    question = talk.conversation.features.mcp.question()
    assert question is not None
    talk.conversation.features.mcp.answer(question, yes=True)
    talk.say("Go", hand("next task", "helper"), say("Something."), say("Yes."))
    assert "mcp__own__add" in tools_of(talk, "next task")


def test_an_agent_in_a_work_tree_has_the_tools_of_servers(talk: Talk) -> None:
    import subprocess

    (talk.project / ".git").rmdir()
    commands = (["init", "-q"], ["-c", "user.name=a", "-c", "user.email=b", "commit", "-q", "--allow-empty", "-m", "x"])
    for arguments in commands:
        subprocess.run(["git", *arguments], cwd=talk.project, check=True)
    define(talk, ".", "isolation: worktree\n")
    agent = replace(talk.begin().agent(RunOptions()), tools=resource_tools(dict))
    kept = in_worktree(agent, Worktree(talk.project, "", talk.project, ""), ()).tools
    assert [tool.name for tool in kept] == ["ListMcpResourcesTool", "ReadMcpResourceTool"], (
        "what it has from the beginning"
    )
    load = use("ToolSearch", query="select:ReadMcpResourceTool")
    read = use("ReadMcpResourceTool", server="plain", uri="memo://one")
    talk.say("Go", hand("an errand", "helper"), load, read, say("42."), say("Good."))
    assert "The memo says 42." in json.dumps(talk.server.requests[-2].body["messages"])
