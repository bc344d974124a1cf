"""The list of todos: what Claude is told of it, what views get, and what is left of it in another process."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cellwright.agent.calls.input_schema import check_input
from cellwright.agent.tool import Tool, ToolContext, ToolResult
from cellwright.config.settings.settings import Settings
from cellwright.conversation.tools.built_in_tools import ToolEnvironment, make_tools
from cellwright.errors import ToolError
from cellwright.events import Event, TodosChanged
from row_tables import for_each_row

TASKS = {"CLAUDE_CODE_ENABLE_TASKS": "1"}


def list_tools(environ):
    """The tools for lists of what is to be done."""
    here = Path.cwd()
    made = make_tools(ToolEnvironment(cwd=here, settings=Settings(project=here), environ=environ))
    return [tool for tool in made if tool.category == "planning" and tool.name.startswith(("Todo", "Task"))]


class Session:
    """Calls tools as the loop does, and keeps the messages that come of it."""

    def __init__(self, tools: Sequence[Tool], session_id: str = "s1") -> None:
        self.tools = {tool.name: tool for tool in tools}
        self.id = session_id
        self.messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
        self.events: list[Event] = []

    def call(self, name: str, **tool_input: Any) -> str:
        use = {"type": "tool_use", "id": f"toolu_{len(self.messages)}", "name": name, "input": tool_input}
        self.messages.append({"role": "assistant", "content": [use]})
        result = {"type": "tool_result", "tool_use_id": use["id"]}
        try:
            check_input(self.tools[name], tool_input)
            given = asyncio.run(self._run(name, tool_input, str(use["id"])))
            result["content"] = str(given.content)
        except ToolError as error:
            result |= {"content": error.message, "is_error": True}  # type: ignore[dict-item]
        self.messages.append({"role": "user", "content": [result]})
        return str(result["content"])

    async def _run(self, name: str, tool_input: dict[str, Any], use_id: str) -> ToolResult:
        ctx = ToolContext(
            use_id,
            lambda **_: None,
            session_id=self.id,
            emit=self.events.append,
            history=lambda: self.messages[:-1],
        )
        given = await self.tools[name].call(tool_input, ctx)
        assert isinstance(given, ToolResult)
        return given

    @property
    def shown(self) -> list[tuple[str, str]]:
        """The list as views have it now."""
        last = [event for event in self.events if isinstance(event, TodosChanged)][-1]
        return [(todo["content"], todo["status"]) for todo in last.todos]


def todo(content: str, status: str) -> dict[str, str]:
    return {"content": content, "status": status, "activeForm": f"doing {content}"}


@for_each_row(
    ("environ", "names"),
    [
        ({}, {"TodoWrite", "TodoRead"}),
        ({"CLAUDE_CODE_ENABLE_TASKS": "0"}, {"TodoWrite", "TodoRead"}),
        ({"CLAUDE_CODE_ENABLE_TASKS": "false", "CLAUDE_CODE_ENABLE_TODO_TOOLS": "1"}, {"TodoWrite", "TodoRead"}),
        ({"CLAUDE_CODE_ENABLE_TODO_TOOLS": "0"}, {"TodoWrite", "TodoRead"}),
        ({"CLAUDE_CODE_ENABLE_TODO_TOOLS": "1"}, {"TaskCreate", "TaskGet", "TaskUpdate", "TaskList"}),
        (TASKS, {"TaskCreate", "TaskGet", "TaskUpdate", "TaskList"}),
    ],
)
def test_which_tools_there_are(environ, names):
    assert {tool.name for tool in list_tools(environ)} == names


@pytest.mark.parametrize("environ", [{}, TASKS])
def test_the_tools_are_described_and_their_examples_fit(environ):
    for tool in list_tools(environ):
        assert 40 < len(tool.description) < 600
        assert tool.category == "planning"
        assert tool.input_examples
        assert tool.access.kind == "todos"
        for example in tool.input_examples:
            check_input(tool, example)


def test_a_list_is_shown_and_counted():
    session = Session(list_tools({}))
    told = session.call(
        "TodoWrite", todos=[todo("read", "completed"), todo("fix", "in_progress"), todo("test", "pending")]
    )
    assert "kept: 1 of 3" in told
    assert session.shown == [("read", "completed"), ("fix", "in_progress"), ("test", "pending")]
    assert "nothing to do" in session.call("TodoWrite", todos=[])
    assert session.shown == []


@pytest.mark.parametrize(
    ("statuses", "hint"),
    [
        (["in_progress", "in_progress"], "2 todos are in_progress"),
        (["pending", "completed"], "None is in_progress"),
        (["completed", "completed"], "2 of 2 done"),
    ],
)
def test_claude_is_told_when_the_list_says_too_much_or_too_little(statuses, hint):
    session = Session(list_tools({}))
    assert hint in session.call("TodoWrite", todos=[todo(str(n), status) for n, status in enumerate(statuses)])


@pytest.mark.parametrize(
    "todos",
    [
        [{"status": "pending"}],
        [{"content": "", "status": "pending", "activeForm": "x"}],
        [{"content": "x", "status": "done", "activeForm": "x"}],
        "read, fix",
    ],
)
def test_a_list_that_does_not_fit_is_refused_and_nothing_is_shown(todos):
    session = Session(list_tools({}))
    assert "not run: todos" in session.call("TodoWrite", todos=todos)
    assert session.events == []


def test_the_fields_of_other_versions_of_todo_write_are_understood():
    session = Session(list_tools({}))
    todos = [{"content": "read", "status": "completed", "active_form": "reading", "id": "1", "priority": "high"}]
    assert "kept: 1 of 1" in session.call("TodoWrite", todos=todos)
    [changed] = session.events
    assert changed == TodosChanged(({"content": "read", "status": "completed", "activeForm": "reading"},))


def test_the_list_is_read_as_the_last_good_call_left_it():
    session = Session(list_tools({}))
    assert "There is nothing" in session.call("TodoRead")
    session.call("TodoWrite", todos=[todo("look", "completed"), todo("write", "in_progress")])
    session.call("TodoWrite", todos=[todo("", "pending")])
    assert session.call("TodoRead") == "[x] look\n[>] write"
    elsewhere = Session(list_tools({}))
    elsewhere.messages = session.messages
    assert elsewhere.call("TodoRead") == "[x] look\n[>] write"
    session.call("TodoWrite", todos=[])
    assert "There is nothing" in session.call("TodoRead")
