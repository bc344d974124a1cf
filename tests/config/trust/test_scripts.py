"""The files that command lines name, and trust that ends when one of them changes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cellwright.config.trust.scripts import named_files
from row_tables import for_each_row

FILES = (
    *("scripts/x.sh", "scripts/with space.sh", "sub/x", ".claude/hooks/check.sh", "x.js", "pkg/mod.py", "Makefile"),
    *("package.json", "tools/app/__main__.py", "deep/er/y.py", "größe.sh"),
)

LINES = [
    (".claude/hooks/check.sh", ".claude/hooks/check.sh"),
    ("./scripts/x.sh --all", "scripts/x.sh"),
    ("python scripts/x.sh", "scripts/x.sh"),
    ("bash -c 'scripts/x.sh'", "scripts/x.sh"),
    ("bash -c \"bash -c 'scripts/x.sh'\"", "scripts/x.sh"),
    ('"$CLAUDE_PROJECT_DIR"/scripts/x.sh', "scripts/x.sh"),
    ('"$CLAUDE_PROJECT_DIR/scripts/x.sh"', "scripts/x.sh"),
    ("${CLAUDE_PROJECT_DIR}/scripts/x.sh", "scripts/x.sh"),
    ("$PWD/scripts/x.sh", "scripts/x.sh"),
    ("$(git rev-parse --show-toplevel)/scripts/x.sh", "scripts/x.sh"),
    ('"`pwd`/scripts/x.sh"', "scripts/x.sh"),
    ("node x.js", "x.js"),
    ("node ./x", None),
    ("cd sub && ./x", "sub/x"),
    ("cd sub; sh x", "sub/x"),
    ("(cd sub\nsh x)", "sub/x"),
    ("cd deep && cd er && python y.py", "deep/er/y.py"),
    ("pushd deep/er; python y.py", "deep/er/y.py"),
    ("python -m pkg.mod", "pkg/mod.py"),
    ("python -mpkg.mod", "pkg/mod.py"),
    ("python tools/app", "tools/app/__main__.py"),
    ("make lint", "Makefile"),
    ("npm run lint", "package.json"),
    ("'scripts/with space.sh'", "scripts/with space.sh"),
    ("scripts/with\\ space.sh", "scripts/with space.sh"),
    ("D=scripts; $D/x.sh", "scripts/x.sh"),
    ("bash scripts/x*", "scripts/x.sh"),
    ("bash < scripts/x.sh", "scripts/x.sh"),
    ("cat scripts/x.sh | bash", "scripts/x.sh"),
    ("bash <<EOF\nscripts/x.sh\nEOF", "scripts/x.sh"),
    ("eval 'scripts/x.sh'", "scripts/x.sh"),
    ("env -S 'bash scripts/x.sh'", "scripts/x.sh"),
    ("A=1 timeout 5 scripts/x.sh", "scripts/x.sh"),
    ("python -c 'import os; os.system(\"scripts/x.sh\")'", "scripts/x.sh"),
    ("node --require ./x.js -e 1", "x.js"),
    ("node --require=./x.js -e 1", "x.js"),
    ("scripts/\\\nx.sh", "scripts/x.sh"),
    ("größe.sh", "größe.sh"),
    ("if [ -f scripts/x.sh ]; then . scripts/x.sh; fi", "scripts/x.sh"),
    ("'unclosed scripts/x.sh", "scripts/x.sh"),
    ("ruff check .", None),
    ("echo done", None),
    ("cat /etc/passwd ../outside", None),
]


def project(folder: Path) -> Path:
    for name in FILES:
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name, "utf-8")
    return folder


@for_each_row("line, expected", LINES)
def test_a_command_line_names_these_files(tmp_path: Path, line: str, expected: str | None) -> None:
    found = named_files([line], project(tmp_path / "proj")).digests
    assert expected in found if expected else not found


@for_each_row("line, expected", [row for row in LINES if row[1] is not None])
def test_another_content_is_another_digest_and_a_new_file_is_noticed(tmp_path: Path, line: str, expected: str) -> None:
    folder = project(tmp_path / "proj")
    before = named_files([line], folder).digests
    (folder / expected).write_text("other", "utf-8")
    after = named_files([line], folder).digests
    assert before[expected] != after[expected]
    (folder / expected).unlink()
    assert expected not in named_files([line], folder).digests


def test_the_whole_path_the_working_directory_and_a_linked_project_are_seen(tmp_path: Path) -> None:
    folder = project(tmp_path / "proj")
    (tmp_path / "link").symlink_to("proj")
    assert "scripts/x.sh" in named_files([f"{folder}/scripts/x.sh"], folder).digests
    assert "sub/x" in named_files(["./x"], folder, folder / "sub").digests
    assert "scripts/x.sh" in named_files([f"{folder}/scripts/x.sh"], tmp_path / "link").digests
    (folder / "alias.sh").symlink_to("scripts/x.sh")
    before = named_files(["./alias.sh"], folder).digests
    (folder / "scripts/x.sh").write_text("other", "utf-8")
    assert named_files(["./alias.sh"], folder).digests != before


def test_what_is_no_file_or_not_to_be_read_holds_nothing_up(tmp_path: Path) -> None:
    folder = project(tmp_path / "proj")
    os.mkfifo(folder / "pipe")
    (folder / "loop").symlink_to("loop")
    found = named_files(["cat pipe loop scripts " + "a/" * 3_000, "\0", "x" * 20_000], folder)
    assert found.digests == {}


def test_what_names_more_than_is_looked_at_is_never_as_it_was(tmp_path: Path) -> None:
    folder = project(tmp_path / "proj")
    for line in ("*/" * 5 + "x.sh", " ".join(f"folder{number}/x.sh" for number in range(3_000)), "*/*/" * 1_000):
        assert named_files([line], folder).digests != named_files([line], folder).digests
    usual = "grep -E '^[a-z]*[0-9]?.*[A-Z]+[x-z]*$' | sed 's/[a-z]*/x/; s/[0-9]*/y/' " + "word " * 5_000
    assert named_files([usual], folder).digests == {}
    assert named_files(["x " * 15_000 + "scripts/x.sh"], folder).digests.keys() == {"scripts/x.sh"}


@pytest.fixture
def hooked(place):
    """A folder with a hook that runs a script of its own."""
    (place.project / "scripts").mkdir()
    (place.project / "scripts" / "check.sh").write_text("true\n", "utf-8")
    handler = {"type": "command", "command": "cd scripts && bash check.sh"}
    place.say("project", hooks={"PreToolUse": [{"hooks": [handler]}]}, permissions={"allow": ["Bash(make)"]})
    return place


def test_a_script_that_changes_is_asked_about_by_its_name_and_its_hook_waits(hooked):
    hooked.trust()
    in_force = hooked.in_force()
    assert in_force.question() is None
    assert len(in_force.settings.hooks) == 1
    (hooked.project / "scripts" / "check.sh").write_text("curl evil\n", "utf-8")
    for looked in (in_force, hooked.in_force()):  # the same session, and another
        looked.refresh()
        question = looked.question()
        assert "changed since you" in question.detail
        assert "make" not in question.detail, "the rest still counts"
        assert looked.settings.hooks == ()
        assert [str(rule) for rule in looked.settings.allow] == ["Bash(make)"]
    in_force.answer(question, yes=True)
    assert len(in_force.settings.hooks) == 1
    assert hooked.in_force().question() is None
    (hooked.project / "scripts" / "check.sh").write_text("true\n", "utf-8")
    assert hooked.in_force().question() is None, "what was trusted once is trusted"


def test_a_script_that_comes_later_or_goes_is_asked_about(hooked):
    script = hooked.project / "scripts" / "check.sh"
    script.unlink()
    hooked.trust()
    in_force = hooked.in_force()
    assert in_force.question() is None
    script.write_text("curl evil\n", "utf-8")
    in_force.refresh()
    assert in_force.question() is not None


def test_an_answer_of_before_is_asked_for_once_more_and_no_more(hooked):
    from cellwright.config.settings.settings_files import read_all
    from cellwright.config.trust.trust import judge
    from cellwright.config.trust.trust_store import FolderTrust, remember_folder

    found = judge(read_all(hooked.project, hooked.environ, managed=hooked.managed), hooked.environ)
    written = frozenset(item.written for item in found.waiting)
    remember_folder(found.folder, lambda _: FolderTrust(trusted=True, accepted=written))
    in_force = hooked.in_force()
    question = in_force.question()
    assert "check.sh" in question.detail
    assert "make" not in question.detail, "what names no file counts as before"
    in_force.answer(question, yes=True)
    assert hooked.in_force().question() is None


def test_trust_for_one_process_ends_with_the_script_too(hooked):
    in_force = hooked.in_force(trusts_folder=True)
    assert len(in_force.settings.hooks) == 1
    (hooked.project / "scripts" / "check.sh").write_text("curl evil\n", "utf-8")
    in_force.refresh()
    assert in_force.settings.hooks == ()


@pytest.mark.parametrize(
    "content",
    [
        {"apiKeyHelper": "bash scripts/check.sh"},
        {"env": {"NODE_OPTIONS": "--require ./scripts/check.sh"}},
    ],
    ids=str,
)
def test_other_commands_of_a_folder_are_bound_to_their_files_too(hooked, content):
    hooked.say("project", **content)
    hooked.trust()
    assert hooked.in_force().question() is None
    (hooked.project / "scripts" / "check.sh").write_text("curl evil\n", "utf-8")
    assert "changed since you" in hooked.in_force().question().detail


FRONT = """---
name: demo
description: Shows it.
hooks:
  Stop:
    - hooks:
        - type: command
          command: bash scripts/check.sh
---
Text.
"""


@pytest.mark.parametrize(
    ("file", "text"),
    [
        (".claude/skills/demo/SKILL.md", FRONT),
        (".claude/agents/demo.md", FRONT),
        (".claude/commands/demo.md", "Look: !`bash scripts/check.sh`\n"),
        (".claude/commands/demo.md", "Look:\n```!\nbash scripts/check.sh\n```\n"),
    ],
)
def test_skills_agents_and_commands_are_bound_to_what_they_run(hooked, file, text):
    document = hooked.project / file
    document.parent.mkdir(parents=True, exist_ok=True)
    document.write_text(text, "utf-8")
    hooked.say("project", model="sonnet")
    assert "scripts/check.sh" in hooked.in_force().question().detail
    hooked.trust()
    assert hooked.in_force().question() is None
    (hooked.project / "scripts" / "check.sh").write_text("curl evil\n", "utf-8")
    assert "changed since you" in hooked.in_force().question().detail
