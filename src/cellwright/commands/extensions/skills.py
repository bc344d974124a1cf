"""`/skills`: the skills and commands there are, who may call them, and where they come from."""

from __future__ import annotations

from pathlib import Path

from cellwright.commands.command import CommandCall, CommandPage, Row, Section
from cellwright.config.skills.skill import Skill
from cellwright.tools.paths import shown_path

_WHOSE = {
    "managed": "the administrator's",
    "user": "yours",
    "plugin": "a plugin's",
    "project": "the project's",
    "built-in": "comes with Cellwright",
}


def skills_page(call: CommandCall) -> CommandPage:
    """Show each skill, what was not understood of it, and what waits for trust."""
    skills = call.conversation.features.skills.all()
    rows: list[Row] = [("name", "what it is for", "called by", "where from")]
    own_first = sorted(skills, key=lambda name: (skills[name].scope == "built-in", name))
    rows += [_row(call.conversation.cwd, name, skills[name]) for name in own_first]
    text = "Call one with a slash: /name and its subject. Claude loads allowed skills by itself."
    sections = [Section("Skills and commands", rows, text)]
    problems = [(name, problem) for name, skill in skills.items() for problem in skill.problems]
    if problems:
        sections.append(Section("Not understood", [("name", "problem"), *problems]))
    waiting = [item.text for item in call.conversation.in_force.trust.waiting if "skill" in item.text]
    if waiting:
        rows = [("what", "why"), *((each, "waits until you trust the folder") for each in waiting)]
        sections.append(Section("Not there yet", rows))
    return CommandPage(sections)


def _row(cwd: Path, name: str, skill: Skill) -> Row:
    callers = [who for who, may in (("you", skill.by_user), ("Claude", skill.by_claude)) if may]
    where = _WHOSE[skill.scope]
    if skill.scope != "built-in":
        where += f", {shown_path(cwd, skill.file)}"
    return f"/{name} {skill.argument_hint}".strip(), skill.description, " and ".join(callers) or "nobody", where
