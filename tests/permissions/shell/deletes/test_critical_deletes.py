"""Deletions that every mode asks for, however they are written, and those that are everyday cleaning."""

from __future__ import annotations

from tests.permissions.shell.judged_commands import ALLOW, ASK, behavior

from declared_tools import tool_named
from row_tables import for_each_row

CRITICAL = (
    # wildcards
    "rm -rf ~/pr*",
    "rm -rf ../p?oj",
    "rm -rf [.]*",
    "rm -rf .[!.]*",
    "rm -rf /u?r",
    "cd /; rm -rf b*",
    "rm -rf */*/*/*",
    # tildes
    "rm -rf ~+",
    "rm -rf ~+/..",
    "rm -rf ~-",
    "rm -rf ~root",
    # folders
    "pushd / && rm -rf etc",
    "pushd ..; rm -rf proj",
    "cd .. && cd .. && rm -rf ada",
    "cd; rm -rf proj",
    "for i in 1 2 3; do cd ..; done; rm -rf ada",
    # variables, and what is printed, as programs and as operands
    "X=rm; $X -rf /",
    "X=rm; Y=-rf; $X $Y ~",
    'X="rm -rf"; $X ..',
    "A=r; B=m; $A$B -rf ~",
    "$RM -rf ~",
    "${RM} -r ..",
    "$(which rm) -rf ~",
    "`which rm` -rf ~",
    "/bin/r? -rf ~",
    "D=..; rm -rf $D/proj",
    "D=..; rm -rf ./$D",
    "rm -rf build/../$X",
    "rm -rf ~/$X",
    "rm -rf ../${X}proj",
    # find
    "find -H / -name '*' -delete",
    "find . -name '*' -delete",
    "find . -delete -name '*.pyc'",
    "find . ! -name keep -delete",
    "find . -name a -o -type f -delete",
    "find . -type f -delete",
    "find ~+ -delete",
    "find ../p*j -name '*.pyc' -delete",
)
EVERYDAY = (
    "find . -name '*.pyc' -delete",
    "find . -type d -name __pycache__ -delete",
    "find . -type d -empty -delete",
    "find build -delete",
    "rm -rf build dist *.egg-info",
    "rm -rf src/*",
    "rm -rf build/*.o",
    "rm -rf ./build",
    "cd src && rm -rf deep",
    "pushd src && rm a.py",
    "D=build; rm -rf src/$D",
    "rm src/$NAME.py",
    "$PYTHON -m pytest .",
    "$EDITOR ..",
    "grep $(cat notes.txt) -r .",
    "make clean",
    "for f in a b; do rm src/$f.py; done",
)


@for_each_row("command", CRITICAL)
def test_a_critical_delete_is_asked_for_in_every_mode(place, command):
    for mode in ("bypassPermissions", "acceptEdits", "default"):
        decision = place.policy(mode, allow=["Bash"]).decide(tool_named("Bash"), {"command": command})
        assert (decision.behavior, decision.firm) == (ASK, True)


@for_each_row("command", EVERYDAY)
def test_everyday_cleaning_is_not(place, command):
    assert place.policy("bypassPermissions").decide(tool_named("Bash"), {"command": command}).behavior == ALLOW


@for_each_row(
    ("command", "expected"),
    [
        ("find / -delete", ASK),
        ("find . -delete", ASK),
        ("find -delete", ASK),
        ("find ~ -name '*.log' -delete", ASK),
        ("find .. -type f -delete", ASK),
        ("find {project} -delete", ASK),
        ("find . -exec rm {} +", ASK),
        ("git clean -fdx", ASK),
        ("git clean -f -d", ASK),
        ("git clean -fd .", ASK),
        ("sudo git clean -fdx", ASK),
        ("echo $(git clean -fdx)", ASK),
        ("rm -rf $(cat list)", ASK),
        ('rm -rf "$(pwd)"', ASK),
        ("rm -rf `pwd`", ASK),
        ("timeout 5 rm -rf ~", ASK),
        ("cat <(rm -rf /)", ASK),
        ("if true; then rm -rf ..; fi", ASK),
        ("cd /; rm -rf etc", ASK),
        ("find . -name '*.pyc' -delete", ALLOW),
        ("find build -delete", ALLOW),
        ("git clean -n", ALLOW),
        ("git clean -fd build", ALLOW),
        ("docker system clean", ALLOW),
        ("make clean", ALLOW),
        ("npm run clean", ALLOW),
    ],
)
def test_critical_deletes(project, command, expected):
    for mode in ("bypassPermissions", "acceptEdits"):
        assert behavior(project, command, mode, allow=["Bash"]) == expected


@for_each_row(
    "command",
    [
        "rm -rf /",
        "rm -rf /*",
        "rm -rf //",
        "rm -rf /.",
        "rm -rf /etc",
        "rm -rf /usr/*",
        "rm -rf /ETC/..",
        "rm -rf ~",
        "rm -rf ~/",
        "rm -rf ~/*",
        "rm -rf {home}",
        "rm -rf {home}/*",
        "rm -rf {home}/../ada",
        "rm -rf .",
        "rm -rf ./",
        "rm -rf *",
        "rm -rf ./*",
        "rm -rf ..",
        "rm -rf ../*",
        "rm -rf ../..",
        "rm -rf {project}",
        "rm -rf {project}/",
        "rm -rf {project}/*",
        "rm -rf ../proj",
        "rm -rf ~/proj",
        "rm -rf ~/way-in/",
        "rm -rf $X",
        "rm -rf $X/*",
        "rm -rf ${X}/",
        'rm -rf "$X/y"',
        "rm -rf -- /",
        "rm -r -f --no-preserve-root /",
        "rmdir /opt",
        "/bin/rm -rf /",
        "\\rm -rf /",
        "sudo rm -rf /",
        "ls && rm -rf /",
        "echo $(rm -rf /)",
        "echo `rm -rf ~`",
        "diff <(rm -rf /) x",
        "bash -c 'rm -rf /'",
        "eval 'rm -rf /'",
        "cd / && rm -rf bin",
        "cd .. && rm -rf proj",
        "cat list | xargs rm -rf",
        "find . -exec rm -rf {} +",
        "if true; then rm -rf /; fi",
        "A=b rm -rf /",
        "rm -rf src /",
        "rm -rf /{bin,usr}",
        "RM -rf /",
    ],
)
def test_critical_deletes_are_asked_for_in_every_mode(place, command):
    assert behavior(place, command, "bypassPermissions") == "ask"
    assert behavior(place, command, allow=["Bash"]) == "ask"
    assert behavior(place, command, allow=["Bash(rm *)", f"Bash({command})"]) == "ask"
    assert behavior(place, command, "dontAsk", allow=["Bash"]) == "deny"


@for_each_row(
    "command",
    [
        "rm x",
        "rm -rf src",
        "rm -rf ./build",
        "rm -rf src/*",
        "rm *.pyc",
        "rm -rf {project}/src",
        "rm -rf /tmp/x/y",
        "rm -rf ~/outside/old",
        "rmdir src/empty",
        "docker run --rm image",
        "git rm x",
        "npm rm x",
        "echo rm -rf /",
        "rm -rf node_modules && npm install",
        "cd src && rm -rf deep",
    ],
)
def test_other_deletes_are_not(place, command):
    assert behavior(place, command, "bypassPermissions") == "allow"
