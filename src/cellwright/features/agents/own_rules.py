"""The rules among an agent's tools (`tools: Bash(git *)`): of such a tool it may do what the rules say, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from cellwright.agent.calls.approval import Decision, Policy
from cellwright.config.agents import AgentDefinition
from cellwright.permissions.policy import PermissionPolicy
from cellwright.permissions.rules.rule import own_name

if TYPE_CHECKING:
    from cellwright.agent.calls.confinement import Confinement
    from cellwright.agent.tool import Tool


def within_rules(base: Policy, definition: AgentDefinition, folder: Path) -> Policy:
    """`base`, for an agent that works in `folder`, as strict as the rules among its tools."""
    own = {
        name: PermissionPolicy(allow=rules, roots=(folder,), cwd=folder)
        for name, rules in definition.tool_rules.items()
    }
    return _WithinRules(base, definition.name, own) if own else base


def changed(policy: Policy, change: Callable[[PermissionPolicy], PermissionPolicy]) -> Policy:
    """`policy` with what `change` makes of the permissions in it, those of its rules included."""
    if isinstance(policy, _WithinRules):
        own = {name: change(rules) for name, rules in policy.own.items()}
        return replace(policy, base=changed(policy.base, change), own=own)
    return change(policy) if isinstance(policy, PermissionPolicy) else policy


class _WithinRules(Struct, frozen=True):
    """The policy of an agent that rules hold to what they allow: `own` are policies of these rules alone, by the tool."""

    base: Policy
    agent: str
    own: Mapping[str, PermissionPolicy]

    @property
    def mode(self) -> str:
        return self.base.mode

    def decide(self, tool: Tool, tool_input: Mapping[str, Any]) -> Decision:
        judged = self.base.decide(tool, tool_input)
        own = self.own.get(own_name(tool.name))
        if own is None or judged.behavior == "deny" or own.covers(tool, tool_input):
            return judged
        rules = ", ".join(f"`{rule}`" for rule in own.allow) or "nothing that is understood"
        allowed = f"The definition of the agent {self.agent} allows {tool.name} only for {rules}."
        return Decision("deny", f"{allowed} Every part of a command must be one of these.")

    def may_read(self, path: str) -> bool:
        return self.base.may_read(path)

    def confinement_for_project_code(self) -> Confinement | None:
        return self.base.confinement_for_project_code()

    def hides(self, tool: Tool) -> bool:
        return self.base.hides(tool)

    def allowing(self, rules: Sequence[str]) -> Policy:
        return replace(self, base=self.base.allowing(rules))

    def in_mode(self, mode: str) -> Policy:
        return replace(self, base=self.base.in_mode(mode))

    def without_trials(self) -> Policy:
        return replace(self, base=self.base.without_trials())
