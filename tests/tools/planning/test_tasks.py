"""Tasks: made, changed and told, kept for the session, and each session with its own."""

from __future__ import annotations

from tests.tools.planning.test_todos import TASKS, Session, list_tools


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
    assert "[in_progress] Fix it" in session.call("TaskList")
    assert "\n#2 [pending] Test it [" in session.call("TaskList")
    assert session.call("TaskUpdate", taskId="1", status="completed") == "Task #1 updated: status."
    assert [line.split()[1] for line in session.call("TaskList").split("\n")] == ["[completed]", "[pending]"]
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
    assert "Task '9' was" in told
    assert ": 1, 2." in told
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
    assert "no tasks." in session.call("TaskList")
