"""A word with wildcards that could name what is protected asks, whatever is on the disk; everyday ones do not."""

from __future__ import annotations

from collections.abc import Iterator

from cellwright.permissions.paths import PROTECTED_FILES, PROTECTED_FOLDERS
from cellwright.permissions.protected_patterns import protected_by_pattern
from declared_tools import tool_named
from row_tables import for_each_row

NAMES = tuple(
    name.replace("*", "a")
    for name in (*(f"{folder}/x" for folder in PROTECTED_FOLDERS), *PROTECTED_FILES, "startup/x.py")
)
COMMANDS = ("touch {}", "rm -f {}", "mkdir -p {}", "mv {} notes.txt", "sed -i s/a/b/ {}", "cp notes.txt {}")


def patterns_for(name: str) -> Iterator[str]:
    """Ways to write `name` with a wildcard in its longest protected part, each of which could be another name."""
    letters = [at for at, letter in enumerate(name.removesuffix("/x")) if letter.isalpha()]
    for at in (letters[0], letters[len(letters) // 2]):
        before, letter, after = name[:at], name[at], name[at + 1 :]
        yield f"{before}?{after}"
        yield f"{before}[{letter}]{after}"
        yield f"{before}[!_]{after}"
        yield f"{before}[{letter.upper()}{letter}]{after}"
        if at:
            yield f"{before}*{after}"


def test_every_protected_name_is_seen_in_every_pattern_that_could_name_it(place) -> None:
    missed = []
    editing = place.policy("acceptEdits")
    for number, name in enumerate(NAMES):
        for pattern in patterns_for(name):
            for word in (pattern, f"sub/{pattern}", f"./{pattern}"):
                if pattern.startswith(("?", "[", "*")) and name.startswith("."):
                    continue
                if protected_by_pattern(word) is None:
                    missed.append(word)
            command = COMMANDS[len(pattern) % len(COMMANDS)].format(pattern)
            if number % 7 == 0 and editing.decide(tool_named("Bash"), {"command": command}).behavior == "allow":
                missed.append(command)
    assert missed == []


@for_each_row(
    "command",
    [
        "touch .g?t/hooks/x",
        "touch .g*",
        "touch .[g]it/hooks/x",
        "touch .[[:lower:]]it/x",
        "touch .g'i'?/x",
        "touch src/.claud?/settings.json",
        "rm -f */hooks/pre-commit",
        "rm -f */settings.json",
        "touch */bin/python",
        "touch {.git,x}/hooks/x",
        "touch .{g?t,x}/hooks/x",
        "touch .gi{t,}/x",
        "touch $D/hooks/x",
        "D=.git; touch $D/hooks/x",
        "D=.git\ntouch $D/hooks/x",
        "touch $(echo .git)/x",
        "cd .g?t && touch hooks/x",
        "echo x > .g?t/x",
        "cp notes.txt .m?p.json",
        "touch s?tecustomize.py",
        "touch *ustomize.py",
        "touch startup/a*.py",
    ],
)
def test_what_could_name_a_protected_place_asks_in_accept_edits(place, command: str) -> None:
    assert place.policy("acceptEdits").decide(tool_named("Bash"), {"command": command}).behavior == "ask"


@for_each_row(
    "command", ["touch .g?t/hooks/x", "D=.git; touch $D/hooks/x", "touch {.git,x}/hooks/x", "x .[g]it/hooks/x"]
)
def test_no_rule_for_every_command_allows_it(place, command: str) -> None:
    decision = place.policy("default", allow=["Bash"]).decide(tool_named("Bash"), {"command": command})
    assert decision.behavior == "ask"


@for_each_row(
    "command",
    [
        "rm -f build/*",
        "rm -f ./*.pyc",
        "touch src/*.py",
        "touch src/*/x.py",
        "sed -i s/a/b/ src/*.py",
        "sed -i s/a/b/ ./*.json",
        "mv data_*.csv src",
        "touch data[0-9].csv",
        "rm -rf src/__pyc*",
        "touch test_*.py",
        "cp ./*.txt src/",
    ],
)
def test_everyday_patterns_need_no_question(place, command: str) -> None:
    (place.project / "src" / "x.txt").write_text("x", "utf-8")
    for name in ("data_1.csv", "a.json"):
        (place.project / name).write_text("x", "utf-8")
    words = command.split()[1:]
    assert [word for word in words if protected_by_pattern(word)] == []
    asked = place.policy("acceptEdits").decide(tool_named("Bash"), {"command": command})
    assert "protected" not in asked.reason
