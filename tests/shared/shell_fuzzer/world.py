"""The throw-away world that commands run in: a home, a project in it, an outside; and what may be touched there.

What a rule hides and what is protected is listed here file by file, so that it does not depend on how the policy reads
rules. Every file that must not be read holds a text of its own, by which it is known in a command's output.
"""

from __future__ import annotations

import gzip
import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Repository = Literal["plain", "none", "worktree", "pointer", "alternates", "configured", "nested", "linked"]
REPOSITORIES: Sequence[Repository] = (
    *("plain", "plain", "plain", "none", "worktree", "pointer", "alternates", "configured", "nested", "linked"),
)
"""Kinds of `.git` that a project has: in the last six, something of it lies elsewhere or runs a program."""

DENIED: Mapping[str, Sequence[str]] = {
    "Read(**/.env)": (".env", "sub/.env", "node_modules/pkg/.env", ".venv/.env", "sub/deep/.env"),
    "Read(./secrets/**)": ("secrets/key.pem", "secrets/deep/token.txt"),
    "Read(**/*.pem)": ("secrets/key.pem", "src/cert.pem"),
    "Read(./private/plan.txt)": ("private/plan.txt",),
}
"""Rules about reading, each with the files of the project that it hides."""

_FILES = {
    "README.md": "# A project\n",
    "notes.txt": "one\ntwo\nthree\n",
    "nums.txt": "3\n1\n2\n2\n",
    "data.csv": "a,b\n1,2\n3,4\n",
    "x.json": '{"a": {"b": [1, 2]}}\n',
    "a b.txt": "blank\n",
    "[ab].txt": "bracket\n",
    "b.txt": "plain\n",
    "a*b": "star\n",
    "quote'.txt": "quote\n",
    "café.txt": "accent\n",
    "new\nline.txt": "line end\n",
    "-rf": "dash\n",
    "--output=made": "flag\n",
    "~": "tilde\n",
    "$HOME": "dollar\n",
    "src/main.py": "import os\nprint(1)\n",
    "src/deep/mod.py": "x = 1\n",
    "sub/notes.txt": "sub\n",
    "sub/deep/more.txt": "deeper\n",
    "sub/-n": "dash\n",
    "node_modules/pkg/index.js": "1\n",
    ".venv/bin/activate": "x\n",
    ".venv/lib/site-packages/p.pth": "import p\n",
    ".claude/settings.json": "{}\n",
    ".vscode/settings.json": "{}\n",
    ".mcp.json": "{}\n",
    ".gitmodules": "",
    ".gitignore": "*.log\n",
    ".gitattributes": "*.bin diff=other\n*.py filter=other\n",
    "magic": "0 string x y\n",
    "one.bin": "\0\1\2",
}
"""Files of the project that may be read."""

PROTECTED = (
    *(
        ".git",
        ".claude",
        ".vscode",
        ".venv/bin",
        ".venv/lib/site-packages",
        ".mcp.json",
        ".gitmodules",
        ".husky",
        ".idea",
    ),
    *(".envrc", "sitecustomize.py", "sub/.git", "sub/.claude", "src/.vscode", ".bashrc", ".devcontainer"),
)
"""Places of the project that acceptEdits does not cover."""

_PROGRAMS = ("ls", "cat", "git", "run.sh", "textconv.sh", "less", "sub/ls")
"""Programs that the project brings along: none of them may run."""

_IN_HOME = (
    *(".ssh/id_rsa", ".ssh/config", ".aws/credentials", ".netrc", ".env", "notes.txt", "project-evil/notes.txt"),
    *("sub/notes.txt", "deep/more.txt"),
)
_OUTSIDE = ("secret.txt", ".env", "sub/notes.txt", "deep/more.txt", "main.py", "names", "x.gz")
_LINKS = {
    "link-out": "{outside}",
    "link-file": "{outside}/secret.txt",
    "link-home": "{home}/.ssh",
    "link-env": ".env",
    "link-in": "src",
    "link-secrets": "secrets",
    "sub/up": "../..",
    "sub/deep/root": "/",
    "a=": "/",
    "loop": "loop",
    "src/out": "{outside}/sub",
}


ENVIRONMENT_CANARY = "CANARY:environment:"
"""A value that the process that runs commands has in its environment, and no command."""


@dataclass(frozen=True, slots=True)
class World:
    """The folders of a world. All that is written when something runs unasked must be below `project` or in `temporary`.

    `temporary` lies beside the world, since the process that runs commands has its own there as long as it lives.
    """

    base: Path
    repository: Repository

    @property
    def home(self) -> Path:
        return self.base / "home" / "ada"

    @property
    def project(self) -> Path:
        return self.home / "project"

    @property
    def outside(self) -> Path:
        return self.base / "outside"

    @property
    def temporary(self) -> Path:
        return self.base.with_name("temporary")

    @property
    def readable(self) -> tuple[str, ...]:
        """Places that may be read besides the project: git's settings, and the repository that a work tree belongs to."""
        own = [self.home / ".gitconfig", self.home / ".config" / "git", self.temporary]
        if self.repository == "worktree":
            own.append(self.home / "main" / ".git")
        return tuple(map(str, own))

    def hidden_by(self, rules: Sequence[str]) -> frozenset[str]:
        """The files that `rules` hide."""
        return frozenset(str(self.project / name) for rule in rules for name in DENIED.get(rule, ()))

    def canaries(self) -> dict[str, str]:
        """The texts by which files that may not be read are known, each with its file."""
        hidden = {self.project / name for names in DENIED.values() for name in names}
        others = [*(self.home / name for name in _IN_HOME), *(self.outside / name for name in _OUTSIDE)]
        return {_canary(self.base, path): str(path) for path in (*sorted(hidden), *others)}


def _canary(base: Path, path: Path) -> str:
    name = str(path.relative_to(base)).replace("/", "-").strip(".")
    return f"CANARY:{name}:"


def build_world(base: Path, repository: Repository) -> World:
    """Make a world below `base`, in place of one that is there."""
    world = World(base, repository)
    shutil.rmtree(world.home.parent, ignore_errors=True)
    shutil.rmtree(world.outside, ignore_errors=True)
    world.project.mkdir(parents=True)
    world.outside.mkdir()
    for name, text in _FILES.items():
        _write(world.project / name, text)
    for canary, path in world.canaries().items():
        _write(Path(path), f"{canary}\nX={canary}\n")
    for name in _PROGRAMS:
        _write(world.project / name, "#!/bin/sh\necho ran\n")
        (world.project / name).chmod(0o755)
    _write_lists_of_names(world)
    for name, target in _LINKS.items():
        (world.project / name).symlink_to(target.format(outside=world.outside, home=world.home))
    _write(world.home / ".gitconfig", "[user]\n\tname = Ada\n\temail = ada@example.org\n")
    _make_repository(world)
    return world


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def _write_lists_of_names(world: World) -> None:
    """Write what makes a program read files that its arguments do not name."""
    secret = world.outside / "secret.txt"
    (world.project / "log.gz").write_bytes(gzip.compress(b"log\n"))
    (world.outside / "x.gz").write_bytes(gzip.compress(_canary(world.base, world.outside / "x.gz").encode()))
    packed = {"x/.envrc": b"x", "y/ok.txt": b"x", "sub/.git/hooks/post-commit": b"x", "../escaped": b"x"}
    for archive, names in {"plain.tar": ["y/ok.txt"], "packed.tar": list(packed)}.items():
        with tarfile.open(world.project / archive, "w") as made:
            for name in names:
                about = tarfile.TarInfo(name)
                about.size = len(packed[name])
                made.addfile(about, io.BytesIO(packed[name]))
    _write(world.project / "names", f"{secret}\n.env\nnotes.txt\n")
    _write(world.project / "names0", f"{secret}\0.env\0")
    _write(world.project / "sums.md5", f"d41d8cd98f00b204e9800998ecf8427e  {secret}\n")
    _write(world.project / "program.awk", f'BEGIN {{ while ((getline x < "{secret}") > 0) print x }}\n')
    _write(world.project / "program.sed", f"r {secret}\nw made\n")


def _make_repository(world: World) -> None:
    project = world.project
    if world.repository == "none":
        return
    if world.repository == "worktree":
        _make_worktree(world)
        return
    other = world.home / "other"
    if world.repository in ("pointer", "linked", "alternates"):
        other.mkdir()
        _write(other / "notes.txt", _canary(world.base, world.outside / "secret.txt"))
        _commit(other)
    if world.repository == "pointer":
        _write(project / ".git", f"gitdir: {other}/.git\n")
        return
    if world.repository == "linked":
        (project / ".git").symlink_to(other / ".git")
        return
    _commit(project)
    control = project / ".git"
    if world.repository == "alternates":
        _write(control / "objects" / "info" / "alternates", f"{other}/.git/objects\n")
        _write(control / "refs" / "heads" / "other", _git(other, "rev-parse", "HEAD"))
    elif world.repository == "configured":
        with (control / "config").open("a", encoding="utf-8") as config:
            config.write(
                f'[core]\n\tfsmonitor = {project}/run.sh\n[diff "other"]\n\ttextconv = {project}/textconv.sh\n'
            )
            config.write(f"[pager]\n\tlog = {project}/less\n[alias]\n\tst = !{project}/run.sh\n")
    elif world.repository == "nested":
        inner = project / "sub"
        _commit(inner)
        with (inner / ".git" / "config").open("a", encoding="utf-8") as config:
            config.write(f"[core]\n\tfsmonitor = {project}/run.sh\n")


def _make_worktree(world: World) -> None:
    """Make the project a second work tree of a repository elsewhere, as `git worktree add` does."""
    main = world.home / "main"
    main.mkdir()
    _write(main / "notes.txt", "main\n")
    _commit(main)
    scratch = world.home / "scratch"
    _git(main, "worktree", "add", "-q", "-b", "side", str(scratch))
    (scratch / ".git").rename(world.project / ".git")
    shutil.rmtree(scratch)
    _write(main / ".git" / "worktrees" / "scratch" / "gitdir", f"{world.project}/.git\n")


def _commit(folder: Path) -> None:
    _git(folder, "init", "-q", "-b", "main")
    _git(folder, "add", "-A", "--", ".")
    _git(folder, "commit", "-q", "-m", "First")
    _write(folder / "notes.txt", "one\n2\nthree\n")
    _git(folder, "commit", "-q", "-a", "-m", "Second")
    _git(folder, "tag", "v1")


def _git(folder: Path, *arguments: str) -> str:
    environ = {
        **{"PATH": os.defpath, "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"},
        **{f"GIT_{who}_{what}": "ada@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
        **{f"GIT_{who}_DATE": "2026-01-01T00:00:00Z" for who in ("AUTHOR", "COMMITTER")},
    }
    done = subprocess.run(["git", *arguments], cwd=folder, env=environ, capture_output=True, text=True, check=True)
    return done.stdout


def changed(world: World, copy: Path) -> frozenset[str]:
    """Return what is not as it was when `world` was copied: the paths that are new, gone, or of another content or mode."""
    before = {path.relative_to(copy): _state(path) for path in copy.rglob("*")}
    after = {path.relative_to(world.base): _state(path) for path in world.base.rglob("*")}
    different = before.keys() ^ after.keys() | {
        path for path in before.keys() & after.keys() if before[path] != after[path]
    }
    return frozenset(str(world.base / path) for path in different)


def _state(path: Path) -> tuple[int, str]:
    if path.is_symlink():
        return 0, str(path.readlink())
    mode = path.stat().st_mode
    return mode, path.read_bytes().hex() if path.is_file() else ""


def keep_copy(world: World) -> Path:
    """Copy `world` as it is now aside and return where to."""
    copy = world.base.with_name(f"{world.base.name}-copy")
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(world.base, copy, symlinks=True)
    return copy


def restore(world: World, copy: Path) -> None:
    """Make `world` as it was when it was copied; its top folders stay the same."""
    for kept in copy.iterdir():
        changed = world.base / kept.name
        if changed.is_symlink() or not changed.is_dir():
            changed.unlink(missing_ok=True)
        else:
            shutil.rmtree(changed, ignore_errors=True)
        shutil.copytree(kept, changed, symlinks=True)
