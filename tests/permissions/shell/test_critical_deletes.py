"""Deletions that every mode asks for, however they are written, and those that are everyday cleaning."""

from __future__ import annotations

from declared_tools import tool_named
from row_tables import for_each_row

ASK, ALLOW = "ask", "allow"

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
