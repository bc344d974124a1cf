"""May this call run? One pure function of the rules, the mode and the call: `PermissionPolicy.decide`.

Order: deny rules → plan mode → ask rules → what nothing may wave through → bypassPermissions → protected paths → allow
rules → mode. The first that speaks wins; `docs/decisions/order-of-evaluation.md` gives the reasons.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cellwright.agent.approval import Decision, rules_in_words
from cellwright.permissions.command_calls import judge_command
from cellwright.permissions.file_calls import judge_file, text_field
from cellwright.permissions.modes import Mode, parse_mode
from cellwright.permissions.paths import folder_spellings
from cellwright.permissions.rule_book import (
    BYPASSED,
    RuleBook,
    allowed_by,
    asked_by,
    denied_by,
    denied_by_plan,
    first_of_every_use,
)
from cellwright.permissions.rules import EDITORS, READERS, Behavior, CompiledRule, Rule, compile_rule, parse_rule
from cellwright.permissions.suggestions import suggestions_for

Rules = Sequence[str | Rule]


@dataclass(frozen=True, slots=True)
class PermissionPolicy:
    """What is allowed, as an immutable snapshot.

    `deny`, `ask`, `allow` are rules (`"Bash(npm test)"`; a `Rule` where its `/x` starts elsewhere than at `cwd`).
    `roots` are the folders the session works in (default: `cwd`), `cwd` is what relative paths start from (default:
    the process's). Raises CellwrightError CONFIG_INVALID for a malformed rule or an unknown mode.
    """

    mode: Mode | str = "default"
    deny: Rules = ()
    ask: Rules = ()
    allow: Rules = ()
    roots: Sequence[str | Path] = ()
    cwd: str | Path | None = None
    _book: RuleBook = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        cwd = str(Path.cwd() if self.cwd is None else Path(self.cwd).absolute())
        roots = tuple(str(root) for root in _listed(self.roots)) or (cwd,)
        mode, _ = parse_mode(self.mode)
        book = RuleBook(
            mode=mode,
            deny=_compiled(self.deny, "deny", cwd),
            ask=_compiled(self.ask, "ask", cwd),
            allow=_compiled(self.allow, "allow", cwd),
            folders=folder_spellings(roots, cwd),
            cwd=cwd,
        )
        for name, value in {"mode": mode, "roots": roots, "cwd": cwd, "_book": book}.items():
            object.__setattr__(self, name, value)

    def allowing(self, rules: Sequence[str]) -> PermissionPolicy:
        """The same policy with these allow rules besides its own."""
        return replace(self, allow=(*_listed(self.allow), *rules)) if rules else self

    def in_mode(self, mode: str) -> PermissionPolicy:
        """The same policy in another mode."""
        return self if mode == self.mode else replace(self, mode=mode)

    def decide(self, tool_name: str, tool_input: Mapping[str, Any], *, read_only: bool = False) -> Decision:
        """May `tool_name` run with `tool_input`? `read_only` is what a tool without rules of its own claims of itself.

        The decision's `suggestions` are rules that would turn this very "ask" into "allow".
        """
        decision = _judge(self._book, tool_name, tool_input, read_only)
        if decision.behavior != "ask":
            return decision
        offered = tuple(
            suggestion
            for suggestion in suggestions_for(tool_name, tool_input, self._book.folders, self._book.cwd)
            if _judge(self.allowing(suggestion.rules)._book, tool_name, tool_input, read_only).behavior == "allow"
        )
        if self.mode != "dontAsk":
            return replace(decision, suggestions=offered)
        way = f"{rules_in_words(offered[-1].rules)} would allow it." if offered else "No allow rule can allow it."
        reason = f"Mode dontAsk denies what would be asked for. {decision.reason} {way}"
        return replace(decision, behavior="deny", reason=reason)


def _listed(values: Sequence[Any]) -> Sequence[Any]:
    # a string is a sequence of strings: its letters would be rules or folders
    return (values,) if isinstance(values, str | Path | Rule) else values


def _compiled(rules: Rules, behavior: Behavior, cwd: str) -> tuple[CompiledRule, ...]:
    parsed = (rule if isinstance(rule, Rule) else parse_rule(rule) for rule in _listed(rules))
    compiled = (compile_rule(rule, behavior, cwd) for rule in parsed)
    return tuple(rule for rule in compiled if rule is not None)


def _judge(book: RuleBook, tool_name: str, tool_input: Mapping[str, Any], read_only: bool) -> Decision:
    if tool_name == "Bash":
        return judge_command(book, text_field(tool_input, "command"))
    if tool_name in READERS | EDITORS:
        return judge_file(book, tool_name, tool_input)
    return _judge_other(book, tool_name, read_only and tool_name != "Python")


def _judge_other(book: RuleBook, tool_name: str, read_only: bool) -> Decision:
    if rule := first_of_every_use(book.deny, tool_name):
        return denied_by(rule, f"The tool {tool_name}")
    if book.mode == "plan" and not read_only:
        return denied_by_plan(tool_name)
    if rule := first_of_every_use(book.ask, tool_name):
        return asked_by(rule, f"The tool {tool_name}")
    if book.mode == "bypassPermissions":
        return BYPASSED
    if rule := first_of_every_use(book.allow, tool_name):
        return allowed_by(rule)
    if read_only:
        return Decision("allow", f"The tool {tool_name} only reads.")
    if tool_name == "Python":
        return Decision("ask", "Python code in the kernel can do anything you can.")
    return Decision("ask", f"The tool {tool_name} may change something, and no rule allows it.")
