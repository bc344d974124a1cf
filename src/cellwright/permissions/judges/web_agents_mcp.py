"""Judging tools that are about neither files nor commands: the web, agents, skills, MCP servers, lists, questions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from cellwright.agent.calls.approval import Decision
from cellwright.permissions.judges.files import protected_change
from cellwright.permissions.paths import PathProblem, places
from cellwright.permissions.rules.domain_pattern import AddressProblem, host_of
from cellwright.permissions.rules.name_pattern import GENERAL_AGENT
from cellwright.permissions.rules.rule import (
    BYPASSED,
    CompiledRule,
    JudgedCall,
    RuleBook,
    first_of_every_use,
    judge_by_rules,
)
from cellwright.text import visible_line


def judge_harmless(book: RuleBook, call: JudgedCall) -> Decision:
    """Claude's own notes and tasks: nothing of the user's is touched, so only a rule can be against it."""
    return judge_by_rules(book, call.subject, Decision("allow", "It changes nothing of yours."), in_plan=True)


def judge_variables(book: RuleBook, call: JudgedCall) -> Decision:
    """Looking at the kernel's variables runs and changes nothing, and what Claude may see of them a rule can deny."""
    return judge_by_rules(
        book, call.subject, Decision("allow", "It only looks at the kernel's variables."), in_plan=True
    )


def judge_question(book: RuleBook, call: JudgedCall) -> Decision:
    """A question to the user is its own permission question: no rule and no mode answers it."""
    reason = "It is a question to you, which only you can answer."
    return judge_by_rules(book, call.subject, Decision("ask", reason, firm=True), in_plan=True)


def judge_plan(book: RuleBook, call: JudgedCall) -> Decision:
    """Leaving plan mode is for the user to say, and there is nothing to leave in another mode."""
    if book.mode != "plan" and not first_of_every_use(book.deny, call.subject):
        return Decision(
            "deny", f"The session is in mode {book.mode}, not in plan mode: there is no plan to approve. Go on without."
        )
    reason = "The plan is for you to approve; until then Claude only reads and looks."
    return judge_by_rules(book, call.subject, Decision("ask", reason, firm=True), in_plan=True)


def judge_fetch(book: RuleBook, call: JudgedCall) -> Decision:
    """A page is fetched from its host, and rules name hosts."""
    url = call.touched
    shown = visible_line(url)
    try:
        host = host_of(url)
    except AddressProblem as problem:
        if rule := next((rule for rule in book.deny if rule.names(call.subject)), None):
            return judge_by_rules(
                book, call.subject, Decision("ask", "It is not reached."), covers=lambda each: each is rule
            )
        return Decision("deny", f"The address {shown} {problem}, so no page can be meant.")
    otherwise = Decision("ask", f"Sends a request to {host}, which needs your approval.")

    def covers(rule: CompiledRule) -> bool:
        return rule.domain is not None and rule.domain.matches(host)

    return judge_by_rules(book, call.subject, otherwise, covers=covers, in_plan=True, what=f"Fetching from {host}")


def judge_search(book: RuleBook, call: JudgedCall) -> Decision:
    """A search tells a search service what is looked for."""
    otherwise = Decision("ask", "Sends its query to a search service, which needs your approval.")
    return judge_by_rules(book, call.subject, otherwise, in_plan=True)


def judge_agent(book: RuleBook, call: JudgedCall) -> Decision:
    """A sub-agent may be started: each of its own calls is judged by the same policy."""
    agent = call.touched or GENERAL_AGENT

    def covers(rule: CompiledRule) -> bool:
        return rule.name is not None and rule.name.matches(agent)

    otherwise = Decision("allow", "Each call of the sub-agent is judged like Claude's own.")
    what = f"The agent {visible_line(agent)}"
    return judge_by_rules(book, call.subject, otherwise, covers=covers, in_plan=True, what=what)


def judge_skill(book: RuleBook, call: JudgedCall) -> Decision:
    """A skill brings instructions, and perhaps rules of its own, into the conversation."""
    skill, arguments = call.touched.removeprefix("/"), call.text("args").strip()

    def covers(rule: CompiledRule) -> bool:
        return rule.name is not None and rule.name.matches(skill, arguments)

    shown = visible_line(skill)
    otherwise = Decision("ask", f"Loads the instructions of the skill {shown}, which needs your approval.")
    return judge_by_rules(book, call.subject, otherwise, covers=covers, in_plan=True, what=f"The skill {shown}")


def judge_mcp(book: RuleBook, call: JudgedCall) -> Decision:
    """A tool of an MCP server: what it says of itself is not believed, but plan mode needs at least its word."""
    server = call.name.removeprefix("mcp__").partition("__")[0]
    claim = " (it says that it only reads)" if call.read_only else ""
    reason = f"What the MCP server {visible_line(server)} does is not known here{claim}, so it needs your approval."
    decision = judge_by_rules(book, call.subject, Decision("ask", reason), in_plan=call.read_only)
    if decision.behavior != "allow" or decision is BYPASSED or call.read_only:
        return decision
    # a rule allows the tool, not a change to what runs later
    for name in islice(_names(call.input), 200):
        try:
            part = protected_change(places(name, book.cwd))
        except PathProblem:  # no file can have such a name
            continue
        if part:
            reason = (
                f"It names {visible_line(name)}, which is protected (`{part}`): each change of it needs your approval."
            )
            return Decision("ask", reason, firm=True)
    return decision


_TEXTS = frozenset(
    {"content", "contents", "text", "body", "query", "message", "prompt", "title", "description", "code", "sql"}
    | {"oldText", "newText", "old_string", "new_string", "old_text", "new_text"}
)
"""Fields that hold what is written or looked for, and no file's name."""


def _names(value: object, field: str = "") -> Iterator[str]:
    """Yield all in a tool's input that may be the name of a file."""
    if isinstance(value, str):
        if field not in _TEXTS and "\n" not in value:
            yield value.removeprefix("file://")
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield str(key)
            yield from _names(inner, str(key))
    elif isinstance(value, Sequence):
        for inner in value:
            yield from _names(inner, field)


def judge_unknown(book: RuleBook, call: JudgedCall) -> Decision:
    """A tool without rules of its own, such as a function of the user's: its word counts."""
    if call.read_only:
        otherwise = Decision("allow", f"The tool {call.name} only reads.")
    else:
        otherwise = Decision("ask", f"The tool {call.name} may change something, so it needs your approval.")
    return judge_by_rules(book, call.subject, otherwise, in_plan=call.read_only)
