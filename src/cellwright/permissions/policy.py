"""The permission policy: `PermissionPolicy.decide`, one pure function of the rules, the mode and the call.

Order: deny rules → plan mode → ask rules → what nothing may wave through → bypassPermissions → protected paths →
allow rules → mode. The first that speaks wins; `docs/decisions/order-of-evaluation.md` gives the reasons.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, get_args

from msgspec import Struct, structs

from cellwright.agent.calls.approval import Confinement, Decision, describe_rules
from cellwright.agent.calls.tool_names import written_tools
from cellwright.agent.tool import AccessKind, Category, Tool, ToolAccess, is_chosen
from cellwright.permissions.judges.files import covered_file, judge_file, judge_path
from cellwright.permissions.judges.web_agents_mcp import (
    judge_agent,
    judge_fetch,
    judge_harmless,
    judge_mcp,
    judge_plan,
    judge_question,
    judge_search,
    judge_skill,
    judge_unknown,
    judge_variables,
)
from cellwright.permissions.modes import Mode, parse_mode, stricter
from cellwright.permissions.paths import folder_spellings, spelled_from_home
from cellwright.permissions.rules.rule import (
    READ,
    Behavior,
    CompiledRule,
    JudgedCall,
    Rule,
    RuleBook,
    asked_by,
    compile_rule,
    denied_by,
    own_name,
    parse_rule,
    subject_of,
)
from cellwright.permissions.sandboxing import NO_SANDBOX, SandboxRules

Rules = Sequence[str | Rule]

NOTHING_DECLARED = ToolAccess()
IN_CONTAINER = ("shell", "tests", "fresh_kernel")
"""All that runs in the container, if there is one. Other programs run on this machine."""


class NamedTool(Struct, frozen=True):
    """A tool as far as its name says it."""

    name: str
    access: ToolAccess
    read_only: bool = False
    category: Category = "other"


def named_tool(name: str) -> NamedTool:
    """Return the built-in tool of that name, or an older name of it; any other tool declares nothing.

    >>> named_tool("Edit").access.kind, named_tool("NoSuchTool").access.kind
    ('edit', 'unknown')
    """
    found = None if name.startswith("mcp__") else written_tools().get(own_name(name))
    if found is None:
        return NamedTool(name, ToolAccess())
    return NamedTool(name, found.access, found.read_only, found.category)


def chosen_names(choices: Iterable[str]) -> tuple[str, ...]:
    """The names of the built-in tools that `choices` mean, in their order; a choice that means none stands for itself.

    >>> chosen_names(["@edit", "Bash", "Nothing"])[-3:]
    ('Write', 'Bash', 'Nothing')
    """
    tools = [named_tool(name) for name in written_tools()]
    found = ([tool.name for tool in tools if is_chosen(tool, choice)] or [choice] for choice in choices)
    return tuple(dict.fromkeys(name for names in found for name in names))


@dataclass(frozen=True, slots=True)
class PermissionPolicy:
    """The permissions of a session, as an immutable snapshot.

    `deny`, `ask`, `allow` are rules (`"Bash(npm test)"`; a `Rule` where its `/x` starts elsewhere than at `cwd`).
    `roots` are the folders the session works in (default: `cwd`), `cwd` is what relative paths start from (default:
    the process's), `readable` are folders besides where reading needs no question. `block_reads_outside` and
    `block_writes_outside` forbid file tools to leave the roots, whatever the rules and the mode say. A session that comes
    into another mode gets none that is looser than `loosest`. `sandbox`: what commands can be confined by.
    Raises CellwrightError CONFIG_INVALID for a malformed rule or an unknown mode.

    >>> import cellwright
    >>> read, bash = cellwright.builtin_tools("Read", "Bash")
    >>> policy = PermissionPolicy(allow=["Bash(make *)"], deny=["Read(.env)"], roots=["/project"], cwd="/project")
    >>> policy.decide(bash, {"command": "make test"}).behavior, policy.decide(bash, {"command": "make test"}).rule
    ('allow', 'Bash(make *)')
    >>> policy.decide(read, {"file_path": "/project/.env"}).behavior
    'deny'

    A tool's name will do instead of the tool: a built-in one is known by it, `mcp__server__tool` is a server's, and any
    other is a tool that may do anything.

    >>> policy.decide("Read", {"file_path": "/project/.env"}).behavior
    'deny'
    >>> policy.decide("Bash", {"command": "make test"}).behavior, policy.decide("Bash", {"command": "make; rm x"}).behavior
    ('allow', 'ask')
    >>> [policy.decide(name, {}).behavior for name in ("mcp__github__search", "MyOwnTool")]
    ['ask', 'ask']
    """

    mode: Mode | str = "default"
    deny: Rules = ()
    ask: Rules = ()
    allow: Rules = ()
    roots: Sequence[str | Path] = ()
    cwd: str | Path | None = None
    readable: Sequence[str | Path] = ()
    block_reads_outside: bool = False
    block_writes_outside: bool = False
    loosest: Mode | str | None = None
    sandbox: SandboxRules = NO_SANDBOX
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
            folders=spelled_from_home(folder_spellings(roots, cwd)),
            cwd=cwd,
            readable=folder_spellings(_listed(self.readable), cwd),
            blocks_reads=self.block_reads_outside,
            blocks_writes=self.block_writes_outside,
            sandbox=self.sandbox,
        )
        for name, value in {"mode": mode, "roots": roots, "cwd": cwd, "_book": book}.items():
            object.__setattr__(self, name, value)

    def allowing(self, rules: Sequence[str]) -> PermissionPolicy:
        """The same policy with these allow rules besides its own."""
        if not rules:
            return self
        return self._variant(_allowing(self._book, rules), allow=(*_listed(self.allow), *rules))

    def in_mode(self, mode: str) -> PermissionPolicy:
        """The same policy in another mode, or in `loosest` where that is stricter."""
        if mode == self.mode:
            return self
        parsed, _ = parse_mode(mode)
        if self.loosest is not None:
            parsed = stricter(parsed, parse_mode(self.loosest)[0])
        return self._variant(replace(self._book, mode=parsed), mode=parsed)

    def without_trials(self) -> PermissionPolicy:
        """The same policy, which asks about a command that it would otherwise have tried in bounds first."""
        return self._variant(replace(self._book, trials=False))

    def for_agent(self, agent: str) -> PermissionPolicy:
        """The same policy for a subagent, which has a container of its own where the settings give it one."""
        inside = self.sandbox.in_container
        if inside is None or inside.container is None or not inside.container.own_for_agents:
            return self
        container = replace(inside.container, agent=agent, keep=False)
        sandbox = structs.replace(self.sandbox, in_container=structs.replace(inside, container=container))
        return self._variant(self._book, sandbox=sandbox)

    def _variant(self, book: RuleBook, **changed: Any) -> PermissionPolicy:
        # both are made for each call of a session: rules that are compiled stay compiled
        made = object.__new__(PermissionPolicy)
        for each in fields(self):
            object.__setattr__(made, each.name, changed.get(each.name, getattr(self, each.name)))
        object.__setattr__(made, "_book", book)
        return made

    def hides(self, tool: Tool | str) -> bool:
        """Return whether a rule denies the tool as a whole, so that Claude need not know of it."""
        if not (denied := self._book.deny):  # the usual case, and every prompt asks it of every tool
            return False
        named = named_tool(tool) if isinstance(tool, str) else tool
        subject = subject_of(named.name, named.access.kind)
        return any(rule.rule.specifier is None and rule.names(subject) for rule in denied)

    def may_read(self, path: str) -> bool:
        """Return whether Claude may read the file at `path` unasked."""
        return judge_path(self._book, READ, path).behavior == "allow"

    def confinement_for_project_code(self) -> Confinement | None:
        """The bounds of programs that the project brings along and that no call starts (its hooks); None for no bounds."""
        if not self.sandbox.enabled:
            return None
        from cellwright.permissions.confined.bounds import allowed  # where there is no sandbox nobody needs it

        return allowed(self._book)

    def decide_on_own_kernel(self) -> Decision:
        """Decide about a fresh kernel that the user starts: no question, and in the container, if there is one.

        Where the container cannot enforce its bounds the decision is no "allow": nothing is run outside instead.
        """
        started = Decision("allow", "You started it.")
        if self.sandbox.in_container is None:
            return started
        return _within_allowed(replace(self._book.for_one_decision(), sandbox=self.sandbox.in_container), started)

    def decide(self, tool: Tool | str, tool_input: Mapping[str, Any]) -> Decision:
        """Decide whether `tool` may run with `tool_input`, by the access that it declares and the rules about it.

        `tool` may be a name; its access is then the built-in tool's of that name, or unknown. What a tool finds out about a
        call (`Tool.facts`) has to be in `tool_input`. The decision's `suggestions` are rules that would turn this very
        "ask" into "allow".
        """
        return self._decide(named_tool(tool) if isinstance(tool, str) else tool, tool_input)

    def covers(self, tool: Tool | NamedTool, tool_input: Mapping[str, Any]) -> bool:
        """Return whether the allow rules speak of all that a call does, also of what would need no rule.

        >>> import cellwright
        >>> [bash] = cellwright.builtin_tools("Bash")
        >>> policy = PermissionPolicy(allow=["Bash(git *)"])
        >>> [policy.covers(bash, {"command": text}) for text in ("git status; git log", "git status; ls", "git log > x")]
        [True, False, False]
        """
        access = NOTHING_DECLARED if tool.name.startswith("mcp__") else tool.access
        call = JudgedCall(subject_of(tool.name, access.kind), tool_input, access, tool.read_only)
        if access.kind == "shell":
            from cellwright.permissions.judges.bash import covered_command  # as below

            return covered_command(self._book, {**tool_input, "command": call.touched})
        if JUDGES[access.kind] is judge_file:
            return covered_file(self._book, call)
        decision = _judge(self._book, call)
        return decision.behavior == "allow" and bool(decision.rule)

    def _decide(self, tool: Tool | NamedTool, tool_input: Mapping[str, Any]) -> Decision:
        # only what starts programs asks what the folders hold
        confines = self.sandbox.enabled or tool.access.kind == "shell"
        book = self._book.for_one_decision() if confines else self._book
        if self.sandbox.in_container is not None and tool.access.kind in IN_CONTAINER:
            book = replace(book.for_one_decision(), sandbox=self.sandbox.in_container)
        # what a server says of its tools is not known to be true
        access = NOTHING_DECLARED if tool.name.startswith("mcp__") else tool.access
        call = JudgedCall(subject_of(tool.name, access.kind), tool_input, access, tool.read_only)
        decision = _judge(book, call)
        if book.sandbox.container is not None and tool.access.kind == "fresh_kernel":
            decision = _within_allowed(book, decision)
        if decision.behavior != "ask":
            return decision
        from cellwright.permissions.suggestions import suggestions_for  # most calls do not ask

        offered = tuple(
            suggestion
            for suggestion in suggestions_for(call, book.folders, book.cwd, book.allow)
            if _judge(_allowing(book, suggestion.rules), call).behavior == "allow"
        )
        if self.mode != "dontAsk":
            return structs.replace(decision, suggestions=offered)
        way = f"{describe_rules(offered[-1].rules)} would allow it." if offered else "No allow rule can allow it."
        reason = f"What would be asked for is denied in this mode. {decision.reason} {way}"
        return decision.because(reason, behavior="deny")


def _listed(values: Sequence[Any]) -> Sequence[Any]:
    # a string is a sequence of strings: its letters would be rules or folders
    return (values,) if isinstance(values, str | Path | Rule) else values


def _compiled(rules: Rules, behavior: Behavior, cwd: str) -> tuple[CompiledRule, ...]:
    parsed = (rule if isinstance(rule, Rule) else parse_rule(rule) for rule in _listed(rules))
    compiled = (compile_rule(rule, behavior, cwd) for rule in parsed)
    return tuple(rule for rule in compiled if rule is not None)


def _within_allowed(book: RuleBook, decision: Decision) -> Decision:
    from cellwright.permissions.confined.bounds import within_allowed  # where there is no sandbox nobody needs it

    return within_allowed(book, decision)


def _allowing(book: RuleBook, rules: Sequence[str]) -> RuleBook:
    return replace(book, allow=(*book.allow, *_compiled(rules, "allow", book.cwd)))


Judge = Callable[[RuleBook, JudgedCall], Decision]


# What takes more to judge is imported with the first such call: the first request of a session waits for none of it.
def _judge_bash(book: RuleBook, call: JudgedCall) -> Decision:
    from cellwright.permissions.judges.bash import judge_command

    return judge_command(book, {**call.input, "command": call.touched})


def _later(where: str) -> Judge:
    """A judge of the room `judges`, as "module:judge"."""
    module, _, name = where.partition(":")

    def judge(book: RuleBook, call: JudgedCall) -> Decision:
        judging: Judge = getattr(importlib.import_module(f"cellwright.permissions.judges.{module}"), name)
        return judging(book, call)

    return judge


JUDGES: Mapping[AccessKind, Judge] = {
    **dict.fromkeys(get_args(AccessKind), judge_unknown),
    **dict.fromkeys(("read", "list", "index", "find", "search", "edit"), judge_file),
    "patch": _later("patch:judge_patch"),
    "shell": _judge_bash,
    "python": _later("python:judge_python"),
    "branch": _later("python:judge_branch"),
    **dict.fromkeys(("cells", "fresh_kernel"), _later("python:judge_cells")),
    "variables": judge_variables,
    "repository": _later("project_programs:judge_git"),
    "lint": _later("project_programs:judge_lint"),
    "tests": _later("project_programs:judge_tests"),
    "fetch": judge_fetch,
    "web_search": judge_search,
    "agent": judge_agent,
    "skill": judge_skill,
    "question": judge_question,
    "plan": judge_plan,
    **dict.fromkeys(("todos", "notes"), judge_harmless),
}
"""The judges of a call, by what its tool declares to touch."""


def _judge(book: RuleBook, call: JudgedCall) -> Decision:
    if rule := _about_parameters(book, "deny", call):
        return denied_by(rule, f"{call.name} with these parameters")
    judge = judge_mcp if call.name.startswith("mcp__") else JUDGES[call.access.kind]
    decision = judge(book, call)
    if decision.behavior == "deny" or decision.firm:
        return decision
    if rule := _about_parameters(book, "ask", call):
        return asked_by(rule, f"{call.name} with these parameters")
    return decision


def _about_parameters(book: RuleBook, behavior: Behavior, call: JudgedCall) -> CompiledRule | None:
    for rule in book.about(behavior, call.subject):
        if rule.parameter is not None and rule.parameter.matches(call.input):
            return rule
    return None
