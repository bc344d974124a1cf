"""The check that a release publishes the speeds of its own code, played in small repositories."""

import json
import subprocess
from pathlib import Path

import pytest
from benchmarks.published import check, measured_code, uncommitted


class Repository:
    """A repository with sources, a version and published figures."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.git("init", "-q")
        self.write("src/cellwright/version.py", 'VERSION = "1.0.0"\n')
        self.write("src/cellwright/loop.py", "fast = True\n")
        self.write("benchmarks/rows.py", "ROWS = []\n")
        self.commit()
        self.publish()

    def git(self, *arguments: str) -> None:
        own = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *own, *arguments], cwd=self.root, check=True, capture_output=True)

    def write(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")

    def commit(self) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "a commit")

    def publish(self) -> None:
        """What `make bench` does: figures of the commit, in the next one."""
        self.write("docs/performance.json", json.dumps({"code": measured_code(self.root)._asdict()}))
        self.commit()


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def test_figures_of_this_code_may_stand_also_in_a_release(repository: Repository) -> None:
    repository.git("tag", "v1.0.0")
    assert check(repository.root) == (True, "The published speeds are those of this code.")


def test_between_releases_it_is_said_how_old_they_are(repository: Repository) -> None:
    repository.write("src/cellwright/loop.py", "fast = False\n")
    repository.commit()
    repository.write("src/cellwright/more.py", "")
    repository.commit()
    may_stand, sentence = check(repository.root)
    assert may_stand
    assert "2 files changed since, in 2 commits" in sentence


def test_other_files_do_not_make_them_older(repository: Repository) -> None:
    repository.write("docs/page.md", "A page.\n")
    repository.commit()
    assert check(repository.root) == (True, "The published speeds are those of this code.")


def test_a_tagged_commit_fails(repository: Repository) -> None:
    repository.write("src/cellwright/loop.py", "fast = False\n")
    repository.commit()
    repository.git("tag", "v1.0.1")
    may_stand, sentence = check(repository.root)
    assert not may_stand
    assert sentence.startswith("v1.0.1 publishes the speeds of other code: 1 file changed since, in 1 commit.")


def test_another_version_fails_until_it_is_measured(repository: Repository) -> None:
    repository.write("src/cellwright/version.py", 'VERSION = "1.1.0"\n')
    repository.commit()
    may_stand, sentence = check(repository.root)
    assert not may_stand
    assert "version 1.1.0" in sentence
    repository.publish()
    assert check(repository.root)[0]


def test_a_commit_that_is_not_here_any_more_is_said(repository: Repository) -> None:
    figures = json.loads((repository.root / "docs/performance.json").read_text("utf-8"))
    figures["code"] |= {"commit": "0" * 40, "sources": "other"}
    repository.write("docs/performance.json", json.dumps(figures))
    may_stand, sentence = check(repository.root)
    assert may_stand
    assert "by how much is not known here" in sentence


def test_what_is_in_no_commit_is_not_published(repository: Repository) -> None:
    assert uncommitted(repository.root) == []
    repository.write("src/cellwright/loop.py", "fast = 'very'\n")
    assert uncommitted(repository.root) == ["src/cellwright/loop.py"]
