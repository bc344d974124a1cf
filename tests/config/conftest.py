"""A home, a project and the settings files in them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cellwright.config.settings.settings import Settings, load_settings
from cellwright.config.settings.settings_files import InlineSettings
from cellwright.config.settings.settings_in_force import SettingsInForce

sys.path.insert(0, str(Path(__file__).parent))  # importlib mode leaves a test's own folder out


class Place:
    """Where settings are: `home` has the user's, `project` its own, `managed` the administrator's."""

    def __init__(self, home: Path, project: Path) -> None:
        self.home, self.project = home, project
        self.managed = home / "administrator"
        self.environ = {"HOME": str(home), "PATH": os.environ["PATH"]}
        self.given: list[InlineSettings] = []
        """What `c.Claude` says."""

    def file(self, where: str) -> Path:
        if where == "managed":
            return self.managed / "managed-settings.json"
        folder = self.home if where == "user" else self.project
        return folder / ".claude" / ("settings.local.json" if where == "local" else "settings.json")

    def write(self, where: str, content: object) -> Path:
        """Write a file whose `permissions` are `content`, or that is the text `content`."""
        return self.write_text(where, content if isinstance(content, str) else json.dumps({"permissions": content}))

    def say(self, where: str, **content: Any) -> Path:
        """Write a file of these settings."""
        return self.write_text(where, json.dumps(content))

    def write_text(self, where: str, text: str) -> Path:
        file = self.file(where)
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, "utf-8")
        return file

    def git(self, *arguments: str) -> None:
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "init.defaultBranch=main"]
        subprocess.run(["git", *identity, *arguments], cwd=self.project, check=True, capture_output=True)

    def trust(self) -> None:
        """Answer every question about the folder as it is now with yes."""
        in_force = self.in_force()
        while (question := in_force.question()) is not None:
            in_force.answer(question, yes=True)

    def load(self, cwd: Path | None = None, **environ: str) -> Settings:
        return load_settings(cwd or self.project, self.environ | environ, managed=self.managed)

    def in_force(self, cwd: Path | None = None, *, trusts_folder: bool = False) -> SettingsInForce:
        return SettingsInForce(
            cwd or self.project,
            self.environ,
            managed=self.managed,
            inline_settings=lambda: tuple(self.given),
            trusts_folder=trusts_folder,
        )


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    home, project = tmp_path / "home", tmp_path / "home" / "proj"
    (project / "sub").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    return Place(home, project)
