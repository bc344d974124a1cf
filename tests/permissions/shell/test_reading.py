"""What passes unasked because it only reads is certain: how its options, globs, tildes and substitutions are read.

Each table has what must ask, and what must still pass.
"""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from declared_tools import tool_named
from row_tables import for_each_row

ALLOW, ASK, DENY = "allow", "ask", "deny"
pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs git")


@pytest.fixture
def project(place, monkeypatch: pytest.MonkeyPatch):
    """The place as a Git repository."""
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)
    subprocess.run(["git", "init", "-q", str(place.project)], check=True)
    return place


def behavior(place, command, mode="default", **rules):
    return place.policy(mode, **rules).decide(tool_named("Bash"), {"command": place.fill(command)}).behavior


def rows(asks, passes):
    return [*((command, ASK) for command in asks), *((command, ALLOW) for command in passes)]


OPTIONS = rows(
    asks=[
        # behind an operand they are options to GNU's programs and operands to BSD's
        "sed 's/x/y/w out' -e p",
        "sed 'w out' -n -e 1p",
        "uniq notes.txt -c",
        "date +%s -u",
        "base64 notes.txt -d",
        "grep x src -e /etc/passwd",
        "touch src/new.py -r /etc/passwd",
        # of some programs the next word is the value, of others it is an operand
        "ls -I /etc",
        "ls -w /etc",
        "df -T -t /etc",
        "stat -f -c /etc/passwd",
        "stat -t -c /etc/passwd",
        "column -n -s /etc/passwd",
        "column -R -s /etc/passwd",
        "column -N -s /etc/passwd",
        "grep --context 3 /etc/passwd notes.txt",
        "head --lines 3 notes.txt",
        # the flags of `git config` end at the first operand
        "git config user.name --default=x",
        "git config user.name --get",
        "git config user.name -l",
        "git branch --sort -D main",
        "git log --since --output=out",
        "git ls-files -x --output=out",
        # names beyond the project, which git tells when it complains of one
        "git describe --dirty",
        "git log -- ~/*",
        "git log -- ../*",
        "git status /h*/*",
        # what links in them lead to is read
        "diff -r src link-in",
        "diff src link-in",
        "cd src && diff -rq . ../link-in",
    ],
    passes=[
        "ls src -la",
        "cat notes.txt -n",
        "head notes.txt -n 3",
        "wc notes.txt -l",
        "grep -rn x src --include=*.py",
        'grep -rn x src --include="*.py" -i',
        "grep x notes.txt -A 3",
        "grep --context=3 x notes.txt",
        "sort notes.txt -u",
        "rg foo src -t py",
        "rg --type py foo src",
        "jq . nb.ipynb -r",
        "git log HEAD --oneline -5",
        "git log --since '2 days ago' --author ada",
        "git diff HEAD --stat",
        "git show HEAD --name-only",
        "git log -- src/*",
        "diff notes.txt nb.ipynb",
        "git branch --sort=-committerdate",
    ],
)

BRACKETS = rows(
    asks=[
        r"cat link[\-]file",
        "cat link['-']file",
        'cat link["-"]file',
        "cat [\\'l]ink-file",
        r"cat .en[\!v]",
        "cat .en[x'v']",
        r"ls src[\/]*",
        "cat lin[j-l]-file",
        "cat lin[[:alpha:]]-file",
        "cat lin[^x]-file",
        "cat lin[!x]-file",
        "cat li[]n]k-file",
    ],
    passes=[
        "cat src/[ab].py",
        "cat src/[a-c].py",
        "ls src/[!x].py",
        "ls src/[[:lower:]].py",
        "cat 'src'/[ab].py",
        "cat '[x]'",
        "grep '[a-z]' notes.txt",
        'grep "[\'x]" notes.txt',
    ],
)

TILDES = rows(
    asks=[
        "cat a=~/.ssh/id_rsa",
        "cat a=b:~/.ssh/id_rsa",
        "cat a+=~/x",
        "test -f a=~/x",
        "wc -l < a=~/x",
        "ls a=~",
        "cat ~+/../outside/data.csv",
        "cat ~-/data.csv",
        "ls ~1",
        "ls ~+1",
        "cat ~root/.profile",
        "cat ~/.ssh/id_rsa",
        "grep -f~/x y notes.txt",
        "grep --file=~/x y notes.txt",
        "cd ~- && ls",
    ],
    passes=[
        "cat ~/proj/notes.txt",
        "cat '~/x'",
        r"cat \~/x",
        "cat a=b",
        "cat x~",
        "grep a=~ notes.txt",
        "echo '~+'",
        "ls src/~",
    ],
)

SUBSTITUTIONS = rows(
    asks=[
        "echo $(cat notes.txt)",
        "echo $(printf '/etc/*')",
        "echo x$(printf '*')",
        "echo \"a\"$(printf '../*')",
        "printf '%s' $(cat notes.txt)",
        "printf '%s\\n' a $(echo '*')",
        "ls $(cat notes.txt)",
        "echo $x",
        "echo *",
    ],
    passes=[
        'echo "$(cat notes.txt)"',
        "echo \"today: $(date +%F), $(printf '*')\"",
        'printf "%s" "$(cat notes.txt)"',
        "echo $?",
        "echo '$(cat notes.txt)'",
        'echo "$(echo "$(pwd)")"',
    ],
)


@for_each_row(("command", "expected"), [*OPTIONS, *BRACKETS, *TILDES, *SUBSTITUTIONS])
def test_only_what_is_certain_passes(project, command, expected):
    (project.project / "src" / "~").mkdir(exist_ok=True)
    assert behavior(project, command) == expected


@for_each_row(
    ("command", "expected"),
    [
        (r"cat .en[\!v]", DENY),
        (r"cat .e[x\]n]v", DENY),
        ("cat .en[[:lower:]]", DENY),
        ("cat ~+/.env", DENY),
        ("cat ~/proj/.en*", DENY),
        ("cd src; cat ~-/.env", DENY),
        ("dd if=~/proj/.env", DENY),
        ("cat x=~/proj/.env", DENY),
        ("cat ./.en*", DENY),  # beside a link that leads nowhere
        ("cat .gi[\\!t]ignore", ALLOW),
        ("cat ~+/notes.txt", ALLOW),
        ("dd if=~/proj/notes.txt", ALLOW),
    ],
)
def test_a_rule_that_denies_sees_what_brackets_and_tildes_stand_for(project, command, expected):
    for mode in ("default", "bypassPermissions"):
        assert behavior(project, command, mode, deny=["Read(.env)"], allow=["Bash"]) == expected


ALLOWED = ("Bash(ln *)", "Bash(mv *)", "Bash(cp *)", "Bash(tar *)", "Bash(make *)", "Bash(git checkout *)")
CHANGED_PLACES = rows(
    asks=[
        "ln -s / x; cat x/etc/passwd",
        "ln -s / x && cat x/etc/passwd",
        "ln -s / x & cat x/etc/passwd",
        "cat x/etc/passwd & ln -s / x",
        "ln -s / x | cat x/etc/passwd",
        "cat x/etc/passwd | ln -s / x",
        "cat x/etc/passwd <(ln -s / x)",
        "cat <(cat x/etc/passwd); ln -s / x",
        "ls $(ln -s / x) && cat x/etc/passwd",
        "for i in 1 2; do cat x/etc/passwd; ln -s / x; done",
        "if ln -s / x; then cat x/etc/passwd; fi",
        "(ln -s / x); cat x/etc/passwd",
        "ln -s / x; cat {project}/x/etc/passwd",
        "ln -s / x; wc -l < x/etc/passwd",
        "ln -s / x; grep -r root x/etc",
        "ln -s / x; cd x && ls",
        "ln -s / x; head -3 src/*",
        "mv link-in x; cat x/a.py",
        "mv holds-link x; cat x/a/b",
        "cp -a link-in x; cat x/a.py",
        "cp -r holds-link x; cat x/a/b",
        "tar xf a.tar && cat x/etc/passwd",
        "git checkout other && cat notes.txt",
        "git checkout other && git status",
        "make all && cat notes.txt",
        "cp -r src x; cd x && git status",
        "ln -s / x; mv src/a.py x/b.py",
        "cd src && make all && ls",
    ],
    passes=[
        "cat notes.txt; ln -s src x",
        "ls src && make all",
        "make all 2>&1 | tail -20",
        "make all | grep -i error > /dev/null",
        "make all; echo done",
        "cd src && make all",
        "make all && ls -la",
        "make all; grep -rn x . | head",
        "ls; cat notes.txt | sort | head -3; git status",
        "git status && git diff && cat notes.txt",
        "cat <(sort notes.txt) && cat notes.txt",
        "for i in 1 2; do cat notes.txt; ls src; done",
        "cp notes.txt x; cat x",
        "mv notes.txt x && cat x",
        "mv src lib && cat lib/a.py",
    ],
)


@for_each_row(("command", "expected"), CHANGED_PLACES)
def test_what_a_part_moves_makes_the_later_parts_ask(project, command, expected):
    holds_link = project.project / "holds-link"
    if not holds_link.exists():
        holds_link.mkdir()
        (holds_link / "a").symlink_to("../src")
    assert behavior(project, command, allow=ALLOWED) == expected


@for_each_row(
    ("command", "expected"),
    [
        ("mv link-in x && cat x/a.py", ASK),
        ("mkdir -p x/objects x/refs && echo 'ref: refs/heads/a' > x/HEAD && cd x && git status", ASK),
        ("cp -r src x && cd x && git status", ASK),
        ("mkdir x && touch x/a && cat x/a", ALLOW),
        ("mv notes.txt x && cat x", ALLOW),
        ("cp -r src x && cat x/a.py", ALLOW),
        ("rm -r src && ls && git status", ALLOW),
        ("echo x > notes.txt && git diff", ALLOW),
        ("sed -i s/x/y/ notes.txt && cat notes.txt && git diff", ALLOW),
    ],
)
def test_so_it_is_where_edits_are_accepted(project, command, expected):
    assert behavior(project, command, "acceptEdits") == expected
