"""Definitions of agents: which files count, what they say, and what waits for trust."""

from __future__ import annotations

from pathlib import Path

import pytest

from cellwright.config.agents import BUILT_IN, AgentDefinition, NoAgent, find_agents, read_definition
from cellwright.config.settings.settings_in_force import SettingsInForce
from cellwright.config.skills import SkillPlace


@pytest.fixture
def folders(tmp_path: Path) -> SkillPlace:
    return SkillPlace(
        cwd=tmp_path / "project/sub",
        project=tmp_path / "project",
        users=tmp_path / "home/.claude",
        managed=tmp_path / "managed/.claude",
        trusted=True,
    )


def written(file: Path, front: str, body: str = "You work.") -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"---\n{front}\n---\n{body}\n", "utf-8")
    return file


def defined(tmp_path: Path, front: str) -> AgentDefinition:
    return read_definition(written(tmp_path / "a.md", f"name: a\ndescription: A.\n{front}"), "user")


def test_front_matter_is_claude_codes(tmp_path: Path) -> None:
    agent = defined(
        tmp_path,
        "tools: Read, Bash(git *), Task\ndisallowedTools: [Write]\nmodel: haiku\npermissionMode: plan\nmaxTurns: 3\n"
        "skills: testing\neffort: low\nbackground: true\ncolor: red\nx-own: 1",
    )
    assert (agent.tools, agent.disallowed_tools) == (("Read", "Bash", "Agent"), ("Write",))
    assert (agent.model, agent.mode, agent.max_turns, agent.effort) == ("haiku", "plan", 3, "low")
    assert (agent.skills, agent.background, agent.color, agent.values["x-own"]) == (("testing",), True, "red", 1)
    assert (agent.body, agent.problems) == ("You work.", ())


def test_what_is_left_out_is_inherited(tmp_path: Path) -> None:
    agent = defined(tmp_path, "model: inherit\ntools: '*'")
    assert (agent.tools, agent.model, agent.mode, agent.max_turns) == (None, None, None, None)


def test_what_is_not_understood_is_named(tmp_path: Path) -> None:
    agent = defined(tmp_path, "maxTurns: many\neffort: huge\npermissionMode: yolo")
    assert agent.mode == "plan"
    for word in ("maxTurns is 'many'", "effort is 'huge'", "yolo"):
        assert any(word in problem for problem in agent.problems)


@pytest.mark.parametrize("front", ["description: A.", "name: a", "model: opus", "name: two words\ndescription: A."])
def test_a_file_without_name_or_description_is_no_agent(tmp_path: Path, front: str) -> None:
    with pytest.raises(NoAgent):
        read_definition(written(tmp_path / "a.md", front), "user")


def test_descriptions_that_yaml_refuses_are_read(tmp_path: Path) -> None:
    file = tmp_path / "a.md"
    file.write_bytes(b"\xef\xbb\xbf---\r\nname: a\r\ndescription: Use it so: <example>x</example>\r\n---\r\nBody\r\n")
    agent = read_definition(file, "user")
    assert (agent.description, agent.body) == ("Use it so: <example>x</example>", "Body")


def test_the_higher_of_one_name_counts_and_the_rest_is_told(folders: SkillPlace) -> None:
    written(folders.project / ".claude/agents/deep/one.md", "name: one\ndescription: project")
    written(folders.cwd / ".claude/agents/one.md", "name: one\ndescription: nearest")
    written(folders.users / "agents/one.md", "name: one\ndescription: user")
    written(folders.users / "agents/Explore.md", "name: Explore\ndescription: mine")
    bad = written(folders.users / "agents/readme.md", "title: no agent")
    found = find_agents(folders)
    assert (found.agents["one"].description, found.agents["Explore"].description) == ("nearest", "mine")
    assert [(path, "name and description" in why) for path, why in found.skipped] == [(bad, True)]
    written(folders.managed / "agents/one.md", "name: one\ndescription: managed")
    assert find_agents(folders).agents["one"].description == "managed"


def test_built_in_agents_are_whole(folders: SkillPlace) -> None:
    agents = find_agents(folders).agents
    assert agents.keys() == {
        *("general-purpose", "Explore", "Plan", "context-fetcher", "file-creator", "git-workflow", "test-runner"),
        *("code-reviewer", "developer", "planner", "prioritizer", "reviewer"),
    }
    assert len(agents) == len(list(BUILT_IN.glob("*.md")))
    for agent in agents.values():
        assert agent.body
        assert agent.problems == ()
    assert agents["Explore"].mode == agents["Plan"].mode == "plan"


def test_a_projects_agents_wait_for_trust(tmp_path: Path) -> None:
    project = tmp_path / "home/project"
    (project / ".git").mkdir(parents=True)
    written(project / ".claude/agents/one.md", "name: one\ndescription: One.")
    hooked = written(project / ".claude/agents/two.md", "name: two\ndescription: Two.\nhooks: {}")

    def in_force() -> SettingsInForce:
        return SettingsInForce(project, {"HOME": str(tmp_path / "home")})

    first = in_force()
    assert "one" not in find_agents(first.skill_place).agents
    question = first.question()
    assert question is not None
    assert "/one.md" in question.detail
    assert "/two.md" in question.detail
    first.answer(question, yes=True)
    assert "one" in find_agents(in_force().skill_place).agents
    written(project / ".claude/agents/three.md", "name: three\ndescription: Three.")
    assert in_force().question() is None
    hooked.write_text(hooked.read_text() + "more")
    question = in_force().question()
    assert question is not None
    assert "of an agent:" in question.detail
