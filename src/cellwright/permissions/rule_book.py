"""The rules in force, compiled: what every kind of call is judged by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cellwright.agent.approval import Decision
from cellwright.permissions.modes import Mode
from cellwright.permissions.rules import CompiledRule


@dataclass(frozen=True, slots=True)
class RuleBook:
    """Mode, compiled rules, the session's folders in every spelling; `cwd` is absolute, relative paths start there."""

    mode: Mode
    deny: tuple[CompiledRule, ...]
    ask: tuple[CompiledRule, ...]
    allow: tuple[CompiledRule, ...]
    folders: tuple[str, ...]
    cwd: str


BYPASSED = Decision("allow", "Mode bypassPermissions allows it.")


def denied_by(rule: CompiledRule, what: str) -> Decision:
    """`what` is the subject of the sentence the user reads."""
    return Decision(
        "deny", f"{what} is denied by the rule `{rule.rule}`; only removing that rule allows it.", str(rule.rule)
    )


def asked_by(rule: CompiledRule, what: str) -> Decision:
    """`what` is the subject of the sentence the user reads."""
    return Decision("ask", f"{what} is asked for by the rule `{rule.rule}`.", str(rule.rule), firm=True)


def allowed_by(rule: CompiledRule) -> Decision:
    return Decision("allow", f"The rule `{rule.rule}` allows it.", str(rule.rule))


def denied_by_plan(tool_name: str) -> Decision:
    return Decision(
        "deny", f"Plan mode only reads and looks; {tool_name} has to wait until the user leaves it for another mode."
    )


def first_of_every_use(rules: Sequence[CompiledRule], tool_name: str) -> CompiledRule | None:
    """The first rule that covers every use of `tool_name`."""
    return next((rule for rule in rules if rule.every_use and rule.names(tool_name)), None)
