"""The files of instructions: which are found, in which order, what they import, and what of a folder waits for trust."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest

from cellwright.config.memory import (
    MAX_BYTES,
    MAX_CHARS,
    Memory,
    MemoryFile,
    MemoryPlace,
    memory_for_files,
    read_memory,
    without_comments,
)
from cellwright.config.settings.settings_in_force import SettingsInForce
from row_tables import for_each_row

CWD = "home/proj/sub"


def write(root: Path, files: Mapping[str, str | bytes]) -> None:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def place_in(
    root: Path, *, trusted: bool = True, outside: Iterable[str] = (), excludes: Iterable[str] = ()
) -> MemoryPlace:
    (root / CWD).mkdir(parents=True, exist_ok=True)
    (root / "home/proj/.git").mkdir(exist_ok=True)
    return MemoryPlace(
        cwd=root / CWD,
        project=root / "home/proj",
        users=root / "home/.claude",
        managed=root / "managed",
        trusted=trusted,
        outside=frozenset((root / name).resolve() for name in outside),
        excludes=tuple(glob.replace("ROOT", str(root)) for glob in excludes),
    )


def names(root: Path, files: Iterable[MemoryFile]) -> list[str]:
    return [file.path.resolve().relative_to(root.resolve()).as_posix().replace("home/", "~/", 1) for file in files]


EVERYWHERE = {
    "managed/CLAUDE.md": "managed",
    "home/.claude/CLAUDE.md": "user",
    "home/.claude/rules/a.md": "user's rule",
    "home/CLAUDE.md": "above",
    "home/proj/CLAUDE.md": "project",
    "home/proj/.claude/CLAUDE.md": "hidden",
    "home/proj/CLAUDE.local.md": "local",
    "home/proj/.claude/rules/deep/b.md": "rule",
    "home/proj/.claude/rules/c.md": "---\npaths: src/**\n---\nonly for src",
    "home/proj/sub/CLAUDE.md": "sub",
    "home/proj/sub/below/CLAUDE.md": "below",
}


def test_all_places_in_their_order(tmp_path: Path) -> None:
    write(tmp_path, EVERYWHERE)
    memory = read_memory(place_in(tmp_path))
    assert names(tmp_path, memory.files) == [
        "managed/CLAUDE.md",
        "~/.claude/CLAUDE.md",
        "~/.claude/rules/a.md",
        "~/CLAUDE.md",
        "~/proj/CLAUDE.md",
        "~/proj/.claude/CLAUDE.md",
        "~/proj/CLAUDE.local.md",
        "~/proj/sub/CLAUDE.md",
        "~/proj/.claude/rules/deep/b.md",
    ]
    assert names(tmp_path, memory.rules) == ["~/proj/.claude/rules/c.md"]
    assert memory.notices == ()


def test_before_trust_a_project_says_nothing(tmp_path: Path) -> None:
    write(tmp_path, EVERYWHERE)
    memory = read_memory(place_in(tmp_path, trusted=False))
    assert names(tmp_path, memory.files) == [
        "managed/CLAUDE.md",
        "~/.claude/CLAUDE.md",
        "~/.claude/rules/a.md",
        "~/CLAUDE.md",
    ]
    assert memory.rules == ()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_above_the_project_that_another_user_put_there_is_not_read(tmp_path: Path) -> None:
    write(tmp_path, {"home/CLAUDE.md": "from somebody"})
    os.chown(tmp_path / "home/CLAUDE.md", 4711, 4711)
    assert read_memory(place_in(tmp_path)).files == ()


@for_each_row(
    ("files", "found"),
    [
        # AGENTS.md only where there is no CLAUDE.md in the folder or above
        ({"home/proj/AGENTS.md": "a"}, ["~/proj/AGENTS.md"]),
        ({"home/proj/AGENTS.md": "a", "home/proj/sub/AGENTS.md": "b"}, ["~/proj/AGENTS.md", "~/proj/sub/AGENTS.md"]),
        ({"home/proj/AGENTS.md": "a", "home/proj/sub/CLAUDE.md": "b"}, ["~/proj/sub/CLAUDE.md"]),
        ({"home/proj/AGENTS.md": "a", "home/CLAUDE.md": "b"}, ["~/CLAUDE.md"]),
        # imports: relative to the importing file, nested, each once, not in code
        (
            {"home/proj/CLAUDE.md": "@d/a.md, and @./d/b.md.", "home/proj/d/a.md": "@b.md", "home/proj/d/b.md": "b"},
            ["~/proj/CLAUDE.md", "~/proj/d/a.md", "~/proj/d/b.md"],
        ),
        ({"home/proj/CLAUDE.md": "`@a.md`\n```\n@a.md\n```\nme@a.md", "home/proj/a.md": "a"}, ["~/proj/CLAUDE.md"]),
        ({"home/proj/CLAUDE.md": "@CLAUDE.md @a", "home/proj/a": "@CLAUDE.md"}, ["~/proj/CLAUDE.md", "~/proj/a"]),
        ({"home/proj/CLAUDE.md": "@two\\ w @nobody", "home/proj/two w": "x"}, ["~/proj/CLAUDE.md", "~/proj/two w"]),
        (
            {"home/proj/CLAUDE.md": "@1", **{f"home/proj/{n}": f"@{n + 1}" for n in range(1, 9)}},
            ["~/proj/CLAUDE.md", "~/proj/1", "~/proj/2", "~/proj/3", "~/proj/4"],
        ),
        ({"home/.claude/CLAUDE.md": "@../notes.md", "home/notes.md": "n"}, ["~/.claude/CLAUDE.md", "~/notes.md"]),
        # nothing that a project takes from elsewhere unasked
        ({"home/proj/CLAUDE.md": "@../key", "home/key": "secret"}, ["~/proj/CLAUDE.md"]),
        ({"home/proj/CLAUDE.md": "  \n", "home/proj/.claude/CLAUDE.md": "x"}, ["~/proj/.claude/CLAUDE.md"]),
        ({"home/proj/CLAUDE.md": b"\xef\xbb\xbfcaf\xe9\r\nx"}, ["~/proj/CLAUDE.md"]),
    ],
)  # fmt: skip
def test_what_is_found(tmp_path: Path, files: Mapping[str, str], found: list[str]) -> None:
    write(tmp_path, files)
    assert names(tmp_path, read_memory(place_in(tmp_path)).files) == found


def test_what_a_project_takes_from_elsewhere_counts_when_it_was_allowed(tmp_path: Path) -> None:
    write(tmp_path, {"home/proj/CLAUDE.md": "@../shared.md", "home/shared.md": "shared"})
    (tmp_path / "home/proj/.claude").mkdir()
    (tmp_path / "home/proj/.claude/CLAUDE.md").symlink_to(tmp_path / "home/shared.md")
    assert names(tmp_path, read_memory(place_in(tmp_path)).files) == ["~/proj/CLAUDE.md"]
    allowed = read_memory(place_in(tmp_path, outside=["home/shared.md"]))
    assert names(tmp_path, allowed.files) == ["~/proj/CLAUDE.md", "~/shared.md"]


@for_each_row(
    ("excludes", "left"),
    [
        (["**/sub/CLAUDE.md"], ["managed/CLAUDE.md", "~/proj/CLAUDE.md"]),
        (["ROOT/home/proj/CLAUDE.md"], ["managed/CLAUDE.md", "~/proj/sub/CLAUDE.md"]),
        (["**/CLAUDE.md"], ["managed/CLAUDE.md"]),
        (["[", "{a"], ["managed/CLAUDE.md", "~/proj/CLAUDE.md", "~/proj/sub/CLAUDE.md"]),
    ],
)
def test_what_the_user_excludes(tmp_path: Path, excludes: list[str], left: list[str]) -> None:
    write(tmp_path, {"managed/CLAUDE.md": "m", "home/proj/CLAUDE.md": "p", "home/proj/sub/CLAUDE.md": "s"})
    assert names(tmp_path, read_memory(place_in(tmp_path, excludes=excludes)).files) == left


RULES = {
    "home/proj/.claude/rules/py.md": '---\npaths:\n  - "src/**/*.py"\n  - tests/*.py\n---\npy',
    "home/proj/.claude/rules/web.md": "---\r\npaths: src/**/*.{ts,tsx}, web/\r\n---\r\nweb",
    "home/proj/.claude/rules/glob.md": "---\npaths: **/*.sql\n---\nsql",
    "home/proj/.claude/rules/broken.md": "---\npaths: '[', {\n---\nbroken",
    "home/proj/sub/a/CLAUDE.md": "a @more.md",
    "home/proj/sub/a/more.md": "more",
    "home/proj/sub/a/b/AGENTS.md": "agents",
    "home/proj/sub/CLAUDE.md": "sub",
}


@for_each_row(
    ("path", "found"),
    [
        ("src/x/y.py", ["~/proj/.claude/rules/py.md"]),
        ("tests/y.py", ["~/proj/.claude/rules/py.md"]),
        ("tests/x/y.py", []),
        ("src/y.tsx", ["~/proj/.claude/rules/web.md"]),
        ("web/any/thing", ["~/proj/.claude/rules/web.md"]),
        ("deep/in/q.sql", ["~/proj/.claude/rules/glob.md"]),
        ("sub/x.txt", []),
        ("sub/a/b/x.txt", ["~/proj/sub/a/CLAUDE.md", "~/proj/sub/a/more.md"]),
        ("../elsewhere/x.py", []),
    ],
)
def test_what_comes_with_a_file(tmp_path: Path, path: str, found: list[str]) -> None:
    write(tmp_path, RULES)
    place = place_in(tmp_path)
    file = Path(os.path.normpath(place.project / path))
    assert names(tmp_path, memory_for_files([file], place, read_memory(place))) == found


def test_a_file_that_is_too_large_or_no_text_is_named(tmp_path: Path) -> None:
    write(tmp_path, {"home/proj/CLAUDE.md": b"x" * (MAX_BYTES + 1), "home/proj/sub/CLAUDE.md": b"a\0b"})
    write(tmp_path, {"home/.claude/CLAUDE.md": "line\n" * MAX_CHARS})
    memory = read_memory(place_in(tmp_path))
    (cut,) = memory.files
    assert len(cut.text) <= MAX_CHARS
    assert [notice.partition(":")[2].strip() for notice in memory.notices] == [
        f"only the first {MAX_CHARS:,} of {5 * MAX_CHARS - 1:,} characters were sent.",
        f"it has {MAX_BYTES + 1:,} bytes, and {MAX_BYTES:,} are the most.",
        "it is not text.",
    ]


def test_an_import_that_is_not_there_is_named_and_what_is_no_file_is_not(tmp_path: Path) -> None:
    text = 'See (@docs/style.md), **@a.md**, "@b.md".\n@types/node @someone @pytest.fixture `@c.md` @./none\n'
    write(tmp_path, {"home/proj/CLAUDE.md": text, "home/proj/a.md": "a", "home/proj/b.md": "b"})
    memory = read_memory(place_in(tmp_path))
    assert names(tmp_path, memory.files) == ["~/proj/CLAUDE.md", "~/proj/a.md", "~/proj/b.md"]
    assert [notice.rpartition("CLAUDE.md: ")[2] for notice in memory.notices] == [
        "@docs/style.md was not imported: there is no such file.",
        "@./none was not imported: there is no such file.",
    ]


@pytest.mark.parametrize("encoding", ["utf-8", "cp1251", "gb18030"])
def test_instructions_in_another_encoding_are_read(tmp_path: Path, encoding: str) -> None:
    text = {"cp1251": "Пиши тесты на русском языке.", "gb18030": "请用中文写测试和注释。"}.get(encoding, "Größe")
    write(tmp_path, {"home/proj/CLAUDE.md": text.encode(encoding)})
    assert read_memory(place_in(tmp_path)).files[0].text == text


@for_each_row(
    ("text", "left"),
    [
        ("a\n<!-- note -->\nb", "a\nb"),
        ("a\n<!-- note\nof two lines -->\nb", "a\nb"),
        ("<!-- one --> rest\nb", " rest\nb"),
        ("in <!-- a line --> it stays", "in <!-- a line --> it stays"),
        ("```\n<!-- code -->\n```", "```\n<!-- code -->\n```"),
        ("a\n<!-- never closed\nb", "a\n<!-- never closed\nb"),
        ("<!-- a --><!-- b -->\nc", "<!-- b -->\nc"),
    ],
)
def test_comments_are_for_people(text: str, left: str) -> None:
    assert without_comments(text) == left


def test_many_comments_that_never_close_take_no_time() -> None:
    text = "<!--\n" * 200_000
    assert without_comments(text) == text


def in_force(root: Path) -> SettingsInForce:
    environ = {"HOME": str(root / "home"), "PATH": os.environ["PATH"]}
    return SettingsInForce(place_in(root).cwd, environ, managed=root / "managed")


def test_the_user_is_asked_once_about_a_folder_with_instructions(tmp_path: Path) -> None:
    write(
        tmp_path, {"home/proj/CLAUDE.md": "@../shared.md", "home/shared.md": "s", "home/proj/.claude/rules/a.md": "r"}
    )
    settings = in_force(tmp_path)
    question = settings.question()
    assert question is not None
    assert [line.strip(" -") for line in question.detail.splitlines()[1:]] == [
        "instructions to Claude: CLAUDE.md",
        "instructions to Claude: .claude/rules/a.md",
        f"instructions to Claude from outside the folder: {tmp_path / 'home/shared.md'}",
    ]
    assert read_memory(settings.memory_place) == Memory()
    settings.answer(question, yes=True)
    told = ["~/proj/CLAUDE.md", "~/shared.md", "~/proj/.claude/rules/a.md"]
    assert names(tmp_path, read_memory(settings.memory_place).files) == told

    write(tmp_path, {"home/proj/CLAUDE.md": "other words, @../more.md", "home/proj/sub/CLAUDE.md": "new"})
    settings.refresh()
    assert settings.question() is None  # instructions give no rights: the folder is trusted
    write(tmp_path, {"home/more.md": "what nobody was asked about"})
    again = in_force(tmp_path)
    question = again.question()
    assert question is not None
    assert "more.md" in question.detail
    assert "proj/CLAUDE.md" not in question.detail
    told = ["~/proj/CLAUDE.md", "~/proj/sub/CLAUDE.md", "~/proj/.claude/rules/a.md"]
    assert names(tmp_path, read_memory(again.memory_place).files) == told
