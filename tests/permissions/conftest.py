"""A place to decide about: a home, a project in it, a neighbour with nearly the same name, and links."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from cellwright.permissions.policy import PermissionPolicy


@dataclass(frozen=True)
class Place:
    """`~` is `home`, the session works in `project`; `{project}` and `{home}` in rules and inputs stand for them."""

    home: Path
    project: Path

    def fill(self, text: str) -> str:
        return text.replace("{project}", str(self.project)).replace("{home}", str(self.home))

    def policy(self, mode: str = "default", **rules: list[str]) -> PermissionPolicy:
        filled = {behavior: [self.fill(rule) for rule in texts] for behavior, texts in rules.items()}
        return PermissionPolicy(mode=mode, roots=[self.project], cwd=self.project, **filled)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    home = tmp_path / "home" / "ada"
    project = home / "proj"
    (project / "src" / "deep").mkdir(parents=True)
    (project / "secrets").mkdir()
    (home / "proj-evil").mkdir()
    (home / "outside").mkdir()
    for file in ("src/a.py", "src/deep/b.py", "secrets/key.pem", ".env", "notes.txt", "nb.ipynb"):
        (project / file).write_text("x", "utf-8")
    (home / "outside" / "data.csv").write_text("x", "utf-8")
    (project / "link-out").symlink_to(home / "outside")
    (project / "link-file").symlink_to(home / "outside" / "data.csv")
    (project / "link-env").symlink_to(project / ".env")
    (project / "link-in").symlink_to(project / "src")
    (project / "two-hops").symlink_to(project / "link-out")
    (project / "loop").symlink_to(project / "loop")
    (project / "back").symlink_to(home / "outside" / "return")
    (home / "outside" / "return").symlink_to(project / "src")
    (home / "way-in").symlink_to(project)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(project)
    return Place(home, project)
