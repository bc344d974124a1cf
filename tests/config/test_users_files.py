"""Files that users bring, as they really look: each is read without an error, whatever is wrong with it."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hook_scenes import hooks_of

from cellwright.agent.hooks.protocol import NO_HOOKS
from cellwright.config.agents import NoAgent, read_definition
from cellwright.config.front_matter import read_front_matter
from cellwright.config.hooks.entries import Entries
from cellwright.config.skills import SkillPlace, find_skills, load_skill
from row_tables import for_each_row

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
