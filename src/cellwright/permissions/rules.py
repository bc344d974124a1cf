"""Permission rules: `Tool`, `Tool(*)`, `Tool(pattern)`, read once and asked for each call.

A rule that grants (allow) is read narrowly: what is not understood grants nothing. One that restricts (deny, ask) is
read widely: what is not understood restricts every use of the tool.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from cellwright.errors import CellwrightError, ErrorCode
from cellwright.permissions.command_patterns import GrantedCommand, RestrictedCommand
from cellwright.permissions.path_patterns import PathPattern, PatternProblem, compile_pattern

Behavior = Literal["deny", "ask", "allow"]

READERS = frozenset({"Read", "Grep", "Glob", "LS", "NotebookRead"})
EDITORS = frozenset({"Edit", "Write", "NotebookEdit", "MultiEdit"})
_OWN_SPELLING = {name.casefold(): name for name in (*READERS, *EDITORS, "Bash", "Python")}

_RULE = re.compile(r"(?P<tool>[A-Za-z_*][\w*.-]*)(?:\((?P<specifier>.*)\))?", re.DOTALL)
_MCP_SERVER_TOOLS = re.compile(r"mcp__[^*]+__[^*]*\*?")
MAX_RULE_LENGTH = 4000


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule as it was written. `specifier` None: every use; `source_root` is what its `/x` paths start from."""

    text: str
    tool: str
    specifier: str | None = None
    source_root: str = ""

    def __str__(self) -> str:
        return self.text


def parse_rule(text: str, source_root: str = "") -> Rule:
    """Read one rule. Raises CellwrightError CONFIG_INVALID, naming the rule."""
    text = text.strip()
    found = _RULE.fullmatch(text) if len(text) <= MAX_RULE_LENGTH else None
    if found is None:
        raise _malformed(text, "is not of the form `Tool` or `Tool(pattern)`")
    specifier = found["specifier"]
    if specifier is not None and not specifier.strip():
        raise _malformed(text, "has empty parentheses; write the tool's name alone for every use")
    specifier = None if specifier is None or specifier.strip() == "*" else specifier.strip()
    tool = _OWN_SPELLING.get(found["tool"].casefold(), found["tool"])
    rule = Rule(text, tool, specifier, source_root)
    if specifier is not None and tool in READERS | EDITORS:
        try:
            compile_pattern(specifier, source_root="/", cwd="/", restricts=False)
        except PatternProblem as problem:
            raise _malformed(text, str(problem)) from problem
    return rule


def _malformed(text: str, why: str) -> CellwrightError:
    shown = text if len(text) <= 120 else text[:119] + "…"
    return CellwrightError(ErrorCode.CONFIG_INVALID, f"The permission rule `{shown}` {why}.", details={"rule": text})


def grant_problem(rule: Rule) -> str | None:
    """Why `rule` grants nothing as an allow rule, as a sentence; None when it does grant something."""
    if "*" in rule.tool and not _MCP_SERVER_TOOLS.fullmatch(rule.tool):
        return f"The allow rule `{rule}` is not used: tools are allowed by name, or with `mcp__server__*`."
    if rule.specifier is None:
        return None
    if rule.tool == "Bash":
        why = GrantedCommand.read(rule.specifier).problem
        return f"The allow rule `{rule}` is not used: {why}." if why else None
    if rule.tool in ("Read", "Edit"):
        return None
    instead = "Read" if rule.tool in READERS else "Edit" if rule.tool in EDITORS else ""
    hint = (
        f"write `{instead}({rule.specifier})`" if instead else f"only `{rule.tool}` without parentheses is understood"
    )
    return f"The allow rule `{rule}` is not used: {hint}."


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """A rule in force. `path` or `command` hold what its specifier means; neither: it covers every use of its tools."""

    rule: Rule
    behavior: Behavior
    path: PathPattern | None = None
    grants: GrantedCommand | None = None
    restricts: RestrictedCommand | None = None

    @property
    def every_use(self) -> bool:
        return self.path is None and self.grants is None and self.restricts is None

    def names(self, tool_name: str) -> bool:
        """Whether the rule speaks about `tool_name` at all."""
        tool = self.rule.tool
        if tool == tool_name or (tool.startswith("mcp__") and tool_name.startswith(f"{tool}__")):
            return True
        if self.behavior == "allow":
            # who may edit may read; who may only read must not edit
            covered = READERS if tool == "Read" else READERS | EDITORS if tool == "Edit" else frozenset()
            return tool_name in covered or ("*" in tool and fnmatchcase(tool_name, tool))
        return self._restricts_tool(tool, tool_name)

    def _restricts_tool(self, tool: str, tool_name: str) -> bool:
        if tool == "Read" or (self.path is not None and tool in READERS):
            return tool_name in READERS | EDITORS
        if tool == "Edit" or (self.path is not None and tool in EDITORS):
            return tool_name in EDITORS
        return fnmatchcase(tool_name.casefold(), tool.casefold())

    def covers_place(self, places: Iterable[str]) -> bool:
        """Whether a file that goes by `places` falls under the rule: all of them to allow, any of them to restrict."""
        if self.path is None:
            return self.every_use
        matched = (self.path.matches(place) for place in places)
        return all(matched) if self.behavior == "allow" else any(matched)


def compile_rule(rule: Rule, behavior: Behavior, cwd: str) -> CompiledRule | None:
    """Put `rule` into force; None for an allow rule that grants nothing (`grant_problem` says why)."""
    if behavior == "allow" and grant_problem(rule) is not None:
        return None
    if rule.specifier is None:
        return CompiledRule(rule, behavior)
    if rule.tool == "Bash":
        if behavior == "allow":
            return CompiledRule(rule, behavior, grants=GrantedCommand.read(rule.specifier))
        return CompiledRule(rule, behavior, restricts=RestrictedCommand.read(rule.specifier))
    if rule.tool in READERS | EDITORS:
        return CompiledRule(rule, behavior, path=_path(rule, behavior, cwd))
    # a specifier of a tool that has none here, e.g. WebFetch(domain:…): restrict every use of it
    return CompiledRule(rule, behavior)


def _path(rule: Rule, behavior: Behavior, cwd: str) -> PathPattern:
    try:
        return compile_pattern(
            rule.specifier or "", source_root=rule.source_root or cwd, cwd=cwd, restricts=behavior != "allow"
        )
    except PatternProblem as problem:
        raise _malformed(rule.text, str(problem)) from problem
