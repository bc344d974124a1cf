"""The list of todos: what Claude is told of it, what views get, and what is left of it in another process."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cellwright.agent.calls.check_input import check_input
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
    assert told == "The list is kept: 1 of 3 done."
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
    assert "TodoWrite was not run: todos" in session.call("TodoWrite", todos=todos)
    assert session.events == []


def test_the_fields_of_other_versions_of_todo_write_are_understood():
    session = Session(list_tools({}))
    todos = [{"content": "read", "status": "completed", "active_form": "reading", "id": "1", "priority": "high"}]
    assert session.call("TodoWrite", todos=todos) == "The list is kept: 1 of 1 done."
    [changed] = session.events
    assert changed == TodosChanged(({"content": "read", "status": "completed", "activeForm": "reading"},))


def with_tasks() -> Session:
    session = Session(list_tools(TASKS))
    session.call("TaskCreate", subject="Fix it", description="All of it.", activeForm="Fixing it")
    session.call("TaskCreate", subject="Test it", description="With dates.", metadata={"area": "dates"})
    session.call("TaskUpdate", taskId="2", addBlockedBy=["1"])
    session.call("TaskUpdate", taskId="1", status="in_progress", owner="claude")
    return session


def test_tasks_are_made_changed_and_told():
    session = with_tasks()
    assert session.shown == [("Fix it", "in_progress"), ("Test it", "pending")]
    assert session.call("TaskList") == "#1 [in_progress] Fix it (claude)\n#2 [pending] Test it [waits for #1]"
    assert session.call("TaskUpdate", taskId="1", status="completed") == "Task #1 updated: status."
    assert session.call("TaskList") == "#1 [completed] Fix it (claude)\n#2 [pending] Test it"
    told = session.call("TaskGet", taskId="1")
    assert "All of it." in told
    assert "Blocks: #2" in told
    assert "{'area': 'dates'}" in session.call("TaskGet", taskId="#2")
    session.call("TaskUpdate", taskId="2", metadata={"area": None})
    assert "area" not in session.call("TaskGet", taskId="2")


def test_a_task_that_is_deleted_blocks_nothing_and_its_id_is_not_given_again():
    session = with_tasks()
    assert session.call("TaskUpdate", taskId="1", status="deleted") == "Task #1 deleted."
    assert session.call("TaskList") == "#2 [pending] Test it"
    assert session.call("TaskCreate", subject="More", description="x") == "Task #3 created: More"


def test_an_update_is_done_wholly_or_not_at_all():
    session = with_tasks()
    told = session.call("TaskUpdate", taskId="2", status="completed", addBlocks=["9"])
    assert told == "Task '9' was not found. The ids are: 1, 2."
    assert "#2 [pending]" in session.call("TaskList")


def test_tasks_are_there_again_when_the_session_goes_on_in_another_process():
    before = with_tasks()
    before.call("TaskUpdate", taskId="9", status="deleted")
    before.call("TaskCreate", subject="Gone", description="x")
    before.call("TaskUpdate", taskId="3", status="deleted")
    listed = before.call("TaskList")
    resumed = Session(list_tools(TASKS), "s1")
    resumed.messages = list(before.messages)
    assert resumed.call("TaskList") == listed
    assert resumed.call("TaskCreate", subject="Next", description="x") == "Task #4 created: Next"


def test_what_is_missing_of_the_beginning_moves_no_ids():
    before = with_tasks()
    shortened = Session(list_tools(TASKS))
    shortened.messages = before.messages[3:]  # the first task's making is no longer there
    assert shortened.call("TaskList") == "#2 [pending] Test it"
    assert shortened.call("TaskCreate", subject="Next", description="x") == "Task #3 created: Next"


def test_another_session_has_a_list_of_its_own():
    session = with_tasks()
    session.id, session.messages = "s2", [{"role": "user", "content": "go"}]
    assert session.call("TaskList") == "There are no tasks."


def test_the_list_is_read_as_the_last_good_call_left_it():
    session = Session(list_tools({}))
    assert session.call("TodoRead") == "There is nothing on the list."
    session.call("TodoWrite", todos=[todo("look", "completed"), todo("write", "in_progress")])
    session.call("TodoWrite", todos=[todo("", "pending")])
    assert session.call("TodoRead") == "[x] look\n[>] write"
    elsewhere = Session(list_tools({}))
    elsewhere.messages = session.messages
    assert elsewhere.call("TodoRead") == "[x] look\n[>] write"
    session.call("TodoWrite", todos=[])
    assert session.call("TodoRead") == "There is nothing on the list."
