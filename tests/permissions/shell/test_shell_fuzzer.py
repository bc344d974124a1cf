"""Generated commands that the policy allows touch only what it allowed; and what they touch is seen."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from shell_fuzzer.fuzzing import MODES, Case, Player, fuzz, make_case, traced_shell
from shell_fuzzer.traced_shell import missing_means, whole_lines
from shell_fuzzer.world import World, build_world

MISSING = missing_means()
REQUIRED = os.environ.get("CELLWRIGHT_REQUIRE_FUZZER") == "1"
pytestmark = pytest.mark.skipif(bool(MISSING) and not REQUIRED, reason=f"the fuzzer cannot run: {MISSING}")

COMMANDS = 75
LEAST_COMMANDS = 25
SECONDS = 8.0  # `make fuzz` takes minutes
SEED = "1"


def test_generated_commands_touch_only_what_was_allowed() -> None:
    tally = fuzz(SEED, COMMANDS, SECONDS, at_least=LEAST_COMMANDS)
    print(tally)
    assert [str(failure) for failure in tally.failures] == []
    assert tally.allowed.total() > 0.25 * tally.made.total(), "most of what is made is refused: it tries nothing"


@pytest.fixture(scope="module")
def player() -> Iterator[tuple[World, Player]]:
    with traced_shell(seconds=60) as (base, shell):
        world = build_world(base, "plain")
        yield world, Player(world, shell)


SEEN = [
    ("cat notes.txt; ls -l sub | wc -l; (cd src && grep -r x .)", "default", ()),
    ("cat ../notes.txt", "default", ("read outside", "printed")),
    ("cd sub/up && head -1 notes.txt", "default", ("read outside", "printed")),
    ("(cd link-out; cat secret.txt > /dev/null)", "default", ("read outside",)),
    ("echo */secret.txt ~/.ssh/*", "default", ("read outside",)),
    ("base64 link-file", "default", ("read outside",)),
    ("cat /etc/fstab", "default", ("read what nobody needs",)),
    ("cat /proc/$PPID/environ", "default", ("read what nobody needs", "printed")),
    ("cat link-env", "default", ("read what a rule hides", "printed")),
    ("git show HEAD:.env", "default", ("printed",)),
    ("head -1 notes.txt", "default", ("ran a denied",)),
    ("touch new.txt", "default", ("wrote",)),
    ("echo x > sub/deep/new", "default", ("wrote",)),
    ("touch notes.txt; chmod 600 b.txt; ln -s a b; mkdir c; rm b.txt; mv nums.txt src", "default", ("wrote",)),
    ("touch new.txt; rm b.txt; mv nums.txt sub", "acceptEdits", ()),
    ("touch src/new", "acceptEdits", ("wrote what a rule denies",)),
    ("(cd sub && touch ../.git/hooks/pre-commit)", "acceptEdits", ("wrote what is protected",)),
    ("mv notes.txt link-out/", "acceptEdits", ("wrote outside", "wrote outside")),
    ("cd .. && touch new", "acceptEdits", ("wrote outside",)),
    ("exec 3<>/dev/tcp/127.0.0.1/9", "default", ("reached the network",)),
    ("./run.sh", "default", ("ran a program of the project",)),
    ("PATH=.:$PATH; ls", "default", ("ran a program of the project",)),
    ("x=who; ${x}ami", "default", ("ran a program that",)),
    ("sleep 0.1 && cat ../notes.txt > /dev/null & wait", "default", ("read outside",)),
]


def test_what_commands_touch_is_seen(player: tuple[World, Player]) -> None:
    world, playing = player
    wrong = {}
    for command, mode, expected in SEEN:
        rules = ("Read(**/.env)", "Bash(head *)", "Edit(./src/**)")
        deeds = playing.deeds(Case(command, str(world.project), mode, rules, ()), decided=True)
        for start in expected:
            if not any(deed.startswith(start) for deed in deeds):
                wrong[command] = deeds
        if bool(deeds) is not bool(expected):
            wrong[command] = deeds
    assert wrong == {}


def test_calls_that_strace_tells_in_two_parts_are_put_together() -> None:
    told = ['7 open("a" <unfinished ...>', '8 chdir("b") = 0', "7 <... open resumed>, O_RDONLY) = 3</a>"]
    assert whole_lines(told) == ['8 chdir("b") = 0', '7 open("a", O_RDONLY) = 3</a>']
    assert (
        whole_lines(['7 mkdir("a", 0777 <unfinished ...>', "8 +++ killed +++", ") = 0"])[-1] == '7 mkdir("a", 0777) = 0'
    )


def test_the_world_is_restored_after_each_command(player: tuple[World, Player]) -> None:
    world, playing = player
    for command in ("rm -rf src notes.txt .git", "echo x > new"):
        playing.deeds(Case(command, str(world.project), "acceptEdits", (), ()), decided=True)
    assert (world.project / "src" / "main.py").exists()
    assert (world.project / ".git" / "HEAD").exists()
    assert not (world.project / "new").exists()


def test_the_same_seed_makes_the_same_commands(tmp_path: Path) -> None:
    here, there = World(tmp_path, "plain"), World(tmp_path, "none")
    made = [[make_case(Random(f"{seed}:{each}"), here, sandbox=False) for each in range(200)] for seed in "xyx"]
    assert made[0] == made[2] == [make_case(Random(f"x:{each}"), there, sandbox=False) for each in range(200)]
    assert made[0] != made[1]
    assert {case.mode for case in made[0]} == set(MODES)
