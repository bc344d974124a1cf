"""The rules in force, compiled: what every kind of call is judged by."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cellwright.agent.calls.approval import Decision
from cellwright.permissions.modes import Mode
from cellwright.permissions.rules.rule import Behavior, CompiledRule


@dataclass(frozen=True, slots=True)
class RuleBook:
    """Mode, compiled rules, the session's folders in every spelling; `cwd` is absolute, relative paths start there.

    `readable` are folders besides where reading is as inside. `blocks_reads` and `blocks_writes`: the settings
    `permissions.block{Reads,Writes}OutsideWorkingDirectories`, which no rule and no mode lifts.
    """

    mode: Mode
    deny: tuple[CompiledRule, ...]
    ask: tuple[CompiledRule, ...]
    allow: tuple[CompiledRule, ...]
    folders: tuple[str, ...]
    cwd: str
    readable: tuple[str, ...] = ()
    blocks_reads: bool = False
    blocks_writes: bool = False
    _about: dict[tuple[Behavior, str], tuple[CompiledRule, ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def about(self, behavior: Behavior, tool_name: str) -> tuple[CompiledRule, ...]:
        """The rules of one kind that speak about a tool, in their order."""
        found = self._about.get((behavior, tool_name))
        if found is None:
            rules = {"deny": self.deny, "ask": self.ask, "allow": self.allow}[behavior]
            found = self._about[behavior, tool_name] = tuple(rule for rule in rules if rule.names(tool_name))
        return found


@dataclass(frozen=True, slots=True)
class Call:
    """A call to be judged. `read_only` is what the tool claims of itself."""

    name: str
    input: Mapping[str, Any]
    read_only: bool = False

    def text(self, field: str) -> str:
        """The text in `field`; "" where there is none or something else: input may be judged before it is validated."""
        value = self.input.get(field)
        return value if isinstance(value, str) else ""


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


def judge_by_rules(
    book: RuleBook,
    tool_name: str,
    otherwise: Decision,
    *,
    covers: Callable[[CompiledRule], bool] | None = None,
    in_plan: bool = False,
    what: str = "",
) -> Decision:
    """Deny rules, plan mode, ask rules, bypassPermissions, allow rules, and what holds `otherwise`; the first speaks.

    `covers` says whether a rule with a specifier is about this call; `in_plan`: plan mode has nothing against it. An
    `otherwise` that is firm holds in bypassPermissions too.
    """

    def first(behavior: Behavior) -> CompiledRule | None:
        about = book.about(behavior, tool_name)
        return next((rule for rule in about if rule.every_use or (covers is not None and covers(rule))), None)

    what = what or f"The tool {tool_name}"
    if rule := first("deny"):
        return denied_by(rule, what)
    if book.mode == "plan" and not in_plan:
        return denied_by_plan(tool_name)
    if rule := first("ask"):
        return asked_by(rule, what)
    if otherwise.firm:
        return otherwise
    if book.mode == "bypassPermissions":
        return BYPASSED
    if rule := first("allow"):
        return allowed_by(rule)
    return otherwise
