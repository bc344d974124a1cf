"""Whose word a settings file is: each kind of file, in each way that it can have come about."""

from __future__ import annotations

import json
import os
import tarfile
from pathlib import Path

import pytest

from cellwright.config.agents import find_agents
from cellwright.config.mcp.servers import McpPlace, find_servers
from cellwright.config.settings.settings import save_allow_rules
from cellwright.config.trust.project_files import named_files, not_own, others_can_write
from cellwright.config.trust.trust import revoke
from cellwright.errors import CellwrightError, ErrorCode
from row_tables import for_each_row

AS_ROOT = os.geteuid() == 0
OTHER = 12_345
LOCAL = ".claude/settings.local.json"

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


def by_hand(place, tmp_path):
    place.git("init")


def tracked(place, tmp_path):
    place.git("init")
    place.git("add", "-f", LOCAL)


def submodule(place, tmp_path):
    """`.claude` itself is a submodule: git lists none of its files, whatever is in them."""
    place.git("init")
    place.git("init", ".claude")
    place.git("-C", ".claude", "add", "-f", ".")
    place.git("-C", ".claude", "commit", "-m", "x")
    place.git("add", "-f", ".claude")
    place.git("-C", ".claude", "rm", "--cached", "settings.local.json")


def submodule_without_its_repository(place, tmp_path):
    submodule(place, tmp_path)
    (place.project / ".claude" / ".git").rename(tmp_path / "git")


def nested_clone(place, tmp_path):
    place.git("init")
    place.git("init", ".claude")


def nested_work_tree(place, tmp_path):
    place.git("init")
    (place.project / ".claude" / ".git").write_text("gitdir: ../.git/modules/x\n", "utf-8")


def linked_file(place, tmp_path):
    file = place.project / LOCAL
    file.rename(tmp_path / "elsewhere.json")
    file.symlink_to(tmp_path / "elsewhere.json")


def linked_folder(place, tmp_path):
    (place.project / ".claude").rename(tmp_path / "elsewhere")
    (place.project / ".claude").symlink_to(tmp_path / "elsewhere")


def hard_linked(place, tmp_path):
    (place.project / "notes.json").hardlink_to(place.project / LOCAL)


def file_for_all(place, tmp_path):
    (place.project / LOCAL).chmod(0o666)


def folder_for_all(place, tmp_path):
    (place.project / ".claude").chmod(0o777)


def project_for_all(place, tmp_path):
    place.project.chmod(0o777)


def sticky_project(place, tmp_path):
    place.project.chmod(0o1777)


def file_for_a_group(place, tmp_path):
    os.chown(place.project / LOCAL, -1, OTHER)
    (place.project / LOCAL).chmod(0o660)


def file_for_the_users_own_group(place, tmp_path):
    (place.project / LOCAL).chmod(0o664)


def of_another_user(place, tmp_path):
    os.chown(place.project / LOCAL, OTHER, OTHER)


def folder_of_another_user(place, tmp_path):
    os.chown(place.project / ".claude", OTHER, OTHER)


def project_of_another_user(place, tmp_path):
    os.chown(place.project, OTHER, OTHER)


def archive_of_another_user(place, tmp_path):
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        archive.add(place.project, "proj", filter=_of_another_user)
    (place.project / LOCAL).unlink()
    with tarfile.open(tmp_path / "x.tar") as archive:
        archive.extractall(place.project.parent, filter="fully_trusted")


def _of_another_user(entry):
    entry.uid = entry.gid = OTHER
    entry.uname = entry.gname = ""
    return entry


def mercurial(place, tmp_path):
    (place.project / ".hg").mkdir()


OWN = (by_hand, sticky_project, *((file_for_the_users_own_group,) if AS_ROOT else ()))
NEEDS_ROOT = (
    file_for_a_group,
    of_another_user,
    folder_of_another_user,
    project_of_another_user,
    archive_of_another_user,
)
BROUGHT = (
    *(tracked, submodule, submodule_without_its_repository, nested_clone, nested_work_tree, linked_file, linked_folder),
    *(hard_linked, file_for_all, folder_for_all, project_for_all, mercurial),
    *(NEEDS_ROOT if AS_ROOT else ()),
)
CARRIED = (
    *(tracked, submodule, submodule_without_its_repository, nested_clone, nested_work_tree, linked_file, linked_folder),
)


def rules(settings):
    return [str(rule) for rule in settings.allow]


@for_each_row("way", [*OWN, *BROUGHT], ids=[way.__name__ for way in (*OWN, *BROUGHT)])
def test_new_rules_in_a_trusted_folder_count_only_in_the_users_own_file(place, tmp_path, monkeypatch, way):
    place = _fresh(place, tmp_path, monkeypatch)
    place.write("local", {"allow": ["Bash(old)"]})
    place.trust()
    place.say("local", permissions={"allow": ["Bash(old)", "Bash(new)"], "defaultMode": "acceptEdits"})
    way(place, tmp_path)
    own = way in OWN
    in_force = place.in_force()
    assert rules(in_force.settings) == (["Bash(old)", "Bash(new)"] if own else ["Bash(old)"])
    assert bool(not_own(place.project, place.project / LOCAL, place.environ)) is not own
    question = in_force.question()
    assert question is not None
    assert ("allow rule Bash(new)" in question.detail) is not own
    assert ("permission mode acceptEdits" in question.detail) is own
    place.trust()
    assert rules(place.load()) == ["Bash(old)", "Bash(new)"]
    assert place.load().default_mode == ("acceptEdits" if own else "default")
    assert place.in_force().question() is None, "asked about once"


@for_each_row("way", [*OWN, *BROUGHT], ids=[way.__name__ for way in (*OWN, *BROUGHT)])
@for_each_row("who", ["we", "Claude Code"])
def test_rules_that_the_user_allowed_here_count_in_any_file(place, tmp_path, monkeypatch, way, who):
    place = _fresh(place, tmp_path, monkeypatch)
    if who == "we":
        save_allow_rules(place.project, ["Bash(make)"], place.environ)
    else:
        state = {"projects": {str(place.project): {"allowedTools": ["Bash(make)"], "hasTrustDialogAccepted": True}}}
        (place.home / ".claude.json").write_text(json.dumps(state), "utf-8")
        place.write("local", {"allow": ["Bash(old)"]})
        place.load()  # from here on Claude Code's trust is bound to what there was
    place.write("local", {"allow": ["Bash(make)", "Bash"]})
    way(place, tmp_path)
    expected = ["Bash(make)", "Bash"] if who == "Claude Code" and way in OWN else ["Bash(make)"]
    assert rules(place.load()) == expected


@for_each_row("way", [*OWN, *BROUGHT], ids=[way.__name__ for way in (*OWN, *BROUGHT)])
def test_an_always_is_kept_but_where_it_would_become_everybodys(place, tmp_path, monkeypatch, way):
    place = _fresh(place, tmp_path, monkeypatch)
    place.write("local", {"allow": ["Bash(old)"]})
    way(place, tmp_path)
    before = (place.project / LOCAL).read_bytes()
    if way not in CARRIED:
        save_allow_rules(place.project, ["Bash(make)"], place.environ)
        assert rules(place.load()) == ["Bash(make)"]
        return
    with pytest.raises(CellwrightError, match="is not saved") as caught:
        save_allow_rules(place.project, ["Bash(make)"], place.environ)
    assert caught.value.code == ErrorCode.CONFIG_INVALID
    assert (place.project / LOCAL).read_bytes() == before
    assert rules(place.load()) == []


@for_each_row("way", ["a variable", "a relative variable", "a variable of another name", "a link"])
def test_users_settings_that_the_project_brings_are_the_projects(place, tmp_path, monkeypatch, way):
    place = _fresh(place, tmp_path, monkeypatch)
    place.git("init")
    folder = place.project / ("config" if "another" in way else ".claude")
    folder.mkdir()
    content = {"permissions": {"allow": ["Bash"], "deny": ["Python"], "defaultMode": "bypassPermissions"}}
    (folder / "settings.json").write_text(json.dumps(content), "utf-8")
    place.git("add", "-f", ".")
    if way == "a link":
        (place.home / ".claude").symlink_to(folder)
    else:
        place.environ["CLAUDE_CONFIG_DIR"] = ".claude" if "relative" in way else str(folder)
    monkeypatch.chdir(place.project)
    in_force = place.in_force()
    assert (rules(in_force.settings), in_force.settings.default_mode) == ([], "default")
    assert [str(rule) for rule in in_force.settings.deny] == ["Python"]
    assert "allow rule Bash" in in_force.question().detail


@for_each_row("way", ["a variable", "a link"])
def test_agents_and_servers_in_a_users_folder_that_the_project_brings_wait_for_trust(place, tmp_path, monkeypatch, way):
    place = _fresh(place, tmp_path, monkeypatch)
    place.git("init")
    folder = place.project / ".claude"
    (folder / "agents").mkdir(parents=True)
    (folder / "agents" / "a.md").write_text("---\nname: a\ndescription: A.\nhooks: {}\n---\nYou work.\n", "utf-8")
    (folder / ".claude.json").write_text(json.dumps({"mcpServers": {"evil": {"command": "evil"}}}), "utf-8")
    place.git("add", "-f", ".")
    if way == "a link":
        (place.home / ".claude").symlink_to(folder)
        (place.home / ".claude.json").symlink_to(folder / ".claude.json")
    else:
        place.environ["CLAUDE_CONFIG_DIR"] = str(folder)
    in_force = place.in_force()
    assert "a" not in find_agents(in_force.skill_place).agents
    mcp_place = McpPlace(
        cwd=place.project,
        project=place.project,
        managed=place.managed,
        environ=place.environ,
        settings=in_force.settings,
    )
    assert find_servers(mcp_place).entries == {}
    assert ".claude/agents/a.md" in in_force.question().detail


def test_a_home_that_is_a_repository_keeps_its_users_settings(place):
    place.project = place.home
    place.write("user", {"allow": ["Bash(make)"]})
    place.git("init")
    place.git("add", "-f", ".claude")
    assert rules(place.load(place.home)) == ["Bash(make)"]


def test_claude_codes_notes_count_only_where_nobody_else_can_write_them(place):
    notes = place.home / ".claude.json"
    notes.write_text(json.dumps({"projects": {str(place.project): {"hasTrustDialogAccepted": True}}}), "utf-8")
    place.say("project", permissions={"allow": ["Bash"]})
    notes.chmod(0o666)
    assert rules(place.load()) == []
    notes.chmod(0o600)
    assert rules(place.load()) == ["Bash"]
    revoke(place.project)
    notes.rename(place.project / ".claude.json")
    place.environ["CLAUDE_CONFIG_DIR"] = str(place.project)
    place.git("init")
    place.git("add", "-f", ".claude.json")
    assert rules(place.load()) == []


@pytest.mark.parametrize("variable", ["CELLWRIGHT_HOME", "XDG_DATA_HOME"])
def test_answers_that_a_repository_brings_count_for_nothing(place, monkeypatch, variable):
    monkeypatch.delenv("CELLWRIGHT_HOME")
    monkeypatch.setenv(variable, str(place.project / "state"))
    place.git("init")
    place.say("project", permissions={"allow": ["Bash"]})
    place.trust()
    assert rules(place.load()) == ["Bash"]
    place.git("add", "-f", "state")
    assert rules(place.load()) == []


def test_what_cannot_be_looked_at_is_not_the_users(tmp_path):
    assert others_can_write(tmp_path / "missing")
    os.mkfifo(tmp_path / "pipe")
    assert others_can_write(tmp_path / "pipe") == "no file"


def _fresh(place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A place of the row's own: the fixture's is shared by all rows."""
    home, project = tmp_path / "home", tmp_path / "home" / "proj"
    project.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("CELLWRIGHT_HOME", str(tmp_path / "state"))
    return type(place)(home, project)


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
