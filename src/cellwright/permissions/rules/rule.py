"""Permission rules: `Tool`, `Tool(*)`, `Tool(specifier)`, read once, compiled, and asked for each call.

    Bash(npm run *)  Read(./secrets/**)  Edit(/src/**)  WebFetch(domain:*.example.com)  Agent(name)  Skill(name *)
    mcp__server  mcp__server__*  mcp__server__tool          and, to deny or ask only: *  mcp__*  Tool(parameter:value)

A rule that grants (allow) is read narrowly: what is not understood grants nothing. One that restricts (deny, ask) is
read widely: what is not understood restricts every use of the tool.

`RuleBook` holds the rules in force, compiled: what every kind of call is judged by.

As in Claude Code, rules about files and pages also say where sandboxed commands may write and which hosts they reach
(`with_rules`). A rule for `Edit` or `Read` that names one file or one folder with all below it goes into the sandbox's
lists of paths. One with wildcards does not: a sandbox knows no patterns, and a list that is wider than its rule would grant
what nobody granted. Deny rules with wildcards are kept by the policy itself (`Confinement.hides`, `Confinement.protects`).
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from msgspec import Struct, structs

from cellwright.agent.calls.approval import Decision
from cellwright.agent.calls.tool_names import written_tools
from cellwright.agent.tool import (
    EDITING_KINDS,
    READING_KINDS,
    TOOL_ALIASES,
    TOOL_SEARCH,
    AccessKind,
    ToolAccess,
    own_tool_name,
)
from cellwright.errors import CellwrightError, ErrorCode
from cellwright.permissions.modes import Mode
from cellwright.permissions.rules.domain_pattern import AddressProblem, DomainPattern, read_domain, read_host
from cellwright.permissions.rules.name_pattern import NamePattern, ParameterPattern, read_name, read_parameter
from cellwright.permissions.rules.path_pattern import (
    ANY_DEPTH,
    PathPattern,
    PatternProblem,
    compile_pattern,
    escaped,
    taken_by_name,
)
from cellwright.permissions.sandboxing import NO_SANDBOX, SandboxRules
from cellwright.text import lazy_pattern, visible_line

if TYPE_CHECKING:
    from cellwright.permissions.rules.command_pattern import GrantedCommand, RestrictedCommand

Behavior = Literal["deny", "ask", "allow"]
Found = TypeVar("Found")

READERS = frozenset(
    name for name, tool in written_tools().items() if tool.access.reads_files and tool.access.kind != "index"
)
EDITORS = frozenset(name for name, tool in written_tools().items() if tool.access.edits_files)
"""Names whose rules may have a path in parentheses. Every other tool that reads or edits falls under `Read` and `Edit`."""

NAMED = frozenset({"Agent", "Skill"})
RULE_NAMES = (*written_tools(), TOOL_SEARCH)
"""Names that rules may spell in upper or lower case, and that no tool of anybody else's has."""

_OWN_SPELLING = {name.casefold(): name for name in RULE_NAMES} | {"task": "Agent", **TOOL_ALIASES}

_RULE = lazy_pattern(r"(?P<tool>[A-Za-z_*][\w*.-]*)(?:\((?P<specifier>.*)\))?", re.DOTALL)
_MCP_SERVER_TOOLS = lazy_pattern(r"mcp__(?!_)[^*]*[^*_]__.*")


class Subject(Struct, frozen=True, eq=False):
    """The tool that rules are about: its name, and whether rules for reading or for editing files hold for it.

    Made by `subject_of` alone, once for the same three: a decision looks rules up by its identity.
    """

    name: str
    reads: bool = False
    edits: bool = False


@functools.lru_cache(maxsize=4096)
def subject_of(name: str, access: AccessKind = "unknown") -> Subject:
    """The subject of rules that a tool of this name and with this access is."""
    if name.startswith("mcp__"):
        return Subject(name)  # what a server says of its tools is not known to be true
    return Subject(own_name(name), access in READING_KINDS, access in EDITING_KINDS)


class Rule(Struct, frozen=True):
    """One rule as it was written. `specifier` None: every use; `source_root` is what its `/x` paths start from."""

    text: str
    tool: str
    specifier: str | None = None
    source_root: str = ""

    def __str__(self) -> str:
        return self.text

    @property
    def is_about_hosts(self) -> bool:
        """True for a rule about pages, and about the hosts that commands connect to."""
        return self.tool == "WebFetch"


def own_name(tool_name: str) -> str:
    """The name that rules have for a tool: `Task` is what `Agent` was called."""
    return "Agent" if tool_name == "Task" else own_tool_name(tool_name)


def own_spelling(tool: str) -> str:
    """The name of a tool of ours as it is written here, whatever its case; any other name as it is."""
    return _OWN_SPELLING.get(tool.casefold(), tool)


def parse_rule(text: str, source_root: str = "") -> Rule:
    """Read one rule. Raises CellwrightError CONFIG_INVALID, naming the rule."""
    text = text.strip()
    found = _RULE.fullmatch(text) if len(text) <= 4000 else None
    if found is None:
        raise _malformed(text, "is not of the form `Tool` or `Tool(pattern)`")
    specifier = found["specifier"]
    if specifier is not None and not specifier.strip():
        raise _malformed(text, "has empty parentheses; write the tool's name alone for every use")
    specifier = None if specifier is None or specifier.strip() == "*" else specifier.strip()
    tool = own_spelling(found["tool"])
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


READ = subject_of("Read", "read")
LIST = subject_of("LS", "list")
SEARCH = subject_of("Grep", "search")
EDIT = subject_of("Edit", "edit")
BASH = subject_of("Bash", "shell")
PYTHON = subject_of("Python", "python")


class CompiledRule(Struct, frozen=True):
    """A rule in force. One of the patterns holds what its specifier means; without any it covers every use of its tools.

    `parameter` may stand beside another: a rule that restricts is read in every way it can be.
    """

    rule: Rule
    behavior: Behavior
    path: PathPattern | None = None
    grants: GrantedCommand | None = None
    restricts: RestrictedCommand | None = None
    domain: DomainPattern | None = None
    name: NamePattern | None = None
    parameter: ParameterPattern | None = None

    @property
    def every_use(self) -> bool:
        return not (self.path or self.grants or self.restricts or self.domain or self.name or self.parameter)

    def names(self, subject: Subject) -> bool:
        """Return whether the rule speaks about `subject` at all."""
        tool = self.rule.tool
        if tool == subject.name:
            return True
        return _grants(tool, subject) if self.behavior == "allow" else self._restricts(tool, subject)

    def _restricts(self, tool: str, subject: Subject) -> bool:
        if tool == "Read" or (self.path is not None and tool in READERS):
            return subject.reads or subject.edits
        if tool == "Edit" or (self.path is not None and tool in EDITORS):
            return subject.edits
        return _matches_widely(tool, subject.name)

    def covers_place(self, places: Iterable[str]) -> bool:
        """Return whether a file that goes by `places` falls under the rule: all of them to allow, any to restrict."""
        if self.path is None:
            return self.every_use
        required = self.behavior != "allow"
        for place in places:
            if self.path.matches(place) is required:
                return required
        return not required


def _grants(tool: str, subject: Subject) -> bool:
    tool_name = subject.name
    if tool in ("Read", "Edit"):
        # who may edit may read; who may only read must not edit
        return subject.reads or (tool == "Edit" and subject.edits)
    if not tool.startswith("mcp__") or "___" in tool_name:
        return False  # `mcp__git___x` is also what the tool `x` of a server `git_` is called
    # a server may have `__` in its name: a rule for `git` says nothing about the server `git__evil`
    depth = tool_name.count("__")
    if "*" in tool:
        return depth == tool.count("__") and fnmatchcase(tool_name, tool)
    return tool.count("__") == 1 and depth == 2 and tool_name.startswith(f"{tool}__")


def _matches_widely(tool: str, tool_name: str) -> bool:
    # `mcp__git` in other spelling or with a wildcard is about all tools of the server, as in the exact spelling
    tool, tool_name = tool.casefold(), tool_name.casefold()
    return fnmatchcase(tool_name, tool) or (tool.startswith("mcp__") and fnmatchcase(tool_name, f"{tool}__*"))


def compile_rule(rule: Rule, behavior: Behavior, cwd: str) -> CompiledRule | None:
    """Put `rule` into force; None for an allow rule that grants nothing (`grant_problem` says why)."""
    if behavior == "allow":
        return _granting(rule, cwd)
    specifier, tool = rule.specifier, rule.tool
    if specifier is None or names_primary_field(rule):
        return CompiledRule(rule, behavior)
    parameter = read_parameter(specifier)
    if tool == "Bash":
        from cellwright.permissions.rules.command_pattern import RestrictedCommand  # the shell: for who has such rules

        return CompiledRule(rule, behavior, restricts=RestrictedCommand.read(specifier), parameter=parameter)
    if tool in READERS | EDITORS:
        return CompiledRule(rule, behavior, path=_path(rule, behavior, cwd), parameter=parameter)
    if tool == "WebFetch" and (domain := _domain(specifier)):
        return CompiledRule(rule, behavior, domain=domain)
    if tool in NAMED:
        return CompiledRule(rule, behavior, name=read_name(specifier, restricts=True), parameter=parameter)
    if parameter is not None and parameter.name.lower() == "domain":
        # meant to keep a host out, and no other tool can be told by its host
        return CompiledRule(rule, behavior)
    return CompiledRule(rule, behavior, parameter=parameter)


def _granted_command(specifier: str) -> GrantedCommand:
    from cellwright.permissions.rules.command_pattern import GrantedCommand  # the shell: for who has such rules

    return GrantedCommand.read(specifier)


def _granting(rule: Rule, cwd: str) -> CompiledRule | None:
    if "*" in rule.tool and not _MCP_SERVER_TOOLS.fullmatch(rule.tool):
        return None
    specifier, tool = rule.specifier, rule.tool
    if specifier is None:
        return CompiledRule(rule, "allow")
    if tool == "Bash":
        grants = _granted_command(specifier)
        return None if grants.problem else CompiledRule(rule, "allow", grants=grants)
    if tool in ("Read", "Edit"):
        return CompiledRule(rule, "allow", path=_path(rule, "allow", cwd))
    if tool == "WebFetch" and (domain := _domain(specifier)):
        return CompiledRule(rule, "allow", domain=domain)
    if tool in NAMED and (name := read_name(specifier, restricts=False)):
        return CompiledRule(rule, "allow", name=name)
    return None


def grant_problem(rule: Rule) -> str | None:
    """Explain in a sentence why `rule` grants nothing as an allow rule; None when it does grant something."""
    if _granting(rule, "/") is not None:
        return None
    return f"The allow rule `{rule}` is not used: {_why_no_grant(rule)}."


def _why_no_grant(rule: Rule) -> str:
    specifier, tool = rule.specifier or "", rule.tool
    if "*" in tool:
        return "tools are allowed by name, or with `mcp__server__*`"
    if tool == "Bash":
        return _granted_command(specifier).problem
    if tool in READERS | EDITORS:
        return f"write `{'Read' if tool in READERS else 'Edit'}({specifier})`"
    if tool == "WebFetch":
        return (
            f"write `WebFetch(domain:example.com)`, or `WebFetch` for every page; `{specifier}` {_no_domain(specifier)}"
        )
    if tool in NAMED:
        return f"`{specifier}` is not one name"
    if read_parameter(specifier):
        return "a parameter can only be denied or asked for"
    return f"only `{tool}` without parentheses is understood"


def restriction_problem(rule: Rule) -> str | None:
    """Explain in a sentence why `rule`, to deny or ask, restricts something else than it says; None when it does not."""
    if near := near_tool(rule.tool):
        return f"The rule `{rule}` is about no tool of Cellwright's. Did you mean `{near}`?"
    if rule.specifier is None:
        return None
    compiled = compile_rule(rule, "deny", "/")
    if compiled is None or not compiled.every_use:
        return None
    if names_primary_field(rule):
        why = f"write `{rule.tool}({rule.specifier.partition(':')[2]})`"
    elif rule.tool == "WebFetch":
        why = f"`{rule.specifier}` {_no_domain(rule.specifier)}"
    else:
        why = f"`{rule.specifier}` is not understood"
    return f"The rule `{rule}` restricts every use of {rule.tool}: {why}."


def near_tool(tool: str) -> str:
    """The tool of ours of which `tool` is most likely a misspelling; "" for one of ours, and for another's own name."""
    if not tool or tool in RULE_NAMES or tool.startswith("mcp__") or "*" in tool:
        return ""
    import difflib  # only for names that are not ours

    # LSP and Search may be somebody's: what differs by more than a letter or two is no slip
    like = [
        name for name in RULE_NAMES if len(name) > 3 and name[0] == tool[0].upper() and abs(len(name) - len(tool)) < 2
    ]
    return next(iter(difflib.get_close_matches(tool, like, n=1, cutoff=0.75)), "")


def brackets_problem(rule: Rule, cwd: str, *, allows: bool) -> str | None:
    """Explain in a sentence which reading of a rule's brackets counts, if only their literal reading names what exists."""
    if rule.specifier is None or rule.tool not in READERS | EDITORS:
        return None
    try:
        named = taken_by_name(rule.specifier, source_root=rule.source_root or cwd, cwd=cwd)
    except PatternProblem:
        return None
    if named is None:
        return None
    shown, written = visible_line(named), escaped(rule.specifier.removesuffix("/**"))
    written += "/**" if rule.specifier.endswith("/**") else ""
    covers = f"Here it stands for {shown}" + ("" if allows else " besides")
    return (
        f"As a pattern, the rule `{rule}` matches nothing: `[` and `]` enclose a set of characters. {covers}; for other "
        f"programs that read the rule, write `{rule.tool}({written})`."
    )


def names_primary_field(rule: Rule) -> bool:
    """Return whether the rule's specifier is `field:value` on the field that its tool's rules are about anyway."""
    field = (rule.specifier or "").partition(":")
    if rule.tool in READERS | EDITORS:
        return field[0] in ("file_path", "path", "notebook_path") and field[1] != ""
    return (rule.tool, field[0], field[1]) in {("Bash", "command", ":"), ("WebFetch", "url", ":")}


def _no_domain(specifier: str) -> str:
    try:
        read_domain(specifier)
    except AddressProblem as problem:
        return str(problem)
    return "is a domain"


def _domain(specifier: str) -> DomainPattern | None:
    try:
        return read_domain(specifier)
    except AddressProblem:
        return None


def _path(rule: Rule, behavior: Behavior, cwd: str) -> PathPattern:
    try:
        return compile_pattern(
            rule.specifier or "", source_root=rule.source_root or cwd, cwd=cwd, restricts=behavior != "allow"
        )
    except PatternProblem as problem:
        raise _malformed(rule.text, str(problem)) from problem


@dataclass(frozen=True, slots=True)
class RuleBook:
    """Mode, compiled rules, the session's folders in every spelling; `cwd` is absolute, relative paths start there.

    `readable` are folders besides where reading is as inside. `blocks_reads` and `blocks_writes`: the settings
    `permissions.block{Reads,Writes}OutsideWorkingDirectories`, which no rule and no mode lifts. `sandbox`: what commands
    can be confined by; `trials`: a command that may do anything is tried in bounds before it is asked about.
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
    sandbox: SandboxRules = NO_SANDBOX
    trials: bool = True
    seen: dict[Hashable, Any] | None = field(default=None, repr=False, compare=False)
    """The findings of `once`, while one decision is made; None where nothing is kept."""
    _about: dict[tuple[Behavior, Subject], tuple[CompiledRule, ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def about(self, behavior: Behavior, subject: Subject) -> tuple[CompiledRule, ...]:
        """The rules of one kind that speak about `subject`, in their order."""
        found = self._about.get((behavior, subject))
        if found is None:
            rules = {"deny": self.deny, "ask": self.ask, "allow": self.allow}[behavior]
            found = self._about[behavior, subject] = tuple(rule for rule in rules if rule.names(subject))
        return found

    def for_one_decision(self) -> RuleBook:
        """The same book, which looks for the same thing once: several steps of a decision ask what a folder holds."""
        return replace(self, seen={})

    def once(self, what: Hashable, look: Callable[[], Found]) -> Found:
        """Return what `look` finds, or has found for this decision; `what` tells it from other searches by these rules."""
        if self.seen is None:
            return look()
        if what not in self.seen:
            self.seen[what] = look()
        found: Found = self.seen[what]
        return found


def text_field(tool_input: Mapping[str, Any], field: str) -> str:
    """The text in `field`; "" where there is none or something else: input may be judged before it is validated."""
    value = tool_input.get(field)
    return value if isinstance(value, str) else ""


class JudgedCall(Struct, frozen=True):
    """A call to be judged. `access` is what its tool declares, `read_only` what it claims of itself."""

    subject: Subject
    input: Mapping[str, Any]
    access: ToolAccess
    read_only: bool = False

    @property
    def name(self) -> str:
        """The name that rules have for the tool."""
        return self.subject.name

    @property
    def touched(self) -> str:
        """The path, the command, the address in the field that the tool's access names; "" where there is none."""
        return self.text(self.access.field)

    def text(self, field: str) -> str:
        """The text in `field`, see `text_field`."""
        return text_field(self.input, field)


BYPASSED = Decision("allow", "Mode Bypass permissions allows it.")


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


def denied_by_plan(subject: Subject) -> Decision:
    return Decision("deny", f"Plan mode only reads and looks; {subject.name} needs another mode.")


def first_of_every_use(rules: Sequence[CompiledRule], subject: Subject) -> CompiledRule | None:
    """The first rule that covers every use of `subject`."""
    return next((rule for rule in rules if rule.every_use and rule.names(subject)), None)


def judge_by_rules(
    book: RuleBook,
    subject: Subject,
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
        about = book.about(behavior, subject)
        return next((rule for rule in about if rule.every_use or (covers is not None and covers(rule))), None)

    what = what or f"The tool {subject.name}"
    if rule := first("deny"):
        return denied_by(rule, what)
    if book.mode == "plan" and not in_plan:
        return denied_by_plan(subject)
    if rule := first("ask"):
        return asked_by(rule, what)
    if otherwise.firm:
        return otherwise
    if book.mode == "bypassPermissions":
        return BYPASSED
    if rule := first("allow"):
        return allowed_by(rule)
    return otherwise


def with_rules(
    sandbox: SandboxRules, *, deny: Iterable[Rule], ask: Iterable[Rule], allow: Iterable[Rule], cwd: str
) -> SandboxRules:
    """The sandbox's lists with what the rules add to them; `cwd` is what relative paths start from."""
    deny, allow = tuple(deny), tuple(allow)
    return structs.replace(
        sandbox,
        allow_write=_joined(sandbox.allow_write, _paths(allow, {"Edit"}, cwd, grants=True)),
        deny_write=_joined(sandbox.deny_write, _paths(deny, EDITORS, cwd, grants=False)),
        deny_read=_joined(sandbox.deny_read, _paths(deny, READERS, cwd, grants=False)),
        allowed_hosts=_joined(sandbox.allowed_hosts, _hosts(allow)),
        denied_hosts=_joined(sandbox.denied_hosts, _hosts(deny)),
        asked_hosts=_joined(sandbox.asked_hosts, _hosts(ask)),
    )


def _joined(listed: Iterable[str], more: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*listed, *more)))


def _paths(rules: Iterable[Rule], tools: Iterable[str], cwd: str, *, grants: bool) -> Iterator[str]:
    for rule in rules:
        if rule.tool not in tools or rule.specifier is None:
            continue
        try:
            # also a restriction is wanted as it is spelled here, not in the folded spelling it is compared in
            pattern = compile_pattern(rule.specifier, source_root=rule.source_root or cwd, cwd=cwd, restricts=False)
        except PatternProblem:  # told where the rule itself is read
            continue
        if pattern.parts == (ANY_DEPTH,):
            yield from pattern.bases
        elif not pattern.parts:
            # the rule grants one file, and a list all that is below a folder
            yield from (base for base in pattern.bases if not grants or os.path.isfile(base))  # noqa: PTH113


def _hosts(rules: Iterable[Rule]) -> Iterator[str]:
    for rule in rules:
        key, _, domain = (rule.specifier or "").partition(":")
        if not rule.is_about_hosts or key.strip().lower() != "domain":
            continue
        try:
            read_host(domain)
        except AddressProblem:
            continue
        yield domain.strip()
