"""Commands that change files: which run where edits are accepted, and what they change."""

from __future__ import annotations

import pytest
from tests.permissions.shell.judged_commands import ASK, DENY, behavior, table

from cellwright.permissions.shell.mutating_commands import files_changed
from cellwright.permissions.shell.words import read_words
from row_tables import for_each_row

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
