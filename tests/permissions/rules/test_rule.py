"""Every form of rule, in both directions: what it covers, and what it must not."""

from __future__ import annotations

import pytest

from cellwright.permissions.policy import PermissionPolicy
from cellwright.permissions.rules.domain_pattern import AddressProblem, host_of
from cellwright.permissions.rules.rule import grant_problem, parse_rule, restriction_problem
from declared_tools import tool_named
from row_tables import for_each_row


def behavior(tool, tool_input, *, mode="default", read_only=False, **rules):
    return PermissionPolicy(mode, **rules).decide(tool_named(tool, read_only=read_only), tool_input).behavior


@for_each_row(
    ("rule", "same", "tool", "tool_input"),
    [
        ("run_command(make *)", "Bash(make *)", "Bash", {"command": "make all"}),
        ("run_command(make *)", "Bash(make *)", "Bash", {"command": "touch x"}),
        ("RUN_COMMAND", "Bash", "Bash", {"command": "touch x"}),
        ("read_file(//etc/hostname)", "Read(//etc/hostname)", "Read", {"file_path": "/etc/hostname"}),
        ("write_file(./x)", "Write(./x)", "Write", {"file_path": "x"}),
        ("write_file", "Write", "Write", {"file_path": "y"}),
        ("list_files", "LS", "LS", {"path": "/etc"}),
    ],
)
def test_names_that_other_agents_have_for_the_tools(rule, same, tool, tool_input):
    for more in ({}, {"mode": "bypassPermissions"}):
        for way in ("allow", "ask", "deny"):
            assert behavior(tool, tool_input, **{way: (rule,)}, **more) == behavior(
                tool, tool_input, **{way: (same,)}, **more
            )
    assert behavior("Bash", {"command": "make all"}, allow=("run_command(make *)",)) == "allow"
    assert behavior("Bash", {"command": "make all"}, deny=("run_command",), mode="bypassPermissions") == "deny"


@for_each_row(
    ("rule", "url", "allowed", "denied"),
    [
        ("WebFetch(domain:example.com)", "https://example.com", True, True),
        ("WebFetch(domain:example.com)", "https://example.com/a?b#c", True, True),
        ("WebFetch(domain:example.com)", "http://example.com:8080/", True, True),
        ("WebFetch(domain:example.com)", "HTTPS://EXAMPLE.COM/", True, True),
        ("WebFetch(domain:EXAMPLE.com)", "https://example.com/", True, True),
        ("WebFetch(domain:example.com)", "https://example.com./", True, True),
        ("WebFetch(domain:example.com.)", "https://example.com/", True, True),
        ("webfetch(Domain: example.com )", "https://example.com/", True, True),
        ("WebFetch(domain:example.com)", "https://example.com:/", True, True),
        ("WebFetch(domain:example.com)", "https://example.com?x=@y", True, True),
        # never by how the name starts or ends (CVE-2026-24052)
        ("WebFetch(domain:example.com)", "https://example.com.evil.org/", False, False),
        ("WebFetch(domain:example.com)", "https://evil-example.com/", False, False),
        ("WebFetch(domain:example.com)", "https://sub.example.com/", False, False),
        ("WebFetch(domain:example.com)", "https://example.co/", False, False),
        ("WebFetch(domain:example.com)", "https://evil.org/example.com", False, False),
        ("WebFetch(domain:example.com)", "https://evil.org?example.com", False, False),
        ("WebFetch(domain:example.com)", "https://evil.org#example.com", False, False),
        ("WebFetch(domain:*.example.com)", "https://sub.example.com/", True, True),
        ("WebFetch(domain:*.example.com)", "https://a.b.example.com/", True, True),
        ("WebFetch(domain:*.example.com)", "https://example.com/", False, False),
        ("WebFetch(domain:*.example.com)", "https://evilexample.com/", False, False),
        ("WebFetch(domain:api-*.example.com)", "https://api-1.example.com/", True, True),
        ("WebFetch(domain:api-*.example.com)", "https://api-1.evil.example.com/", False, False),
        ("WebFetch(domain:example.*)", "https://example.org/", True, True),
        ("WebFetch(domain:example.*)", "https://example.co.uk/", False, False),
        ("WebFetch(domain:*)", "https://anything.org/", True, True),
        ("WebFetch(domain:*)", "https://localhost/", True, True),
        ("WebFetch(domain:bücher.de)", "https://xn--bcher-kva.de/", True, True),
        ("WebFetch(domain:xn--bcher-kva.de)", "https://BÜCHER.de/", True, True),
        ("WebFetch(domain:example.com)", "https://ｅｘａｍｐｌｅ。ｃｏｍ/", True, True),
        ("WebFetch(domain:example.com)", "https://exаmple.com/", False, False),
        ("WebFetch(domain:127.0.0.1)", "http://127.0.0.1/", True, True),
        ("WebFetch(domain:127.0.0.1)", "http://[::ffff:127.0.0.1]/", True, True),
        ("WebFetch(domain:[::1])", "http://[0:0::1]/", True, True),
        ("WebFetch", "https://example.com/", True, True),
        ("WebFetch(*)", "https://example.com/", True, True),
        # what is not understood allows nothing and denies everything
        ("WebFetch(example.com)", "https://example.com/", False, True),
        ("WebFetch(domain:example.com:8080)", "https://other.org/", False, True),
        ("WebFetch(domain:https://example.com)", "https://other.org/", False, True),
        ("WebFetch(domain:exam ple.com)", "https://other.org/", False, True),
        ("WebFetch(domain:*x*.a/b)", "https://other.org/", False, True),
        ("WebFetch(url:https://example.com/*)", "https://other.org/", False, True),
        ("WebFetch(prompt:*password*)", "https://other.org/", False, False),
        ("WebSearch", "https://example.com/", False, False),
    ],
)
def test_hosts(rule, url, allowed, denied):
    call = {"url": url, "prompt": "what is it"}
    assert behavior("WebFetch", call, allow=[rule]) == ("allow" if allowed else "ask")
    assert behavior("WebFetch", call, mode="bypassPermissions", deny=[rule]) == ("deny" if denied else "allow")
    assert behavior("WebFetch", call, mode="bypassPermissions", ask=[rule]) == ("ask" if denied else "allow")


@for_each_row(
    "url",
    [
        "",
        "example.com",
        "//example.com/",
        "https:example.com",
        "https:/example.com",
        "https:///example.com",
        "https://",
        "https://user@example.com/",
        "https://example.com@evil.org/",
        "https://user:pw@example.com/",
        "https://good.com\\@evil.org/",
        "https://good.com\\.evil.org/",
        "https://good.com /",
        " https://good.com/",
        "https://good\t.com/",
        "https://good.com\n/",
        "https://good.com\0/",
        "https://ex%61mple.com/",
        "https://exa mple.com/",
        "https://example..com/",
        "https://.example.com/",
        "https://example.com:80x/",
        "https://example.com:1:2/",
        "https://2130706433/",
        "https://0x7f000001/",
        "https://127.1/",
        "https://0177.0.0.1/",
        "https://1.2.3.4.5/",
        "https://[::1/",
        "https://[::1%25eth0]/",
        "https://[x]/",
        "file:///etc/passwd",
        "ftp://example.com/",
        "javascript:alert(1)",
        "data:text/html,x",
        "https://\ud800.com/",
        "https://a\u200d.com/",
        f"https://{'a' * 64}.com/",
        f"https://{'a.' * 130}com/",
    ],
)
@for_each_row("mode", ["default", "bypassPermissions"])
def test_what_could_be_read_in_two_ways_is_no_address(url, mode):
    decision = PermissionPolicy(mode, allow=["WebFetch"]).decide(tool_named("WebFetch"), {"url": url})
    assert decision.behavior == "deny"
    assert "address" in decision.reason
    with pytest.raises(AddressProblem):
        host_of(url)


@pytest.mark.parametrize("tool_input", [{}, {"url": None}, {"url": 1}, {"url": ["https://example.com"]}])
def test_a_fetch_without_an_address_is_denied(tool_input):
    assert behavior("WebFetch", tool_input, allow=["WebFetch"]) == "deny"


AGENT = {"description": "look", "prompt": "p"}


@for_each_row(
    ("rule", "tool", "tool_input", "denied"),
    [
        ("Agent(Explore)", "Agent", {"subagent_type": "Explore"}, True),
        ("Agent(explore)", "Agent", {"subagent_type": "Explore"}, True),
        ("Agent(Explore)", "Task", {"subagent_type": "Explore"}, True),
        ("Task(Explore)", "Agent", {"subagent_type": "Explore"}, True),
        ("task", "Agent", {"subagent_type": "Explore"}, True),
        ("Agent(Explore)", "Agent", {"subagent_type": "Explorer"}, False),
        ("Agent(Explore)", "Agent", {}, False),
        ("Agent(general-purpose)", "Agent", {}, True),
        ("Agent(team-*)", "Agent", {"subagent_type": "team-a"}, True),
        ("Agent(team:reviewer)", "Agent", {"subagent_type": "team:reviewer"}, True),
        ("Agent(model:opus)", "Agent", {"model": "opus"}, True),
        ("Agent(model:OPUS)", "Agent", {"model": "opus"}, True),
        ("Agent(model:*)", "Agent", {"model": "haiku"}, True),
        ("Agent(model:opus)", "Agent", {"model": "haiku"}, False),
        ("Agent(model:opus)", "Agent", {}, False),
        ("Agent(a, b)", "Agent", {"subagent_type": "c"}, True),
        ("Agent", "Agent", {"subagent_type": "c"}, True),
    ],
)
def test_agents(rule, tool, tool_input, denied):
    call = {**AGENT, **tool_input}
    assert behavior(tool, call) == "allow"
    assert behavior(tool, call, deny=[rule]) == ("deny" if denied else "allow")
    assert behavior(tool, call, mode="bypassPermissions", ask=[rule]) == ("ask" if denied else "allow")


@for_each_row(
    ("rule", "skill", "arguments", "allowed", "denied"),
    [
        ("Skill(commit)", "commit", "", True, True),
        ("Skill(commit)", "/commit", "", True, True),
        ("Skill(/commit)", "commit", "", True, True),
        ("Skill(commit)", "commit", "--amend", False, True),
        ("Skill(commit *)", "commit", "--amend", True, True),
        ("Skill(commit *)", "commit", "", True, True),
        ("Skill(commit *)", "commit-all", "", False, False),
        ("Skill(commit)", "commits", "", False, False),
        ("Skill(COMMIT)", "commit", "", False, True),
        ("Skill(team:*)", "team:review", "", True, True),
        ("Skill(team:review)", "team:review", "", True, True),
        ("Skill", "anything", "x", True, True),
        ("Skill(a b c)", "a", "b c", False, True),
    ],
)
def test_skills(rule, skill, arguments, allowed, denied):
    call = {"skill": skill, "args": arguments}
    assert behavior("Skill", call, allow=[rule]) == ("allow" if allowed else "ask")
    assert behavior("Skill", call, mode="bypassPermissions", deny=[rule]) == ("deny" if denied else "allow")


@for_each_row(
    ("rule", "tool", "allowed", "denied"),
    [
        ("mcp__git__push", "mcp__git__push", True, True),
        ("mcp__git__push", "mcp__git__push_all", False, False),
        ("mcp__git", "mcp__git__push", True, True),
        ("mcp__git", "mcp__github__push", False, False),
        ("mcp__git__*", "mcp__git__push", True, True),
        ("mcp__git__get_*", "mcp__git__get_log", True, True),
        ("mcp__git__get_*", "mcp__git__set_log", False, False),
        ("mcp__git__*_log", "mcp__git__get_log", True, True),
        ("mcp__GIT", "mcp__git__push", False, True),
        # a server whose name goes on behind `__` is another
        ("mcp__git", "mcp__git__evil__push", False, True),
        ("mcp__git__*", "mcp__git__evil__push", False, True),
        ("mcp__git__push", "mcp__git__push__force", False, True),
        # a tool `_push` of `git` is called like a tool `push` of the server `git_`
        ("mcp__git", "mcp__git___push", False, True),
        ("mcp__git__*", "mcp__git___push", False, True),
        ("mcp__git___push", "mcp__git___push", True, True),
        ("mcp__plugin_a_b", "mcp__plugin_a_b__tool", True, True),
        # names are globs for restrictions only
        ("mcp__*", "mcp__git__push", False, True),
        ("mcp__g*", "mcp__git__push", False, True),
        ("mcp__g*__push", "mcp__git__push", False, True),
        ("*__push", "mcp__git__push", False, True),
        ("*", "mcp__git__push", False, True),
        ("mcp__", "mcp__git__push", False, False),
        ("mcp____*", "mcp__git__push", False, False),
        ("mcp__git__push(branch:main)", "mcp__git__push", False, True),
        ("mcp__git__push(branch:dev)", "mcp__git__push", False, False),
        ("mcp__git__*(path:/etc/*)", "mcp__git__push", False, False),
        ("mcp__git__push(main)", "mcp__git__push", False, True),
    ],
)
def test_tools_of_servers(rule, tool, allowed, denied):
    call = {"branch": "main"}
    assert behavior(tool, call, allow=[rule]) == ("allow" if allowed else "ask")
    assert behavior(tool, call, mode="bypassPermissions", deny=[rule]) == ("deny" if denied else "allow")
    assert behavior(tool, call, read_only=True) == "ask", "what a server says of itself is not believed"


@for_each_row(
    ("rule", "tool", "tool_input", "denied"),
    [
        ("Bash(run_in_background:true)", "Bash", {"command": "make", "run_in_background": True}, True),
        ("Bash(run_in_background:true)", "Bash", {"command": "make", "run_in_background": False}, False),
        ("Bash(run_in_background:true)", "Bash", {"command": "make"}, False),
        ("Bash(timeout:*)", "Bash", {"command": "make", "timeout": 5}, True),
        ("Bash(timeout:60*)", "Bash", {"command": "make", "timeout": 600}, True),
        ("Bash(timeout:60*)", "Bash", {"command": "make", "timeout": 500}, False),
        ("Bash(description:*secret*)", "Bash", {"command": "make", "description": "the SECRET one"}, True),
        ("Bash(environment_variables:*)", "Bash", {"command": "make", "environment_variables": {"A": "b"}}, True),
        ("Bash(command:make *)", "Bash", {"command": "ls"}, True),
        ("Bash(npm:*)", "Bash", {"command": "npm i"}, True),
        ("Bash(make:all)", "Bash", {"command": "make all"}, False),
        ("Read(pages:*)", "Read", {"file_path": "a.pdf", "pages": "1-5"}, True),
        ("Read(pages:*)", "Read", {"file_path": "a.pdf"}, False),
        ("Read(file_path:/etc/*)", "Read", {"file_path": "a"}, True),
        ("Edit(replace_all:true)", "Edit", {"file_path": "a", "replace_all": True}, True),
        ("Edit(replace_all:true)", "Write", {"file_path": "a"}, False),
        ("Grep(output_mode:content)", "Grep", {"pattern": "x", "output_mode": "content"}, True),
        ("WebSearch(query:*salary*)", "WebSearch", {"query": "my salary"}, True),
        ("WebSearch(query:*salary*)", "WebSearch", {"query": "weather"}, False),
        ("my_deploy(to:production)", "my_deploy", {"to": "production"}, True),
        ("my_deploy(to:production)", "my_deploy", {"to": "staging"}, False),
        ("my_deploy(count:3)", "my_deploy", {"count": 3}, True),
        ("my_deploy(force:null)", "my_deploy", {"force": None}, True),
        ("my_*(to:production)", "my_deploy", {"to": "production"}, True),
        ("*(to:production)", "my_deploy", {"to": "production"}, True),
        ("*(to:production)", "my_deploy", {"to": ["staging"]}, True),
    ],
)
def test_parameters_are_denied_and_asked_for_and_never_allowed(rule, tool, tool_input, denied):
    assert behavior(tool, tool_input, mode="bypassPermissions", deny=[rule]) == ("deny" if denied else "allow")
    assert behavior(tool, tool_input, mode="bypassPermissions", ask=[rule]) == ("ask" if denied else "allow")
    if rule not in ("Bash(npm:*)", "Bash(make:all)") and not rule.startswith(("Read", "Edit")):
        assert behavior("my_deploy", {"to": "production"}, allow=[rule]) == "ask"
    assert behavior(tool, tool_input, mode="dontAsk", ask=[rule]) == "deny" or not denied


@for_each_row(
    ("rule", "says"),
    [
        ("Bash(command:rm *)", "write `Bash(rm *)`"),
        ("Read(file_path:/etc/*)", "write `Read(/etc/*)`"),
        ("WebFetch(example.com)", "not of the form `domain:example.com`"),
        ("WebFetch(domain:a b)", "no proper host"),
        ("WebFetch(url:https://x)", "write `WebFetch(https://x)`"),
        ("Agent(a, b)", "`a, b` is not understood"),
        ("Python(import os)", "`import os` is not understood"),
        ("Bash(rm *)", None),
        ("Bash", None),
        ("*", None),
        ("Read(.env)", None),
        ("WebFetch(domain:x.org)", None),
        ("Agent(Explore)", None),
        ("my_deploy(to:x)", None),
    ],
)
def test_a_restriction_that_covers_more_than_it_says_is_told(rule, says):
    problem = restriction_problem(parse_rule(rule))
    if says is None:
        assert problem is None
    else:
        assert problem is not None
        assert says in problem
        assert f"`{rule}` restricts every use" in problem


@for_each_row(
    ("rule", "meant"),
    [
        ("Bsh(rm *)", "Bash"),
        ("Raed(.env)", "Read"),
        ("NotebookEdits", "NotebookEdit"),
        ("web_fetch", ""),
        ("bash(rm *)", ""),
        ("LSP", ""),
        ("search", ""),
        ("my_deploy", ""),
        ("mcp__bash", ""),
    ],
)
def test_a_restriction_of_a_misspelt_tool_is_told(rule, meant):
    problem = restriction_problem(parse_rule(rule)) or ""
    assert problem.partition("Did you mean ")[2] == (f"`{meant}`?" if meant else "")


@for_each_row(
    ("rule", "hidden", "shown"),
    [
        ("Bash", ["Bash"], ["Read", "Python", "mcp__a__b"]),
        ("bash(*)", ["Bash"], ["Read"]),
        ("Bash(rm *)", [], ["Bash"]),
        ("Bash(run_in_background:true)", [], ["Bash"]),
        ("*", ["Bash", "Read", "mcp__a__b"], []),
        ("mcp__*", ["mcp__a__b"], ["Bash"]),
        ("mcp__a", ["mcp__a__b"], ["mcp__b__a"]),
        ("mcp__a__*", ["mcp__a__b"], ["mcp__b__a"]),
        ("Task", ["Agent", "Task"], ["TaskCreate"]),
        ("Agent(Explore)", [], ["Agent"]),
        (
            "Edit",
            ["Edit", "Write", "MultiEdit", "NotebookEdit", "ApplyPatch", "EditSymbol", "RenameSymbol"],
            ["Read", "Grep"],
        ),
        ("Read", ["Read", "Grep", "Edit", "FileTree"], ["Bash"]),
        ("Edit(/src/**)", [], ["Edit"]),
        ("WebFetch(domain:*)", [], ["WebFetch"]),
    ],
)
def test_what_is_denied_as_a_whole_is_not_offered_to_claude(rule, hidden, shown):
    policy = PermissionPolicy(deny=[rule])
    assert [tool for tool in (*hidden, *shown) if policy.hides(tool_named(tool))] == hidden
    assert not any(PermissionPolicy(ask=[rule], allow=["Bash"]).hides(tool_named(tool)) for tool in hidden)


def test_a_parameter_rule_asks_behind_what_denies_and_before_what_allows():
    call = {"command": "make", "run_in_background": True}
    rules = {"ask": ["Bash(run_in_background:true)"], "allow": ["Bash(make)"]}
    asked = PermissionPolicy(**rules).decide(tool_named("Bash"), call)
    assert (asked.behavior, asked.firm, asked.rule) == ("ask", True, "Bash(run_in_background:true)")
    assert PermissionPolicy(**rules).decide(tool_named("Bash"), {"command": "make"}).behavior == "allow"
    assert PermissionPolicy(**rules, deny=["Bash(make)"]).decide(tool_named("Bash"), call).rule == "Bash(make)"
    assert PermissionPolicy("plan", **rules).decide(tool_named("Bash"), call).behavior == "deny"


@for_each_row("rule", ["Agent(model:opus, x)", "Skill(a b c)", "WebFetch(x)", "my_deploy(to:x)", "m*", "*(x)"])
def test_a_grant_that_is_not_understood_is_told_and_grants_nothing(rule):
    assert rule in (grant_problem(parse_rule(rule)) or "")
    assert behavior("my_deploy", {"to": "x"}, allow=[rule]) == "ask"
