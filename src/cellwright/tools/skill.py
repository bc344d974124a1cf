"""Skill: the text of a skill becomes part of the conversation when the work is what it is for. Fields are Claude Code's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Annotated, NamedTuple

from msgspec import Meta
from msgspec.structs import replace

from cellwright.agent.calls.tool_input import ToolInput
from cellwright.agent.calls.tool_results import ToolOutput
from cellwright.agent.tool import Tool, ToolAccess, ToolContext, ToolLimits, ToolResult, tool
from cellwright.tools.agent import AgentInput, StartAgent

DESCRIPTION = """\
Load a skill: instructions for a kind of work, and files that go with them. The available skills were listed with \
their descriptions; load one before you start the work that it fits, and follow it. `args` are its arguments."""


class SkillInput(ToolInput):
    """The input of Skill."""

    skill: Annotated[str, Meta(min_length=1, max_length=200, description="The skill's name, as it was listed.")]
    args: Annotated[str, Meta(max_length=10_000, description="What the skill is given.")] = ""


class SkillOutput(ToolOutput):
    """The skill that was loaded, and the allow rules that it brought for the rest of the run; `agent_id` did it."""

    skill: str
    rules: tuple[str, ...]
    agent_id: str | None = None


class LoadedSkill(NamedTuple):
    """The text of a skill, the rules that hold for the rest of the run, and the task of the agent that does it.

    Without a `task` Claude itself follows it.
    """

    text: str
    rules: tuple[str, ...] = ()
    task: AgentInput | None = None


LoadSkill = Callable[[str, str], Awaitable[LoadedSkill]]
"""Renders the skill of a name with its arguments. Raises ToolError where there is none, or it may not be loaded."""


def skill_tool(load: LoadSkill, start: StartAgent | None = None) -> Tool:
    """Skill; `load` knows the skills, and `start` has an agent do one."""

    @tool(
        name="Skill",
        other_names=(
            "use_skill",
            "load_skill",
        ),
        output=SkillOutput,
        description=DESCRIPTION,
        access=ToolAccess("skill", "skill"),
        category="planning",
        limits=ToolLimits(seconds=None),
        examples=[{"skill": "code-review", "args": "src/loader.py"}],
        title=lambda input: f"Use the skill {input.skill} {input.args or ''}".strip(),
    )
    async def skill(input: SkillInput, ctx: ToolContext) -> ToolResult:
        loaded = await load(input.skill, input.args)
        if loaded.rules:
            ctx.grant(loaded.rules)
        if loaded.task is not None and start is not None:
            done = await start(loaded.task, ctx)
            output = SkillOutput(skill=input.skill, rules=loaded.rules, agent_id=done.structured.agent_id)
            return replace(done, structured=output)
        return ToolResult(loaded.text, structured=SkillOutput(skill=input.skill, rules=loaded.rules))

    return skill
