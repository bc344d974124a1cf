"""Which paths are refused on Windows, before anything is looked up."""

from __future__ import annotations

import pytest

from cellwright.permissions.paths import inside, why_refused_on_windows, without_prefix

CWD = r"C:\Users\me\proj"

PLAIN = [
    r"src\a.py", "src/a.py", r"..\other\a.py", r"C:\Users\me\proj\a.py", "c:/users/ME/PROJ/a.py", r"D:\data\x.csv", r"\x",
    ".", "..", "", r".\a", "nullable.py", "console.txt", "com10.txt", "a~b.txt", "aux_files\\x", "~/notes.md", ".gitignore",
]  # fmt: skip

REFUSED = [
    (r"\\evil\share\x", "another machine"), ("//evil/share/x", "another machine"), (r"\\evil", "another machine"),
    (r"\\?\C:\x", "device"), (r"\\.\PhysicalDrive0", "device"), ("//?/C:/x", "device"), (r"\??\C:\x", "device"),
    ("D:x", "without the folder"), ("C:", "without the folder"),
    ("a.txt:hidden", "stream"), (r".git::$INDEX_ALLOCATION\config", "stream"),
    (r".git.\config", "dot or a space"), (r".git \config", "dot or a space"), ("a.py.", "dot or a space"),
    ("NUL", "device"), ("con.txt", "device"), ("nul .txt", "device"), (r"src\LPT1", "device"), ("COM¹", "device"),
    ("SECRET~1.TXT", "short name"), (r"GIT~1\config", "short name"), (r"C:\PROGRA~1\x", "short name"),
]  # fmt: skip


def test_a_path_that_windows_reads_otherwise_is_refused() -> None:
    wrong = {path: why for path in PLAIN if (why := why_refused_on_windows(path, CWD))}
    wrong |= {path: why for path, expected in REFUSED if expected not in (why := why_refused_on_windows(path, CWD))}
    assert wrong == {}


@pytest.mark.parametrize("cwd", [r"\\nas\me\proj", r"C:\Users\RUNNER~1\Temp\proj"])
def test_what_is_in_the_project_is_as_the_project_is(cwd: str) -> None:
    assert why_refused_on_windows(rf"{cwd}\src\a.py", cwd) == ""
    assert why_refused_on_windows(r"src\a.py", cwd) == ""
    assert why_refused_on_windows(r"SECRET~1.TXT", cwd) != ""
    assert why_refused_on_windows(rf"{cwd}\SECRET~1.TXT", cwd) != ""
    assert why_refused_on_windows(r"\\other\me\proj\a", cwd) != ""


def test_links_are_read_as_people_write_paths() -> None:
    assert without_prefix(r"\\?\C:\data") == r"C:\data"
    assert without_prefix(r"\\?\UNC\nas\me") == r"\\nas\me"
    assert without_prefix(r"\\?\Volume{1}\x") == r"\\?\Volume{1}\x"
    assert without_prefix(r"..\x") == r"..\x"


def test_case_is_no_difference_on_windows() -> None:
    folders = [r"C:\Users\me\Proj"]
    found = {
        place: inside(place, folders, separator="\\", folds=True)
        for place in (r"c:\users\me\proj", r"C:\USERS\me\proj\a", r"C:\Users\me\proj-evil", r"D:\Users\me\Proj")
    }
    assert list(found.values()) == [True, True, False, False]
    assert not inside(r"c:\users\me\proj\a", folders, separator="\\", folds=False)
