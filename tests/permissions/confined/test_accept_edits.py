"""What `acceptEdits` runs unasked never makes a protected file, nor one that a rule keeps from changes: played for real."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from cellwright.agent.calls.approval import Decision
from cellwright.permissions.paths import protected_part
from cellwright.permissions.policy import PermissionPolicy
from cellwright.permissions.sandboxing import SandboxRules
from cellwright.sandbox.means import Sandbox
from cellwright.sandbox.private_folder import PrivateFolder
from confined import Confined, Ended, sandbox_by
from declared_tools import tool_named
from row_tables import for_each_row

DENIED = ("Edit(**/*.lock)", "Edit(data/*.csv)")
FILES = {
    **dict.fromkeys(("a.txt", "x.txt", "a.py", "sub/x.py", "bare/x.py", "tasks/tasks.json", "tool/bin/run"), "x\n"),
    **dict.fromkeys(("template/.git/hooks/post-commit", "template/.envrc", "locks/a.lock", "tables/a.csv"), "x\n"),
    **dict.fromkeys(("keep/hooks/pre-commit", "keep/y.txt", "globbed/y.lock", "globbed/z.txt"), "x\n"),
}


@dataclass(frozen=True)
class Project:
    """A folder that is made anew for each command, and the means that commands in it are confined by."""

    root: Path
    sandbox: Sandbox
    private: PrivateFolder

    def decide(self, command: str) -> Decision:
        rules = SandboxRules(means=self.sandbox.abilities)
        policy = PermissionPolicy(mode="acceptEdits", roots=[self.root], cwd=self.root, deny=DENIED, sandbox=rules)
        return policy.decide(tool_named("Bash"), {"command": command})

    def run(self, command: str, decision: Decision) -> Ended:
        if decision.confinement is not None:
            return Confined(self.sandbox, self.private, self.root).bash(command, decision.confinement)
        ended = subprocess.run(["bash", "-c", command], cwd=self.root, capture_output=True, text=True)
        return Ended(ended.returncode, ended.stdout + ended.stderr)

    def begin(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)
        for name, text in FILES.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text, "utf-8")
        (self.root / "linked").symlink_to("template")

    def forbidden(self) -> dict[str, int]:
        """The files that nothing may make or change unasked, each with its inode."""
        found = {}
        for here, folders, files in os.walk(self.root):
            for name in (*folders, *files):
                path = Path(here, name)
                if protected_part(str(path)) or path.suffix == ".lock" or path.match("data/*.csv"):
                    found[str(path.relative_to(self.root))] = path.stat().st_mtime_ns
        return found


@pytest.fixture(params=["Landlock", "bubblewrap"])
def project(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Project]:
    private = PrivateFolder()
    yield Project(tmp_path / "project", sandbox_by(request.param), private)
    private.close()


@for_each_row(
    "command",
    [
        "cp a.txt sub/b.lock",
        "cp -r template new",
        "cp -r template/. .",
        "cp -rH linked new",
        "cp -r linked/ new",
        "cp -r locks new",
        "mv locks new",
        "mv template new",
        "mv keep/hooks sub/.git",
        "mkdir -p sub/.git/hooks",
        "mkdir x && mv x .git",
        "mkdir x && mv x sub/.claude",
        "touch sub/.envrc sub/x.pth",
        "mkdir -p sub/.claude && touch sub/.claude/settings.local.json",
        "cp a.txt $(echo .mcp.json)",
        "cp -r bare sub/site-packages",
        "mkdir -p sub/startup && cp a.py sub/startup/b.py",
        "mv bare startup",
        "cp -r bare sub/startup",
        "cp -r bare x && mv x startup",
        "mkdir x && touch x/y.py && mv x startup",
        "cp -r tool .venv",
        "mkdir -p x/bin && touch x/bin/ls && mv x venv",
        "mv tasks .vscode",
        "cp tasks/* .vscode",
        "cp globbed/* sub",
        "mv globbed/* .",
        "mv tables data",
        "cp -r tables data",
        "mkdir x && touch x/a.csv && mv x data",
        "echo 1 > bare/a.csv && mv bare data",
        "sed -i.lock s/x/y/ a.txt",
        "sed -i.pth s/x/y/ a.txt",
        "sed --in-place=.lock s/x/y/ *.txt",
        "mv a.txt a.lock",
        "rm -rf locks",
        "awk '{print > \"x.pth\"}' a.txt",
        "for f in *.txt; do cp $f $f.lock; done",
        "for f in .mcp .vscode; do mkdir $f; done",
        "echo x > sub/x.lock",
        "cat a.txt | tee sub/x.lock",
        "echo x | xargs -I{} touch .bash{}rc.lock",
        "find . -name a.txt -exec cp {} .bashrc \\;",
    ],
)
def test_what_is_protected_is_never_made_unasked(project: Project, command: str) -> None:
    project.begin()
    before = project.forbidden()
    decision = project.decide(command)
    if decision.behavior == "allow":
        project.run(command, decision)
    assert project.forbidden() == before


@for_each_row(
    ("command", "made"),
    [
        ("mkdir -p new/deep && touch new/deep/x.txt", "new/deep/x.txt"),
        ("cp a.txt b.txt", "b.txt"),
        ("cp -r sub copied", "copied/x.py"),
        ("mv keep moved", "moved/y.txt"),
        ("sed -i.bak s/x/y/ a.txt", "a.txt.bak"),
        ("echo x > out.txt", "out.txt"),
        ("cp -p a.txt kept.txt && touch -d 2020-01-01 kept.txt", "kept.txt"),
    ],
)
def test_edits_run_unasked_confined_to_the_folder(project: Project, command: str, made: str) -> None:
    project.begin()
    decision = project.decide(command)
    assert decision.behavior == "allow", decision.reason
    assert decision.confinement is not None
    assert decision.confinement.write
    ended = project.run(command, decision)
    assert ended.code == 0, ended.output
    assert (project.root / made).exists()


def test_landlock_alone_bounds_an_edit_to_the_folders_of_what_it_changes(tmp_path: Path) -> None:
    private = PrivateFolder()
    project = Project(tmp_path / "project", sandbox_by("Landlock"), private)
    project.begin()
    decision = project.decide("cp a.txt sub/b.txt")
    assert decision.confinement is not None
    assert decision.confinement.write == (str(project.root / "sub"),)
    itself = project.decide("touch .").confinement
    assert itself is not None
    assert itself.write == (str(project.root),)
    before = project.forbidden()
    for command in ("touch template/.git/config; echo x >> locks/a.lock; touch new.txt", "touch ../outside"):
        project.run(command, decision)
    assert project.forbidden() == before
    assert not (project.root / "new.txt").exists()
    assert not (tmp_path / "outside").exists()
    assert project.decide("for f in *.txt; do cp $f $f.bak; done").behavior == "ask", "its names show when it runs"
    private.close()
