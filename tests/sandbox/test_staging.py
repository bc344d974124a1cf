"""What a command left in an overlay's upper folder, judged and made, where modes, sizes or rights are odd."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cellwright.sandbox.staging import make_changes, refused_changes

NOBODY = 65_534
NOW = 1 << 62


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    lower, upper = tmp_path / "lower", tmp_path / "upper"
    lower.mkdir()
    upper.mkdir()
    return lower, upper


@contextlib.contextmanager
def as_owner(top: Path) -> Iterator[None]:
    """Do it as somebody to whom modes apply, who owns what is in `top`."""
    if os.geteuid():
        yield
        return
    for path in (top, *top.rglob("*")):
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def test_what_the_command_closed_to_its_owner_is_made_whole() -> None:
    with tempfile.TemporaryDirectory() as top:  # pytest's are below one that is for root alone
        lower, upper = Path(top, "lower"), Path(top, "upper")
        for place in (lower, upper):
            (place / "closed").mkdir(parents=True)
        (upper / "closed" / "new.txt").write_text("new", "utf-8")
        (upper / "unreadable.txt").write_text("new", "utf-8")
        (upper / "unreadable.txt").chmod(0o200)
        (lower / "closed").chmod(0o500)
        (upper / "closed").chmod(0o500)
        with as_owner(Path(top)):
            assert list(refused_changes(str(lower), str(upper), [str(lower)], lambda _path, _made: "", NOW)) == []
            make_changes(str(lower), str(upper))
        assert (lower / "closed").stat().st_mode & 0o777 == 0o500
        for place in (lower, upper):
            (place / "closed").chmod(0o700)
        assert (lower / "closed" / "new.txt").read_text("utf-8") == "new"
        assert (lower / "unreadable.txt").stat().st_mode & 0o777 == 0o200


def test_a_file_with_holes_takes_no_more_room_than_the_commands_own(folders: tuple[Path, Path]) -> None:
    lower, upper = folders
    with (upper / "large").open("wb") as file:
        file.write(b"begin")
        file.seek(1 << 30)
        file.write(b"middle")
        file.truncate(1 << 31)
    make_changes(str(lower), str(upper))
    status = (lower / "large").stat()
    assert status.st_size == 1 << 31
    assert status.st_blocks * 512 < 1 << 20
    with (lower / "large").open("rb") as file:
        assert file.read(6) == b"begin\0"
        file.seek(1 << 30)
        assert file.read(7) == b"middle\0"


def test_attributes_that_give_rights_are_not_copied(folders: tuple[Path, Path]) -> None:
    lower, upper = folders
    program = upper / "program"
    program.write_text("x", "utf-8")
    os.setxattr(program, "user.note", b"kept")
    os.setxattr(program, "user.overlay.origin", b"")  # gives no right, but anybody can set it
    with contextlib.suppress(PermissionError):  # only root can give it
        os.setxattr(program, "security.capability", bytes.fromhex("0100000200040000000000000000000000000000"))
    make_changes(str(lower), str(upper))
    assert os.listxattr(lower / "program") == ["user.note"]


def test_a_folder_in_place_of_a_link_is_not_looked_for_where_the_link_led(
    folders: tuple[Path, Path], tmp_path: Path
) -> None:
    lower, upper = folders
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "theirs.txt").write_text("theirs", "utf-8")
    (lower / "data").symlink_to(tmp_path / "elsewhere")
    (upper / "data").mkdir()
    os.setxattr(upper / "data", "user.overlay.opaque", b"y")
    (upper / "data" / "theirs.txt").write_text("ours", "utf-8")
    judged: list[str] = []

    def against(path: str, _made: str) -> str:
        judged.append(os.path.relpath(path, lower))
        return ""

    assert list(refused_changes(str(lower), str(upper), [str(lower)], against, NOW)) == []
    assert judged == ["data", "data/theirs.txt"]
    make_changes(str(lower), str(upper))
    assert (tmp_path / "elsewhere" / "theirs.txt").read_text("utf-8") == "theirs"
    assert (lower / "data" / "theirs.txt").read_text("utf-8") == "ours"
