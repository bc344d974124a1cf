"""Hooks of skills and agents at work, and events that only a conversation has, each played to its effect."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cellwright.events import RunEnd, SubagentEvent
from cellwright.testing import MessagesServer, fault, say, turn, use
from project_talk import ProjectTalk

KEEP = "import json, sys; open(sys.argv[1], 'a').write(json.dumps(json.load(sys.stdin)) + '\\n')"


class Talk(ProjectTalk):
    """A conversation in a project, with hooks that write down what they are told."""

    def __init__(self, server: MessagesServer, root: Path) -> None:
        super().__init__(server, root)
        self.kept = root / "kept"

    def write(self, name: str, content: Any) -> Path:
        return super().write(name, content if isinstance(content, str) else json.dumps(content))

    def hook(self, name: str = "kept", code: str = KEEP, **more: Any) -> dict[str, Any]:
        """A hook that writes what it is told to a file."""
        words = [sys.executable, "-c", code, str(self.kept.with_name(name))]
        return {"hooks": [{"type": "command", "command": shlex.join(words), **more}]}

    def told(self, name: str = "kept") -> list[dict[str, Any]]:
        file = self.kept.with_name(name)
        return [json.loads(line) for line in file.read_text("utf-8").splitlines()] if file.exists() else []

    def say(self, prompt: str, *turns: Any, **options: Any) -> RunEnd:
        return self.run(prompt, *turns, allow=("Skill", "Read", "Write"), **options)


@pytest.fixture
def talk(messages_server: Callable[..., MessagesServer], tmp_path: Path) -> Iterator[Talk]:
    made = Talk(messages_server(), tmp_path)
    yield made
    made.conversation.close()
    assert made.server.rejected == []


def skill(talk: Talk, name: str, front: dict[str, Any], body: str = "Do it.", place: str = ".claude") -> Path:
    # JSON is YAML: a list of hooks in one line
    lines = "\n".join(f"{key}: {json.dumps(value)}" for key, value in front.items())
    return talk.write(f"{place}/skills/{name}/SKILL.md", f"---\n{lines}\n---\n{body}\n")


LOOK = use("Glob", pattern="*")


def test_a_skills_hooks_are_told_while_it_is_at_work(talk: Talk) -> None:
    skill(talk, "guarded", {"description": "Guards.", "hooks": {"PreToolUse": [talk.hook()]}})
    talk.begin()
    talk.say("/guarded", LOOK, say("Done."))
    assert [each["tool_name"] for each in talk.told()] == ["Glob"]
    talk.say("Look again.", LOOK, say("Done."))
    assert len(talk.told()) == 1


def test_a_skill_that_claude_loads_brings_its_hooks(talk: Talk) -> None:
    skill(talk, "guarded", {"description": "Guards.", "hooks": {"PreToolUse": [talk.hook()]}})
    talk.begin()
    talk.say("Go.", LOOK, use("Skill", skill="guarded"), LOOK, say("Done."))
    assert [each["tool_name"] for each in talk.told()] == ["Glob"]


def test_a_hook_of_a_skill_that_says_once_runs_once(talk: Talk) -> None:
    hooks = {"PreToolUse": [talk.hook("often"), talk.hook("once", once=True)]}
    skill(talk, "guarded", {"description": "Guards.", "hooks": hooks})
    talk.begin()
    talk.say("/guarded", LOOK, LOOK, say("Done."))
    assert (len(talk.told("often")), len(talk.told("once"))) == (2, 1)


def test_hooks_of_a_projects_skill_wait_for_trust_however_the_key_is_written(talk: Talk) -> None:
    file = skill(talk, "guarded", {"description": "Guards."}, place="project/.claude")
    text = json.dumps({"PreToolUse": [talk.hook()]})
    talk.begin()
    file.write_text(f'---\ndescription: Guards.\n"h\\u006foks": {text}\n---\nDo it.\n')
    talk.say("/guarded", LOOK, say("Done."))
    assert talk.told() == []
    assert any("rules or hooks" in item.text for item in talk.conversation.in_force.trust.waiting)
    question = talk.conversation.in_force.question()
    assert question is not None
    talk.conversation.in_force.answer(question, yes=True)
    talk.say("/guarded", LOOK, say("Done."))
    assert len(talk.told()) == 1


def agent(talk: Talk, name: str, front: dict[str, Any], place: str = ".claude") -> Path:
    lines = "\n".join(f"{key}: {json.dumps(value)}" for key, value in front.items())
    return talk.write(
        f"{place}/agents/{name}.md", f"---\nname: {name}\ndescription: Does it.\n{lines}\n---\nYou work.\n"
    )


def hand(kind: str) -> Any:
    return use("Agent", description="a task", prompt="Do it.", subagent_type=kind)


def test_an_agents_hooks_are_told_of_it_alone_and_its_stop_is_its_own(talk: Talk) -> None:
    agent(talk, "worker", {"hooks": {"PreToolUse": [talk.hook("calls")], "Stop": [talk.hook("stops")]}})
    talk.begin()
    talk.say("Go.", LOOK, hand("worker"), LOOK, say("It is done."), say("Done."))
    assert [(each["tool_name"], each["agent_type"]) for each in talk.told("calls")] == [("Glob", "worker")]
    assert [each["hook_event_name"] for each in talk.told("stops")] == ["SubagentStop"]


def test_hooks_of_a_projects_agent_wait_for_trust(talk: Talk) -> None:
    file = agent(talk, "worker", {}, "project/.claude")
    talk.begin()
    text = json.dumps({"PreToolUse": [talk.hook()]})
    file.write_text(f"---\nname: worker\ndescription: Does it.\nhooks: {text}\n---\nYou work.\n")
    talk.say("Go.", hand("worker"), LOOK, say("It is done."), say("Done."))
    assert talk.told() == []


def test_an_agent_with_memory_is_told_its_notes_and_can_write_them(talk: Talk) -> None:
    agent(talk, "worker", {"memory": "user", "tools": "Glob"})
    notes = talk.write(".claude/agent-memory/worker/MEMORY.md", "Tests are slow.\n" + "more\n" * 400)
    talk.begin()
    talk.say("Go.", hand("worker"), say("It is done."), say("Done."))
    asked = talk.server.requests[-2].body
    told = json.dumps(asked["messages"])
    assert "Tests are slow." in told
    assert told.count("more") == 199
    assert str(notes.parent) in told
    assert {tool["name"] for tool in asked["tools"]} == {"Glob", "Read", "Write", "Edit"}


def test_a_call_of_a_skill_can_be_held_back(talk: Talk) -> None:
    skill(talk, "deploy", {"description": "Deploys."})
    refuse = KEEP + "; print('Not today.', file=sys.stderr); sys.exit(2)"
    group = {**talk.hook(code=refuse), "matcher": "deploy"}
    talk.write(".claude/settings.json", {"hooks": {"UserPromptExpansion": [group]}})
    talk.begin()
    end = talk.say("/deploy the docs")
    assert end.error is not None
    assert "Not today." in end.error["message"]
    (told,) = talk.told()
    assert {
        key: told[key] for key in ("expansion_type", "command_name", "command_args", "command_source", "prompt")
    } == {
        "expansion_type": "slash_command",
        "command_name": "deploy",
        "command_args": "the docs",
        "command_source": "user",
        "prompt": "/deploy the docs",
    }
    assert talk.server.requests == []


def test_a_hook_adds_what_goes_with_a_skill(talk: Talk) -> None:
    skill(talk, "deploy", {"description": "Deploys."})
    group = talk.hook(code="print('Freeze until Monday.')")
    talk.write(".claude/settings.json", {"hooks": {"UserPromptExpansion": [group]}})
    talk.begin()
    talk.say("/deploy")
    assert "Freeze until Monday." in json.dumps(talk.server.requests[-1].body["messages"])


def test_changes_of_files_that_a_matcher_names_are_told(talk: Talk) -> None:
    group = {**talk.hook(), "matcher": ".envrc|other.txt"}
    talk.write(".claude/settings.json", {"hooks": {"FileChanged": [group]}})
    talk.begin()
    talk.say("Hello.")
    file = talk.project / "other.txt"
    talk.say("Write.", use("Write", file_path=str(file), content="one"), say("Written."))
    (talk.project / "unheard.txt").write_text("no")
    file.write_text("two, and longer")
    talk.say("Go on.")
    file.unlink()
    talk.say("Go on.")
    assert [(each["event"], Path(each["file_path"]).name) for each in talk.told()] == [
        *(("add", "other.txt"), ("change", "other.txt"), ("unlink", "other.txt")),
    ]


def test_a_skill_for_certain_files_is_offered_when_one_is_read(talk: Talk) -> None:
    skill(talk, "tables", {"description": "Knows tables.", "paths": ["*.csv"]})
    file = talk.write("project/a.csv", "1,2")
    talk.begin()
    talk.say("Hello.")
    assert "Knows tables." not in json.dumps(talk.server.requests[-1].body["messages"])
    talk.say("Read it.", use("Read", file_path=str(file)), say("Read."))
    assert "Knows tables." in json.dumps(talk.server.requests[-1].body["messages"][-1])
    assert "Knows tables." not in json.dumps(talk.server.requests[-2].body["messages"])
    talk.say("/tables")
    assert "Do it." in json.dumps(talk.server.requests[-1].body["messages"])


def test_a_forked_skill_works_with_its_own_model(talk: Talk) -> None:
    front = {"description": "Forks.", "context": "fork", "model": "haiku", "agent": "Explore"}
    skill(talk, "apart", front)
    talk.begin()
    talk.say("Go.", use("Skill", skill="apart"), say("Found."), say("Done."))
    assert "haiku" in talk.server.requests[1].body["model"]
    assert any(isinstance(event, SubagentEvent) for event in talk.events)


def test_the_end_of_an_agent_in_the_background_is_a_notification(talk: Talk) -> None:
    os.mkfifo(talk.kept)  # reading it waits for the hook
    talk.write(".claude/settings.json", {"hooks": {"Notification": [{**talk.hook(), "matcher": "agent_completed"}]}})
    talk.begin()
    call = use("Agent", description="d", prompt="Work.", subagent_type="Explore", run_in_background=True)
    talk.say("Go.", call, say("One."), say("Two."), say("Three."))
    (told,) = talk.told()
    assert told["notification_type"] == "agent_completed"
    assert "Explore" in told["message"]


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"]
    return subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


def in_a_repository(talk: Talk) -> Path:
    git(talk.project, "init", "-q")
    file = talk.write("project/a.txt", "one\n")
    git(talk.project, "add", "-A")
    git(talk.project, "commit", "-qm", "first")
    agent(talk, "worker", {"isolation": "worktree"})
    talk.begin()
    return file


def test_an_agent_in_a_work_tree_of_its_own_leaves_the_projects_files_alone(talk: Talk) -> None:
    file = in_a_repository(talk)
    talk.say("Go.", hand("worker"), use("Write", file_path="b.txt", content="new"), say("Written."), say("Done."))
    (result,) = talk.results
    assert "changes are in" in str(result.content)
    (folder,) = [each for each in (talk.project / ".claude" / "worktrees").iterdir() if each.is_dir()]
    assert (folder / "b.txt").read_text() == "new"
    assert not (talk.project / "b.txt").exists()
    assert git(talk.project, "status", "--porcelain") == ""
    assert file.read_text() == "one\n"


def test_no_work_tree_is_made_through_a_link_that_the_project_commits(talk: Talk, tmp_path: Path) -> None:
    (tmp_path / "kernels").mkdir()
    talk.write("project/kernel.json", "{}")
    (talk.project / ".claude").mkdir()
    (talk.project / ".claude" / "worktrees").symlink_to(tmp_path / "kernels")
    in_a_repository(talk)
    talk.say("Go.", hand("worker"), say("It could not begin."))
    (result,) = talk.results
    assert (result.status, "is a symbolic link" in str(result.content)) == ("error", True)
    assert list((tmp_path / "kernels").iterdir()) == []


def test_the_isolation_of_a_projects_agent_waits_for_trust_and_is_named(talk: Talk) -> None:
    git(talk.project, "init", "-q")
    talk.write("project/a.txt", "one\n")
    agent(talk, "worker", {"isolation": "worktree"}, place="project/.claude")
    git(talk.project, "add", "-A")
    git(talk.project, "commit", "-qm", "first")
    agent(talk, "worker", {}, place="project/.claude")
    talk.begin()
    assert talk.conversation.in_force.question() is None
    agent(talk, "worker", {"isolation": "worktree"}, place="project/.claude")
    talk.say("Go.", hand("worker"), say("Looked."), say("Done."))
    assert not (talk.project / ".claude" / "worktrees").exists()
    question = talk.conversation.in_force.question()
    assert question is not None
    assert "for an agent:" in question.detail
    assert "worker.md" in question.detail
    talk.conversation.in_force.answer(question, yes=True)
    talk.say("Go.", hand("worker"), use("Write", file_path="b.txt", content="new"), say("Written."), say("Done."))
    assert (talk.project / ".claude" / "worktrees").is_dir()


def test_a_work_tree_without_changes_goes(talk: Talk) -> None:
    in_a_repository(talk)
    talk.say("Go.", hand("worker"), use("Read", file_path="a.txt"), say("Read."), say("Done."))
    asked = json.dumps(talk.server.requests[-2].body["messages"])
    assert "agent-" in asked
    assert "one" in asked
    assert [each.name for each in (talk.project / ".claude" / "worktrees").iterdir()] == [".gitignore"]
    assert "agent-" not in git(talk.project, "branch")


def test_a_work_tree_needs_a_repository(talk: Talk) -> None:
    agent(talk, "worker", {"isolation": "worktree"})
    talk.begin()
    talk.say("Go.", hand("worker"), say("It could not begin."))
    (result,) = talk.results
    assert (result.status, "git" in str(result.content)) == ("error", True)


def test_a_hook_makes_the_work_tree_in_gits_place_and_removes_it(talk: Talk) -> None:
    agent(talk, "worker", {"isolation": "worktree"})
    make = KEEP + "; os.mkdir(sys.argv[1] + '.tree'); print('Made.'); print(sys.argv[1] + '.tree')"
    remove = KEEP + "; os.rename(sys.argv[1] + '.tree', sys.argv[1] + '.gone')"
    hooks = {
        "WorktreeCreate": [talk.hook(code=f"import os; {make}")],
        "WorktreeRemove": [talk.hook(code=f"import os; {remove}")],
    }
    talk.write(".claude/settings.json", {"hooks": hooks})
    talk.begin()
    talk.say("Go.", hand("worker"), use("Write", file_path="b.txt", content="new"), say("Written."), say("Done."))
    gone = talk.kept.with_name("kept.gone")
    assert (gone / "b.txt").read_text() == "new"
    created, removed = talk.told()
    assert created["name"].startswith("agent-")
    assert removed["worktree_path"] == str(talk.kept.with_name("kept.tree"))


def test_a_hook_that_makes_no_work_tree_fails_the_call(talk: Talk) -> None:
    agent(talk, "worker", {"isolation": "worktree"})
    group = talk.hook(code="import sys; print('no room', file=sys.stderr); sys.exit(1)")
    talk.write(".claude/settings.json", {"hooks": {"WorktreeCreate": [group]}})
    talk.begin()
    talk.say("Go.", hand("worker"), say("It could not begin."))
    (result,) = talk.results
    assert (result.status, "no room" in str(result.content)) == ("error", True)


def test_behind_a_summary_an_agent_still_knows_its_own_work_tree(talk: Talk) -> None:
    in_a_repository(talk)
    talk.write("project/CLAUDE.md", "Write tide, not flood.")
    too_long = fault(
        "status", status=400, error_type="invalid_request_error", message="prompt is too long: 9 tokens > 8 maximum"
    )
    summary = turn(say("<summary>It read a.txt.</summary>"), when="Everything above will be replaced by a summary")
    read = use("Read", file_path="a.txt")
    talk.say(
        "Go.",
        hand("worker"),
        read,
        too_long,
        summary,
        use("Write", file_path="b.txt", content="new"),
        say("Written."),
        say("Done."),
    )
    told = json.dumps(talk.server.requests[-3].body["messages"])
    assert "It read a.txt." in told
    (folder,) = [each for each in (talk.project / ".claude" / "worktrees").iterdir() if each.is_dir()]
    assert f"Working folder: {folder}" in told
    assert f"Working folder: {talk.project}\\n" not in told
    assert (folder / "b.txt").read_text() == "new"
