"""What `acceptEdits` runs unasked never makes a protected file, nor one that a rule keeps from changes: played for real."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from cellwright.agent.calls.approval import Decision
from cellwright.permissions.paths import protected_part
from cellwright.permissions.policy import PermissionPolicy
from cellwright.permissions.sandboxing import SandboxRules
from cellwright.sandbox.mechanisms import Sandbox
from cellwright.sandbox.private_folder import PrivateFolder
from confined import Confined, Ended, sandbox_by, staging_sandbox
from declared_tools import tool_named
from eventual import eventually
from row_tables import for_each_row

DENIED = ("Edit(**/*.lock)", "Edit(data/*.csv)")
FILES = {
    **dict.fromkeys(("a.txt", "x.txt", "a.py", "sub/x.py", "bare/x.py", "tasks/tasks.json", "tool/bin/run"), "x\n"),
    **dict.fromkeys(("template/.git/hooks/post-commit", "template/.envrc", "locks/a.lock", "tables/a.csv"), "x\n"),
    **dict.fromkeys(("keep/hooks/pre-commit", "keep/y.txt", "globbed/y.lock", "globbed/z.txt"), "x\n"),
}
PACKED = (".gz", ".tgz", ".zip")
PATCHES = {
    "fine.patch": "--- a.txt\n+++ a.txt\n@@ -1 +1 @@\n-x\n+patched\n",
    "evil.patch": "--- /dev/null\n+++ sub/.envrc\n@@ -0,0 +1 @@\n+evil\n",
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
        for name, text in {**FILES, **PATCHES}.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text, "utf-8")
        (self.root / "linked").symlink_to("template")
        for archive in (["tar", "czf", "template.tgz", "-C", "template", "."], ["tar", "czf", "keep.tgz", "keep"]):
            subprocess.run(archive, cwd=self.root, check=True)
        for name, folder in {"template": "template", "keep": "keep"}.items():
            shutil.make_archive(str(self.root / name), "zip", self.root / folder)

    def tree(self) -> dict[str, tuple[int, str]]:
        """All that is in it, each with its mode and what it holds, or where it leads."""
        found = {}
        for path in self.root.rglob("*"):
            holds = str(path.readlink()) if path.is_symlink() else path.read_text("latin-1") if path.is_file() else ""
            # packed files hold times
            found[str(path.relative_to(self.root))] = (path.lstat().st_mode, "" if path.suffix in PACKED else holds)
        return found

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
        "tar xzf template.tgz",
        "tar xzf template.tgz -C sub",
        "unzip -qo template.zip -d sub",
        "patch -p0 < evil.patch",
        "patch -p0 -o sub/x.lock a.txt < evil.patch",
        "cp --recursive --no-target-directory template sub/new",
        "mkdir -m 700 -p $(printf sub/.%s claude)",
        "find keep -type f -exec cp {} sub/{}.pth \\;",
        "rename s/txt/pth/ a.txt; for f in *.txt; do mv -v $f ${f%txt}pth; done",
        "ln -s template/.envrc $(printf .envrc)",
        "ln template/.envrc x && for f in x; do echo y >> $f; done",
        "for f in locks/*; do gzip -k $f; gzip $f; done",
        "for f in template/.e*; do chmod 600 $f; done",
        "find locks -name '*.lock' -delete",
        "find . -name .envrc -exec rm -f {} +",
        "for d in l*s; do rm -rf $d; done",
        "for d in keep; do mv $d sub/.vscode; done",
        "split -b 1 a.txt sub/x.pth",
        "for d in template; do cp -r $d new; done; rm -rf new/*; cp -r template/. new",
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


@pytest.fixture
def staged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Project]:
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))  # ruff
    sandbox = staging_sandbox()
    private = PrivateFolder()
    project = Project(tmp_path / "project", sandbox, private)
    yield project
    kept = {"tmp", "cache", "lock", "hidden-file", "hidden-folder"}
    assert eventually(lambda: {each.name for each in Path(private.path).iterdir()} <= kept), "nothing is kept"
    private.close()


@for_each_row(
    ("command", "made"),
    [
        ("tar xzf keep.tgz -C sub && ls sub/keep", "sub/keep/y.txt"),
        ("tar czf new.tgz sub && tar tzf new.tgz", "new.tgz"),
        ("unzip -q keep.zip -d out", "out/hooks/pre-commit"),
        ("zip -qr new.zip sub", "new.zip"),
        ("patch -p0 < fine.patch && grep -q patched a.txt", "a.txt"),
        ("gzip -k a.txt && gzip -9 x.txt", "x.txt.gz"),
        ("ln -s a.txt link && cat link", "link"),
        ("ln -sr keep/y.txt sub/link && cat sub/link", "sub/link"),
        ("ln a.txt hard && echo more >> hard && grep -q more a.txt", "hard"),
        ("mkdir -m 700 -pv new/a/b && cp -Rpv --backup=numbered keep new/a", "new/a/keep/y.txt"),
        ("find . -name '*.txt' -exec sed -i s/x/found/ {} + && grep -q found keep/y.txt", "keep/y.txt"),
        ("sort -r -o sorted.txt a.txt x.txt", "sorted.txt"),
        ("for f in *.txt; do mv $f ${f%.txt}.md; done; ls", "a.md"),
        ("rm -rf keep && mkdir keep && touch keep/new", "keep/new"),
        ("rm a.txt && mkdir a.txt && touch a.txt/b", "a.txt/b"),
        ("rm -rf bare && cp a.txt bare", "bare"),
        ("chmod -R go-w,u+x sub && test -x sub/x.py", "sub/x.py"),
        ("find keep -type f -delete; find keep -type d -empty -delete; touch done", "done"),
        ("printf '%s\\n' one two | tee -a a.txt | split -l 1 - part.", "part.aa"),
        ("truncate -s 0 a.txt && test ! -s a.txt", "a.txt"),
        ("dd if=a.txt of=sub/copied bs=1 count=1 status=none", "sub/copied"),
        ("printf 'b\nb\na\n' > t && uniq t once.txt && shuf -n 0 -o none.txt t && test ! -s none.txt", "once.txt"),
        ("printf 'import  sys,os' > b.py && ruff format --no-cache b.py && ruff check --no-cache --fix b.py", "b.py"),
    ],
)
def test_edits_by_any_options_run_unasked(staged: Project, command: str, made: str) -> None:
    """What the command leaves is what it leaves without a sandbox."""
    staged.begin()
    subprocess.run(["bash", "-c", command], cwd=staged.root, capture_output=True, check=False)
    expected = staged.tree()
    staged.begin()
    decision = staged.decide(command)
    assert decision.behavior == "allow", decision.reason
    ended = staged.run(command, decision)
    assert ended.code == 0, ended.output
    assert staged.tree() == expected
    assert os.path.lexists(staged.root / made)


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
