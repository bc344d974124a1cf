"""The copy of a project's files: what is in it, what is other at the end, and what is never taken for a change."""

from __future__ import annotations

from pathlib import Path

import pytest

from cellwright.features.preview import staged_tree
from cellwright.features.preview.staged_tree import StagedTree, TreeTooLarge


@pytest.fixture
def project(tmp_path: Path) -> Path:
    project = tmp_path / "project"
    (project / "src").mkdir(parents=True)
    (project / ".git").mkdir()
    (project / ".git" / "HEAD").write_text("ref: x\n")
    (project / "src" / "a.py").write_text("x = 1\n")
    (project / "secret.txt").write_text("s\n")
    return project


def made(project: Path) -> StagedTree:
    return StagedTree.make(project, lambda path: not path.endswith("secret.txt"))


def test_changes_are_found_whoever_makes_them_and_what_may_not_be_read_is_not_there(project: Path) -> None:
    tree = made(project)
    assert not (tree.root / "secret.txt").exists()
    (tree.root / "src" / "a.py").write_text("x = 2\n")
    (tree.root / "new.py").write_text("y = 1\n")
    found = {change.name: (change.before, change.after) for change in tree.changed()}
    assert found == {"src/a.py": (b"x = 1\n", b"x = 2\n"), "new.py": (None, b"y = 1\n")}
    (tree.root / "src" / "a.py").unlink()
    assert {change.name: change.after for change in tree.changed()}["src/a.py"] is None
    tree.close()
    assert not tree.folder.exists()


def test_a_link_that_code_puts_there_is_never_read(project: Path, tmp_path: Path) -> None:
    tree = made(project)
    (tmp_path / "outside.txt").write_text("mine")
    (tree.root / "src" / "a.py").unlink()
    (tree.root / "src" / "a.py").symlink_to(tmp_path / "outside.txt")
    assert [change.after for change in tree.changed()] == []
    assert not tree.may_write("src/a.py")
    tree.close()


def test_what_is_linked_or_outside_may_not_be_written(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged_tree, "LARGEST_COPY", 4)
    tree = made(project)
    assert (tree.root / "src" / "a.py").is_symlink()
    for path in ("src/a.py", ".git/HEAD", "../other.txt", "/etc/passwd"):
        assert not tree.may_write(path), path
    for path in ("b.py", str(project / "src" / "b.py"), f"{project}/src/../c.py"):
        assert tree.may_write(path), path
    tree.close()


def test_a_file_that_changes_on_disk_is_noticed(project: Path) -> None:
    tree = made(project)
    assert tree.is_as_copied("src/a.py")
    assert tree.is_as_copied("new.py")
    (project / "src" / "a.py").write_text("x = 3\n")
    (project / "new.py").write_text("mine\n")
    assert not tree.is_as_copied("src/a.py")
    assert not tree.is_as_copied("new.py")
    tree.close()


def test_a_folder_that_is_too_large_leaves_no_copy(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged_tree, "MOST_FILES", 0)
    with pytest.raises(TreeTooLarge, match="more than a preview copies"):
        made(project)


def test_paths_in_text_are_the_ones_their_reader_knows(project: Path) -> None:
    tree = made(project)
    assert tree.in_copy(f"cat {project}/a {project}-2/b") == f"cat {tree.root}/a {project}-2/b"
    assert tree.in_project(f"{tree.root}/a") == f"{project}/a"
    tree.close()
