"""Every protected name, by every tool and every way of writing: nothing of it is made, changed or removed unasked."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from cellwright.agent.calls.approval import Decision, without_hosts
from cellwright.permissions.paths import PROTECTED_FILES, PROTECTED_FOLDERS
from cellwright.permissions.policy import PermissionPolicy
from cellwright.permissions.sandboxing import SandboxRules
from cellwright.sandbox.mechanisms import Sandbox
from cellwright.sandbox.private_folder import PrivateFolder
from confined import Confined, Ended, staging_sandbox
from declared_tools import tool_named
from eventual import paces
from row_tables import for_each_row

IN_FOLDERS = tuple(name if "." in name.rpartition("/")[2][1:] else f"{name}/x" for name in PROTECTED_FOLDERS)
FILES = tuple(name.replace("*", "a") for name in PROTECTED_FILES)
OTHERS = (
    *("jupyter_server_config.d/x.json", "startup/x.py", "startup/x.ipy", "env/bin/python", "env/Scripts/activate"),
    *("bare/config", "bare/hooks/post-commit", "new.git/HEAD"),
)
GIT = (
    *("hooks/post-commit", "config", "config.worktree", "commondir", "gitdir", "info/attributes", "modules/m/config"),
    *("modules/m/hooks/post-checkout", "objects/info/alternates", "worktrees/w/config.worktree", "unknown"),
    *("worktrees/w/commondir", "rebase-merge/git-rebase-todo", "sequencer/todo"),
)
NAMES = (*IN_FOLDERS, *FILES, *OTHERS)
SOME = (".claude/settings.json", ".vscode/tasks.json", ".mcp.json", "x.pth", "env/bin/python", "venv/bin/ls")
SOME += (".git/hooks/post-commit", ".git/commondir", ".github/workflows/ci.yml", "bare/config", ".bashrc")
MOST_PACES = 8
"""Computing time of a decision in a project of 5,000 files: usually a tenth of that."""
EVIL = "exec touch evil\n"


@dataclass(frozen=True)
class Place:
    """A session in `root`, the main work tree of a repository or a linked one, in a sandbox that stages changes."""

    main: Path
    root: Path
    sandbox: Sandbox
    private: PrivateFolder

    def policy(self, mode: str, *, enabled: bool) -> PermissionPolicy:
        rules = SandboxRules(means=self.sandbox.abilities, enabled=enabled)
        return PermissionPolicy(mode=mode, roots=[self.root], cwd=self.root, sandbox=rules)

    def decide(self, command: str, mode: str = "default", *, enabled: bool = True) -> Decision:
        return self.policy(mode, enabled=enabled).decide(tool_named("Bash"), {"command": command})

    def run(self, command: str, mode: str = "default", *, enabled: bool = True) -> Ended:
        """Decide and run it, if it needs no question."""
        decision = self.decide(command, mode, enabled=enabled)
        if decision.behavior != "allow":
            return Ended(-1, decision.reason)
        assert decision.confinement is not None
        bounds = without_hosts(decision.confinement)
        return Confined(self.sandbox, self.private, self.root).bash(command, bounds)

    def tree(self) -> dict[str, str]:
        """All that is in it, with what each holds."""
        found = {}
        for top in {self.main, self.root}:
            for path in top.rglob("*"):
                if path.is_symlink():
                    found[str(path)] = str(path.readlink())
                else:
                    found[str(path)] = path.read_text("latin-1") if path.is_file() else ""
        return found


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture(params=["main", "linked"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    main = tmp_path / "main"
    main.mkdir()
    git(main, "init", "-q", "-b", "main")
    git(main, "config", "user.name", "a")
    git(main, "config", "user.email", "a@b")
    git(main, "commit", "-q", "--allow-empty", "-m", "one")
    root = main
    if request.param == "linked":
        root = tmp_path / "linked"
        git(main, "worktree", "add", "-q", str(root))
    private = PrivateFolder()
    prepared = Place(main, root, staging_sandbox(), private)
    begin(prepared)
    yield prepared
    private.close()


def begin(place: Place) -> None:
    for name in ("a.txt", "env/pyvenv.cfg", "sub/env/pyvenv.cfg", "bare/HEAD", "sub/bare/HEAD"):
        (place.root / name).parent.mkdir(parents=True, exist_ok=True)
        (place.root / name).write_text("text\n", "utf-8")
    for name in ("bare", "sub/bare"):
        (place.root / name / "objects").mkdir(exist_ok=True)


WAYS = {
    "create": "mkdir -p {parent}; echo evil > {name}",
    "append": "mkdir -p {parent}; echo evil >> {name}",
    "rename": "mkdir -p {parent}; cp a.txt y; mv y {name}",
    "hard link": "mkdir -p {parent}; ln a.txt {name}",
    "link": "mkdir -p {parent}; ln -s $PWD/a.txt {name}",
    "folder": "mkdir -p {name}",
    "by way of a link": "mkdir -p way; ln -s $PWD way/up; mkdir -p way/up/{parent}; echo evil > way/up/{name}",
    "program": "python3 -c \"import os; os.makedirs(os.path.dirname('{name}') or '.', exist_ok=True);"
    " open('{name}', 'w').write('evil')\"",
    "archive": "tar xf packed/{at}.tar",
    "copied folder": "cp -r packed/{at}/. .",
    "moved folder": "cp -r packed/{at} made; find made -mindepth 1 -maxdepth 1 -exec mv -t . {{}} +",
    "link for a folder": "rm -rf {parent}; mkdir -p {above}; ln -s $PWD/evil {parent}",
    "removed": "rm -rf {name}",
    "from the background": "(mkdir -p {parent}; echo evil > {name}) & wait",
}


def spelled(command: str, name: str) -> str:
    parent = Path(name).parent
    return command.format(name=name, parent=parent, above=parent.parent, at="0")


def pack(place: Place, name: str) -> None:
    made = place.root / "packed" / "0" / name
    made.parent.mkdir(parents=True)
    made.write_text("evil\n", "utf-8")
    subprocess.run(["tar", "cf", "packed/0.tar", "-C", "packed/0", "."], cwd=place.root, check=True)
    evil = place.root / "evil" / Path(name).name
    evil.parent.mkdir()
    evil.write_text("evil\n", "utf-8")


def unpack(place: Place) -> None:
    for folder in ("packed", "evil"):
        shutil.rmtree(place.root / folder)


def written(place: Place, name: str) -> str:
    """How a command in the session's folder names what is in the folder `.git` of a linked work tree's repository."""
    is_data = name.startswith(".git/") and place.root != place.main
    return str(place.main / name) if is_data else name


@pytest.mark.parametrize(
    ("mode", "enabled", "folder"),
    [
        ("default", True, ""),
        pytest.param("default", True, "sub/", marks=pytest.mark.thorough),
        pytest.param("acceptEdits", False, "sub/", marks=pytest.mark.thorough),
    ],
)
def test_no_way_of_writing_makes_a_protected_file(place: Place, mode: str, enabled: bool, folder: str) -> None:
    failed = []
    for name in SOME:
        pack(place, folder + name)
        for way, command in WAYS.items():
            if (way, name) == ("link for a folder", "bare/config"):
                continue  # what the link leads to is no repository
            target = written(place, folder + name)
            tree, held = place.tree(), content(place.root / target)
            ended = place.run(spelled(command, target), mode, enabled=enabled)
            if content(place.root / target) != held:
                failed.append((way, target, ended))
            if place.tree() != tree:  # it has made something else
                restore(place, tree)
                begin(place)
        unpack(place)
    assert failed == []


def content(path: Path) -> str | None:
    """What a program finds at `path`, also by way of links."""
    if path.is_file():
        return path.read_text("latin-1")
    return "folder" if path.is_dir() else "link" if path.is_symlink() else None


def restore(place: Place, tree: Mapping[str, str]) -> None:
    for path in map(Path, place.tree().keys() - tree.keys()):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def test_these_ways_make_what_is_not_protected(place: Place) -> None:
    for way, command in WAYS.items():
        name = "plain/y.txt"
        pack(place, name)
        if way == "removed":
            (place.root / "plain").mkdir()
            (place.root / name).write_text("text", "utf-8")
        place.run(spelled(command, name))
        assert (place.root / name).exists() is (way != "removed"), way
        unpack(place)
        path = place.root / "plain"
        shutil.rmtree(path) if not path.is_symlink() else path.unlink()
        shutil.rmtree(place.root / "way", ignore_errors=True)


def test_a_folder_that_the_settings_open_opens_nothing_of_the_session(place: Place, tmp_path: Path) -> None:
    """What lies around the session's folder is staged with it; what lies beside it is staged if that is possible."""
    beside = tmp_path / "beside"
    beside.mkdir()
    for opened in (tmp_path, beside, Path(place.private.path).parent):
        rules = SandboxRules(means=place.sandbox.abilities, enabled=True, allow_write=(str(opened),))
        policy = PermissionPolicy(roots=[place.root], cwd=place.root, sandbox=rules)
        command = (
            f"mkdir -p sub/.claude; echo evil > $PWD/sub/.claude/x; for f in x.pth; do echo evil > {beside}/$f; done"
        )
        decision = policy.decide(tool_named("Bash"), {"command": command})
        if decision.behavior == "allow":
            assert decision.confinement is not None
            bounds = without_hosts(decision.confinement)
            Confined(place.sandbox, place.private, place.root).bash(command, bounds)
        assert not (place.root / "sub" / ".claude" / "x").exists()
        assert not (beside / "x.pth").exists()


def test_a_decision_takes_no_longer_in_a_large_project(place: Place) -> None:
    for folder in range(50):
        (place.root / f"data{folder}").mkdir()
        for file in range(100):
            (place.root / f"data{folder}" / str(file)).touch()
    place.decide("make all")  # finds out what the disk can do
    assert place.decide("make test").behavior == "allow"
    assert paces(lambda: place.decide("make test"), MOST_PACES) < MOST_PACES


def test_no_protected_name_is_made_in_a_folder_of_the_session(place: Place) -> None:
    failed = []
    for name in (*NAMES, *(f".git/{each}" for each in GIT)):
        path = f"sub/{name}"
        place.run(f"mkdir -p {Path(path).parent}; printf '{EVIL}' > {path}")
        if os.path.lexists(place.root / path):
            failed.append(path)
    assert failed == []


def test_nothing_that_steers_git_is_made_in_the_repository(place: Place) -> None:
    failed = []
    for name in GIT:
        path = place.main / ".git" / name
        before = path.read_text("utf-8") if path.is_file() else ""
        place.run(f"mkdir -p {path.parent}; printf '{EVIL}' > {path}")
        if (path.read_text("utf-8") if path.is_file() else "") != before:
            failed.append(name)
    assert failed == []
    assert "evil" not in git(place.main, "status", "--short")


@for_each_row(
    "tool",
    [
        "Write",
        "Edit",
        "MultiEdit",
        "EditSymbol",
        "NotebookEdit",
        "ApplyPatch",
        "RenameSymbol",
        "mcp__files__write_file",
    ],
)
def test_no_tool_changes_a_protected_file_unasked(place: Place, tool: str) -> None:
    allowing = PermissionPolicy("acceptEdits", roots=[place.root], cwd=place.root, allow=["Edit", "Write", tool])
    allowed = []
    for name in (*NAMES, *(f".git/{each}" for each in GIT)):
        for path in (name, f"sub/{name}", str(place.root / "sub" / name), f"sub/../{name}", name.upper()):
            patch = f"--- /dev/null\n+++ {path}\n@@ -0,0 +1 @@\n+evil\n"
            given = {"file_path": path, "notebook_path": path, "patch": patch, "path": path, "content": "evil"}
            if path.isupper() and name in (
                "new.git/HEAD",
                *(each for each in OTHERS if each.startswith(("env", "bare"))),
            ):
                continue  # the disk knows the folders beside these by their name alone
            if allowing.decide(tool_named(tool), given).behavior == "allow":
                allowed.append(path)
    assert allowed == []


@for_each_row(
    "command",
    [
        "echo x > new.txt && git add new.txt && git commit -qm new",
        "git checkout -qb topic && git commit -q --allow-empty -m t && git checkout -q -",
        "git branch other && git tag v1 && git branch -q -d other",
        "echo x >> a.txt && git add a.txt && git commit -qm a && echo y >> a.txt && git stash -q && git stash pop -q",
        "git commit -q --allow-empty -m a && git reset -q --hard HEAD~1 && git gc -q",
        "git worktree add -q tree && cd tree && git commit -q --allow-empty -m t && git status",
        "git worktree add -q second && git worktree remove second && git worktree prune",
        "git notes add -m note && git update-ref refs/keep HEAD && git pack-refs --all",
    ],
)
def test_ordinary_work_with_git_runs_unasked(place: Place, command: str) -> None:
    decision = place.decide(f"{command} && touch {place.root}/done")
    assert decision.behavior == "allow", decision.reason
    ended = place.run(f"{command} && touch {place.root}/done")
    assert ended.code == 0, ended.output
    assert (place.root / "done").exists(), "its changes were made"
    (place.root / "done").unlink()
    assert git(place.root, "fsck", "--no-dangling") == ""


def test_git_works_from_a_folder_in_its_work_tree(place: Place) -> None:
    (place.root / "sub").mkdir(exist_ok=True)
    inner = replace(place, root=place.root / "sub")
    decision = inner.decide("echo x > new.txt && git add new.txt && git commit -qm inner")
    assert decision.behavior == "allow", decision.reason
    inner.run("echo x > new.txt && git add new.txt && git commit -qm inner")
    assert git(place.root, "log", "-1", "--format=%s") == "inner\n"
    inner.run(f"echo evil > {place.main}/.git/commondir")
    assert not (place.main / ".git" / "commondir").exists()


def test_a_rebase_that_stops_can_be_continued_and_given_up(place: Place) -> None:
    start = git(place.root, "rev-parse", "--abbrev-ref", "HEAD").strip()
    place.run("echo 1 > c && git add c && git commit -qm c && git checkout -qb topic HEAD~1")
    place.run("echo 2 > c && git add c && git commit -qm d")
    assert place.run(f"git rebase {start}").code == 1
    assert "UU" in git(place.root, "status", "--short") or "AA" in git(place.root, "status", "--short")
    assert place.run("git rebase --abort").code == 0
    assert "c" not in git(place.root, "status", "--short")
    place.run(f"git rebase {start}")
    assert place.run("git add c && GIT_EDITOR=true git -c core.editor=true rebase --continue").code == 0
    assert git(place.root, "log", "--format=%s", "-1") == "d\n"
    # steps that are commands are nobody's to leave behind
    place.run(f"git checkout -q -B other {start} && echo 3 > c && git commit -qam e")
    place.run("git rebase -x 'touch evil' topic")
    assert git(place.root, "status", "--short", "c") == ""
