"""Skills and commands: called with a slash, loaded by Claude, rendered with arguments, commands and files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cellwright.errors import CellwrightError
from cellwright.events import ContextAttached, Notice, UserPrompt
from cellwright.testing import MessagesServer, say, use
from project_talk import ProjectTalk


class Talk(ProjectTalk):
    """The text blocks of its newest prompt."""

    @property
    def texts(self) -> list[str]:
        """What the newest prompt told after the environment and the list of skills."""
        content = next(m["content"] for m in reversed(self.server.requests[-1].body["messages"]) if m["role"] == "user")
        return [b["text"] for b in content if b["type"] == "text" and not b["text"].startswith(("<env", "<skills"))]


@pytest.fixture
def talk(messages_server: Callable[..., MessagesServer], tmp_path: Path) -> Iterator[Talk]:
    made = Talk(messages_server(), tmp_path)
    yield made
    made.end()


def test_a_command_of_the_project_is_called_with_a_slash(talk: Talk) -> None:
    talk.write("project/.claude/commands/fix.md", "---\nargument-hint: [issue]\n---\nFix issue $0 in $1.")
    talk.begin()
    talk.say("/fix 12 'the parser'")
    assert talk.texts == ["/fix 12 'the parser'", '<skill name="fix">\nFix issue 12 in the parser.\n</skill>']
    assert next(event.prompt for event in talk.events if isinstance(event, UserPrompt)) == "/fix 12 'the parser'"
    (told,) = (event for event in talk.events if isinstance(event, ContextAttached))
    assert ("/fix", "skill") in [(part.title, part.kind) for part in told.parts]


def test_claude_loads_a_skill_and_reads_its_files(talk: Talk) -> None:
    talk.write(
        ".claude/skills/deploy/SKILL.md", "---\ndescription: How we deploy.\n---\nRead ${CLAUDE_SKILL_DIR}/steps.md."
    )
    talk.begin()
    talk.say("deploy", use("Skill", skill="deploy", args="now"), say("Done."), allow=("Skill",))
    (loaded,) = talk.results
    folder = talk.home / ".claude/skills/deploy"
    expected = f'<skill name="deploy" folder="{folder}">\nRead {folder}/steps.md.\n\nARGUMENTS: now\n</skill>'
    assert (loaded.status, loaded.content) == ("success", expected)


def test_claude_is_told_of_skills_once_and_of_changes(talk: Talk) -> None:
    file = talk.write(".claude/skills/deploy/SKILL.md", "---\ndescription: How we deploy.\n---\nx")
    talk.write(".claude/skills/mine/SKILL.md", "---\ndescription: Only I.\ndisable-model-invocation: true\n---\nx")
    talk.write(".claude/settings.json", '{"skillOverrides": {"code-review": "off", "testing": "name-only"}}')
    talk.begin()

    def listed() -> list[str]:
        messages = talk.server.requests[-1].body["messages"]
        newest = [m for m in messages if m["role"] == "user"][-1]["content"]
        texts = [b["text"] for b in newest if b["text"].startswith(("<env", "<skills"))]
        told = [text.partition("<skills")[2].partition("</skills>")[0] for text in texts]
        return [line for text in told for line in text.splitlines() if line.startswith("- ")]

    talk.say("hello")
    assert any("How we deploy." in line for line in listed())
    assert "- testing" in listed()
    assert not any("mine" in line or "code-review" in line for line in listed())
    talk.say("again")
    assert listed() == []
    file.write_text("---\ndescription: Other.\n---\nx")
    talk.say("again")
    assert "- deploy: Other." in listed()


def test_a_command_in_a_skill_runs_where_it_may(talk: Talk) -> None:
    talk.write("project/a.txt", "one\ntwo\n")
    talk.write("project/.claude/commands/count.md", "Lines: !`wc -l < $0`\n```!\necho 'two `words`'\n```\nEnd. `!`no``")
    talk.begin()
    talk.say("/count a.txt", allow=("Bash(wc *)", "Bash(echo *)"))
    assert talk.texts[-1].split("\n") == ['<skill name="count">', "Lines: 2", "two `words`", "End. `!`no``", "</skill>"]


def test_a_command_that_would_ask_or_fails_sends_nothing(talk: Talk) -> None:
    talk.write("project/.claude/commands/bad.md", "!`touch made`")
    talk.write("project/.claude/commands/worse.md", "!`ls nothing-there`")
    talk.begin()
    before = len(talk.server.requests)
    end = talk.run("/bad")
    assert end.error is not None
    assert "/bad:" in end.error["message"]
    assert "`touch made`" in end.error["message"]
    end = talk.run("/worse", allow=("Bash(ls *)",))
    assert end.error is not None
    assert "/worse:" in end.error["message"]
    assert "`ls nothing-there`" in end.error["message"]
    assert len(talk.server.requests) == before
    assert not (talk.project / "made").exists()
    assert talk.conversation.sessions.current.encoded == []
    talk.server.clear()


def test_rules_of_a_skill_hold_for_its_run_alone(talk: Talk) -> None:
    talk.write("project/.claude/commands/make.md", "---\nallowed-tools: Bash(touch made)\n---\nMake it.")
    talk.begin()
    touch = use("Bash", command="touch made")
    talk.say("/make", touch, say("Done."))
    assert [end.status for end in talk.results] == ["success"]
    talk.say("again", touch, say("Done."))
    assert [end.status for end in talk.results] == ["denied"]
    talk.say("by Claude", use("Skill", skill="make"), touch, say("Done."), allow=("Skill",))
    assert [end.status for end in talk.results] == ["success", "success"]
    talk.say("again", touch, say("Done."))
    assert [end.status for end in talk.results] == ["denied"]


def test_a_rule_of_a_skill_that_is_none_ends_no_run(talk: Talk) -> None:
    rules = "allowed-tools: ['Bash(touch', 'Bash(touch made)']\ndisallowed-tools: Bash(rm"
    talk.write(".claude/commands/make.md", f"---\n{rules}\n---\nMake it.")
    talk.begin()
    touch, remove = use("Bash", command="touch made"), use("Bash", command="rm made")
    talk.say("/make", remove, say("Done."), mode="bypassPermissions")
    assert [end.status for end in talk.results] == ["denied"]
    talk.say("by Claude", use("Skill", skill="make"), touch, say("Done."), allow=("Skill",))
    assert talk.results[0].status == "success"
    talk.say("and now", touch, say("Done."), mode="bypassPermissions")
    assert [end.status for end in talk.results] == ["success"]
    problems = talk.conversation.features.skills.all()["make"].problems
    assert [problem.partition("; ")[2] for problem in problems] == ["it allows nothing", "its tool is denied"]


def test_rules_of_a_projects_skill_wait_for_trust_and_again_when_they_change(talk: Talk) -> None:
    file = talk.write("project/.claude/commands/make.md", "---\nallowed-tools: Bash(touch made)\n---\nMake it.")
    talk.begin()
    file.write_text("---\nallowed-tools: Bash(touch made), Bash(rm *)\n---\nMake it.")
    talk.say("/make", use("Bash", command="touch made"), say("Done."))
    assert [end.status for end in talk.results] == ["denied"]
    question = talk.conversation.in_force.question()
    assert question is not None
    assert ".claude/commands/make.md" in question.detail


def test_commands_in_a_projects_skill_wait_again_when_they_or_their_script_change(talk: Talk) -> None:
    script = talk.write("project/scripts/count.sh", "echo 2\n")
    file = talk.write("project/.claude/commands/count.md", "Lines: !`bash scripts/count.sh`")
    talk.begin()
    allow = ("Bash(bash scripts/count.sh)",)
    talk.say("/count", allow=allow)
    assert talk.texts[-1].split("\n") == ['<skill name="count">', "Lines: 2", "</skill>"]
    for changed, text in ((script, "echo 3\n"), (file, "Lines: !`bash scripts/count.sh` more")):
        changed.write_text(text)
        end = talk.run("/count", allow=allow)
        assert end.error is not None
        assert "have not trusted" in end.error["message"]
        question = talk.conversation.in_force.question()
        assert question is not None
        assert ": bash scripts/count" in question.detail
        talk.conversation.in_force.answer(question, yes=True)
    talk.say("/count", allow=allow)
    assert talk.texts[-1].split("\n") == ['<skill name="count">', "Lines: 3 more", "</skill>"]


def test_nothing_of_a_folder_that_is_not_trusted(talk: Talk) -> None:
    talk.write("project/.claude/commands/fix.md", "Fix it.")
    talk.begin(trust=False)
    assert "fix" not in talk.conversation.features.skills.all()
    with pytest.raises(CellwrightError, match=r"/fix comes with the folder .*, which you have not trusted"):
        talk.run("/fix")
    talk.server.clear()
    assert talk.server.requests == []
    talk.say("/nothing like that")
    assert talk.texts == ["/nothing like that"]


def test_files_that_a_skill_mentions_come_along(talk: Talk) -> None:
    talk.write("project/notes.md", "the notes")
    talk.write("project/.claude/commands/sum.md", "Sum up @notes.md.")
    talk.begin()
    talk.say("/sum")
    assert talk.texts[-1].startswith('<attached mention="@notes')


def test_the_built_in_skills_are_there_and_whole(talk: Talk) -> None:
    talk.begin()
    skills = talk.conversation.features.skills.all()
    assert {
        "init",
        "code-review",
        "security-review",
        "notebook-review",
        "data-analysis",
        "frontend-design",
    } <= skills.keys()
    for skill in skills.values():
        assert skill.description
        assert not skill.problems
        assert skill.body
    talk.say("/init our tests matter")
    assert talk.texts[-1].rstrip().endswith("tests matter\n</skill>")


def test_a_slip_in_a_skills_rules_is_told_and_never_allows_more(talk: Talk) -> None:
    talk.write(
        ".claude/commands/make.md", "---\nallowed-tools: Raed, bash(ls *)\ndisallowed-tools: Wriet\n---\nMake it."
    )
    talk.begin()
    talk.say("Begin", say("Begun."))
    told = [notice.message for notice in talk.events if isinstance(notice, Notice) and "/make" in notice.message]
    assert len(told) == 1, "both in one"
    assert "called Raed" in told[0]
    assert "called Wriet" in told[0]
    assert "it is denied" in told[0]
    talk.say("/make", use("Write", file_path="a.txt", content="a"), say("Done."), mode="bypassPermissions")
    assert [end.status for end in talk.results] == ["denied"]
