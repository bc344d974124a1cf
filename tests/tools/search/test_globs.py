"""Searches where names look like patterns, where links lead elsewhere, and where a file is none."""

from __future__ import annotations

import os

import pytest

from cellwright.errors import ErrorCode
from row_tables import for_each_row

ROUTES = (
    *("app/[slug]/page.tsx", "app/[...all]/page.tsx", "app/[[...rest]]/page.tsx"),
    *("app/(shop)/page.tsx", "app/{a}/page.tsx", "app/{a,b}/page.tsx"),
    *("app/(shop)/[id]/page.tsx", "app/@modal/(.)photo/[id]/page.tsx", "x[1]/{y}/(z)/page.tsx"),
)
"""Folders whose names are patterns, as frameworks and people have them."""

DECOYS = ("app/s/page.tsx", "app/a/page.tsx", "app/b/page.tsx", "app/(shop)/i/page.tsx", "x1/y/(z)/page.tsx")
"""What the same words would find as patterns."""


@pytest.fixture
def routes(tools):
    for name in (*ROUTES, *DECOYS):
        path = tools.cwd / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("needle\n")
    return tools


def _patterns(route):
    folder = route.rpartition("/")[0]
    last = folder.rpartition("/")[2]
    return (route, f"{folder}/*.tsx", f"./{folder}/*", f"{folder}/*.{{ts,tsx}}", f"**/{last}/page.tsx", f"{folder}/**")


def test_a_part_of_a_glob_that_exists_literally_is_literal(routes):
    """Every route, by Glob and by Grep's `glob`, in six ways to write it: it is found, and no folder of another name."""
    wrong = []
    for route in ROUTES:
        last = route.split("/")[-2]
        for pattern in _patterns(route):
            found = routes.text("Glob", pattern=pattern).splitlines()
            grepped = routes.text("Grep", pattern="needle", glob=pattern.removeprefix("./")).splitlines()[1:]
            for tool, names in (("Glob", found), ("Grep", grepped)):
                others = [name for name in names if name in DECOYS and f"/{last}/" not in name]
                if route not in names or others:
                    wrong.append((tool, pattern, names))
        assert route.rpartition("/")[2] in routes.text("Glob", pattern="*.tsx", path=route.rpartition("/")[0]), last
    assert wrong == []


def test_what_is_left_out_is_named_literally_too(routes):
    given = {"pattern": "app/*/page.tsx", "ignore": ["app/[slug]", "app/{a,b}"]}
    names = set(routes.text("Glob", **given).splitlines())
    assert {"app/s/page.tsx", "app/a/page.tsx", "app/b/page.tsx", "app/{a}/page.tsx"} <= names
    assert not {"app/[slug]/page.tsx", "app/{a,b}/page.tsx"} & names
    found = routes.text("Grep", pattern="needle", ignore=["app/[slug]"])
    assert "app/s/page.tsx" in found
    assert "[slug]" not in found


@for_each_row(
    ("pattern", "found"),
    [
        # where nothing has that name, it is a pattern
        ("app/[ab]/page.tsx", ["app/a/page.tsx", "app/b/page.tsx"]),
        ("app/{s,b}/page.tsx", ["app/b/page.tsx", "app/s/page.tsx"]),
        ("**/[st]/*.tsx", ["app/s/page.tsx"]),
        ("app/\\[slug\\]/*.tsx", ["app/[slug]/page.tsx"]),
        ("app\\[slug]\\*.tsx", ["app/[slug]/page.tsx"]),
        ("x[1]/*/*/page.tsx", ["x[1]/{y}/(z)/page.tsx"]),
        ("[nothing]", ["No file matches [nothing]."]),
    ],
)
def test_what_is_no_name_is_a_pattern(tools, pattern, found):
    for name in (*ROUTES, *DECOYS):
        (tools.cwd / name).parent.mkdir(parents=True, exist_ok=True)
        (tools.cwd / name).write_text("needle\n")
    assert sorted(tools.text("Glob", pattern=pattern).splitlines()) == found


def test_a_file_between_brackets_and_one_whose_letters_are_written_in_two_ways(tools):
    (tools.cwd / "pages").mkdir()
    for name in ("pages/[id].tsx", "pages/i.tsx", "[draft.md", "é-1.txt", "e\u0301-2.txt"):
        (tools.cwd / name).write_text("needle\n")
    assert tools.text("Glob", pattern="pages/[id].*") == "pages/[id].tsx"
    assert tools.text("Glob", pattern="[draft.md") == "[draft.md"
    assert sorted(tools.text("Glob", pattern="é-*.txt").splitlines()) == ["e\u0301-2.txt", "é-1.txt"]
    assert tools.error("Glob", pattern="[other").code == ErrorCode.INVALID_PARAMETERS


def test_links_are_followed_where_they_are_named_and_named_where_they_are_not(tools, tmp_path_factory):
    big = tmp_path_factory.mktemp("big")
    (big / "sub").mkdir()
    for name in ("a.csv", "sub/b.csv"):
        (big / name).write_text("needle\n")
    (tools.cwd / "data").symlink_to(big)
    (tools.cwd / "real.csv").write_text("needle\n")
    (tools.cwd / "linked.csv").symlink_to("real.csv")
    (tools.cwd / "loop").symlink_to(".")
    (tools.cwd / "dangling.csv").symlink_to(big / "none")
    assert tools.text("Glob", pattern="data/*.csv") == "data/a.csv"
    assert sorted(tools.text("Glob", pattern="data/**/*.csv").splitlines()) == ["data/a.csv", "data/sub/b.csv"]
    assert tools.text("Glob", pattern="data/**/*.csv", ignore=["data/sub"]) == "data/a.csv"
    *files, note = tools.text("Glob", pattern="*.csv").splitlines()
    assert sorted(files) == ["linked.csv", "real.csv"]
    assert "are not followed:" in note
    assert f"data -> {big}." in note
    assert "data -> " in tools.text("Grep", pattern="needle", glob="data/*.csv")
    assert "a.csv" in tools.text("Grep", pattern="needle", path="data")


def test_a_folder_between_brackets_that_is_a_link_is_not_followed(tools, tmp_path_factory):
    """The policy takes its name for a pattern, and has not judged where it leads."""
    (tmp_path_factory.mktemp("out") / "secret.txt").write_text("needle\n")
    (tools.cwd / "[x]").symlink_to(tmp_path_factory.getbasetemp() / "out0")
    text = tools.text("Glob", pattern="[x]/*.txt")
    assert "secret" not in text
    assert "[x] -> " in text


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes")
def test_what_is_no_regular_file_is_refused_by_grep_as_by_read(tools):
    os.mkfifo(tools.cwd / "fifo")
    for path in ("fifo", "/dev/zero"):
        for name, given in (("Grep", {"pattern": "x", "path": path}), ("Read", {"file_path": path})):
            error = tools.error(name, **given)
            assert "a regular file" in error.message
            assert error.code == ErrorCode.FILE_PATH_INVALID


def test_a_file_is_read_by_the_name_that_lists_show(tools):
    for name in (b"bad\xff\xfename.txt", b"new\nline.txt"):
        with open(os.fsencode(tools.cwd) + b"/" + name, "wb") as file:  # noqa: PTH123
            file.write(b"needle\n")
    names = [line.split("  ")[-1] for line in tools.text("LS").splitlines()[1:]]
    assert len(names) == 2
    for name in names:
        assert "needle" in tools.text("Read", file_path=name)


def test_names_are_found_whether_ignored_or_not_and_contents_are_not(tools):
    (tools.cwd / ".git").mkdir()
    (tools.cwd / ".gitignore").write_text("*.log\n")
    for name in ("a.log", "b.txt"):
        (tools.cwd / name).write_text("needle\n")
    (tools.cwd / "link").symlink_to("b.txt")
    assert "a.log" in tools.text("Glob", pattern="*.log")
    assert "a.log" in tools.text("LS")
    assert tools.text("FileTree").splitlines()[1:] == [
        "  .gitignore",
        "  b.txt",
        "  a.log (ignored)",
        "  link -> b.txt",
    ]
    assert "a.log" not in tools.text("FileTree", ignore=["*.log"])
    assert "a.log" not in tools.text("Grep", pattern="needle")
