"""The skills and commands of a conversation: offered to Claude, called by the user with a slash or by Claude's tool.

A call puts the skill's text beside the user's words, or into the tool's result, with its arguments, the output of its
`` !`commands` `` and the files it mentions. A command runs only where the policy lets it run unasked.
"""

from __future__ import annotations

import asyncio
import functools
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace as changed
from pathlib import Path
from weakref import WeakKeyDictionary

from msgspec import Struct
from msgspec.structs import replace

from cellwright.agent.agent_setup import AgentSetup
from cellwright.agent.hooks.hook_answers import HooksTogether
from cellwright.agent.hooks.make_hooks import as_hooks, together
from cellwright.agent.hooks.protocol import NO_HOOKS, Hooks
from cellwright.agent.prompt import ContextItem, ContextItems, ContextProvider, PromptContext, found_by, text_context
from cellwright.agent.tool import ToolContext, ToolResult
from cellwright.config.hooks.hooks_in_force import HooksInForce
from cellwright.config.memory import matches_globs
from cellwright.config.settings.layers import Scope
from cellwright.config.settings.option_table import environment_of
from cellwright.config.settings.settings_in_force import SettingsInForce
from cellwright.config.skills import (
    SHELL_COMMAND,
    SKILL_FILE,
    Arguments,
    Skill,
    find_skills,
    search_skills,
    skill_places,
)
from cellwright.config.trust.trust import HOW_TO_TRUST
from cellwright.config.user_files import KeptSearch
from cellwright.conversation.feature import (
    Feature,
    PromptCall,
    RunInfo,
    is_in_history,
    listed_line,
    listing,
    read_ahead,
    unheard,
)
from cellwright.conversation.mentions import mentioned_files
from cellwright.conversation.runs.run_options import RunOptions
from cellwright.errors import CellwrightError, ErrorCode, ToolError
from cellwright.events import NotLoaded
from cellwright.permissions.rules.name_pattern import GENERAL_AGENT
from cellwright.sessions.session import Session
from cellwright.text import lazy_pattern
from cellwright.tools.agent import AgentInput
from cellwright.tools.skill import LoadedSkill

LISTING_CHARS = 16_000
"""The most that the list of skills may take of a conversation: about 4,000 tokens."""

_CALL = lazy_pattern(r"\s*/(?P<name>[A-Za-z0-9][\w-]*(?::[\w-]+)*)(?P<arguments>(?:\s.*)?)", re.DOTALL)
_OTHER_NAMES = {"review": "code-review"}
"""Names that users of Claude Code know skills by, which one of their own may have."""

_TAG = "skills"
_FORKS = (
    '<wanted agent="{agent}">\nThis skill runs in a context of its own: call the Agent tool with subagent_type '
    '"{agent}"{more} and the whole text of the skill as its prompt, then report the result.\n</wanted>'
)


class SkillCall(Struct, frozen=True):
    """A skill and what stands after its name."""

    skill: Skill
    arguments: str = ""

    @property
    def expansion(self) -> Mapping[str, str]:
        """The fields that UserPromptExpansion hooks are told of it."""
        return {
            "expansion_type": "slash_command",
            "command_name": self.skill.name,
            "command_args": self.arguments,
            "command_source": self.skill.scope,
        }

    def options(self, options: RunOptions) -> RunOptions:
        """The options of a run that the user began with this call: what the skill wants and the user did not say."""
        skill = self.skill
        return replace(
            options.completed_by(skill),
            allow=(*options.allow, *skill.allowed_tools),
            deny=(*options.deny, *skill.disallowed_tools),
        )


class Skills(Feature):
    """Finds the skills that count, tells Claude of them, and renders the text of a call."""

    def __init__(self, in_force: SettingsInForce, hooks: HooksInForce | None = None) -> None:
        self._in_force = in_force
        self._search = KeptSearch(search_skills, skill_places)
        self._hooks = hooks or HooksInForce(in_force)
        self._context: PromptContext | None = None
        self._at_work: list[Hooks] = []
        self._touched: WeakKeyDictionary[Session, set[Path]] = WeakKeyDictionary()

    def all(self) -> dict[str, Skill]:
        """The skills and commands that count now, by name; what settings switch off is not among them."""
        place = self._in_force.skill_place
        rights = self._in_force.trust.skill_rights
        overrides = self._in_force.settings.skill_overrides
        found = {}
        for name, skill in self._search.find(place).skills.items():
            match overrides.get(name, "on"):
                case "off":
                    continue
                case "user-invocable-only":
                    skill = replace(skill, by_claude=False)
                case "name-only":
                    skill = replace(skill, description="")
                case _:
                    pass
            if skill.scope == "project" and skill.file not in rights:
                skill = replace(skill, allowed_tools=(), hooks={})
            found[name] = skill
        return found

    def not_loaded(self) -> list[NotLoaded]:
        """The files of skills and commands that define none."""
        skipped = self._search.find(self._in_force.skill_place).skipped
        named = [(file.parent.name if file.name == SKILL_FILE else file.stem, file, why) for file, why in skipped]
        return [NotLoaded("skill", name, f"{why} ({file})") for name, file, why in named]

    def options(self, run: RunInfo, options: RunOptions) -> RunOptions:
        if (call := self.called_by(run.prompt)) is not None:
            return call.options(options)
        self.check_trusted(run.prompt)
        return options

    def for_run(self, run: RunInfo, agent: AgentSetup) -> AgentSetup:
        """`agent` with the hooks of the skill that the prompt calls, and of those that Claude loads from now on."""
        self._at_work = []
        if (call := self.called_by(run.prompt)) is not None:
            self._put_to_work(call.skill)
        return changed(agent, hooks=together(as_hooks(agent.hooks), HooksTogether(self._at_work)))

    def call(self, run: RunInfo, prompt: PromptContext) -> PromptCall | None:
        if (call := self.called_by(run.prompt)) is None:
            return None
        own = replace(prompt, words="", tools={tool.name: tool for tool in prompt.agent.tools})
        return PromptCall(functools.partial(self.block, call, own), call.expansion)

    def notices(self, run: RunInfo) -> Sequence[str]:
        """Name what is not clear of the rules of skills: they would allow or deny something else than somebody meant."""
        return [f"/{each.name} ({each.file}): {why}." for each in self.all().values() for why in each.unclear]

    def context(self, run: RunInfo, prompt: PromptContext) -> ContextProvider:
        return read_ahead(self._news, prompt)

    def _put_to_work(self, skill: Skill) -> None:
        scope: Scope = skill.scope if skill.scope in ("managed", "project") else "user"
        label = f"the skill {skill.name}"
        hooks = self._hooks.of_component(label, skill.hooks, scope=scope, variables=skill.variables)
        if hooks is not NO_HOOKS:
            self._at_work.append(hooks)

    def called_by(self, prompt: object) -> SkillCall | None:
        """The call that a prompt is; None for any other prompt."""
        match = _CALL.fullmatch(prompt) if isinstance(prompt, str) else None
        skills = self.all() if match is not None else {}
        name = match["name"] if match is not None else ""
        skill = skills.get(name) or skills.get(_OTHER_NAMES.get(name, ""))
        if match is None or skill is None or not skill.by_user:
            return None
        return SkillCall(skill, match["arguments"].strip())

    def check_trusted(self, prompt: object) -> None:
        """Raises CellwrightError PERMISSION_DENIED for a call of a skill that waits for trust in the folder."""
        if name := self._withheld(prompt):
            message = (
                f"/{name} comes with the folder {self._in_force.trust.folder}, which you have not trusted. "
                f"Nothing was sent. Ask again and trust it, or write the prompt out. {HOW_TO_TRUST}"
            )
            raise CellwrightError(ErrorCode.PERMISSION_DENIED, message)

    def is_call(self, prompt: str) -> bool:
        """Return whether `prompt` calls a skill, one that waits for trust included: the user is asked when it is sent."""
        return self.called_by(prompt) is not None or bool(self._withheld(prompt))

    def _withheld(self, prompt: object) -> str:
        place = self._in_force.skill_place
        match = _CALL.fullmatch(prompt) if isinstance(prompt, str) and not place.trusted else None
        if match is None or match["name"] in self.all():
            return ""
        return match["name"] if match["name"] in find_skills(replace(place, trusted=True)) else ""

    def called_by_claude(self, name: str, arguments: str) -> SkillCall:
        """The call that Claude's tool makes. Raises ToolError for a skill that there is not for Claude."""
        skills = {each.name: each for each in self.all().values() if each.by_claude}
        skill = skills.get(name.removeprefix("/"))
        if skill is None:
            known = ", ".join(sorted(skills)) or "none"
            raise ToolError(f"Skill {name} was not found. The skills are: {known}.", code=ErrorCode.TOOL_NOT_FOUND)
        return SkillCall(skill, arguments)

    async def load(self, name: str, arguments: str) -> LoadedSkill:
        """Render a skill for Claude's tool. Raises ToolError."""
        call = self.called_by_claude(name, arguments)
        if self._context is None:
            raise ToolError("No run is active that could load a skill.")
        skill = call.skill
        text = await self.text(call, self._context)
        self._put_to_work(skill)
        if not skill.forks:
            return LoadedSkill(text, skill.allowed_tools)
        task = AgentInput(
            description=f"skill {name}",
            prompt=text,
            subagent_type=skill.agent or GENERAL_AGENT,
            run_in_background=skill.background,
            **skill.said(),
        )
        return LoadedSkill(text, skill.allowed_tools, task)

    def _news(self, prompt_context: PromptContext) -> ContextItems:
        """Tell Claude which skills there are when that has changed."""
        self._context = prompt_context
        if prompt_context.session.is_fresh:
            return ContextItems()  # it stands with where Claude works
        block = self.listed(prompt_context.agent, prompt_context.session)
        if is_in_history(_TAG, block, prompt_context.session):
            return ContextItems()
        return ContextItems(before=(text_context("Skills", "skill", block),))

    def listed(self, agent: AgentSetup, session: Session | None = None) -> str:
        """The list of skills as `agent` is told of it; "" where it could load none.

        Skills for certain files are in it once `session` has worked with one.
        """
        if not any(tool.access.kind == "skill" for tool in agent.tools):
            return ""
        return listing(_TAG, listing_text(self._offered(() if session is None else self._touched.get(session, ()))))

    def _offered(self, touched: Collection[Path]) -> dict[str, Skill]:
        return {name: each for name, each in self.all().items() if not each.paths or self._is_for(each, touched)}

    def _is_for(self, skill: Skill, touched: Collection[Path]) -> bool:
        project = self._in_force.memory_place.project
        return any(matches_globs(path, skill.paths, project) for path in touched)

    async def after_calls(self, paths: Sequence[Path], session: Session, agent: AgentSetup) -> list[ContextItem]:
        """Tell of skills for the files that calls have just read or changed, when they are the first of their kind."""
        if not paths:
            return []
        known = self._touched.setdefault(session, set())
        before = set(known)
        known.update(paths)
        if known == before or not any(tool.access.kind == "skill" for tool in agent.tools):
            return []
        skills = await asyncio.to_thread(self.all)
        new = [
            each
            for each in skills.values()
            if each.paths and each.by_claude and self._is_for(each, paths) and not self._is_for(each, before)
        ]
        if not new:
            return []
        return [text_context("Skills", "skill", listing(_TAG, listing_text(self._offered(known))))]

    async def block(self, call: SkillCall, prompt_context: PromptContext) -> tuple[ContextItem, ...]:
        """Tell a skill that a prompt calls, and its files. Raises CellwrightError where a command of its may not run."""
        name = call.skill.name
        try:
            text = await self.text(call, prompt_context)
        except ToolError as error:
            raise CellwrightError(error.code, f"/{name}: {error.message} Nothing was sent.") from None
        if call.skill.forks:
            text += "\n" + _FORKS.format(
                agent=call.skill.agent or GENERAL_AGENT,
                more=", run_in_background true" if call.skill.background else "",
            )
        told = await found_by(mentioned_files(self._in_force.cwd), replace(prompt_context, words=text))
        return (text_context(f"/{name}", "skill", text), *told.after)

    async def text(self, call: SkillCall, prompt_context: PromptContext) -> str:
        """The skill's text with everything in its place. Raises ToolError where a command of its may not run or fails."""
        skill = call.skill

        arguments = Arguments(call.arguments, skill.argument_names, self._variables(skill, prompt_context))
        parts, at = [], 0
        for found in SHELL_COMMAND.finditer(skill.body):
            parts.append(arguments.fill(skill.body[at : found.start()]))
            command = arguments.fill(found["inline"] or found["block"])
            parts.append(await self._output(command.strip(), skill, prompt_context))
            at = found.end()
        parts.append(arguments.fill(skill.body[at:]))
        body = arguments.appended("".join(parts)).strip()
        folder = "" if skill.is_command else f' folder="{skill.folder}"'
        return f'<skill name="{skill.name}"{folder}>\n{body}\n</skill>'

    def _variables(self, skill: Skill, prompt_context: PromptContext) -> Mapping[str, str]:
        return {
            "CLAUDE_SESSION_ID": prompt_context.session.id,
            **environment_of(prompt_context.agent.model_settings.chosen),
            "CLAUDE_SKILL_DIR": str(skill.folder),
            "CLAUDE_PROJECT_DIR": str(self._in_force.memory_place.project),
            **skill.variables,
        }

    async def _output(self, command: str, skill: Skill, prompt_context: PromptContext) -> str:
        if self._in_force.settings.disable_skill_shell_execution:
            return "[shell commands of skills are switched off]"
        shell = next((tool for tool in prompt_context.tools.values() if tool.access.kind == "shell"), None)
        if shell is None:
            raise ToolError(f"it runs `{command}`, and there is no shell here.")
        if skill.scope == "project" and skill.file not in self._in_force.trust.skill_rights:
            raise ToolError(f"it runs `{command}`, which you have not trusted. A new session asks about it.")
        policy = prompt_context.agent.policy.allowing((*prompt_context.session.granted, *skill.allowed_tools))
        tool_input = {"command": command, "description": f"for the skill {skill.name}"}
        facts = shell.facts(tool_input) if shell.facts is not None else {}
        decision = policy.decide(shell, {**tool_input, **facts})
        if decision.behavior != "allow":
            raise ToolError(
                f"it runs `{command}` before it is sent, and that is not allowed unasked: {decision.reason} "
                "A rule of yours can allow it (/permissions).",
                code=ErrorCode.PERMISSION_DENIED,
            )
        session_id, confinement = prompt_context.session.id, decision.confinement
        context = ToolContext("skill", unheard, session_id=session_id, confinement=confinement, facts=facts)
        result = await shell.call(tool_input, context)
        content = result.content if isinstance(result, ToolResult) else result
        text = content if isinstance(content, str) else "\n".join(str(each.get("text", "")) for each in content)
        if isinstance(result, ToolResult) and result.is_error:
            raise ToolError(f"its command `{command}` failed: {text[-2_000:]}")
        if (redaction := prompt_context.agent.redaction) is not None:
            text = (await asyncio.to_thread(redaction.clean, text)).text
        return text


def listing_text(skills: Mapping[str, Skill]) -> str:
    """The skills that Claude may call, a line each, within `LISTING_CHARS`; "" where there is none."""
    offered = {skill.file: skill for skill in reversed([*skills.values()]) if skill.by_claude}
    if not offered:
        return ""
    room = LISTING_CHARS // len(offered)
    lines = [
        "Skills that you can load with the Skill tool when they fit the work:",
        *sorted(listed_line(skill.name, skill.description, room) for skill in offered.values()),
    ]
    return "\n".join(lines)
