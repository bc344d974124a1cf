"""The files that are watched: not looked for again where nothing has changed, and never missed where something has."""

from __future__ import annotations

import os
import random
import shutil
import time
from pathlib import Path

import pytest

from cellwright.config.settings import settings_files
from cellwright.config.settings.settings_files import WatchedFiles, watched_files

NAMES = (
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
    ".claude/commands/sub/do.md",
    ".claude/agents/sub/helper.md",
    ".claude/output-styles/short.md",
)


def watched_in(place, cwd, step=0):
    return WatchedFiles(cwd, place.environ, place.managed, time_step_ns=step)


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


def change(path: Path, elsewhere: Path, chance: random.Random) -> str:
    """Do something to `path` that may bring files or take them away; gives what."""
    kind = chance.choice(("write", "write", "write", "remove", "link", "large", "folder"))
    remove(path)
    if kind == "remove":
        return f"{kind} {path}"
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "link":  # what it leads to comes and goes by itself
        target = elsewhere / path.name
        chance.choice((lambda: target.write_text("x", "utf-8"), lambda: remove(target)))()
        path.symlink_to(target)
    elif kind == "folder":
        path.mkdir()
    else:
        path.write_text("x" * (5_000_000 if kind == "large" else 3), "utf-8")
    return f"{kind} {path}"


@pytest.mark.parametrize("seed", range(3))
def test_whatever_changes_the_same_files_are_found_as_by_a_search(place, seed, tmp_path):
    chance = random.Random(seed)
    cwd = place.project / "sub"
    cwd.mkdir(parents=True, exist_ok=True)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    clock = tmp_path / "clock"
    clock.mkdir()
    watched = watched_in(place, cwd)
    done = []
    for _ in range(60):
        folder = chance.choice((place.project, cwd))
        path = folder / chance.choice(NAMES)
        if any(os.path.lexists(parent) and not parent.is_dir() for parent in path.parents):
            continue
        done.append(change(path, elsewhere, chance))
        assert watched.find() == watched_files(cwd, place.environ, place.managed), done
        next_time_step(clock)
        assert watched.find() == watched_files(cwd, place.environ, place.managed), done


def test_a_file_behind_a_link_that_led_nowhere_is_found(place, tmp_path):
    skill = place.project / ".claude" / "skills" / "one"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").symlink_to(tmp_path / "later.md")
    next_time_step(tmp_path)
    watched = watched_in(place, place.project)
    assert skill / "SKILL.md" not in watched.find()
    (tmp_path / "later.md").write_text("Now.", "utf-8")
    assert skill / "SKILL.md" in watched.find()


def test_nothing_is_looked_for_again_while_nothing_changes(place, tmp_path):
    (place.project / ".claude").mkdir(parents=True)
    next_time_step(tmp_path)
    watched = watched_in(place, place.project)
    found = watched.find()
    assert watched.find() is found
    (place.project / ".claude" / "rules").mkdir()
    assert watched.find() is not found


def test_what_has_changed_just_now_is_not_relied_on(place):
    (place.project / ".claude").mkdir(parents=True)
    watched = watched_in(place, place.project, settings_files.TIME_STEP_NS)
    assert watched.find() is not watched.find()


def test_of_very_many_files_none_is_missed(place, tmp_path):
    commands = place.project / ".claude" / "commands"
    commands.mkdir(parents=True)
    for number in range(settings_files.MAX_PLACES + 1):
        (commands / f"{number}.md").write_text("x", "utf-8")
    next_time_step(tmp_path)
    watched = watched_in(place, place.project)
    watched.find()
    (commands / "new.md").write_text("x", "utf-8")
    assert commands / "new.md" in watched.find()
