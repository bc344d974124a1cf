"""Scenes of planning: Claude looks, asks, shows its plan, and changes something only when the user has approved."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cellwright.agent.calls.approval import Allow, Deny, ToolUse
from cellwright.agent.tool import Tool, ToolAccess, tool
from cellwright.events import Answered, Asked, Decided, ModeChanged
from cellwright.permissions.policy import PermissionPolicy
from cellwright.testing import say, turn, use
from cellwright.tools.planning.ask_user_question import ask_user_question_tool
from cellwright.tools.planning.plan_mode import enter_plan_mode_tool, exit_plan_mode_tool

PLAN = "# Fix the tides\n\n1. `tides.py`: one more window.\n"
QUESTION = {
    "question": "Where to?",
    "header": "Way",
    "options": [{"label": "left", "description": "a"}, {"label": "right", "description": "b"}],
}
ASK = use("AskUserQuestion", questions=[QUESTION])
EXIT = use("ExitPlanMode", plan=PLAN)
WRITE = use("Write", file_path="made.txt", content="made")


class User:
    """Answers what is asked, in order, and keeps what it was."""

    def __init__(self, *answers: Callable[[ToolUse], Allow | Deny]) -> None:
        self.answers = list(answers)
        self.asked: list[ToolUse] = []

    async def __call__(self, asked: ToolUse) -> Allow | Deny:
        self.asked.append(asked)
        return self.answers.pop(0)(asked)


def approving(**fields: Any) -> Callable[[ToolUse], Allow]:
    return lambda asked: Allow({**asked.input, **fields})


def write_tool(folder: Path) -> Tool:
    """Stands for all that changes something."""

    @tool(name="Write", access=ToolAccess("edit", "file_path"))
    async def write(file_path: str, content: str) -> str:
        """Write a file."""
        (folder / file_path).write_text(content, "utf-8")
        return "Written."

    return write


@pytest.fixture
def planned(play: Any, tmp_path: Path) -> Any:
    """`planned(script, user, mode=…)`: what happens in a folder with the tools for planning and one that writes."""

    def run(
        script: Any,
        user: User | None,
        *,
        mode: str = "plan",
        loosest: str | None = None,
        plans: Path | None = None,
        **options: Any,
    ) -> Any:
        tools = (
            enter_plan_mode_tool(),
            exit_plan_mode_tool(tmp_path, plans),
            ask_user_question_tool(),
            write_tool(tmp_path),
        )
        policy = PermissionPolicy(mode=mode, roots=(tmp_path,), cwd=tmp_path, loosest=loosest)
        return play(script, tools=tools, policy=policy, can_use_tool=user, **options)

    return run


def modes(scene: Any) -> list[str]:
    return [event.mode for event in scene.of(ModeChanged)]


def test_nothing_is_changed_until_the_plan_is_approved(planned, tmp_path):
    user = User(approving(decision="approve"), lambda _: Allow())
    scene = planned([WRITE, turn(EXIT), WRITE, say("Done.")], user)
    denied, approved, written = scene.results()
    assert denied["is_error"]
    assert "plan" in denied["content"].lower()
    assert "approved of" in approved["content"]
    assert ": begin." in approved["content"]
    assert not written.get("is_error")
    assert (tmp_path / "made.txt").read_text("utf-8") == "made"
    assert modes(scene) == ["default"]
    # in mode default the write was asked for, as every write is
    assert [asked.kind for asked in scene.of(Asked)] == ["plan", "permission"]
    assert user.asked[0].preview.detail == PLAN


def test_what_other_programs_send_with_a_plan_is_no_hindrance(planned):
    leave = use("ExitPlanMode", plan=PLAN, allowedPrompts=[{"tool": "Bash", "prompt": "run the tests"}])
    scene = planned([leave, say("Done.")], User(approving()))
    assert "approved of" in scene.results()[0]["content"]
    assert ": begin." in scene.results()[0]["content"]
    assert modes(scene) == ["default"]


def test_accepting_edits_lets_the_edits_of_the_plan_through(planned, tmp_path):
    user = User(approving(decision="accept_edits", feedback="and be quick"))
    scene = planned([EXIT, WRITE, say("Done.")], user)
    assert modes(scene) == ["acceptEdits"]
    assert (tmp_path / "made.txt").exists()
    assert "Edits of files" in scene.results()[0]["content"]
    assert "remark: and be quick" in scene.results()[0]["content"]


def test_a_plan_that_is_sent_back_keeps_plan_mode_and_tells_the_comment(planned, tmp_path):
    user = User(lambda _: Deny("smaller steps"), approving(decision="approve"), lambda _: Deny("not yet"))
    scene = planned([EXIT, WRITE, EXIT, WRITE, say("All right.")], user)
    back, denied, _, last = scene.results()
    assert back["is_error"]
    assert "not approve" in back["content"]
    assert ": smaller steps\nPlan" in back["content"]
    assert denied["is_error"]
    assert modes(scene) == ["default"]
    assert ": not yet" in last["content"]
    assert not (tmp_path / "made.txt").exists()


def test_a_plan_that_was_edited_is_the_one_that_counts(planned):
    scene = planned([EXIT, say("Done.")], User(approving(decision="approve", plan="Do half of it.")))
    told = scene.results()[0]["content"]
    assert told.startswith("The user approved")
    assert "after editing" in told
    assert told.endswith("half of it.")


def test_the_model_cannot_approve_its_own_plan(planned, tmp_path):
    own = use("ExitPlanMode", plan=PLAN, decision="accept_edits")
    scene = planned([own, WRITE, say("Hm.")], User())
    assert all(result["is_error"] for result in scene.results())
    assert "decision" in scene.results()[0]["content"]
    assert modes(scene) == []
    assert not (tmp_path / "made.txt").exists()


def test_a_callback_that_only_allows_approves(planned):
    assert modes(planned([EXIT, say("Done.")], User(lambda _: Allow()))) == ["default"]


def test_an_answer_that_is_no_decision_leaves_plan_mode_on(planned):
    scene = planned([EXIT, say("Hm.")], User(approving(decision="bypassPermissions")))
    assert "decision" in scene.results()[0]["content"]
    assert modes(scene) == []


def test_claude_may_begin_to_plan_by_itself(planned, tmp_path):
    user = User(approving(decision="approve"), lambda _: Allow())
    scene = planned([use("EnterPlanMode"), WRITE, EXIT, WRITE, say("Done.")], user, mode="default")
    entered, denied, _, _ = scene.results()
    assert entered["content"].startswith("Plan mode:")
    assert denied["is_error"]
    assert modes(scene) == ["plan", "default"]
    assert (tmp_path / "made.txt").exists()


@pytest.mark.parametrize("mode", ["bypassPermissions", "dontAsk"])
def test_where_nobody_is_ever_asked_plan_mode_is_not_entered(planned, mode):
    scene = planned([use("EnterPlanMode"), say("Then not.")], User(), mode=mode)
    assert "not be approved" in scene.results()[0]["content"]
    assert modes(scene) == []


@pytest.mark.parametrize(("loosest", "reached"), [("default", ["default"]), ("plan", ["plan"])])
def test_an_approval_is_no_way_around_the_administrator(planned, tmp_path, loosest, reached):
    user = User(approving(decision="accept_edits"), lambda _: Deny("no"))
    scene = planned([EXIT, WRITE, say("Done.")], user, loosest=loosest)
    assert modes(scene) == reached
    assert "without asking" not in scene.results()[0]["content"]
    assert scene.results()[1]["is_error"]
    assert not (tmp_path / "made.txt").exists()


def test_there_is_nothing_to_leave_outside_plan_mode(planned):
    scene = planned([EXIT, say("Then not.")], User(approving(decision="accept_edits")), mode="default")
    assert scene.results()[0]["is_error"]
    assert modes(scene) == []


def test_with_nobody_to_ask_the_plan_is_the_answer(planned):
    scene = planned([EXIT, ASK, say(PLAN)], None)
    plan, question = (result["content"] for result in scene.results())
    assert "as your answer" in plan
    assert "state your assumptions" in question
    assert [answer.by for answer in scene.of(Answered)] == ["policy", "policy"]


def test_the_approved_plan_is_kept_where_the_user_wants_plans(planned, tmp_path):
    scene = planned([EXIT, say("Done.")], User(approving(decision="approve")), plans=Path("docs/plans"))
    (file,) = (tmp_path / "docs" / "plans").iterdir()
    assert file.name.endswith(".md")
    assert "-fix-the-tides-" in file.name
    assert file.read_text("utf-8") == PLAN
    assert "plan is kept" in scene.results()[0]["content"]
    assert "docs/plans/" in scene.results()[0]["content"]


def test_plans_are_not_written_outside_the_project(planned, tmp_path):
    scene = planned([EXIT, say("Done.")], User(approving(decision="approve")), plans=Path("../beside"))
    assert "of the project" in scene.results()[0]["content"]
    assert not (tmp_path.parent / "beside").exists()
    assert modes(scene) == ["default"]


@pytest.mark.parametrize("target", ["outside", "project/.git/hooks"])
def test_plans_are_not_written_through_a_link_of_the_project(planned, tmp_path, target):
    (tmp_path / target).mkdir(parents=True)
    (tmp_path / "docs").symlink_to(tmp_path / target)
    scene = planned([EXIT, say("Done.")], User(approving(decision="approve")), plans=Path("docs/plans"))
    assert "is a symbolic link" in scene.results()[0]["content"]
    assert list((tmp_path / target).iterdir()) == []
    assert modes(scene) == ["default"]


def test_a_question_is_answered_in_any_mode_that_asks(planned):
    for mode in ("default", "plan", "acceptEdits", "bypassPermissions"):
        scene = planned([ASK, say("Thanks.")], User(approving(answers={"Where to?": "right"})), mode=mode)
        assert scene.results()[0]["content"].split("\n") == ["The user answered:", "- Where to? → right"]
        (asked,) = scene.of(Asked)
        assert (asked.kind, asked.preview.title) == ("question", "Where to?")
        (answered,) = scene.of(Answered)
        assert not answered.edited


def test_a_question_is_denied_where_nothing_may_be_asked(planned):
    user = User()
    scene = planned([ASK, say("Then I choose.")], user, mode="dontAsk")
    assert scene.results()[0]["is_error"]
    assert user.asked == []


def test_a_question_that_is_dismissed_tells_why(planned):
    scene = planned([ASK, say("All right.")], User(lambda _: Deny("you choose")))
    assert ": you choose" in scene.results()[0]["content"]


def hooks(event: str, **answer: Any) -> Any:
    """Hooks that allow in the user's place, with an answer or without one, before or when the user would be asked."""

    async def allow(said: dict[str, Any], _id: str | None, _context: dict[str, Any]) -> dict[str, Any]:
        updated = {"updatedInput": {**said["tool_input"], **answer}} if answer else {}
        if event == "PreToolUse":
            return {"hookSpecificOutput": {"hookEventName": event, "permissionDecision": "allow", **updated}}
        return {"hookSpecificOutput": {"hookEventName": event, "decision": {"behavior": "allow", **updated}}}

    return {event: [allow]}


@pytest.mark.parametrize("event", ["PreToolUse", "PermissionRequest"])
def test_a_hook_can_answer(planned, event):
    scene = planned([ASK, say("Thanks.")], User(), hooks=hooks(event, answers={"Where to?": "left"}))
    assert scene.results()[0]["content"].split("\n") == ["The user answered:", "- Where to? → left"]


@pytest.mark.parametrize("event", ["PreToolUse", "PermissionRequest"])
def test_a_hook_that_only_allows_leaves_the_question_to_the_user(planned, event):
    user = User(approving(answers={"Where to?": "right"}))
    scene = planned([ASK, say("Thanks.")], user, hooks=hooks(event))
    assert len(user.asked) == 1
    assert scene.results()[0]["content"].endswith("→ right")


def test_a_hook_can_approve_a_plan(planned):
    scene = planned([EXIT, say("Thanks.")], User(), hooks=hooks("PreToolUse", decision="approve"))
    assert modes(scene) == ["default"]
    assert [decided.by for decided in scene.of(Decided)] == ["hook"]
