"""What runs without asking, run: with generated arguments, no allowed command may change, create or remove anything."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.permissions.shell.judged_commands import ASK, DENY, behavior, table

from cellwright.permissions.policy import PermissionPolicy
from cellwright.permissions.shell.git import SUBCOMMANDS
from cellwright.permissions.shell.plain_commands import READERS, files_changed
from cellwright.permissions.shell.reading import read_words
from declared_tools import tool_named
from row_tables import for_each_row

BASH = shutil.which("bash")
pytestmark = pytest.mark.skipif(BASH is None or shutil.which("git") is None, reason="needs bash and git")

LANGUAGES = ("echo", "printf", "test", "[", "date", "find", "sed", "jq", "command", "cd")
PROGRAMS = sorted(
    program for program in (*READERS, *LANGUAGES) if program in ("cd", "type", ":") or shutil.which(program)
)

FLAGS = (
    *(f"-{letter}" for letter in "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ01"),
    *(
        "-n1",
        "-o out",
        "-oout",
        "-w out",
        "-nro out",
        "--output=out",
        "--out out",
        "-exec touch out ;",
        "-delete",
        "-fprint out",
    ),
    *(
        "-name '*'",
        "-printf x",
        "-print",
        "--pre=touch",
        "--",
        "-",
        "-e p",
        "-e 'w out'",
        "-i",
        "-i.bak",
        "--in-place",
        "--help",
    ),
    *(
        "--color=always",
        "--recursive",
        "--files0-from=a",
        "-k1",
        "-t,",
        "-l",
        "--check",
        "-v x",
        "]",
        "!",
        "=",
        "+%s",
        "-d now",
    ),
)
OPERANDS = (
    "a",
    "b",
    "sub",
    "sub/c",
    ".",
    "out",
    "'*'",
    "*",
    "sub/*",
    "1",
    "p",
    "'1p'",
    "'w out'",
    "'1w out'",
    "'s/x/y/w out'",
    "x=1",
    "-",
    "'%ln'",
)
ARGUMENTS = st.lists(st.sampled_from((*FLAGS, *OPERANDS, *OPERANDS)), max_size=5).map(" ".join)
AFTER = st.sampled_from(
    ["", "", "", " | cat", " | sort", " 2>&1", " && ls", "; pwd", " < a", " > out", " 2> out", " &> out"]
)
GIT_FLAGS = (
    *(
        "-p",
        "-n1",
        "-a",
        "-v",
        "-d",
        "-D",
        "-m",
        "-f",
        "-O out",
        "-l",
        "--stat",
        "--output=out",
        "--ext-diff",
        "--all",
        "--list",
    ),
    *(
        "--get user.name",
        "--unset user.name",
        "--edit",
        "list",
        "drop",
        "new",
        "HEAD",
        "main",
        "a",
        "--",
        "--cached",
        "--abbrev-ref",
    ),
    *(
        "expire",
        "show",
        "get-url",
        "add x y",
        "user.name",
        "user.name x",
        "--textconv",
        "-r",
        "-u",
        "--set-upstream-to=x",
        "--color",
        "-C",
        "-Otouch",
        "sub/*",
        "-c",
        "-M",
    ),
)
GIT = st.builds(
    "git {} {}".format,
    st.sampled_from((*SUBCOMMANDS, "commit", "add", "checkout", "gc", "update-ref")),
    st.lists(st.sampled_from(GIT_FLAGS), max_size=3).map(" ".join),
)

ACCEPT_EDITS = table("""
allow ¦ - ¦ mkdir -p src/new/deep
allow ¦ - ¦ touch src/new.py
allow ¦ - ¦ rm src/a.py
allow ¦ - ¦ rm -rf build
allow ¦ - ¦ rmdir build
allow ¦ - ¦ mv src/a.py src/c.py
allow ¦ - ¦ cp src/a.py build/
allow ¦ - ¦ cp -r src build/copy
allow ¦ - ¦ sed -i 's/x/y/g' src/a.py
allow ¦ - ¦ sed -i.bak -e '1d;$p' -e 's|a|b|' src/a.py
allow ¦ - ¦ LC_ALL=C sed -i 's/x/y/' notes.txt
allow ¦ - ¦ timeout 5 mkdir x
allow ¦ - ¦ mkdir x && cd x && touch y
allow ¦ - ¦ ls > out.txt
allow ¦ - ¦ cat <<'EOF' > src/new.py⏎print("it's")⏎EOF
allow ¦ - ¦ rm ./src/*.py
allow ¦ - ¦ cd src && rm a.py
ask   ¦ - ¦ rm *.txt~ *
ask   ¦ - ¦ rm $X
ask   ¦ - ¦ rm -rf .git
ask   ¦ - ¦ touch .git/hooks/post-checkout
ask   ¦ - ¦ mkdir .claude/hooks
ask   ¦ - ¦ mkdir .vscode
ask   ¦ - ¦ touch conf/kernel.json
ask   ¦ - ¦ cp src/a.py .git/hooks/pre-commit
ask   ¦ - ¦ cp notes.txt sitecustomize.py
ask   ¦ - ¦ cp evil/.git .
ask   ¦ - ¦ cp -r evil/. .
ask   ¦ - ¦ mv .git other
ask   ¦ - ¦ mv holds-git moved
ask   ¦ - ¦ cp -r holds-git copied
ask   ¦ - ¦ rm -r holds-git
ask   ¦ - ¦ mv holds-link moved
ask   ¦ - ¦ mv src ../outside/src
ask   ¦ - ¦ cp /etc/passwd x
ask   ¦ - ¦ cp link-file x
ask   ¦ - ¦ mv link-out x
ask   ¦ - ¦ touch link-out/x
ask   ¦ - ¦ touch ../proj-evil/x
ask   ¦ - ¦ touch ~/x
ask   ¦ - ¦ mkdir /srv/x
ask   ¦ - ¦ cp -t build src/a.py
ask   ¦ - ¦ cp -s src/a.py x
ask   ¦ - ¦ cp --weird src/a.py x
ask   ¦ - ¦ ln -s / x
ask   ¦ - ¦ chmod +x src/a.py
ask   ¦ - ¦ sed -i.pth 's/x/y/' src/a.py
ask   ¦ - ¦ sed --in-place=.pth 's/x/y/' src/a.py
ask   ¦ - ¦ sed -i.bak 's/x/y/' src/*.py
ask   ¦ - ¦ mv src startup
ask   ¦ - ¦ cp -r src venv
ask   ¦ - ¦ mkdir -p x/bin && touch x/bin/ls && mv x .venv
ask   ¦ - ¦ sed -i 's/x/id/e' src/a.py
ask   ¦ - ¦ sed -i 's/x/y/w .envrc' src/a.py
ask   ¦ - ¦ sed -i 'w .envrc' src/a.py
ask   ¦ - ¦ sed -i -f script src/a.py
ask   ¦ - ¦ sed -ie 's/x/y/;w .envrc' src/a.py
ask   ¦ - ¦ sed -i 's/x/y/' .envrc
ask   ¦ - ¦ sed -i 's/x/y/' ../outside/data.csv
ask   ¦ - ¦ sed -i 's/[/]w .envrc/y/' src/a.py
ask   ¦ - ¦ echo x | sed 's/x/y/w .envrc'
ask   ¦ - ¦ EVIL=1 touch x
ask   ¦ - ¦ find . -name '*.pyc' -delete
ask   ¦ - ¦ ls | xargs touch
ask   ¦ - ¦ cd $X && touch y
ask   ¦ - ¦ echo x > .envrc
ask   ¦ - ¦ echo x > ../outside/y
ask   ¦ - ¦ tee out.txt
ask   ¦ - ¦ make
""")


def state(folder: Path) -> dict[str, object]:
    """All that is in a folder, less Git's index, which reading refreshes."""
    found: dict[str, object] = {}
    for here, folders, files in os.walk(folder):
        found.update((str(Path(here, name)), None) for name in folders)
        found.update((str(Path(here, name)), Path(here, name).read_bytes()) for name in files if name != "index")
    return found


def check(command: str) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch).resolve() / "work"
        (work / "sub").mkdir(parents=True)
        for name in ("a", "b", "sub/c"):
            (work / name).write_text("x\n1,2\n", "utf-8")
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(work / "sub"),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_PAGER": "cat",
        }
        if command.startswith("git"):
            for arguments in (
                ["init", "-q"],
                ["add", "."],
                ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"],
            ):
                subprocess.run(["git", *arguments], cwd=work, env=environ, check=True, capture_output=True)
        policy = PermissionPolicy(roots=[work], cwd=work)
        if policy.decide(tool_named("Bash"), {"command": command}).behavior != "allow":
            return
        before = state(work)
        subprocess.run(
            [str(BASH), "--noprofile", "--norc", "-c", command],
            cwd=work,
            env=environ,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=60,
        )
        assert state(work) == before


@pytest.mark.thorough
@settings(derandomize=True, max_examples=600, deadline=None, database=None)
@given(st.builds("{} {}{}".format, st.sampled_from(PROGRAMS), ARGUMENTS, AFTER))
def test_no_allowed_program_changes_anything(command):
    check(command)


@pytest.mark.thorough
@settings(derandomize=True, max_examples=200, deadline=None, database=None)
@given(GIT)
def test_no_allowed_git_command_changes_anything(command):
    check(command)


@pytest.fixture
def with_links(project):
    """The project, with a repository and a link to elsewhere below its folders."""
    (project.project / "holds-git" / ".git").mkdir(parents=True)
    (project.project / "holds-link").mkdir()
    (project.project / "holds-link" / "x").symlink_to("/etc")
    return project


@for_each_row(("command", "allow", "expected"), ACCEPT_EDITS)
def test_what_runs_where_edits_are_accepted(with_links, command, allow, expected):
    assert behavior(with_links, command, "acceptEdits", allow=allow) == expected
    assert behavior(with_links, command, allow=allow) == ASK
    assert behavior(with_links, command, "plan", allow=allow) in (DENY, ASK)


@for_each_row(
    ("command", "gnu", "changes"),
    [
        ("sed -i s/a/b/ f", True, ["f"]),
        ("sed -i s/a/b/ f", False, None),
        ("sed -i s/a/b/ 'w x' f", False, None),
        ("sed -i '' s/a/b/ f", False, ["f"]),
        ("sed -i '' 'w x' f", False, None),
        ("sed -i.bak s/a/b/ f", True, ["f", "f.bak"]),
        ("sed -i.bak s/a/b/ f", False, ["f", "f.bak"]),
    ],
)
def test_the_suffix_of_sed_in_place_is_where_the_system_has_it(command, gnu, changes):
    found = files_changed(read_words(command), gnu_sed=gnu)
    assert (found and [access.word.text for access in found]) == changes
