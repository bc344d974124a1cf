"""Searches whose result is kept: not made again where nothing has changed, and nothing missed where something has."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hook_scenes import hooks_of

from cellwright.agent.hooks.protocol import NO_HOOKS
from cellwright.config.agents import NoAgent, agent_places, find_agents, read_definition
from cellwright.config.hooks.entries import Entries
from cellwright.config.memory import (
    MemoryPlace,
    memory_places,
    read_memory,
)
from cellwright.config.settings.settings_files import WatchedFiles, watched_files
from cellwright.config.skills import SkillPlace, find_skills, load_skill, skill_places
from cellwright.config.user_files import (
    MAX_PLACES,
    TIME_STEP_NS,
    KeptSearch,
    facts_of,
    read_front_matter,
    seen_once,
    texts,
)
from eventual import paces
from row_tables import for_each_row

PROJECT_NAMES = (
    "CLAUDE.md",
    "CLAUDE.local.md",
    "AGENTS.md",
    ".git",
    ".claude",
    ".claude/CLAUDE.md",
    ".claude/settings.json",
    ".claude/rules/deep/style.md",
    ".claude/tools/own.py",
    ".claude/skills/one/SKILL.md",
    ".claude/skills/two/SKILL.md",
    ".claude/skills/two/more.md",
    ".claude/commands/sub/do.md",
    ".claude/agents/sub/helper.md",
    ".claude/output-styles/short.md",
)
USER_NAMES = (
    "CLAUDE.md",
    "rules/deep/style.md",
    "skills/one/SKILL.md",
    "skills/three/SKILL.md",
    "commands/sub/do.md",
    "commands/done.md",
    "agents/sub/helper.md",
    "agents/other.md",
)

Finders = tuple[Callable[[], Any], Callable[[], Any]]
"""What is found by a search that is kept, and by one that is made each time."""

BOMB = "\n".join(
    [
        "a: &a [x, x, x, x, x, x, x, x, x, x]",
        *(f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]" for a, b in zip("abcdefghi", "bcdefghij", strict=True)),
    ]
)
FRONTS = [
    "",
    "name: worker",
    "name: worker\r\ndescription: with line ends of Windows\r\ntools: Read, Grep\r",
    "name: größe✓\ndescription: 説明 🐝",
    "name: worker\ndescription: Use this: always\ntools: [Read, 3, null, {a: b}]",
    "name: 3\ndescription: 2026-11-23\nmaxTurns: 1e9\neffort: 7",
    "name: worker\ndescription: >-\n  folded\n  text\nhooks: nothing",
    "name: worker\ndescription: x\nhooks: [1, 2]\npaths: {a: b}\nmemory: [user]\nskills: {x: y}",
    "name: worker\ndescription: x\nhooks: {Stop: 3, PreToolUse: [3, null, {}, {hooks: 4}, {hooks: [5, {type: command}]}]}",
    "name: worker\ndescription: x\nhooks: {7: []}",
    "name: worker\ndescription: x\nhooks:\n  Stop:\n  - hooks:\n    - type: command\n      command: [a]\n      timeout: no",
    "name: worker\n\tdescription: a tab\nmodel: {}",
    "name: worker\ndescription: x\ndescription: twice",
    "name: worker\ndescription: *nowhere",
    f"{BOMB}\nname: worker\ndescription: x\ntools: *j\nhooks: {{Stop: *j}}\nallowed-tools: *j",
    "name: worker\ndescription: x\ntools: &t [*t]\nallowed-tools: *t",
    "name: worker\ndescription: " + "long " * 10_000,
    "name: worker\ndescription: x\n" + "[" * 3_000,
    "- a\n- list",
    "!!python/object/apply:os.system [exit]",
    "name: worker\ndescription: !!binary aGk=\ncolor: !unknown x",
]


def settings_search(place, cwd, step) -> Finders:
    kept = WatchedFiles(cwd, place.environ, place.managed, time_step_ns=step)
    return kept.find, lambda: watched_files(cwd, place.environ, place.managed)


def skill_place(place, cwd) -> SkillPlace:
    return SkillPlace(
        cwd=cwd, project=place.project, users=place.home / ".claude", managed=place.managed / ".claude", trusted=True
    )


def skill_search(place, cwd, step) -> Finders:
    kept, where = KeptSearch(find_skills, skill_places, time_step_ns=step), skill_place(place, cwd)
    return lambda: kept.find(where), lambda: find_skills(where)


def agent_search(place, cwd, step) -> Finders:
    kept, where = KeptSearch(find_agents, agent_places, time_step_ns=step), skill_place(place, cwd)
    return lambda: kept.find(where), lambda: find_agents(where)


def memory_search(place, cwd, step, *, excludes=False) -> Finders:
    kept = KeptSearch(read_memory, memory_places, keeps=lambda memory: not memory.may_import, time_step_ns=step)
    where = MemoryPlace(
        cwd=cwd,
        project=place.project,
        users=place.home / ".claude",
        managed=place.managed,
        trusted=True,
        notes=place.home / "notes",
        excludes=("**/CLAUDE.md",) if excludes else (),
    )
    return lambda: kept.find(where), lambda: read_memory(where)


def excluding_search(place, cwd, step) -> Finders:
    return memory_search(place, cwd, step, excludes=True)


SEARCHES = [settings_search, skill_search, agent_search, memory_search]


def next_time_step(folder: Path) -> None:
    """Wait until the file system's clock has moved on, so that the next change has another time than the last."""
    probe = folder / "clock"
    probe.write_text("", "utf-8")
    before = probe.stat().st_ctime_ns
    while True:
        probe.chmod(0o600)
        if probe.stat().st_ctime_ns > before and time.time_ns() > before:
            return


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif os.path.lexists(path):
        path.unlink()


def a_text(chance: random.Random) -> str:
    """Front matter and a body that may import another file, of nearly always the same length."""
    body = chance.choice(("text", "@AGENTS.md", "@CLAUDE.local.md"))
    return f"---\nname: n{chance.randrange(10)}\ndescription: d{chance.randrange(10)}\n---\n{body}\n"


def change(path: Path, elsewhere: Path, chance: random.Random) -> str:
    """Do something to `path` that may bring files or take them away; gives what."""
    kind = chance.choice(("write", "write", "write", "edit", "remove", "link", "large", "folder"))
    if kind == "edit" and path.is_file():
        path.write_text(a_text(chance), "utf-8")  # its folder does not change
        return f"{kind} {path}"
    remove(path)
    if kind == "remove":
        return f"{kind} {path}"
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "link":  # what it leads to comes and goes by itself
        target = elsewhere / path.name
        chance.choice((lambda: target.write_text(a_text(chance), "utf-8"), lambda: remove(target)))()
        path.symlink_to(target)
    elif kind == "folder":
        path.mkdir()
    else:
        path.write_text("x" * 5_000_000 if kind == "large" else a_text(chance), "utf-8")
    return f"{kind} {path}"


@pytest.mark.parametrize("search", [*SEARCHES, excluding_search])
@pytest.mark.parametrize("seed", range(3))
def test_whatever_changes_the_same_is_found_as_by_a_new_search(place, search, seed, tmp_path):
    chance = random.Random(seed)
    cwd = place.project / "sub"
    cwd.mkdir(parents=True, exist_ok=True)
    elsewhere, clock, users = tmp_path / "elsewhere", tmp_path / "clock", place.home / ".claude"
    for folder in (elsewhere, clock, users, place.home / "notes"):
        folder.mkdir()
    kept, searched = search(place, cwd, 0)
    done = []
    for _ in range(60):
        folder, names = chance.choice(((place.project, PROJECT_NAMES), (cwd, PROJECT_NAMES), (users, USER_NAMES)))
        path = folder / chance.choice(names)
        if chance.random() < 0.05:
            path = place.home / "notes" / "MEMORY.md"
        if any(os.path.lexists(parent) and not parent.is_dir() for parent in path.parents):
            continue
        done.append(change(path, elsewhere, chance))
        assert kept() == searched(), done
        next_time_step(clock)
        assert kept() == searched(), done


def test_a_file_behind_a_link_that_led_nowhere_is_found(place, tmp_path):
    skill = place.project / ".claude" / "skills" / "one"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").symlink_to(tmp_path / "later.md")
    next_time_step(tmp_path)
    watched, _ = settings_search(place, place.project, 0)
    assert skill / "SKILL.md" not in watched()
    (tmp_path / "later.md").write_text("Now.", "utf-8")
    assert skill / "SKILL.md" in watched()


@pytest.mark.parametrize("search", SEARCHES)
def test_nothing_is_looked_for_again_while_nothing_changes(place, search, tmp_path):
    (place.project / ".claude").mkdir(parents=True)
    next_time_step(tmp_path)
    kept, _ = search(place, place.project, 0)
    found = kept()
    assert kept() is found
    for name in ("rules", "skills", "agents"):
        (place.project / ".claude" / name).mkdir()
    assert kept() is not found


@pytest.mark.parametrize("search", SEARCHES)
def test_what_has_changed_just_now_is_not_relied_on(place, search):
    for name in ("settings.json", "rules/one.md", "skills/one/SKILL.md", "agents/one.md"):
        file = place.project / ".claude" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("{}", "utf-8")
    kept, _ = search(place, place.project, TIME_STEP_NS)
    assert kept() is not kept()


def test_what_lies_beside_is_not_looked_at(place, tmp_path):
    """Claude Code keeps its worktrees there, and skills bring libraries along."""
    for name in ("worktrees/one/src", "skills/one/node_modules/left-pad"):
        (place.project / ".claude" / name).mkdir(parents=True)
    next_time_step(tmp_path)
    kept, _ = settings_search(place, place.project, 0)
    found = kept()
    for name in ("worktrees/one/src/a.py", "skills/one/node_modules/left-pad/README.md"):
        (place.project / ".claude" / name).write_text("x", "utf-8")
    assert kept() is found


@pytest.mark.parametrize("search", [settings_search, skill_search])
def test_of_very_many_files_none_is_missed(place, search, tmp_path):
    commands = place.project / ".claude" / "commands"
    commands.mkdir(parents=True)
    for number in range(MAX_PLACES + 1):
        (commands / f"{number}.md").write_text("x", "utf-8")
    next_time_step(tmp_path)
    kept, searched = search(place, place.project, 0)
    before = kept()
    (commands / "new.md").write_text("x", "utf-8")
    assert kept() == searched() != before


def test_a_folder_is_known_by_its_names_and_not_by_its_times(tmp_path):
    """A folder that a web service keeps has always the same times."""
    (tmp_path / "one").touch()
    before = facts_of(str(tmp_path))
    os.utime(tmp_path, ns=(1, 1))
    assert facts_of(str(tmp_path)) == before
    (tmp_path / "one").rename(tmp_path / "two")
    assert facts_of(str(tmp_path)) != before


def test_another_place_is_another_search(place, tmp_path):
    skill = place.project / ".claude" / "skills" / "one" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("---\ndescription: One.\n---\nText.", "utf-8")
    next_time_step(tmp_path)
    kept, where = KeptSearch(find_skills, skill_places, time_step_ns=0), skill_place(place, place.project)
    assert "one" in kept.find(where)
    assert "one" not in kept.find(skill_place(place, place.home))
    assert "one" in kept.find(where)


def test_in_one_moment_a_file_is_looked_at_once_by_this_thread_alone(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    with seen_once():
        assert facts_of(str(file)) is None
        file.touch()
        assert facts_of(str(file)) is None
        with ThreadPoolExecutor(1) as other:
            assert other.submit(facts_of, str(file)).result() is not None
    assert facts_of(str(file)) is not None


@for_each_row("front", FRONTS)
def test_front_matter_of_skills_and_agents(tmp_path: Path, front: str) -> None:
    for ending in ("\n---\nBody.\n", "\n---", ""):
        file = tmp_path / "SKILL.md"
        file.write_bytes(f"---\n{front}{ending}".encode())
        skill = load_skill(file, "worker", "user")
        assert len(str(skill.problems)) < 100_000
        played(tmp_path, skill.hooks)
        with contextlib.suppress(NoAgent):  # most lack a name or a description
            played(tmp_path, read_definition(file, "user").hooks)


def played(folder: Path, events: Any) -> None:
    """Read `hooks` as a run would."""
    entries = Entries()
    entries.add("a file", events)
    hooks = hooks_of(folder, dict(events))
    assert hooks is NO_HOOKS or hooks.listens_to("Stop") in (True, False)


@for_each_row(
    "content", [b"", b"\xff\xfe\x00", b"---\n\x00\n---\n", b"\xef\xbb\xbf---\r\nname: a\r\n---\r\nx", b"-" * 900_000]
)
def test_files_of_bytes(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "SKILL.md"
    file.write_bytes(content)
    assert load_skill(file, "x", "user").name == "x"


@pytest.mark.parametrize("name", ["skill.md", "Skill.md"])
def test_a_skill_in_a_file_with_other_letters_is_taken_and_that_is_said(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "users" / "skills" / "lower"
    folder.mkdir(parents=True)
    (folder / name).write_text("---\nname: lower\ndescription: d\n---\nBODY\n")
    nowhere = tmp_path / "none"
    place = SkillPlace(cwd=nowhere, project=nowhere, users=tmp_path / "users", managed=nowhere, built_in=False)
    skill = find_skills(place)["lower"]
    assert skill.body == "BODY"
    assert [f" {name};" in problem for problem in skill.problems] == [True]


def test_values_that_stand_for_themselves_are_named() -> None:
    found = read_front_matter(f"---\n{BOMB}\n---\nBody.")
    assert (dict(found.values), "more than 10,000 values" in found.problem, found.body) == ({}, True, "Body.")


@for_each_row(
    "events",
    [
        {"Stop": [{"hooks": [{"type": "command", "command": "x" * 1_000_000}]}]},
        {"Stop": [{"hooks": [{"type": "command", "command": "größe ✓", "async": "yes"}]}]},
        {"NoSuchEvent": [{}], "Stop": [None, 3, "x", [], {"matcher": 3, "hooks": []}]},
        {"PreToolUse": [{"matcher": "(" * 5_000, "hooks": [{"type": "prompt", "prompt": ""}]}]},
    ],
)
def test_hooks_objects(tmp_path: Path, events: dict[str, Any]) -> None:
    played(tmp_path, json.loads(json.dumps(events)))


@for_each_row(
    ("text", "values", "body"),
    [
        ("---\nname: a\ntools: Read, Grep\n---\nBody", {"name": "a", "tools": "Read, Grep"}, "Body"),
        ("\ufeff---\r\nname: a\r\n---\r\nBody\r\n", {"name": "a"}, "Body\n"),
        ("no front matter\n---\na: b\n---\n", {}, "no front matter\n---\na: b\n---\n"),
        ("---\n---\nBody", {}, "Body"),
        ("---\n# only a comment\n---\nBody", {}, "Body"),
        ("---\nname: never closed\nBody", {}, "---\nname: never closed\nBody"),
        ("---\nname: a\n---", {"name": "a"}, ""),
        ("--- \nname: a\n--- \nBody", {"name": "a"}, "Body"),
        ("----\nname: a\n---\n", {}, "----\nname: a\n---\n"),
        # what YAML refuses, and Claude Code's users write
        ("---\ndescription: Use when: always\nname: a\n---\n", {"description": "Use when: always", "name": "a"}, ""),
        ("---\nargument-hint: [a] [b]\n---\n", {"argument-hint": "[a] [b]"}, ""),
        ("---\npaths: **/*.py\n---\n", {"paths": "**/*.py"}, ""),
        ("---\nname: a\n\tdescription: tab\n---\n", {"name": "a\ndescription: tab"}, ""),
        ("---\nd: Use: this\n  - A: (no)\n  - B: c: d\n---\n", {"d": "Use: this\n- A: (no)\n- B: c: d"}, ""),
        ("---\ntools:\n- A\n- B: c: d\nname: @x\n---\n", {"tools": ["A", "B: c: d"], "name": "@x"}, ""),
        ("---\nd: |\n  one: two: three\n  four\nx: @\n---\n", {"d": "one: two: three\nfour\n", "x": "@"}, ""),
        ("---\njust a text\n---\nBody", {}, "Body"),
        ("---\n- a\n- b\n---\nBody", {}, "Body"),
        ("---\n2: two\nyes: no\n---\n", {"2": "two", "True": False}, ""),
    ],
)  # fmt: skip
def test_front_matter(text: str, values: dict[str, Any], body: str) -> None:
    front = read_front_matter(text)
    assert (dict(front.values), front.body) == (values, body)


@for_each_row(
    ("value", "found"),
    [
        ("Read, Grep,", ("Read", "Grep")),
        ("src/*.{ts,tsx}, Bash(a, b)", ("src/*.{ts,tsx}", "Bash(a, b)")),
        (["Read", None, 3, ""], ("Read", "3")),
        (None, ()),
        ({"a": "b"}, ()),
        (True, ("True",)),
    ],
)
def test_lists_of_texts(value: Any, found: tuple[str, ...]) -> None:
    assert texts(value) == found


def test_a_problem_is_named_with_its_line() -> None:
    assert read_front_matter("---\nname: a\n\tdescription: b\n---\n").problem.startswith("line 3: ")


QUOTES_FORGOTTEN: dict[str, dict[str, Any]] = {
    "argument-hint: [pr-number] [priority]\nallowed-tools: [Read, Grep]": {
        "argument-hint": "[pr-number] [priority]",
        "allowed-tools": ["Read", "Grep"],
    },
    "argument-hint: [--flag] | <a: b>\nmodel: opus": {"argument-hint": "[--flag] | <a: b>", "model": "opus"},
    "description: It's for: 'all' #1\nname: é-ü": {"description": "It's for: 'all' #1", "name": "é-ü"},
    "description: a: b\ntools:\n  - Read\n  - Bash(git *)\nhooks:\n  Stop:\n    - hooks: []": {
        "description": "a: b",
        "tools": ["Read", "Bash(git *)"],
        "hooks": {"Stop": [{"hooks": []}]},
    },
    "description: ends so:\ncolor: blue\n# said: here\nmodel: haiku # small": {
        "description": "ends so:",
        "color": "blue",
        "model": "haiku",
    },
    "paths: **/*.{ts,tsx}, {a,b}/c": {"paths": "**/*.{ts,tsx}, {a,b}/c"},
}


@for_each_row(("text", "values"), list(QUOTES_FORGOTTEN.items()))
def test_texts_without_their_quotes_are_no_problem(text: str, values: dict[str, Any]) -> None:
    for line_end in ("\n", "\r\n", "\r"):
        front = read_front_matter(f"---\n{text}\n---\n".replace("\n", line_end))
        assert (front.values, front.problem) == (values, ""), line_end


def test_hostile_front_matter_takes_no_time() -> None:
    bomb = "a: &a [x, x]\n" + "\n".join(
        f"{chr(98 + n)}: &{chr(98 + n)} [*{chr(97 + n)}, *{chr(97 + n)}]" for n in range(20)
    )
    for text in (
        f"---\n{bomb}\n---\n",
        "---\n" + "[" * 50_000 + "\n---\n",
        "---\n" + "a" * 1_000_000,
        "---\n" * 50_000,
    ):
        assert paces(lambda text=text: read_front_matter(text), 100) < 100, text[:20]


def test_plain_lines_are_read_as_yaml_reads_them() -> None:
    import yaml

    alphabet = [
        "a",
        "true",
        "no",
        "1",
        " ",
        ":",
        "#",
        "-",
        "[x]",
        "'",
        '"',
        "/",
        "$",
        "*",
        "é",
        "|",
        "&b",
        "{",
        ",",
        "=",
    ]
    for first in alphabet:
        for second in alphabet:
            for third in alphabet:
                line = f"key: {first}{second}{third}"
                try:
                    expected = yaml.safe_load(line)
                except yaml.YAMLError:
                    continue
                found = read_front_matter(f"---\n{line}\n---\n").values
                assert isinstance(expected, dict)
                assert found == expected, line


def test_what_comes_with_cellwright_needs_no_yaml() -> None:
    program = (
        "import sys\nfrom pathlib import Path\n"
        "from cellwright.config.agents import find_agents\n"
        "from cellwright.config.skills import SkillPlace, find_skills\n"
        "nowhere = Path('/nonexistent')\n"
        "place = SkillPlace(cwd=nowhere, project=nowhere, users=nowhere, managed=nowhere)\n"
        "print(bool(find_skills(place)), bool(find_agents(place).agents), 'yaml' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "True True False\n"


def test_quoted_texts_are_read_as_yaml_reads_them() -> None:
    import yaml

    for text in ("a: b", "# c", "it's", "[x]", "true", "1", "", " ", "a\\n", "é", "a,b", "{", "- a", "a\tb"):
        line = f'key: "{text}"'
        assert read_front_matter(f"---\n{line}\n---\n").values == yaml.safe_load(line), line
