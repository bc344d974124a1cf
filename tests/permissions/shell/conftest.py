"""A project with what shell commands work on."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest


@pytest.fixture
def project(place, monkeypatch: pytest.MonkeyPatch):
    """The place as a Git repository, with a commit."""
    if shutil.which("git") is None:
        pytest.skip("needs git")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)
    subprocess.run(["git", "init", "-q", str(place.project)], check=True)
    (place.project / "build").mkdir()
    (place.project / "data.json").write_text("{}", "utf-8")
    (place.project / "a b.txt").write_text("x", "utf-8")
    return place
