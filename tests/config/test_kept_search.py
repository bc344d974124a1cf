"""Searches whose result is kept: not made again where nothing has changed, and nothing missed where something has."""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from cellwright.config.agents import agent_places, find_agents
from cellwright.config.kept_search import MAX_PLACES, TIME_STEP_NS, KeptSearch, facts_of, seen_once
from cellwright.config.memory import (
    MemoryPlace,
    memory_places,
    read_memory,
)
from cellwright.config.settings.settings_files import WatchedFiles, watched_files
from cellwright.config.skills import SkillPlace, find_skills, skill_places

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
