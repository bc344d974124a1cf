"""A release as it is built: the same bit for bit in two folders, small, and with a page that an index shows whole."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "release"))  # a folder that is no package

from written_sizes import SHARE, WRITTEN, write_sizes

import release

ROOT = Path(__file__).parents[3]
NODE_MODULES = ROOT / "labextension" / "node_modules"

pytestmark = [pytest.mark.wheel, pytest.mark.timeout(3600)]


@pytest.fixture(scope="module")
def commit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone whose commit has what the working tree has now."""
    clone = tmp_path_factory.mktemp("commit") / "clone"
    subprocess.run(["git", "clone", "-q", str(ROOT), str(clone)], check=True)
    changed = subprocess.run(["git", "diff", "--binary", "HEAD"], cwd=ROOT, check=True, capture_output=True).stdout
    if changed:
        subprocess.run(["git", "apply", "--index"], cwd=clone, check=True, input=changed)
        person = ["-c", "user.name=A", "-c", "user.email=a@b.example"]
        subprocess.run(["git", *person, "commit", "-q", "-m", "The working tree"], cwd=clone, check=True)
    return clone


def test_two_builds_of_one_commit_are_the_same_bit_for_bit(commit: Path, tmp_path: Path) -> None:
    first = release.build(commit, tmp_path / "first", node_modules=NODE_MODULES)
    usual = os.umask(0o077)  # of files that a clone makes
    try:
        second = release.build(commit, tmp_path / "second", node_modules=NODE_MODULES)
    finally:
        os.umask(usual)
    assert sorted(Path(name).suffix for name in first) == [".gz", ".whl"]
    assert first == second
    for name in first:
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()
    (sdist,) = (tmp_path / "first").glob("*.tar.gz")
    size = sdist.stat().st_size
    assert size <= release.LARGEST_SDIST
    write_sizes({"sdist_bytes": size})
    assert size == pytest.approx(json.loads(WRITTEN.read_text("utf-8"))["sdist_bytes"], rel=SHARE), "run `make sizes`"
    with tarfile.open(sdist) as packed:
        names = packed.getnames()
    tops = {name.split("/")[1] for name in names if "/" in name}
    assert tops.isdisjoint({"tests", "benchmarks", ".github", ".ci"})
    assert [name for name in names if name.endswith(".png") or "node_modules" in name] == []


def test_without_npm_it_says_so_in_one_line(commit: Path) -> None:
    (commit.parent / "bin").mkdir()
    (commit.parent / "bin" / "git").symlink_to(shutil.which("git") or "")
    done = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", commit.parent / "w", commit],
        env={**os.environ, "PATH": str(commit.parent / "bin")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "npm is not in PATH. Install Node 20.19 or newer" in done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr


def test_the_files_of_services_have_their_forms() -> None:
    forms = {
        "github-workflows": [".github/workflows/publish.yml"],
        "dependabot": [".github/dependabot.yml"],
        "github-issue-forms": [".github/ISSUE_TEMPLATE/bug.yml", ".github/ISSUE_TEMPLATE/idea.yml"],
        "github-issue-config": [".github/ISSUE_TEMPLATE/config.yml"],
        "readthedocs": [".readthedocs.yaml"],
        "citation-file-format": ["CITATION.cff"],
    }
    for form, files in forms.items():
        command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{form}", *files]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_a_release_names_all_that_is_missing_and_changes_nothing(commit: Path) -> None:
    with pytest.raises(release.NotReady) as caught:
        release.release(commit, "9.9")
    assert "is not a version like" in str(caught.value)
    assert "no section `## 9.9`" in str(caught.value)
    assert subprocess.run(["git", "status", "--porcelain"], cwd=commit, capture_output=True, check=True).stdout == b""


def test_a_release_sets_the_version_everywhere(commit: Path, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", str(commit), str(clone)], check=True)
    release.set_version(clone, "0.2.0")
    release.write_files(clone)
    assert "version: 0.2.0\n" in (clone / "CITATION.cff").read_text("utf-8")
    assert 'VERSION = "0.2.0"' in (clone / "src/cellwright/version.py").read_text("utf-8")
    left = subprocess.run(
        ["git", "grep", "-lF", '"0.1.0"', "--", *release.VERSION_PLACES], cwd=clone, capture_output=True
    )
    assert b"package.json" not in left.stdout
    assert b"pyproject.toml" not in left.stdout
