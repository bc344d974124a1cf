"""The rules that the question about a command offers."""

from __future__ import annotations

from tests.permissions.shell.judged_commands import ALLOW, ASK, decide

from declared_tools import tool_named
from row_tables import for_each_row


def offered(place, command, mode="default", **rules):
    decision = place.policy(mode, **rules).decide(tool_named("Bash"), {"command": place.fill(command)})
    assert decision.behavior == ASK
    return {suggestion.scope: suggestion.rules for suggestion in decision.suggestions}


@for_each_row(
    ("command", "session", "always"),
    [
        ("a x && b y", ("Bash(a x)", "Bash(b y)"), ("Bash(a x)", "Bash(b y)")),
        ("cd src && make all | tail -5", ("Bash(make all)",), ("Bash(make all)",)),
        ("pytest -q 2>&1 | tail -20", ("Bash(pytest *)",), ("Bash(pytest -q)",)),
        ("npm run build && npm run lint", ("Bash(npm run *)",), ("Bash(npm run build)", "Bash(npm run lint)")),
        ("timeout 60 pytest -q", ("Bash(pytest *)",), ("Bash(timeout 60 pytest -q)",)),
        ("A=b make", ("Bash(A=b make)",), ("Bash(A=b make)",)),
        ("cat /etc/hostname", ("Bash(cat /etc/hostname)",), ("Bash(cat /etc/hostname)",)),
        ("cd ../outside && ls", ("Read(/{home}/outside/**)",), ("Read(/{home}/outside/**)",)),
        ("make > build/log", ("Bash(make)", "Edit(/{project}/build/log)"), None),
        ("cd build && make > log", ("Bash(make)", "Edit(/{project}/build/log)"), None),
        ("a; b; c; d; e", ("Bash(a)", "Bash(b)", "Bash(c)", "Bash(d)", "Bash(e)"), None),
        ("a; b; c; d; e; f", None, None),
        ("make; echo $X", None, None),
        ("make $X", None, None),
        ("make > $X", None, None),
        ("make > .envrc", None, None),
        ("make 'a*'", None, None),
        ("export A=b; make", ("Bash(export A=b)", "Bash(make)"), ("Bash(export A=b)", "Bash(make)")),
        ("A=b; make", None, None),
        ("f() { make; }; f", None, None),
        ("rm -rf /; make", None, None),
        ("echo x | sh", None, None),
        ("make x | python3 -", None, None),
        ("bash <<'EOF'\nmake\nEOF", None, None),
        ("bash <<< make", None, None),
        ("node < script.js", None, None),
        ("python3 -c 'print(1)'", ("Bash(python3 -c 'print(1)')",), ("Bash(python3 -c 'print(1)')",)),
        ("make x | python3 tool.py", ("Bash(make x)", "Bash(python3 tool.py)"), None),
        ("make\u200b", None, None),
    ],
)
def test_what_is_offered(project, command, session, always):
    found = offered(project, command)
    filled = session and tuple(map(project.fill, session))
    assert found.get("session") == filled
    if always or not session:  # None beside rules for the session: whether they may be kept is another test's
        assert found.get("always") == (always and tuple(map(project.fill, always)))
    for rules in found.values():
        policy = project.policy().allowing(rules)
        assert policy.decide(tool_named("Bash"), {"command": project.fill(command)}).behavior == ALLOW


def test_what_is_allowed_already_is_not_offered_again(project):
    assert offered(project, "a; b", allow=["Bash(a)"]) == {"session": ("Bash(b)",), "always": ("Bash(b)",)}


def test_the_label_of_an_offer_covers_each_of_its_rules(project):
    decision = project.policy().decide(tool_named("Bash"), {"command": "a x && b y"})
    assert [offer.label for offer in decision.suggestions] == [
        "these 2 commands for this session",
        "always allow these 2 commands in this project",
    ]
    assert all(len(offer.rules) == 2 for offer in decision.suggestions)


@for_each_row(
    ("command", "session", "always"),
    [
        ("make all", "Bash(make all)", "Bash(make all)"),
        ("pytest -q tests/x.py", "Bash(pytest *)", "Bash(pytest -q tests/x.py)"),
        ("git log --oneline", "Bash(git log --oneline)", "Bash(git log --oneline)"),
        ('git commit -m "a (b)"', 'Bash(git commit -m "a (b)")', 'Bash(git commit -m "a (b)")'),
        ("make src/*", None, None),
        ("mytool . -name '*.py'", None, None),
        ("a && b", "Bash(a)", "Bash(a)"),
        ("echo $x", None, None),
        ("echo x > y", "Edit(/{project}/y)", None),
        ("xargs cat", "Bash(xargs cat)", "Bash(xargs cat)"),
        ("xargs rm", None, None),
        ("rm -rf /", None, None),
        ("make all # x", "Bash(make all)", "Bash(make all)"),
    ],
)
def test_what_is_offered_for_simple_commands(place, command, session, always):
    decision = decide(place, command)
    assert decision.behavior == "ask"
    offered = {suggestion.scope: suggestion.rules[0] for suggestion in decision.suggestions}
    assert (offered.get("session"), offered.get("always")) == (session and place.fill(session), always)
    for suggestion in decision.suggestions:
        assert (
            place.policy().allowing(suggestion.rules).decide(tool_named("Bash"), {"command": command}).behavior
            == "allow"
        )


def test_what_an_ask_rule_asks_for_has_no_rule_to_offer(place):
    assert decide(place, "make all", ask=["Bash(make *)"]).suggestions == ()
