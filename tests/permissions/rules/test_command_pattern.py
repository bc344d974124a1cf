"""No wildcard in a rule covers flags by which a program runs another one: those stand in the rule, or are asked for."""

from __future__ import annotations

from declared_tools import tool_named
from row_tables import for_each_row

RUN = (
    "git log --output=x",
    "git log --outp=x",
    "git diff --ext-diff",
    "git show --textconv",
    "git grep -Otouch x",
    "git grep --open-files-in-pager=touch x",
    "git -c core.pager=touch log",
    "git -c alias.x=!touch x",
    "git -c diff.external=touch diff",
    "git -c user.name=x -c core.fsmonitor=touch status",
    "git fetch --upload-pack=touch origin",
    "git ls-remote --exec=touch origin",
    "git rebase --exec touch main",
    "tar --to-command=touch -xf x.tar",
    "tar --to-com=touch -xf x.tar",
    "tar -I touch -xf x.tar",
    "tar --checkpoint=1 --checkpoint-action=exec=touch -cf x src",
    "rsync -e touch a b",
    "rsync -ae touch a b",
    "rsync --rsync-path=touch a b",
    "ssh -o ProxyCommand=touch host",
    "ssh -oproxycommand=touch host",
    "scp -o 'ProxyCommand touch' a host:",
    "sort --compress-program=touch a",
    "split --filter=touch a",
    "rg --pre touch x",
    "fd -x touch",
    "fd --exec touch",
    "man -P touch ls",
    "man --pager=touch ls",
    "less +!touch a",
    "timeout 5 git log --output=x",
)
PASS = (
    "git log --oneline --stat",
    "git -c user.name=x -c color.ui=never commit -m y",
    "git switch -c topic",
    "git commit -c HEAD",
    "git push origin main",
    "git checkout -b x",
    "tar -czf x.tgz src",
    "tar -xf x.tgz",
    "rsync -av src/ build",
    "ssh -p 22 host ls",
    "ssh -o StrictHostKeyChecking=no host",
    "sort -u src/a.py",
    "split -l 5 notes.txt",
    "rg -n x src",
    "man ls",
    "less notes.txt",
)
PROGRAMS = ("git", "tar", "rsync", "ssh", "scp", "sort", "split", "rg", "fd", "man", "less")


def behavior(place, command, rules):
    return place.policy(allow=rules).decide(tool_named("Bash"), {"command": command}).behavior


@for_each_row("command", RUN)
def test_a_wildcard_does_not_cover_a_flag_that_runs_a_program(place, command):
    assert behavior(place, command, [f"Bash({program} *)" for program in PROGRAMS]) == "ask"
    assert behavior(place, command, [f"Bash({program}:*)" for program in PROGRAMS]) == "ask"
    assert behavior(place, command, [f"Bash({command})"]) == "allow"
    assert behavior(place, command, ["Bash"]) == "allow"


@for_each_row("command", PASS)
def test_a_wildcard_covers_the_rest(place, command):
    assert behavior(place, command, [f"Bash({program} *)" for program in PROGRAMS]) == "allow"
